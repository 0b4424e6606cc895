"""The contract of a figure: files of finished runs -> a drawing. All that one needs to know to write a new kind.

A new kind is one file, report/figures/{kind}.py, found by its name, with

    @dataclass(frozen=True)
    class Settings:                    # keys of its files in config/figures beside title, kind, recipes
        projection: Literal["umap", "tsne", "pca"] = "umap"

    def mine(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure: ...

    FIGURE = mine

and beside it: a file config/figures/{name}.yaml with `kind: {file name}`, drawn for the target
results/figures/{name}.png; a test in tests/report/test_figures.py. Nothing else knows it.

- In: label -> run, in the configured order; the files of a run are those of its folder (features.npz, history.csv,
  snapshots.npz), read with `features` and `snapshots` below and report/history.py, whose errors name the file. `data`
  has labels, which figures may use.
- A kind of clusters says `of_clusters = True` and a `title`: its runs come with an assigner, whose clusters
  report/clusters.py reads, and figures {kind}-{recipe}-{assigner} need no file. `of_images = True`: rows that are
  vectors are refused before any job; `of_labels = True`: rows without labels are.
- Out: a matplotlib Figure without a title above all; the stage writes title and data set there and saves it. Or that
  and its numbers, a list of rows (name -> value), which go beside it as .csv.
- Errors. StageError that names the file and what it lacks: the figure is not drawn then.
- Style. Colours: one per class, the same in every panel, named in a legend; curves also differ by dash.
- Heavy imports (umap, scikit-learn) go inside functions; torch is never needed.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from pipeline.record import StageError
from preparation.arrays import read_arrays

DASHES = ["-", "--", ":", "-."]
ROWS = 2000  # points in a scatter


@dataclass(frozen=True)
class Shown:
    """A run in a figure: its folder, and the features and the assigner that the figure's entry asks of it, if any."""

    folder: Path
    features: str | None = None
    assigner: str | None = None


def load(kind: str) -> Any:
    """The module of a kind. Raises ModuleNotFoundError for a name without a file."""
    return importlib.import_module(f"report.figures.{kind}")


def features(folder: Path, name: str) -> np.ndarray:
    """An array of a run's features.npz. Raises StageError where it is missing or not finite."""
    z = read_arrays(folder / "features.npz", None, name)[name]
    if not np.isfinite(z).all():
        raise StageError(f"{folder / 'features.npz'}: array {name!r} is not finite; the run diverged")
    return z


def snapshots(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a run's snapshots.npz, `rows` among them; features as they are, of a diverged run not finite."""
    path = folder / "snapshots.npz"
    return read_arrays(path, None) | read_arrays(path, None, "rows")


def some(rows: np.ndarray) -> np.ndarray:
    """Up to ROWS of the rows, evenly spaced."""
    return rows[np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).astype(int)]


def panels(count: int, side: float) -> tuple[Figure, list]:
    """A figure with `count` square panels in rows of up to five, and its axes."""
    rows = -(-count // 5)
    columns = -(-count // rows)  # 6 panels are 3 + 3, not 5 + 1
    size = (side * columns + 1, side * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def scatter(planes: Mapping[str, np.ndarray], labels: np.ndarray) -> Figure:
    """One scatter per run or epoch: planes[label] is [N, 2], `labels` [N] colour the points."""
    figure, axes = panels(len(planes), 3.2)
    classes = np.unique(labels)
    colours = matplotlib.colormaps["tab10" if len(classes) <= 10 else "tab20"]
    for axis, (label, plane) in zip(axes, planes.items(), strict=True):
        for number, name in enumerate(classes):
            points = plane[labels == name]
            axis.scatter(*points.T, s=2, color=colours(number % colours.N), label=str(name), rasterized=True)
        axis.set(title=label, xticks=[], yticks=[])
    handles, names = axes[0].get_legend_handles_labels()
    if len(classes) <= 20:
        figure.legend(handles, names, title="class", loc="outside right center", frameon=False, markerscale=5)
    return figure


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
