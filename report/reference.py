"""Published results, reference/{suite}.csv: what a line holds, and how the file is read and written."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.provenance import ROOT
from pipeline.record import StageError, reading, whole
from pipeline.tables import read_plan
from report.collect import HEAD, LEFT_OUT, RUN, numbers
from report.contents import read_result_file
from report.results import Problem, Read
from report.tables import read_runs

REFERENCE = ROOT / "reference"
PLACE = ("commit", "processor", "versions")  # where a number comes from, beside its fingerprint
COLUMNS = (*HEAD, *PLACE)
CELL = ("dataset", "protocol", "recipe", "kind", "name", "metric")  # what is compared: a number over its seeds


def newest_plan(results: Path) -> dict[str, Any]:
    """The newest plan of all numbers of a results folder. Raises StageError where it has none."""
    with reading(results):
        list(results.iterdir())
        plans = sorted((results / ".plan").glob("results-*.json"), key=lambda path: path.stat().st_mtime_ns)
    if not plans:
        raise StageError(f"{results}: no finished suite in it; run `./run snakemake --cores all`, or name its folder")
    return read_plan(plans[-1])


def lines_of(plan: Mapping[str, Any], edited: bool = False) -> Iterator[dict[str, str] | Problem]:
    """The lines of every run that a plan expects, values as text that gives the same bits back, or what is wrong.

    Raises StageError for a result of edited sources, unless these are allowed by `edited`.
    """
    for spec in plan["rows"]:
        kind = "assigner" if "assigner" in spec else "probe"
        for run, read in read_runs(spec, spec["runs"], spec["metrics"]):
            if isinstance(read, Problem) and read.kind in LEFT_OUT:
                yield read
                continue
            key = f"clustering/{spec[kind]}" if kind == "assigner" else spec[kind]
            record = read_result_file(run["folder"], key)["records"][list(run["expected"])[-1]]
            measured: list[tuple[str, Any]] = list(numbers(read, spec)) if isinstance(read, Read) else [("", "")]
            common = {name: run[name] for name in RUN} | {"kind": kind, "name": spec[kind]}
            common |= {"seconds": "", "fingerprint": record["fingerprint"], **_place(record, run["folder"], edited)}
            if isinstance(read, Read):
                common |= {"seconds": read.train["training_seconds"], "status": read.train["status"]}
            else:
                common["status"] = read.kind
            for metric, value in measured:
                line = common | {"metric": metric, "value": value}
                yield {name: str(line[name]) for name in COLUMNS}


def _place(record: Mapping[str, Any], folder: str, edited: bool) -> dict[str, str]:
    """Commit, kind of processor and versions that a stage ran with."""
    git = record.get("git")
    if git and git["dirty"] and not edited:
        raise StageError(
            f"{folder}: stage {record['stage']} ran with edited sources, so no commit says what ran; commit them, then "
            "run the suite again"
        )
    versions = " ".join(f"{name}={version}" for name, version in record.get("versions", {}).items())
    return {"commit": git["commit"] if git else "", "processor": record.get("processor") or "", "versions": versions}


def write_reference(lines: Iterable[Mapping[str, str]], out: Path) -> None:
    """The file, in one order whatever the order of `lines`."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(lines, key=_order))
    with whole(out, "w") as file:
        file.write(text.getvalue())


def _order(line: Mapping[str, str]) -> tuple[Any, ...]:
    return (*(line[name] for name in CELL[:3]), int(line["seed"]), *(line[name] for name in CELL[3:]))


def read_reference(path: Path) -> list[dict[str, str]]:
    """Raises StageError for a file of other columns, or with a line that is no result."""
    with reading(path), path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != COLUMNS:
            raise StageError(f"{path}: columns {_list(rows.fieldnames or ())} found, {_list(COLUMNS)} expected")
        lines = list(rows)
    for number, line in enumerate(lines, start=2):
        try:
            int(line["seed"])
            if line["metric"] or line["value"]:
                float(line["value"])
        except (TypeError, ValueError):
            raise StageError(f"{path}, line {number}: no result; publish it again") from None
    return lines


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
