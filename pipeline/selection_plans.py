"""The plan of selection.csv: the runs among which a user would have to pick one without labels."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline import catalogue
from pipeline.naming import ConfigError
from pipeline.runs import Row, Run, Runs, Table
from pipeline.stages import Stages
from pipeline.tables import runs_of_row


def selection_plan(stages: Stages, results: str, tables: Mapping[str, Table], csv_path: str) -> dict[str, Any]:
    """The plan of selection.csv: each recipe with each assigner that tables show, once, without controls and under its
    first label, and its runs.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for table, row in _methods(tables):
        spec = {key: row[key] for key in ("label", "recipe", "assigner")}
        found = rows.setdefault((row["recipe"], row["assigner"]), {**spec, "runs": []})
        known = {run["folder"] for run in found["runs"]}
        found["runs"] += [run for run in runs_of_row(stages, results, table, row) if run["folder"] not in known]
    used = [run for row in rows.values() for run in row["runs"]]
    titles = {
        f"{key}s": {name: catalogue.entry(kind, name)["title"] for name in dict.fromkeys(run[key] for run in used)}
        for key, kind in (("dataset", "data set"), ("protocol", "protocol"))
    }
    scale = catalogue.entry("metric", "ACC")["scale"]
    return {"name": "selection", "csv": csv_path, "scale": scale, **titles, "rows": list(rows.values())}


def selection_runs(runs: Runs, tables: Mapping[str, Table]) -> list[Run]:
    """The runs behind selection.csv. Raises ConfigError where no table has any."""
    found = list(dict.fromkeys(run for table, row in _methods(tables) for run in runs.of_row(table, row)))
    if not found:
        raise ConfigError(
            f"selection: no row of {', '.join(tables)} is a recipe with an assigner that is no control; add a table "
            "that has one, --config tables=[...]"
        )
    return found


def is_method(row: Row) -> bool:
    """Whether a row of a table shows clusters of a method: no control, no probe, not of splits that were learnt from,
    and no run that was chosen.
    """
    held = {key for key, value in row.items() if value}
    return {"recipe", "assigner"} <= held and not held & {"control", "seen", "lowest_own_loss"}


def _methods(tables: Mapping[str, Table]) -> Iterator[tuple[Table, Row]]:
    return ((table, row) for table in tables.values() for row in table["rows"] if is_method(row))
