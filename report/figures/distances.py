"""Histogram per run of d_Z - d_X over pairs of neighbours; 0 is an isometry."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from preparation.prepared import Prepared
from report.figure import Shown, features, panels, some


@dataclass(frozen=True)
class Settings:
    pass


def distances(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    rows = some(np.flatnonzero(data.labels >= 0))
    x = data.vectors(rows)
    return draw({label: neighbour_gaps(x, features(run.folder, "h")[rows]) for label, run in runs.items()})


def neighbour_gaps(x: np.ndarray, z: np.ndarray, neighbours: int = 5) -> np.ndarray:
    """d_Z - d_X, each over the root of its dimension, between every row and its nearest rows in X."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=neighbours + 1).fit(x)
    gap_x, near = (part[:, 1:] for part in nearest.kneighbors(x))
    gap_z = np.linalg.norm(z[near] - z[:, None], axis=2)
    return (gap_z / np.sqrt(z.shape[1]) - gap_x / np.sqrt(x.shape[1])).ravel()


def draw(gaps: Mapping[str, np.ndarray]) -> Figure:
    """gaps[label] is [pairs]."""
    figure, axes = panels(len(gaps), 3.2)
    for axis, (label, gap) in zip(axes, gaps.items(), strict=True):
        axis.hist(gap, bins=60, color="0.35")
        axis.axvline(0, color="tab:red", linewidth=1)
        axis.set(title=f"{label}: mean {gap.mean():.2f}", xlabel="distance in embedding - in input")
        axis.set_yticks([])
    return figure


FIGURE = distances
