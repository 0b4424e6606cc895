"""One C x C grid per run: dark where a pair of cluster centres has the same distance rank in input and embedding."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from evaluation.similarity import centre_ranks
from preparation.prepared import Prepared
from report.figure import Shown, diverged, features, rows_of
from report.style import panels, set_panel_title

several = True
LACKS = diverged
SIDE = 1.7


@dataclass(frozen=True)
class Settings:
    pass


def rank_grid(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    tables = {}
    for name, run in runs.items():
        rows = rows_of(run.data)
        clusters = features(run.folder, "p")[rows].argmax(1)
        tables[name] = rank_tables(run.data.vectors(rows), features(run.folder, "h")[rows], clusters)
    return draw(tables)


def rank_tables(x: np.ndarray, z: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance ranks of cluster centres in X [N, d] and Z [N, m]: two [C, C] tables over the occupied clusters."""
    return centre_ranks(x, clusters), centre_ranks(z, clusters)


def draw(tables: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    figure, axes = panels(len(tables), SIDE)
    for axis, (name, (first, second)) in zip(axes, tables.items(), strict=True):
        same = first == second
        axis.imshow(same, cmap="Greys", vmin=0, vmax=1.3)
        set_panel_title(axis, f"{name}: {same.mean():.2f} agree", SIDE)
        for side in (axis.xaxis, axis.yaxis):
            side.get_major_locator().set_params(integer=True)
    figure.supxlabel("cluster", fontsize=8)
    figure.supylabel("cluster", fontsize=8)
    return figure


FIGURE = rank_grid
