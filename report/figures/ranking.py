"""Ranking of methods over data sets with a critical-difference line (J. Demsar, "Statistical comparisons of classifiers
over multiple data sets", JMLR 7, 2006).

On each data set the methods, rows of a table, are ranked by their mean over seeds, 1 being best and ties sharing the
mean of their ranks. Friedman's test (tie-corrected, scipy's) says whether they differ at all; if so, by Nemenyi's test
two of them differ whose mean ranks are at least

    CD = q(alpha, k) sqrt(k (k + 1) / (6 N))                                                          section 3.2.2

apart, for k methods on N data sets, q being the studentized range over sqrt 2. Bars join what does not differ; all
where Friedman's test finds no difference. Data sets are the blocks: seeds of one are not independent of each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.record import StageError
from report.style import WIDTH, plain, text_width, wrapped
from report.tables import Row, build

of_table = True
ROW = 0.2  # inches between the names of methods


@dataclass(frozen=True)
class Settings:
    metric: str  # of the table
    alpha: float = 0.05  # level of both tests
    of: str = "clustering"  # rows that compete: those of clusters, or of the probe of this name
    controls: bool = False  # whether rows that are controls take part


@dataclass
class Comparison:
    """Methods in the order of the table, and their `values` [methods, data sets]; `said` names what is left out."""

    methods: list[str]
    datasets: list[str]
    values: np.ndarray
    higher: bool  # whether more is better
    said: list[str] = field(default_factory=list)


def ranking(plan: Mapping[str, Any], settings: Settings) -> Figure:
    compared = read(plan, settings)
    return draw(compared, settings, next(iter(plan["protocols"].values())))


def read(plan: Mapping[str, Any], settings: Settings) -> Comparison:
    """The values that the table prints, under the first of its protocols, of all methods that have one everywhere."""
    table, metric = build(plan), settings.metric
    where, first = f"table {plan['name']!r}", next(iter(plan["protocols"].values()))
    rows = [row for row in table.rows if row.recipe and row.protocol == first and row.kind == settings.of]
    rows = [row for row in rows if settings.controls or not row.control]
    if metric not in table.metrics or not rows:
        kinds = list(dict.fromkeys(row.kind for row in table.rows if row.kind))
        raise StageError(
            f"{where}: no rows of {settings.of!r} with {metric!r} to rank; it has rows of {', '.join(kinds)}, and "
            f"metrics {', '.join(table.metrics)}"
        )
    found = [name for name in plan["datasets"] if any(_mean(row, name, metric) is not None for row in rows)]
    said = [f"no results on {plan['datasets'][name]}" for name in plan["datasets"] if name not in found]
    kept = []
    for row in rows:
        lacks = [plan["datasets"][name] for name in found if _mean(row, name, metric) is None]
        if lacks:
            said.append(f"{row.label}: no result on {', '.join(lacks)}")
        else:
            kept.append(row)
    if len(found) < 2 or len(kept) < 3:
        raise StageError(
            f"{where}: {len(kept)} methods with {metric} on each of {len(found)} data sets found, at least 3 methods "
            f"on 2 data sets are needed to rank them{'; left out: ' if said else ''}{'; '.join(said)}"
        )
    said += _fewer_seeds(kept, found, plan, metric)
    values = np.array([[_mean(row, name, metric) for name in found] for row in kept])
    titles = [plan["datasets"][name] for name in found]
    return Comparison([row.label for row in kept], titles, values, table.metrics[metric]["better"] == "higher", said)


def _mean(row: Row, dataset: str, metric: str) -> float | None:
    return row.cells[dataset, metric].mean


def _fewer_seeds(rows: Sequence[Row], datasets: Sequence[str], plan: Mapping[str, Any], metric: str) -> list[str]:
    """Means over fewer seeds than others on the same data set."""
    said = []
    for name in datasets:
        counts = {row.label: len(row.cells[name, metric].values) for row in rows}
        most = max(counts.values())
        title = plan["datasets"][name]
        said += [f"{label} on {title}: {n} of {most} seeds" for label, n in counts.items() if n < most]
    return said


def ranks_of(values: np.ndarray, higher: bool) -> np.ndarray:
    """values [methods, data sets] -> ranks of the same shape, 1 best, ties sharing their mean rank."""
    from scipy.stats import rankdata

    # The same mean, added up in another order, is a tie.
    return rankdata(np.round(-values if higher else values, 9), axis=0)


def critical_difference(methods: int, datasets: int, alpha: float) -> float:
    """Nemenyi's: mean ranks this far apart differ at level alpha."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * datasets)))


