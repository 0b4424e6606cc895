"""Tables: metrics of many runs -> the shape of a paper's table, with the paper's values beside ours.

Knows no method, recipe or paper by name: rows, columns and reported values come from the table's plan file. A cell is
the mean over seeds with the sample standard deviation (n - 1) and n. A result whose record differs from the plan is
stale: it is named and left out, never printed.
"""

import os
import shlex
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.record import read_json

NOT_RUN, STALE = "not run", "stale"


@dataclass(frozen=True)
class Problem:
    """Why a run's result is not printed."""

    folder: str
    kind: str  # "not run", "stale", "diverged", or the status that its record gives
    reason: str  # in words, without the folder
    stage: str = ""  # the first whose record differs from the plan
    outputs: tuple[str, ...] = ()  # what to make anew so that it can be printed; nothing where that would not help

    def __str__(self) -> str:
        return f"{self.folder}: {self.reason}"


@dataclass
class Cell:
    """One data set x metric of one row: printed values, the paper's value, marks."""

    values: list[float] = field(default_factory=list)
    reported: float | None = None
    reported_std: float | None = None
    reported_note: str = ""
    band: float | None = None  # how far from the paper's value ours may lie, in printed units
    rank: int | None = None  # 1 best, 2 second among our rows of one protocol and kind that are no controls

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Sample standard deviation, None below two runs."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.mean is None or self.reported is None else self.mean - self.reported

    @property
    def verdict(self) -> str:
        """Where our mean lies in the band around the paper's value; empty without a value of the paper."""
        if self.reported is None:
            return ""
        if self.difference is None:
            return NOT_RUN
        if self.band is None:
            return "no band"
        if abs(self.difference) <= self.band:
            return "within"
        return "above" if self.difference > 0 else "below"


@dataclass
class Row:
    """One printed row: a recipe x assigner (or probe) under one protocol, or reported values only."""

    label: str
    recipe: str = ""
    source: str = ""  # assigner or probe
    kind: str = ""  # "clustering", or the probe: figures of different kinds do not compete
    protocol: str = ""
    fitted_on: str = ""
    control: bool = False
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)  # (data set title, metric)
    notes: list[str] = field(default_factory=list)


@dataclass
class Table:
    """A filled table."""

    title: str
    datasets: list[str]
    metrics: dict[str, dict[str, Any]]
    rows: list[Row]
    note: str
    problems: list[Problem]  # one for every run that is not printed
    verdicts: bool = False  # whether the table compares with the paper cell by cell


def build(plan: Mapping[str, Any]) -> Table:
    """Read the runs' files metrics/*.json and fill the table that `plan` (pipeline/plan.py, table_plan) describes."""
    problems: list[Problem] = []
    reported = _reported(plan["reported"])
    datasets = list(plan["datasets"].values())
    renamed = {name for spec in plan["rows"] for name in spec.get("reported_dataset", {}).values()}
    datasets += [d for d in dict.fromkeys(key[2] for key in reported) if d not in datasets and d not in renamed]
    rows = []
    for spec in plan["rows"]:
        for protocol in list(dict.fromkeys(run["protocol"] for run in spec["runs"])) or [""]:
            runs = [run for run in spec["runs"] if run["protocol"] == protocol]
            rows.append(_row(spec, protocol, runs, plan, reported, datasets, problems))
    rivals: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if not row.control:
            rivals.setdefault((row.protocol, row.kind), []).append(row)
    for group in rivals.values():
        for dataset in datasets:
            for metric, facts in plan["metrics"].items():
                _rank([row.cells[dataset, metric] for row in group], facts)
    named = list(dict.fromkeys(problems))
    verdicts = bool(plan.get("verdicts"))
    return Table(plan["title"], datasets, plan["metrics"], rows, plan["note"] or "", named, verdicts)


def _row(
    spec: Mapping[str, Any],
    protocol: str,
    runs: list[dict[str, Any]],
    plan: Mapping[str, Any],
    reported: Mapping[tuple, dict[str, str]],
    datasets: Iterable[str],
    problems: list[Problem],
) -> Row:
    source = spec.get("assigner") or spec.get("probe") or ""
    kind = "clustering" if "assigner" in spec else source
    row = Row(spec["label"], spec.get("recipe", ""), source, kind, plan["protocols"].get(protocol, ""))
    row.control = bool(spec.get("control"))
    for dataset in datasets:
        for metric in plan["metrics"]:
            if metric not in spec.get("metrics", plan["metrics"]):
                row.cells[dataset, metric] = Cell()
                continue
            row.cells[dataset, metric] = _reported_cell(spec, dataset, metric, plan["metrics"][metric], reported)
            row.cells[dataset, metric].band = spec.get("bands", {}).get(dataset, {}).get(metric)
    said: dict[tuple[str, str], list[int]] = {}  # (data set, what is wrong) -> seeds
    for run in runs:
        dataset = plan["datasets"][run["dataset"]]
        read = _read_run(run, spec)
        if isinstance(read, Problem):
            problems.append(read)
            said.setdefault((dataset, read.reason), []).append(run["seed"])
            continue
        result, row.fitted_on = read
        for metric, facts in plan["metrics"].items():
            if metric in result and metric in spec.get("metrics", plan["metrics"]):
                row.cells[dataset, metric].values.append(result[metric] * facts["scale"])
        if result.get("degenerate"):
            what = f"degenerate, {result['occupied_clusters']} clusters occupied"
            said.setdefault((dataset, what), []).append(run["seed"])
        if result.get("selected_on_test"):
            row.notes.append("selected on test labels")
    for (dataset, what), seeds in said.items():
        row.notes.append(f"{dataset} seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}: {what}")
    row.notes = list(dict.fromkeys(row.notes))
    return row


