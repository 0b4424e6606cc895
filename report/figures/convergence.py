"""Cluster accuracy over the epochs, one curve per run; labels are used here, never in training."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from evaluation.metrics.accuracy import accuracy
from pipeline.record import StageError
from preparation.prepared import Prepared
from report.figure import DASHES, Shown, panels, snapshots


@dataclass(frozen=True)
class Settings:
    pass


def convergence(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    """ACC of the clusters of the snapshots' rows."""
    curves = {}
    for label, run in runs.items():
        stored = snapshots(run.folder)
        names = {int(name.removesuffix("_clusters")): name for name in stored if name.endswith("_clusters")}
        labels = data.labels[stored["rows"]]
        known = labels >= 0
        points = [(epoch, accuracy(labels[known], stored[names[epoch]][known])) for epoch in sorted(names)]
        if not points:
            raise StageError(
                f"{run.folder / 'snapshots.npz'}: no clusters; the recipe must name `snapshots`, the method have p"
            )
        curves[label] = np.array(points)
    return draw(curves)


def draw(curves: Mapping[str, np.ndarray]) -> Figure:
    """curves[label] is [n, 2], epoch and ACC."""
    figure, (axis,) = panels(1, 4.2)
    for number, (label, curve) in enumerate(curves.items()):
        axis.plot(*curve.T, color=f"C{number}", linestyle=DASHES[number % 4], marker=".", label=label)
    axis.set(xlabel="epoch", ylabel="ACC of a sample of training images", ylim=(0, 1))
    axis.legend(frameon=False)
    return figure


FIGURE = convergence