def friedman(ranks: np.ndarray) -> tuple[float, float]:
    """Chi squared, corrected for ties, and p of ranks [methods, data sets]; 0 and 1 where all are ties."""
    from scipy.stats import friedmanchisquare

    if (ranks == ranks[:1]).all():
        return 0.0, 1.0
    found = friedmanchisquare(*ranks)
    return float(found.statistic), float(found.pvalue)


def groups(mean_ranks: np.ndarray, difference: float) -> list[tuple[int, int]]:
    """First and last of each longest run of sorted mean ranks of which none differ, of two methods at least."""
    ends = [int(np.flatnonzero(mean_ranks - start < difference)[-1]) for start in mean_ranks]
    return [(first, last) for first, last in enumerate(ends) if last > first and (first == 0 or ends[first - 1] < last)]


def draw(compared: Comparison, settings: Settings, protocol: str) -> Figure:
    """The axis of ranks with 1, the best, on the right as in the paper; names of the better half beside that end."""
    ranks = ranks_of(compared.values, compared.higher)
    k, n = ranks.shape
    cd, (chi, p) = critical_difference(k, n, settings.alpha), friedman(ranks)
    differ = p < settings.alpha
    order = np.argsort(ranks.mean(1), kind="stable")
    means = ranks.mean(1)[order]
    names = [f"{plain(compared.methods[number])} ({mean:.2f})" for number, mean in zip(order, means, strict=True)]
    bars = groups(means, cd) if differ else [(0, k - 1)]
    said = [
        f"Mean ranks of {k} methods by {settings.metric} over {n} data sets ({', '.join(compared.datasets)}; "
        f"{protocol}).",
        f"Friedman: $\\chi^2$ = {chi:.2f}, p = {p:.3g}"
        + ("; methods that a bar joins do not differ" if differ else ": no difference shown, one bar joins all")
        + f" (Nemenyi, level {settings.alpha:g}).",
        *([f"Left out or from less: {plain('; '.join(compared.said))}."] if compared.said else []),
    ]
    return _diagram(means, names, bars, cd, " ".join(said))


def _diagram(means: np.ndarray, names: Sequence[str], bars: Sequence[tuple[int, int]], cd: float, said: str) -> Figure:
    k = len(means)
    text = wrapped(said, WIDTH - 0.3, 7)
    # In inches from the top: the line of the critical difference, the axis of ranks, bars, then a name a row.
    below = 0.75 + 0.09 * len(bars)
    right = -(-k // 2)  # of the better half, whose names stand on the right
    height = below + ROW * right + 0.2 + 0.13 * (text.count("\n") + 1) + 0.35
    room = max(text_width(name, 8) for name in names) + 0.15  # beside the axis, for the names
    per_rank = max(0.22, (WIDTH - 0.3 - 2 * room) / (k - 1))
    width = max(WIDTH, 2 * room + per_rank * (k - 1) + 0.3)
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.supxlabel(text, fontsize=7)
    axis = figure.add_subplot()
    axis.set(xlim=(k + room / per_rank, 1 - room / per_rank), ylim=(below + ROW * right, 0))
    axis.set_axis_off()
    _line(axis, [k, 1], [0.5, 0.5], 1.0)
    for rank in range(1, k + 1):
        _line(axis, [rank, rank], [0.42, 0.5], 1.0)
        axis.text(rank, 0.4, str(rank), ha="center", va="bottom", fontsize=7)
    _line(axis, [k, k - min(cd, k - 1)], [0.14, 0.14], 1.5)
    axis.text(k, 0.1, f"CD = {cd:.2f}", ha="left", va="bottom", fontsize=7)
    for number, (first, last) in enumerate(bars):
        y = 0.62 + 0.09 * number
        _line(axis, [means[first] - 0.04 / per_rank, means[last] + 0.04 / per_rank], [y, y], 3.0)
    for number, (mean, name) in enumerate(zip(means, names, strict=True)):
        better = number < right
        y = below + ROW * (number if better else k - 1 - number) + ROW / 2
        end = 1 - 0.08 / per_rank if better else k + 0.08 / per_rank
        _line(axis, [mean, mean, end], [0.5, y, y], 0.7)
        side = {"ha": "left" if better else "right", "va": "center"}
        axis.annotate(name, (end, y), (3 if better else -3, 0), textcoords="offset points", fontsize=8, **side)
    return figure


def _line(axis: Axes, x: Sequence[float], y: Sequence[float], width: float) -> None:
    axis.plot(x, y, color="black", linewidth=width, solid_capstyle="butt")


FIGURE = ranking
