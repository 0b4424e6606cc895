"""Suites of several parts in one results folder, and what a suite lays over its tables and figures.

A suite lists under `parts` other suites that name the same results folder. Each table then has the data sets, the
protocols and the number of seeds of the part that makes it, so that papers with different protocols are one command.
A part can also be run by itself: its tables are those of the whole, and what it has of its own (figures, results.csv,
claims.csv, the page) lies in a folder of its name. `of_tables` and `of_figures` say it of a single table or figure.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue, suites
from pipeline.naming import ConfigError, require

Suite = Mapping[str, Any]
LISTS = ("tables", "figures", "claims")  # what a whole has of its parts
DECIDE = ("datasets", "protocols")


def whole(config: Suite) -> dict[str, Any]:
    """The configuration with what its parts say of their tables and figures; without `parts` as it is.

    A whole that names no tables has those of all parts, with their figures and claims. Raises ConfigError for a part
    that is no suite or changes recipes, and for a table or figure of two parts.
    """
    names = config.get("parts") or []
    if not isinstance(names, list):
        raise ConfigError(f"configuration: parts: {names!r} found; a list of suites is written [a, b]")
    if not names:
        return dict(config)
    found: dict[str, dict[str, Any]] = {"of_tables": {}, "of_figures": {}}
    listed: dict[str, list[str]] = {key: [] for key in LISTS}
    for name in names:
        part = _part(name, config)
        for key in LISTS:
            if twice := sorted(set(listed[key]) & set(part[key])):
                raise ConfigError(f"suite {name!r}: {key}: {twice[0]!r} is that of another part; leave it out of one")
            listed[key] += part[key]
        found["of_tables"] |= {table: _of_table(part, table) for table in part["tables"]}
        found["of_figures"] |= {figure: _of_figure(part, figure) for figure in part["figures"]}
    _refuse_changed(config)
    for key, laid in found.items():
        laid |= {name: {**laid.get(name, {}), **own} for name, own in config.get(key, {}).items()}
    chosen = {} if config["tables"] else listed
    return {**config, **chosen, **found}


def table(config: Suite, name: str) -> dict[str, Any]:
    """The configuration of a table with what the suite lays over it."""
    return {**catalogue.entry("table", name), **config.get("of_tables", {}).get(name, {})}


def owning(held: Iterable[tuple[Path | None, Suite]], name: str) -> tuple[Path | None, Suite] | None:
    """Of the suites of one results folder, as (file, content), the one that suite `name` goes by: itself where it is a
    part, else the whole; the first where none has parts, None where there is no suite.
    """
    held = list(held)
    chief = next(((file, suite) for file, suite in held if suite.get("parts")), None)
    if chief is None:
        return held[0] if held else None
    own = [(file, suite) for file, suite in held if suite["suite"] == name and name in chief[1]["parts"]]
    return own[0] if own else chief


def _part(name: str, config: Suite) -> dict[str, Any]:
    known = catalogue.places("suites")
    require("suite in parts", name, known)
    part = suites.configuration(known[name])
    where = catalogue.short(known[name])
    if part["suite"] != name:
        raise ConfigError(f"{where}: suite: {part['suite']!r} found; a part is named as its file, {name!r}")
    if part["overrides"]:
        raise ConfigError(
            f"{where}: overrides: a part shares its runs with the others; move them into {config['suite']!r}"
        )
    if part.get("parts"):
        raise ConfigError(f"{where}: parts: a part has none of its own; list them in {config['suite']!r}")
    return part


def _refuse_changed(config: Suite) -> None:
    """The parts say which data sets and protocols there are, so others given to the whole would do nothing."""
    file = catalogue.places("suites").get(config["suite"])
    stated = suites.configuration(file) if file else config
    for key in DECIDE:
        if config[key] != stated[key]:
            raise ConfigError(
                f"suite {config['suite']!r}: {key}: its parts have their own; run one of them, --configfile "
                f"config/suites/{config['parts'][0]}.yaml, or say it of a table, of_tables={{NAME: {{{key}: [...]}}}}"
            )


def _of_table(part: Suite, name: str) -> dict[str, Any]:
    entry = catalogue.entry("table", name)
    stated = {key: part[key] for key in DECIDE if key not in entry}
    return {**stated, "seeds": len(part["seeds"]), **part.get("of_tables", {}).get(name, {})}


def _of_figure(part: Suite, name: str) -> dict[str, Any]:
    entry = catalogue.entry("figure", name)
    stated: dict[str, Any] = {}
    if "table" not in entry:
        asked = entry.get("datasets", part["datasets"][:1])
        stated = {"datasets": part["datasets"] if asked == "all" else asked, "protocol": part["protocols"][0]}
    return {**stated, **part.get("of_figures", {}).get(name, {})}
