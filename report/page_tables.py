"""Tables of the report page: what stands in each cell, by what it is sorted, and where each number comes from."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from report.layouts import columns, notes
from report.results import Problem, Read, marks
from report.tables import Cell, Row, Table

OURS, PAPER, DIFFERENCE = "ours", "paper", "difference"
DIRTY = "with uncommitted changes"


@dataclass(frozen=True)
class Column:
    """One column of numbers: those of ours, of the paper, or ours less the paper's."""

    dataset: str
    metric: str
    kind: str
    title: str
    ascending: bool  # whether the first click sorts the smallest to the top


@dataclass(frozen=True)
class Field:
    """A cell: its text, what it is sorted by (empty: last), how it is marked, what is told when one points at it."""

    text: str = ""
    sort: str = ""
    rank: int | None = None
    verdict: str = ""
    lacking: bool = False  # the text says why there is no number
    hover: str = ""


@dataclass(frozen=True)
class Fact:
    """Something that records say of where a result was computed, and which of them, where they do not agree."""

    name: str
    values: list[tuple[str, str]]  # (value, where)


@dataclass(frozen=True)
class Seed:
    """One run behind a row: its numbers by metric, and what is to be said of it."""

    seed: int
    numbers: list[str]
    said: str
    base_seed: str = ""
    seconds: str = ""  # of training
    ended: str = ""


@dataclass(frozen=True)
class Origin:
    """Where the numbers of one row come from, for one data set."""

    title: str
    metrics: list[str]
    seeds: list[Seed]
    stages: list[tuple[str, str, list[str]]]  # (stage, hash of its code, fingerprint by seed)
    read: list[int]  # the seeds whose results are printed, in the order of the fingerprints
    facts: list[Fact]
    settings: str  # JSON of the recipe and of the assigner or probe as they ran


@dataclass(frozen=True)
class Line:
    """One row as the page shows it."""

    row: Row
    fields: list[Field]
    notes: list[str]
    origins: list[Origin]
    hover: str  # the origins in short, a line for each data set


def table_columns(table: Table) -> list[Column]:
    """The columns of numbers: of each pair of data set and metric those that hold any, ours where neither does."""
    found = []
    for dataset, metric in _pairs(table):
        cells, facts = [row.cells[dataset, metric] for row in table.rows], table.metrics[metric]
        reported = any(cell.reported is not None for cell in cells)
        ascending = facts["better"] == "lower"
        if not reported or any(cell.values for cell in cells):
            found.append(Column(dataset, metric, OURS, facts["title"], ascending))
        if reported:
            found.append(Column(dataset, metric, PAPER, f"{facts['title']}, paper", ascending))
            if table.verdicts:
                found.append(Column(dataset, metric, DIFFERENCE, f"{facts['title']}, ours − paper", ascending))
    return found


def _pairs(table: Table) -> list[tuple[str, str]]:
    """The columns of the other layouts, and those of data sets whose runs have no number yet, which say why."""
    run = {run["dataset"] for row in table.rows for run, _ in row.reads}
    held = {dataset for row in table.rows for (dataset, _), cell in row.cells.items() if cell.values}
    filled = set(columns(table))
    pairs = [(dataset, metric) for dataset in table.datasets for metric in table.metrics]
    return [pair for pair in pairs if pair in filled or pair[0] in run - held]


def heads(table: Table, shown: Iterable[Column]) -> list[tuple[str, int]]:
    """Title of each data set and the number of its columns, in their order."""
    names = [column.dataset for column in shown]
    return [(table.datasets[name], names.count(name)) for name in dict.fromkeys(names)]


def lines(table: Table, shown: list[Column]) -> list[Line]:
    """The rows with their cells and origins."""
    return [_line(table, row, shown) for row in table.rows]


def _line(table: Table, row: Row, shown: list[Column]) -> Line:
    origins = _origins(table, row)
    hover = "\n".join(filter(None, map(_in_short, origins)))
    return Line(row, [_field(table, row, column) for column in shown], notes(row), origins, hover)


def _in_short(origin: Origin) -> str:
    """What one sees of an origin before it is unfolded: when and where it was trained, and its last fingerprints."""
    times = sorted(seed.ended for seed in origin.seeds if seed.ended)
    if not (times and origin.stages):
        return ""
    agreed = {fact.name: " or ".join(value for value, _ in fact.values) for fact in origin.facts}
    said = [f"{name} {agreed[name]}" for name in ("git commit", "device", "machine") if name in agreed]
    when = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    stage, _, fingerprints = origin.stages[-1]
    marks = ", ".join(f"{value} (seed {seed})" for seed, value in zip(origin.read, fingerprints, strict=True))
    return "; ".join([f"{origin.title}: trained {when} UTC", *said, f"fingerprint of {stage} {marks}"])


def _field(table: Table, row: Row, column: Column) -> Field:
    cell, facts = row.cells[column.dataset, column.metric], table.metrics[column.metric]
    digits = facts["digits"]
    if column.kind == PAPER:
        if cell.reported is None:
            return Field()
        text = f"{cell.reported:.{digits}f}{_spread(cell.reported_std, digits)}"
        return Field(text, repr(cell.reported), hover=cell.reported_note)
    if column.kind == DIFFERENCE:
        if cell.reported is None:
            return Field(cell.verdict)
        text = cell.verdict if cell.difference is None else f"{cell.difference:+.{digits}f} {cell.verdict}"
        return Field(text, "" if cell.difference is None else repr(cell.difference), verdict=cell.verdict)
    if cell.mean is None:
        why = _lacking(row, column)
        return Field(why, lacking=bool(why))
    text = f"{cell.mean:.{digits}f}{_spread(cell.std, digits)} ({len(cell.values)})"
    return Field(text, repr(cell.mean), cell.rank, hover=_each(row, cell, column, facts))


