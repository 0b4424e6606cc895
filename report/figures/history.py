"""Columns of the runs' histories over the epochs: one panel per column, one curve per run that has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from pipeline.record import StageError
from preparation.prepared import Prepared
from report.figure import DASHES, Shown, panels
from report.history import read_history


@dataclass(frozen=True)
class Settings:
    columns: list[str]  # of history.csv


def history(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    curves = {}
    for label, run in runs.items():
        rows = read_history(run.folder / "history.csv")
        names = dict.fromkeys(name for row in rows for name in row)
        curves[label] = {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
    columns = [name for name in settings.columns if any(name in curve for curve in curves.values())]
    if not columns:
        raise StageError(
            f"no history has a column of {settings.columns}; found: {sorted(set().union(*curves.values()))}"
        )
    return draw(curves, columns)


def draw(curves: Mapping[str, Mapping[str, np.ndarray]], columns: Sequence[str]) -> Figure:
    """curves[label][column] is [epochs]."""
    figure, axes = panels(len(columns), 3.4)
    for axis, column in zip(axes, columns, strict=True):
        for number, (label, curve) in enumerate(curves.items()):
            if column in curve:
                style = {"color": f"C{number}", "linestyle": DASHES[number % 4], "label": label}
                axis.plot(np.arange(1, len(curve[column]) + 1), curve[column], **style)
        axis.set(title=column, xlabel="epoch")
        axis.legend(frameon=False)
    return figure


FIGURE = history
