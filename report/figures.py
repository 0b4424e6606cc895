"""Figures of finished runs. Each function draws into axes and reads nothing; report/plot.py reads the files.

Colours: one per class, the same in every panel; classes are named in a legend, and curves also differ by dash.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from evaluation.similarity import centre_ranks

DASHES = ["-", "--", ":", "-."]


def history(curves: Mapping[str, Mapping[str, np.ndarray]], columns: Sequence[str]) -> Figure:
    """One panel per column of the histories, one curve per run: curves[label][column] is [epochs]."""
    figure, axes = _panels(len(columns), 3.4)
    for axis, column in zip(axes, columns, strict=True):
        for number, (label, own) in enumerate(curves.items()):
            if column in own:
                style = {"color": f"C{number}", "linestyle": DASHES[number % 4], "label": label}
                axis.plot(np.arange(1, len(own[column]) + 1), own[column], **style)
        axis.set(title=column, xlabel="epoch")
        axis.legend(frameon=False)
    return figure


def convergence(curves: Mapping[str, np.ndarray]) -> Figure:
    """Cluster accuracy over the epochs, one curve per run: curves[label] is [n, 2], epoch and ACC."""
    figure, (axis,) = _panels(1, 4.2)
    for number, (label, own) in enumerate(curves.items()):
        axis.plot(*own.T, color=f"C{number}", linestyle=DASHES[number % 4], marker=".", label=label)
    axis.set(xlabel="epoch", ylabel="ACC of a sample of training images", ylim=(0, 1))
    axis.legend(frameon=False)
    return figure


def embedding(planes: Mapping[str, np.ndarray], labels: np.ndarray) -> Figure:
    """One scatter per run or epoch: planes[label] is [N, 2], `labels` [N] colour the points."""
    figure, axes = _panels(len(planes), 3.2)
    classes = np.unique(labels)
    colours = matplotlib.colormaps["tab10" if len(classes) <= 10 else "tab20"]
    for axis, (label, plane) in zip(axes, planes.items(), strict=True):
        for number, name in enumerate(classes):
            own = plane[labels == name]
            axis.scatter(*own.T, s=2, color=colours(number % colours.N), label=str(name), rasterized=True)
        axis.set(title=label, xticks=[], yticks=[])
    handles, names = axes[0].get_legend_handles_labels()
    if len(classes) <= 20:
        figure.legend(handles, names, title="class", loc="outside right center", frameon=False, markerscale=5)
    return figure


def rank_grid(tables: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """One C x C grid per run: dark where a pair of centres has the same distance rank in input and embedding."""
    figure, axes = _panels(len(tables), 3.0)
    for axis, (label, (first, second)) in zip(axes, tables.items(), strict=True):
        same = first == second
        axis.imshow(same, cmap="Greys", vmin=0, vmax=1.3)
        axis.set(title=f"{label}: {same.mean():.2f}", xlabel="cluster", ylabel="cluster")
        for side in (axis.xaxis, axis.yaxis):
            side.get_major_locator().set_params(integer=True)
    return figure


def distances(gaps: Mapping[str, np.ndarray]) -> Figure:
    """Histogram per run of d_Z - d_X over pairs of neighbours; 0 is an isometry."""
    figure, axes = _panels(len(gaps), 3.2)
    for axis, (label, own) in zip(axes, gaps.items(), strict=True):
        axis.hist(own, bins=60, color="0.35")
        axis.axvline(0, color="tab:red", linewidth=1)
        axis.set(title=f"{label}: mean {own.mean():.2f}", xlabel="distance in embedding - in input")
        axis.set_yticks([])
    return figure


def rank_tables(x: np.ndarray, z: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance ranks of cluster centres in X [N, d] and Z [N, m]: two [C, C] tables over the occupied clusters."""
    return centre_ranks(x, clusters), centre_ranks(z, clusters)


def neighbour_gaps(x: np.ndarray, z: np.ndarray, neighbours: int = 5) -> np.ndarray:
    """d_Z - d_X, each over the root of its dimension, between every row and its nearest rows in X."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=neighbours + 1).fit(x)
    gap_x, near = (part[:, 1:] for part in found.kneighbors(x))
    gap_z = np.linalg.norm(z[near] - z[:, None], axis=2)
    return (gap_z / np.sqrt(z.shape[1]) - gap_x / np.sqrt(x.shape[1])).ravel()


def project(z: np.ndarray, projection: str, seed: int = 0) -> np.ndarray:
    """z [N, d] -> [N, 2]. UMAP with DCRL's settings (5 neighbours, distance 0.7, correlation), t-SNE, or PCA."""
    if z.shape[1] <= 2:
        return z[:, :2] if z.shape[1] == 2 else np.column_stack([z[:, 0], np.zeros(len(z))])
    settings: dict[str, Any] = {"random_state": seed}
    if projection == "umap":
        from umap import UMAP

        return UMAP(n_neighbors=5, min_dist=0.7, metric="correlation", n_jobs=1, **settings).fit_transform(z)
    if projection == "tsne":
        from sklearn.manifold import TSNE

        return TSNE(init="pca", perplexity=min(30, (len(z) - 1) / 3), **settings).fit_transform(z)
    from sklearn.decomposition import PCA

    return PCA(2, **settings).fit_transform(z)


def _panels(count: int, side: float) -> tuple[Figure, list]:
    rows = -(-count // 5)
    columns = -(-count // rows)  # 6 panels are 3 + 3, not 5 + 1
    size = (side * columns + 1, side * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])
