"""Cluster accuracy over the epochs: one panel per data set, one curve per label; labels of classes are used here, never
in training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from evaluation.metrics.accuracy import accuracy
from pipeline.record import StageError
from preparation.prepared import Prepared
from report.curves import Curve, plot, seeds_said
from report.figure import Shown, by_data, by_label, snapshots
from report.style import legend_below, panels, set_panel_title

several = True


@dataclass(frozen=True)
class Settings:
    pass


def convergence(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    """ACC of the clusters of the snapshots' rows."""
    return draw(
        {
            title: {label: [_curve(run) for run in seeds.values()] for label, seeds in by_label(shown).items()}
            for title, shown in by_data(runs).items()
        }
    )


def _curve(run: Shown) -> Curve:
    stored = snapshots(run.folder)
    names = {int(name.removesuffix("_clusters")): name for name in stored if name.endswith("_clusters")}
    labels = run.data.labels[stored["rows"]]
    known = labels >= 0
    if labels.ndim != 1 or not known.any():
        raise StageError(
            f"{run.folder / 'snapshots.npz'}: its rows have no labels (one an image) to score clusters with"
        )
    points = [(epoch, accuracy(labels[known], stored[names[epoch]][known])) for epoch in sorted(names)]
    if not points:
        raise StageError(
            f"{run.folder / 'snapshots.npz'}: no clusters; the recipe must name `snapshots`, the method have p"
        )
    return np.array(points, dtype=float)


def draw(found: Mapping[str, Mapping[str, Sequence[Curve]]]) -> Figure:
    """found[data set][label] are the curves of its seeds, each [n, 2], epoch and ACC."""
    order = list(dict.fromkeys(label for curves in found.values() for label in curves))
    side = 3.4 if len(found) == 1 else 2.3
    figure, axes = panels(len(found), side, share=True, below=order)
    legend = {}
    for axis, (title, curves) in zip(axes, found.items(), strict=True):
        legend |= plot(axis, curves, order)
        axis.set(ylim=(0, 1), xlabel="epoch")
        set_panel_title(axis, ", ".join(filter(None, [title * (len(found) > 1), seeds_said(curves)])), side)
    figure.supylabel("ACC of a sample of training images", fontsize=8)
    legend_below(figure, legend)
    return figure


FIGURE = convergence
