"""Tables: metrics of many runs -> the shape of a paper's table, with the paper's values beside ours.

Knows no method, recipe or paper by name: rows, columns and reported values come from the table's plan file. A cell is
the mean over seeds with the sample standard deviation (n - 1) and n. A result whose record differs from the plan is
stale: it is named and left out, never printed. Data sets and protocols are told apart by name; titles are only printed.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.record import StageError
from report.effects import Sample, against
from report.own_loss import LOWEST, own_loss
from report.results import NOT_RUN, Problem, Read, lacking, marks, read_result, unreadable

LOST = "paper lost"


@dataclass
class Cell:
    """One data set x metric of one row: printed values, the paper's value, marks."""

    values: list[float] = field(default_factory=list)
    reported: float | None = None
    reported_std: float | None = None
    reported_note: str = ""
    reported_runs: int | None = None  # runs behind the paper's mean, where it is stated
    lost: bool = False  # whether the paper prints a value that our sources have lost
    band: float | None = None  # how far from the paper's value ours may lie where its spread is not known, as printed
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
        """Our mean against the paper's (report/effects.py); empty where the paper has no such cell."""
        if self.lost:
            return LOST
        if self.reported is None:
            return ""
        if self.mean is None:
            return NOT_RUN
        paper = Sample(self.reported, self.reported_std, self.reported_runs)
        return against(Sample(self.mean, self.std, len(self.values)), paper, self.band)


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
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)  # (data set, metric)
    reads: list[tuple[Mapping[str, Any], Read | Problem]] = field(default_factory=list)  # each run of it, as read
    notes: list[str] = field(default_factory=list)


@dataclass
class Table:
    """A filled table."""

    title: str
    datasets: dict[str, str]  # name -> title; a data set that only a paper has goes by `of_paper` of its title
    metrics: dict[str, dict[str, Any]]
    rows: list[Row]
    note: str
    problems: list[Problem]  # one for every run that is not printed
    verdicts: bool = False  # whether the table compares with the paper cell by cell


def of_paper(title: str) -> str:
    """In place of a name, which has no colon: a data set that only the reported values have."""
    return f"paper:{title}"


def build(plan: Mapping[str, Any]) -> Table:
    """Read the runs' files metrics/*.json and fill the table that `plan` (pipeline/plan.py, table_plan) describes."""
    problems: list[Problem] = []
    reported = _reported(plan["reported"])
    datasets = dict(plan["datasets"])
    known = {*datasets.values(), *(name for spec in plan["rows"] for name in spec.get("reported_dataset", {}).values())}
    of_paper_alone = bool(plan.get("paper_columns"))
    if of_paper_alone:
        of_papers = dict.fromkeys(key[2] for key, held in reported.items() if held["mean"] and key[2] not in known)
        datasets |= {of_paper(title): title for title in of_papers}
    rows: list[Row] = []
    rivals: dict[tuple[str, str], list[Row]] = {}
    for spec in plan["rows"]:
        for protocol in list(dict.fromkeys(run["protocol"] for run in spec["runs"])) or [""]:
            runs = [run for run in spec["runs"] if run["protocol"] == protocol]
            row = _row(spec, protocol, runs, plan, reported, datasets, problems)
            valued = any(cell.reported is not None for cell in row.cells.values())
            if not (runs or valued or (of_paper_alone and "reported" in spec)):
                continue  # a row of the paper alone, or of data sets that are not here
            rows.append(row)
            if not row.control:
                rivals.setdefault((protocol, row.kind), []).append(row)
    for group in rivals.values():
        for dataset in datasets:
            for metric, facts in plan["metrics"].items():
                _rank([row.cells[dataset, metric] for row in group], facts)
    named = list(dict.fromkeys(problems))
    shown = any(cell.reported is not None for row in rows for cell in row.cells.values())
    notes = [plan["note"], plan.get("reported_note") if shown else None, *_errata(plan, rows, datasets)]
    note = "\n".join(filter(None, notes))
    return Table(plan["title"], datasets, plan["metrics"], rows, note, named, bool(plan.get("verdicts")))


def _row(
    spec: Mapping[str, Any],
    protocol: str,
    runs: list[dict[str, Any]],
    plan: Mapping[str, Any],
    reported: Mapping[tuple, dict[str, str]],
    datasets: Mapping[str, str],
    problems: list[Problem],
) -> Row:
    source = spec.get("assigner") or spec.get("probe") or ""
    kind = "clustering" if "assigner" in spec else source
    row = Row(spec["label"], spec.get("recipe", ""), source, kind, plan["protocols"].get(protocol, ""))
    row.control = bool(spec.get("control") or spec.get("lowest_own_loss"))  # one run does not compete with means
    metrics = [metric for metric in plan["metrics"] if metric in spec.get("metrics", plan["metrics"])]
    for dataset, title in datasets.items():
        row.cells |= {(dataset, metric): Cell() for metric in plan["metrics"]}
        for metric in metrics:
            row.cells[dataset, metric] = _reported_cell(spec, title, metric, plan["metrics"][metric], reported)
            row.cells[dataset, metric].band = spec.get("bands", {}).get(title, {}).get(metric)
            row.cells[dataset, metric].reported_runs = spec.get("reported_runs", plan.get("reported_runs"))
    said: dict[tuple[str, str], list[int]] = {}  # (data set, what is wrong) -> seeds
    precisions: dict[str, Counter[str]] = {}  # data set -> runs computed in each precision
    row.reads = read_runs(spec, runs, metrics)
    if spec.get("lowest_own_loss"):
        row.reads, row.label = _chosen(row)
    for run, read in row.reads:
        dataset = run["dataset"]
        if isinstance(read, Problem):
            problems.append(read)
            said.setdefault((dataset, read.reason), []).append(run["seed"])
            continue
        row.fitted_on = read.fitted_on
        for metric in metrics:
            if metric in read.result:
                row.cells[dataset, metric].values.append(read.result[metric] * plan["metrics"][metric]["scale"])
        for mark in marks(read):
            said.setdefault((dataset, mark), []).append(run["seed"])
        precisions.setdefault(dataset, Counter())[read.train.get("precision", "unknown")] += 1
        if read.result.get("selected_on_test"):
            row.notes.append("selected on test labels")
    for (dataset, what), seeds in said.items():
        row.notes.append(f"{datasets[dataset]} seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}: {what}")
    for dataset, counts in precisions.items():
        if len(counts) > 1:
            each = ", ".join(f"{count} in {precision}" for precision, count in sorted(counts.items()))
            row.notes.append(f"{datasets[dataset]}: a mean over precisions, {each}")
    row.notes = list(dict.fromkeys(row.notes))
    return row