def _lacking(row: Row, column: Column) -> str:
    """Why there is no number: what became of the runs. Empty where a run has a result that lacks it by nature."""
    reads = [read for run, read in row.reads if run["dataset"] == column.dataset]
    kinds = [read.kind if isinstance(read, Problem) else _without(read, column.metric) for read in reads]
    return ", ".join(dict.fromkeys(kinds)) if all(kinds) else ""


def _without(read: Read, metric: str) -> str:
    if read.result.get("classes_present") == 0:
        return "no labels"
    return "undefined" if metric in read.result.get("undefined", ()) else ""


def _spread(std: float | None, digits: int) -> str:
    return "" if std is None or not math.isfinite(std) else f" ± {std:.{digits}f}"


def _each(row: Row, cell: Cell, column: Column, facts: Mapping[str, Any]) -> str:
    """The value of each seed."""
    seeds = [run["seed"] for run, read in _reads(row, column.dataset) if column.metric in read.result]
    return ", ".join(f"seed {seed}: {_number(value, facts)}" for seed, value in zip(seeds, cell.values, strict=True))


def _reads(row: Row, dataset: str) -> list[tuple[Mapping[str, Any], Read]]:
    return [(run, read) for run, read in row.reads if run["dataset"] == dataset and isinstance(read, Read)]


def _number(value: float, facts: Mapping[str, Any]) -> str:
    return f"{value:.{facts['digits']}f}"


def _origins(table: Table, row: Row) -> list[Origin]:
    return [_origin(table, row, dataset) for dataset in dict.fromkeys(run["dataset"] for run, _ in row.reads)]


def _origin(table: Table, row: Row, dataset: str) -> Origin:
    metrics = [metric for metric in table.metrics if row.cells[dataset, metric].values]
    seeds = [_seed(table, run, read, metrics) for run, read in row.reads if run["dataset"] == dataset]
    reads = _reads(row, dataset)
    return Origin(
        table.datasets[dataset],
        [table.metrics[metric]["title"] for metric in metrics],
        seeds,
        _stages(reads),
        [run["seed"] for run, _ in reads],
        facts(reads),
        _settings(*reads[0]) if reads else "",
    )


def _seed(table: Table, run: Mapping[str, Any], read: Read | Problem, metrics: list[str]) -> Seed:
    if isinstance(read, Problem):
        return Seed(run["seed"], [""] * len(metrics), read.reason)
    numbers = [_of_seed(read, metric, table.metrics[metric]) for metric in metrics]
    base = read.train.get("base_seed")
    seconds, ended = f"{read.train['training_seconds']:.1f}", minute(read.train.get("ended", ""))
    return Seed(run["seed"], numbers, "; ".join(marks(read)), "" if base is None else str(base), seconds, ended)


def _of_seed(read: Read, metric: str, facts: Mapping[str, Any]) -> str:
    return _number(read.result[metric] * facts["scale"], facts) if metric in read.result else ""


def _stages(reads: list[tuple[Mapping[str, Any], Read]]) -> list[tuple[str, str, list[str]]]:
    """Code and fingerprints of every stage that the results stand on, as their records say."""
    found = []
    for stage in reads[0][0]["expected"] if reads else ():
        records = [read.records[stage] for _, read in reads]
        codes = ", ".join(dict.fromkeys(record["code"] for record in records))
        found.append((stage, codes, [record["fingerprint"] for record in records]))
    return found


def facts(reads: Iterable[tuple[Mapping[str, Any], Read]]) -> list[Fact]:
    """What the records of these results agree on, and what they do not."""
    found: dict[str, dict[str, list[str]]] = {}
    for run, read in reads:
        for stage in run["expected"]:
            for name, value in _surroundings(read.records[stage]).items():
                found.setdefault(name, {}).setdefault(value, []).append(f"{stage} of seed {run['seed']}")
    return [
        Fact(name, [(value, ", ".join(where) if len(values) > 1 else "") for value, where in values.items()])
        for name, values in found.items()
    ]


def _surroundings(record: Mapping[str, Any]) -> dict[str, str]:
    """Name -> value of what one record says of machine, versions and state of the source; what it lacks is left out."""
    git = record.get("git") or {}
    said = {
        "git commit": git.get("commit", "") + (f", {DIRTY}" if git.get("dirty") else ""),
        "hash of requirements.lock": record.get("lock"),
        "versions": ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items()),
        "machine": record.get("machine"),
        "device": record.get("device"),
        "precision": record.get("precision"),
        "processes": record.get("devices"),
    }
    return {name: str(value) for name, value in said.items() if value not in (None, "")}


def minute(time: str) -> str:
    """A time of a record (ISO 8601, UTC) to the minute."""
    return time[:16].replace("T", " ")


def _settings(run: Mapping[str, Any], read: Read) -> str:
    """Recipe, and assigner or probe, as they ran."""
    asked = {"recipe": read.train.get("settings", {}).get("recipe")}
    for stage in run["expected"]:
        kind = "assigner" if stage.startswith("assign/") else "probe"
        if kind in (given := read.records[stage].get("settings", {})):
            asked[kind] = given[kind]
    return json.dumps(asked, indent=1, ensure_ascii=False)
