"""One C x C grid per run: dark where a pair of cluster centres has the same distance rank in input and embedding."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from evaluation.similarity import centre_ranks
from preparation.prepared import Prepared
from report.figure import Shown, features, panels


@dataclass(frozen=True)
class Settings:
    pass


def rank_grid(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    rows, tables = np.flatnonzero(data.labels >= 0), {}
    for label, run in runs.items():
        clusters = features(run.folder, "p")[rows].argmax(1)
        tables[label] = rank_tables(data.vectors(rows), features(run.folder, "h")[rows], clusters)
    return draw(tables)


def rank_tables(x: np.ndarray, z: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance ranks of cluster centres in X [N, d] and Z [N, m]: two [C, C] tables over the occupied clusters."""
    return centre_ranks(x, clusters), centre_ranks(z, clusters)


def draw(tables: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    figure, axes = panels(len(tables), 3.0)
    for axis, (label, (first, second)) in zip(axes, tables.items(), strict=True):
        same = first == second
        axis.imshow(same, cmap="Greys", vmin=0, vmax=1.3)
        axis.set(title=f"{label}: {same.mean():.2f}", xlabel="cluster", ylabel="cluster")
        for side in (axis.xaxis, axis.yaxis):
            side.get_major_locator().set_params(integer=True)
    return figure


FIGURE = rank_grid