def _chosen(row: Row) -> tuple[list[tuple[Mapping[str, Any], Read | Problem]], str]:
    """Of the runs of each data set the one with the lowest loss of its own, those that cannot be read, and the label
    under which they are printed: with the number of runs that were chosen from.
    """
    losses: dict[str, dict[int, float]] = {}
    reads: list[tuple[Mapping[str, Any], Read | Problem]] = []
    for run, read in row.reads:
        found = read
        if isinstance(read, Read):
            try:
                loss = own_loss(run["folder"], read)
            except StageError as problem:
                found = unreadable(run, str(problem))
            else:
                losses.setdefault(run["dataset"], {})
                if loss is not None:
                    losses[run["dataset"]][run["seed"]] = loss
        reads.append((run, found))
    counts = sorted({len(held) for held in losses.values()})
    chosen = {dataset: min(held, key=lambda seed: held[seed]) for dataset, held in losses.items() if held}
    kept = [
        (run, read) for run, read in reads if isinstance(read, Problem) or chosen.get(run["dataset"]) == run["seed"]
    ]
    return kept, f"{row.label}, {LOWEST} of {' or '.join(map(str, counts or [0]))}"


def read_runs(
    spec: Mapping[str, Any], runs: Iterable[Mapping[str, Any]], metrics: Iterable[str]
) -> list[tuple[Mapping[str, Any], Read | Problem]]:
    """Each run with its result. Of one data set all seeds have the same numbers, or one of them is damaged."""
    found = [(run, read_result(run, spec, metrics)) for run in runs]
    held: dict[str, set[str]] = {}
    for run, read in found:
        if isinstance(read, Read):
            held.setdefault(run["dataset"], set()).update(name for name in metrics if name in read.result)
    return [
        (run, (lacking(run, read, held[run["dataset"]]) or read) if isinstance(read, Read) else read)
        for run, read in found
    ]


def _reported(rows: Iterable[Mapping[str, str]]) -> dict[tuple[str, str, str, str], Mapping[str, str]]:
    """(method, setting, data set, metric) -> row of config/reported: values, and cells that the sources have lost."""
    return {(r["method"], r["setting"], r["dataset"], r["metric"]): r for r in rows if r["mean"] or _is_lost(r)}


def _is_lost(row: Mapping[str, str]) -> bool:
    """Whether the paper prints a value here that is in none of our sources; a dash in the paper is no such cell."""
    return not row["mean"] and row["source"].lower() == "missing"


def _reported_cell(
    spec: Mapping[str, Any],
    title: str,
    metric: str,
    facts: Mapping[str, Any],
    reported: Mapping[tuple, Mapping[str, str]],
) -> Cell:
    name = spec.get("reported_metrics", {}).get(metric, metric)
    title = spec.get("reported_dataset", {}).get(title, title)
    found = reported.get((spec.get("reported"), spec.get("setting", ""), title, name))
    if found is None:
        return Cell()
    if not found["mean"]:
        return Cell(lost=True)
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


def _errata(plan: Mapping[str, Any], rows: Iterable[Row], datasets: Mapping[str, str]) -> list[str]:
    """Footnotes of the errata of reported cells that are shown."""
    shown: dict[tuple[str, str], set[str]] = {}  # (label, title of the data set) -> metrics with a value of the paper
    for row in rows:
        for (dataset, metric), cell in row.cells.items():
            if cell.reported is not None:
                shown.setdefault((row.label, datasets[dataset]), set()).add(metric)
    said = []
    for erratum in plan.get("errata", ()):
        for spec in plan["rows"]:
            if spec.get("reported") != erratum["method"]:
                continue
            names = spec.get("reported_metrics", {})
            titles = {theirs: ours for ours, theirs in spec.get("reported_dataset", {}).items()}
            metrics = shown.get((spec["label"], titles.get(erratum["dataset"], erratum["dataset"])), set())
            if metrics and (not erratum["metric"] or erratum["metric"] in {names.get(name, name) for name in metrics}):
                where = " ".join(filter(None, (erratum["dataset"], erratum["metric"])))
                said.append(f"Erratum, {spec['label']}, {where}: {erratum['says']} ({erratum['evidence']}).")
    return said
