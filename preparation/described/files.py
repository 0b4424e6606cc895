"""All files of a described data set, tried out as a plan before one of them is written."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import catalogue
from pipeline.plan import Plan
from preparation.described import suite, text
from preparation.described.found import Found
from preparation.described.sized import SEEDS, Machine, Sized, sized, subset

PARTS = ("datasets", "suites", "tables")  # folders of own/ that files are written to


@dataclass
class Written:
    """`texts`: path below own/ -> content; `lines` for the screen."""

    texts: dict[str, str]
    lines: list[tuple[str, str]]


def written(name: str, place: Path, found: Found, machine: Machine, staged: Path) -> Written:
    """Compose every file in `staged`, which is the catalogue's own folder meanwhile, and make a plan of both suites.

    ConfigError or DataError where the data allow no such suite.
    """
    spec, rows = found.spec, suite.table_rows(found.spec)
    asked = suite.asked(rows)
    texts = {f"datasets/{name}.yaml": text.data_set(str(place), spec, found.reasons)}
    metrics = suite.WITHOUT_LABELS if list(spec["splits"]) == ["unlabeled"] else suite.METRICS
    texts[f"tables/{name}.yaml"] = text.table(f"Clustering of {spec['title']}", rows, metrics)
    _put(staged, texts)
    plain = suite.overrides(name, spec, asked, suite.training_rows(spec, asked), small=False)
    texts[f"suites/{name}.yaml"] = _full(name, found, plain)
    _plan(staged, texts, f"suites/{name}.yaml")
    small = sized(name, found, asked, plain, machine)
    data = name
    if small.rows is not None:
        data = f"{name}_quick"
        texts[f"datasets/{data}.yaml"] = _subset(place, found, small.rows)
    texts[f"suites/{name}_quick.yaml"] = _quick(name, data, found, small, machine)
    _plan(staged, texts, f"suites/{name}_quick.yaml")
    return Written(texts, _lines(found, rows, small))


def _put(staged: Path, texts: Mapping[str, str]) -> None:
    for path, content in texts.items():
        (staged / path).parent.mkdir(parents=True, exist_ok=True)
        (staged / path).write_text(content, encoding="utf-8")


def _plan(staged: Path, texts: Mapping[str, str], path: str) -> None:
    """A plan of the suite: raises what a run of it would be refused for."""
    _put(staged, texts)
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    Plan(default | catalogue.read_yaml(staged / path), main=False)


def _values(name: str, data: str, table: str, found: Found, seeds: int) -> tuple[dict[str, Any], dict[str, str]]:
    """What a suite says, and why."""
    chosen, why = suite.protocol(found.spec)
    values = {
        "suite": name, "results": f"results/{name}", "data_root": str(found.root), "datasets": [data],
        "protocols": [chosen], "seeds": list(range(seeds)), "tables": [table],
    }  # fmt: skip
    return values, {"data_root": "the data set's paths lie below it; BENCH_DATA_ROOT wins over it", "protocols": why}


def _full(name: str, found: Found, overrides: suite.Overrides) -> str:
    values, reasons = _values(name, name, name, found, SEEDS)
    head = f"The methods on {found.spec['title']}, as long as their recipes say."
    return text.suite(head, values, reasons, overrides, _why(overrides))


def _quick(name: str, data: str, found: Found, small: Sized, machine: Machine) -> str:
    values, reasons = _values(f"{name}_quick", data, name, found, 1)
    head = "\n".join(
        [
            f"The same for about {machine.minutes:g} minutes of the machine that described it:",
            *small.why,
        ]
    )
    return text.suite(head, values, reasons, small.overrides, _why(small.overrides))


def _why(overrides: suite.Overrides) -> dict[str, str]:
    """recipe -> the comment of what is changed of it."""
    words = {
        "base": "a base of the same protocol: the data has no other splits",
        "batch_size": "batches that the rows fill at least four times",
        "network": "a network that a CPU gets through, with its rate",
        "schedule": "shorter",
    }
    return {
        recipe: "; ".join(said for key, said in words.items() if key in change) for recipe, change in overrides.items()
    }


def _subset(place: Path, found: Found, rows: int) -> str:
    reasons = found.reasons | {"subset": "rows that the time is enough for, drawn by class", "splits": "in proportion"}
    return text.data_set(str(place), subset(found.spec, rows), reasons)


def _lines(found: Found, rows: list[dict[str, Any]], small: Sized) -> list[tuple[str, str]]:
    chosen = catalogue.entry("protocol", suite.protocol(found.spec)[0])["title"]
    return [
        ("family", found.reasons["family"]),
        ("methods", ", ".join(row["label"] for row in rows)),
        ("protocol", f"{chosen} ({suite.protocol(found.spec)[1]})"),
        *(("speed", said) for said in small.why[:-1]),
        ("full suite", f"{SEEDS} seeds, about {small.full} of training here"),
        ("quick suite", f"1 seed, {_cut(small)}; {small.why[-1]}"),
    ]


def _cut(small: Sized) -> str:
    """What the quick suite is cut to."""
    epochs = [
        f"{recipe} {change['schedule']['epochs']}" for recipe, change in small.overrides.items() if "schedule" in change
    ]
    said = [f"{small.rows:,} rows" if small.rows else "all rows"]
    return ", ".join([*said, f"epochs: {' '.join(epochs)}" if epochs else "the recipes' own epochs"])


def commands(name: str) -> list[str]:
    """The commands to type: the quick suite, then the full one."""
    before = "BENCH_DATA_ROOT= " if os.environ.get("BENCH_DATA_ROOT") else ""
    run = f"{before}{os.environ.get('BENCH_RUN', './run')} snakemake"
    suites = {taken: shlex.quote(catalogue.short(catalogue.OWN / "suites" / f"{taken}.yaml")) for taken in both(name)}
    return [f"{run} results/{taken}/table.csv --cores all --configfile {file}" for taken, file in suites.items()]


def both(name: str) -> tuple[str, str]:
    """The names that are taken by what is described: the quick one first."""
    return f"{name}_quick", name
