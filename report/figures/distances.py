"""Histogram per run of d_Z - d_X over pairs of neighbours; 0 is an isometry. All panels have the same axes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from preparation.prepared import Prepared
from report.figure import Shown, diverged, features, rows_of, some
from report.style import COLOURS, panels, set_panel_title

several = True
LACKS = diverged
SIDE, BINS = 1.7, 60


@dataclass(frozen=True)
class Settings:
    pass


def distances(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    gaps = {}
    for name, run in runs.items():
        rows = some(rows_of(run.data))
        gaps[name] = neighbour_gaps(run.data.vectors(rows), features(run.folder, "h")[rows])
    return draw(gaps)


def neighbour_gaps(x: np.ndarray, z: np.ndarray, neighbours: int = 5) -> np.ndarray:
    """d_Z - d_X, each over the root of its dimension, between every row and its nearest rows in X."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=neighbours + 1).fit(x)
    gap_x, near = (part[:, 1:] for part in nearest.kneighbors(x))
    gap_z = np.linalg.norm(z[near] - z[:, None], axis=2)
    return (gap_z / np.sqrt(z.shape[1]) - gap_x / np.sqrt(x.shape[1])).ravel()


def draw(gaps: Mapping[str, np.ndarray]) -> Figure:
    """gaps[name] is [pairs]; a bar is the share of a run's pairs, so that data sets of any size compare."""
    figure, axes = panels(len(gaps), SIDE, share=True)
    bins = np.histogram_bin_edges(np.concatenate(list(gaps.values())), BINS)
    for axis, (name, gap) in zip(axes, gaps.items(), strict=True):
        axis.hist(gap, bins=bins, weights=np.full(len(gap), 1 / len(gap)), color="0.45")
        axis.axvline(0, color=COLOURS[1], linewidth=1, linestyle="--")
        set_panel_title(axis, f"{name}: mean {gap.mean():.2f}", SIDE)
    figure.supxlabel("$d_Z - d_X$ between neighbours", fontsize=8)
    figure.supylabel("share of pairs", fontsize=8)
    return figure


FIGURE = distances
