"""Table plans: what the table stage must know, which runs stand behind each row and what their records must say."""

import csv
import functools
import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue, errata
from pipeline.naming import ConfigError, require, suggestion
from pipeline.record import StageError, read_json
from pipeline.runs import Row, Run, Table
from pipeline.sources import sources
from pipeline.stages import Stages

# Columns of config/reported/*.csv.
REPORTED = ["table", "method", "dataset", "setting", "metric", "mean", "std", "unit", "source", "note"]


def plan_name(name: str, text: str) -> str:
    """Name of a plan file, without ending: that of its table, or "suite", and a hash of what it says."""
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def read_plan(path: str | Path) -> dict[str, Any]:
    """A plan file. Raises StageError for one whose name says that it held something else."""
    path, plan = Path(path), read_json(path)
    name, _, given = path.stem.rpartition("-")
    if len(given) == 16 and plan_name(name, path.read_text(encoding="utf-8")) != path.stem:
        raise StageError(f"{path}: its content is not what was written; delete it and run the same command again")
    return plan


def table_runs(stages: Stages, table: Table) -> list[Run]:
    """The runs behind a table, without repetition."""
    return list(dict.fromkeys(run for row in table["rows"] for run in stages.runs.of_row(table, row)))


def table_plan(stages: Stages, results: str, name: str, table: Table, csv_path: str) -> dict[str, Any]:
    """The plan of a table; written to a file, it is one of the table stage's inputs."""
    runs, config = stages.runs, stages.runs.config
    return {
        "name": name,
        "csv": csv_path,
        **{key: table.get(key) for key in ("title", "note", "verdicts")},
        "reported": reported_values(table),
        "reported_note": table.get("reported", {}).get("note"),
        "reported_runs": table.get("reported", {}).get("runs"),
        "errata": errata.of_table(table),
        "paper_columns": _paper_columns(table, runs.datasets(table)),
        "suite": config["suite"],
        "metrics": {metric: catalogue.entry("metric", metric) for metric in table["metrics"]},
        "datasets": {dataset: catalogue.entry("data set", dataset)["title"] for dataset in runs.datasets(table)},
        "protocols": {name: catalogue.entry("protocol", name)["title"] for name in runs.protocols(table)},
        "rows": [{**row, "runs": runs_of_row(stages, results, table, row)} for row in table["rows"]],
    }


def _paper_columns(table: Table, datasets: list[str]) -> bool:
    """Whether a table of these data sets has columns for those that the paper alone has."""
    asked = table.get("paper_columns", False)
    return asked if isinstance(asked, bool) else bool(set(asked) & set(datasets))


def results_plan(stages: Stages, results: str, tables: Mapping[str, Table]) -> dict[str, Any]:
    """The plan of results.csv: all that tables show, each recipe with each assigner and probe once, and its metrics."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for table in tables.values():
        for row in table["rows"]:
            if "recipe" not in row:
                continue
            kind = "assigner" if "assigner" in row else "probe"
            spec = {"recipe": row["recipe"], kind: row[kind]}
            found = rows.setdefault((row["recipe"], kind, row[kind]), {**spec, "metrics": [], "runs": []})
            # Metrics of other rows' `seen` splits are no metrics of the result itself.
            shown = [] if row.get("seen") else row.get("metrics", table["metrics"])
            found["metrics"] += [metric for metric in shown if metric not in found["metrics"]]
            known = {run["folder"] for run in found["runs"]}
            found["runs"] += [run for run in runs_of_row(stages, results, table, row) if run["folder"] not in known]
    return {"name": "results", "rows": list(rows.values())}


def runs_of_row(stages: Stages, results: str, table: Table, row: Row) -> list[dict[str, Any]]:
    """Folder of each run behind a row, and stage -> [fingerprint, code] that an up-to-date result of it records."""
    return [
        {
            "folder": f"{results}/{run.path}",
            **run.__dict__,
            "expected": {key: [stage.fingerprint, stage.code] for key, stage in stages.expected(run, row).items()},
            "sources": sources(stages, results, run, row),
        }
        for run in stages.runs.of_row(table, row)
    ]


def reported_values(table: Table) -> list[dict[str, str]]:
    """The paper's values for the methods that the table's rows name: rows of config/reported/*.csv."""
    if "reported" not in table:
        return []
    path = reported_file(table["reported"]["file"])
    wanted = {row.get("reported") for row in table["rows"]} - {None}
    rows = [row for row in read_reported(path) if row["table"] == table["reported"]["table"]]
    for method in wanted:
        require(f"reported method in {path.name}", method, {row["method"] for row in rows})
    return [row for row in rows if row["method"] in wanted]


def reported_file(name: str) -> Path:
    """config/reported/{name}.csv. Raises ConfigError, with the nearest name, where there is none."""
    path = catalogue.CONFIG / "reported" / f"{name}.csv"
    if not path.is_file():
        known = [file.stem for file in path.parent.glob("*.csv")]
        raise ConfigError(f"no reported values {path.name}; {suggestion(path.stem, known)}")
    return path


def read_reported(path: Path) -> list[dict[str, str]]:
    """Rows of a file of reported values: each a number or empty, and for one cell one. Raises ConfigError."""
    return list(_read_reported(path, path.stat().st_mtime_ns))


@functools.lru_cache(maxsize=32)  # every table of a paper asks for the same file
def _read_reported(path: Path, _mtime: int) -> tuple[dict[str, str], ...]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            rows = list(reader)
        except (csv.Error, UnicodeDecodeError) as problem:
            raise ConfigError(f"{path}: not a CSV file in UTF-8 ({problem})") from None
    if list(reader.fieldnames or []) != REPORTED:
        raise ConfigError(f"{path}: columns {reader.fieldnames} found; expected {', '.join(REPORTED)}")
    cells: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise ConfigError(f"{path}, row {number}: {len(REPORTED)} values are expected, as in the header")
        for key in ("mean", "std"):
            if row[key] and not _is_number(row[key]):
                raise ConfigError(
                    f"{path}, row {number}: {key} {row[key]!r} is no number; leave it empty if there is none"
                )
        cell = tuple(row[key] for key in REPORTED[:5])
        if row["mean"] and (first := cells.setdefault(cell, number)) != number:
            raise ConfigError(
                f"{path}: rows {first} and {number} both give a value for {', '.join(filter(None, cell))}"
            )
    return tuple(rows)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
