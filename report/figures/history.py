"""Columns of the histories over the epochs: one panel per column and data set, one curve per label that has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from pipeline.record import StageError
from preparation.prepared import Prepared
from report.curves import Curve, plot, seeds_said
from report.figure import Shown, by_data, by_label
from report.history import read_history
from report.style import legend_below, panels, set_panel_title

several = True
SIDE = 2.3


@dataclass(frozen=True)
class Settings:
    columns: list[str]  # of history.csv


def history(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    histories = {name: read_history(run.folder / "history.csv") for name, run in runs.items()}
    held = {column for rows in histories.values() for row in rows for column in row}
    columns = [column for column in settings.columns if column in held]
    if not columns:
        raise StageError(f"no history has a column of {settings.columns}; found: {sorted(held)}")
    found: dict[str, dict[str, list[Curve]]] = {}
    sets = by_data(runs)
    for title, shown in sets.items():
        for column in columns:
            panel = found.setdefault(f"{column}, {title}" if len(sets) > 1 else column, {})
            for label, seeds in by_label(shown).items():
                curves = [_curve(histories[name], column) for name in seeds]
                if kept := [curve for curve in curves if len(curve)]:
                    panel[label] = kept
    return draw(found)


def _curve(rows: Sequence[Mapping[str, float]], column: str) -> Curve:
    """[n, 2]: epoch and value, where the column has one."""
    return np.array([(row["epoch"], row[column]) for row in rows if column in row]).reshape(-1, 2)


def draw(found: Mapping[str, Mapping[str, Sequence[Curve]]]) -> Figure:
    """found[panel][label] are the curves of its seeds, each [n, 2]."""
    order = list(dict.fromkeys(label for curves in found.values() for label in curves))
    figure, axes = panels(len(found), SIDE, below=order)
    legend = {}
    for axis, (name, curves) in zip(axes, found.items(), strict=True):
        legend |= plot(axis, curves, order)
        axis.set_xlabel("epoch")
        set_panel_title(axis, ", ".join(filter(None, [name, seeds_said(curves)])), SIDE)
    legend_below(figure, legend)
    return figure


FIGURE = history
