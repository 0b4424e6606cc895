"""The files that describe writes, as text: every value with a comment that says where it comes from."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

Reasons = Mapping[str, str]


def data_set(place: str, spec: Mapping[str, Any], reasons: Reasons) -> str:
    """own/datasets/NAME.yaml."""
    head = f"Described from {place}. Yours to change; docs/data.md says what the keys mean."
    return _file(head, [_line(key, value, reasons.get(key, "")) for key, value in spec.items()])


def table(title: str, rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> str:
    """own/tables/NAME.yaml."""
    lines = [_line("title", title), _line("path", "table", "below the suite's results folder")]
    lines += [_line("metrics", list(metrics)), "rows:", *(f"  - {flow(row)}" for row in rows)]
    return _file("A row is a recipe x an assigner; add rows of config/tables that serve the family.", lines)


def suite(head: str, values: Mapping[str, Any], reasons: Reasons, overrides: Mapping[str, Any], why: Reasons) -> str:
    """own/suites/NAME.yaml; `why`: recipe -> the comment of its overrides."""
    lines = [_line(key, value, reasons.get(key, "")) for key, value in values.items()]
    lines += ["overrides:" if overrides else "overrides: {}"]
    lines += [f"  {_line(recipe, changes, why.get(recipe, ''))}" for recipe, changes in overrides.items()]
    return _file(head, lines)


def _file(head: str, lines: Sequence[str]) -> str:
    return "\n".join([*(f"# {line}" for line in head.splitlines()), *lines]) + "\n"


def _line(key: str, value: Any, comment: str = "") -> str:
    return f"{key}: {flow(value)}" + (f" # {comment}" if comment else "")


def flow(value: Any) -> str:
    """A value as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