def _read_run(run: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[dict[str, Any], str] | Problem:
    """(result, splits it was fitted on) of a run for one row, or what keeps it from being printed."""
    folder, key = run["folder"], f"clustering/{spec['assigner']}" if "assigner" in spec else spec["probe"]
    path = Path(folder, "metrics", f"{key}.json")
    if not path.is_file():
        return Problem(folder, NOT_RUN, NOT_RUN, outputs=_to_mend(run))
    stored = read_json(path)
    records, result = stored["records"], stored["result"]
    for stage, (fingerprint, code) in run["expected"].items():
        record = records.get(stage)
        if record is None or record["fingerprint"] != fingerprint:
            why = (
                "was never recorded"
                if record is None
                else ("ran with other code" if record["code"] != code else "ran with other settings, seed or inputs")
            )
            return Problem(folder, STALE, f"{STALE}, stage {stage} {why}", stage, _to_mend(run))
    train = records["train"]
    if train["status"] == "diverged":
        where = train["diverged"]
        return Problem(folder, "diverged", f"diverged in epoch {where['epoch']}, term {where['term']}")
    if result["status"] != "ok":
        said = result["status"].replace("_", " ")
        reason = f"{said}: {result['reason']}" if result.get("reason") else said
        return Problem(folder, said, reason, outputs=_to_mend(run) if said == "failed" else ())
    if spec.get("seen"):
        result = result.get("seen", {})
    fitted = records[f"assign/{spec['assigner']}"] if "assigner" in spec else records[f"probe/{key}"]
    splits = fitted["settings"]["protocol"]
    # Of this run alone: what its base took stands in the base's own row.
    result = {"training_seconds": train["training_seconds"], **result}
    return result, "+".join(splits["fit"] if "assigner" in spec else splits["probe"]["train"])


def _to_mend(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The most upstream file that a row is made from whose record is missing or differs from the plan, and every such
    data set (a base may have another); the last file, if all are as they should be.
    """
    sources, data, first = run.get("sources", []), [], []
    for source in sources:
        path = Path(source["record"])
        stored = read_json(path) if path.is_file() else {}
        # A data card holds one record, a run's files one for every stage.
        record = stored.get("records", {}).get(source["stage"]) or stored.get("record") or {}
        if record.get("fingerprint") != source["fingerprint"]:
            (data if source["stage"] == "prepare" else first).append(source["output"])
    return tuple([*data, *first[:1]] or [source["output"] for source in sources[-1:]])


def command_to_mend(problems: Iterable[Problem], csv: str) -> str:
    """One command that makes every stale, missing or failed result of a table anew; empty where none would help.

    BENCH_COMMAND is how the pipeline was called (pipeline/command.py).
    """
    files = sorted({output for problem in problems for output in problem.outputs})
    if not files:
        return ""
    command = os.environ.get("BENCH_COMMAND") or "snakemake --cores all"
    return f"{command} {shlex.quote(csv)} --forcerun {shlex.join(files)}"


def _reported(rows: Iterable[Mapping[str, str]]) -> dict[tuple[str, str, str, str], Mapping[str, str]]:
    """(method, setting, data set, metric) -> row of config/reported, values only."""
    return {(r["method"], r["setting"], r["dataset"], r["metric"]): r for r in rows if r["mean"]}


def _reported_cell(
    spec: Mapping[str, Any],
    dataset: str,
    metric: str,
    facts: Mapping[str, Any],
    reported: Mapping[tuple, Mapping[str, str]],
) -> Cell:
    name = spec.get("reported_metrics", {}).get(metric, metric)
    dataset = spec.get("reported_dataset", {}).get(dataset, dataset)
    found = reported.get((spec.get("reported"), spec.get("setting", ""), dataset, name))
    if found is None:
        return Cell()
    # Papers print percent or fractions; ours is stored as a fraction and printed with `scale`.
    scale = facts["scale"] if found["unit"] == "fraction" else 1
    std = float(found["std"]) * scale if found["std"] else None
    return Cell(reported=float(found["mean"]) * scale, reported_std=std, reported_note=found["note"])


def _rank(cells: list[Cell], facts: Mapping[str, Any]) -> None:
    """Mark best and second best by mean, ties sharing a rank."""
    if facts["better"] == "neither":
        return
    sign = 1 if facts["better"] == "higher" else -1
    means = sorted(
        {round(cell.mean, facts["digits"]) for cell in cells if cell.mean is not None}, key=lambda m: -sign * m
    )
    for cell in cells:
        if cell.mean is not None and (position := means.index(round(cell.mean, facts["digits"]))) < 2:
            cell.rank = position + 1
