"""Curves of the report page: history.csv of each training -> lines of a drawing, one chart for each of its columns."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.record import StageError, verified
from pipeline.runs import Run
from report.causes import recorded
from report.contents import read_checked
from report.history import read_history

WIDTH, HEIGHT = 600, 340  # of the drawing, in its own units
LEFT, RIGHT, TOP, BOTTOM = 84, 588, 12, 300  # where its axes lie
POINTS = 120  # a curve of more epochs shows the lowest and the highest value of each of half as many stretches
LARGEST = 1e300  # beyond it, as for what is not finite, there is no scale to draw on
FIRST = "total"  # the column that is drawn at once; the others on demand


@dataclass(frozen=True)
class Curve:
    """The line of one seed: its number, which says colour and dashes, and the `d` of its SVG path."""

    seed: int
    number: int
    path: str


@dataclass(frozen=True)
class Chart:
    """A column of history.csv over epochs; ticks are (position, text)."""

    column: str
    curves: list[Curve]
    across: list[tuple[int, str]]
    up: list[tuple[int, str]]
    said: str  # in words, for those who cannot see it


@dataclass(frozen=True)
class Curves:
    """The trainings of one recipe on one data set under one protocol."""

    run: Run  # that of the first seed
    charts: list[Chart]  # FIRST first
    notes: list[str]  # what of it is not drawn, and why


History = list[dict[str, float]]


def curves(sources: Iterable[Mapping[str, str]]) -> list[Curves]:
    """Charts of all trainings among the sources of a suite's results (pipeline/sources.py), in their order."""
    groups: dict[tuple[str, str, str], dict[Run, tuple[History, str]]] = {}
    for source in sources:
        if source["stage"] == "train":
            run = Run.at(source["record"])
            groups.setdefault((run.dataset, run.protocol, run.recipe), {})[run] = _history(source)
    return [_curves(runs) for runs in groups.values()]


def _history(source: Mapping[str, str]) -> tuple[History, str]:
    """The history of a training, and what is to be said of it: why it is empty, or how it ended."""
    folder = Path(source["record"]).parent
    if not Path(source["record"]).is_file():
        return [], "not run"
    if recorded(source).get("fingerprint") not in (source["fingerprint"], None):
        return [], "stale, trained with other code, settings, seed or inputs"
    try:
        train = read_checked(folder / "train.json", "training")["records"]["train"]
        rows = read_history(verified(folder / "history.csv", train))
    except StageError as problem:
        return [], str(problem)
    if train["status"] == "diverged":
        where = train["diverged"]
        return rows, f"diverged in epoch {where['epoch']}, term {where['term']}"
    return rows, ""  # a recipe that trains nothing has no epochs


def _curves(runs: Mapping[Run, tuple[History, str]]) -> Curves:
    drawn = {run.seed: rows for run, (rows, _) in runs.items() if rows}
    said: dict[str, list[int]] = {}
    for run, (_, what) in runs.items():
        if what:
            said.setdefault(what, []).append(run.seed)
    names = dict.fromkeys(name for rows in drawn.values() for row in rows for name in row if name != "epoch")
    charts = [_chart(name, drawn) for name in sorted(names, key=lambda name: name != FIRST)]
    for chart in charts:
        if without := [curve.seed for curve in chart.curves if not curve.path]:
            said.setdefault(f"{chart.column} has nothing finite to draw", []).extend(without)
    notes = [f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}: {what}" for what, seeds in said.items()]
    return Curves(next(iter(runs)), charts, notes)


def _chart(column: str, histories: Mapping[int, list[dict[str, float]]]) -> Chart:
    points = {
        seed: [(row["epoch"], row[column]) for row in rows if abs(row.get(column, math.inf)) < LARGEST]
        for seed, rows in histories.items()
    }
    epochs = [epoch for line in points.values() for epoch, _ in line] or [0.0]
    values = [value for line in points.values() for _, value in line] or [0.0]
    across, up = _Axis(min(epochs), max(epochs), LEFT, RIGHT), _Axis(min(values), max(values), BOTTOM, TOP)
    drawn = [Curve(seed, number, _path(line, across, up)) for number, (seed, line) in enumerate(points.items())]
    ends = ", ".join(f"seed {seed} {line[0][1]:.4g} to {line[-1][1]:.4g}" for seed, line in points.items() if line)
    said = f"{column} over epochs {min(epochs):.0f} to {max(epochs):.0f}: {ends or 'nothing finite'}"
    return Chart(column, drawn, across.ticks(whole=True), up.ticks(), said)


class _Axis:
    """From values low..high to positions start..end of the drawing."""

    def __init__(self, low: float, high: float, start: int, end: int):
        if high - low <= max(1e-9 * abs(high), 1 / LARGEST):  # one value: it lies in the middle
            margin = abs(low) / 2 if abs(low) > 1 / LARGEST else 0.5
            low, high = low - margin, high + margin
        self.low, self.high, self.start, self.end = low, high, start, end

    def place(self, value: float) -> int:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start))

    def ticks(self, whole: bool = False) -> list[tuple[int, str]]:
        """Two to six round values with their positions."""
        rough = (self.high - self.low) / 4
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * times for times in (1, 2, 5, 10) if size * times >= rough)
        step = max(step, 1.0) if whole else step
        numbers = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
        return [(self.place(number * step), f"{number * step:.6g}") for number in numbers]


def _path(line: list[tuple[float, float]], across: _Axis, up: _Axis) -> str:
    """SVG path through the points; a single one is a dot."""
    places = [(across.place(epoch), up.place(value)) for epoch, value in thinned(line)]
    if len(places) == 1:
        return "M{} {}m-3 0h6".format(*places[0])
    return "M" + "L".join(f"{x} {y}" for x, y in places) if places else ""


def thinned(line: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most about POINTS of the points, in order: what is left out lies between two that are kept."""
    if len(line) <= POINTS:
        return line
    size = -(-len(line) * 2 // POINTS)
    kept: dict[tuple[float, float], None] = {line[0]: None}
    for start in range(0, len(line), size):
        part = line[start : start + size]
        lowest, highest = min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])
        kept |= dict.fromkeys(sorted((lowest, highest)))
    return [*kept | {line[-1]: None}]
