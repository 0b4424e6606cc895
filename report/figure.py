"""The contract of a figure: files of finished runs -> a drawing. All that one needs to know to write a new kind.

A new kind is one file, report/figures/{kind}.py, found by its name, with

    @dataclass(frozen=True)
    class Settings:                    # keys of its files in config/figures that are not every figure's
        projection: Literal["umap", "tsne", "pca"] = "umap"

    def mine(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure: ...

    FIGURE = mine
    several = True                     # it can show runs of several data sets and seeds; leave it out where it cannot

and beside it: a file config/figures/{name}.yaml with `kind: {file name}`, drawn for the targets
results/figures/{name}.png and .pdf; a test in tests/report. Nothing else knows it.

- In: name -> run, in the configured order, each name once: the label, with data set and seed where the figure shows
  several; the files of a run are those of its folder (features.npz, history.csv, snapshots.npz), read with `features`
  and `snapshots` below and report/history.py, whose errors name the file. `data` is the data set of the first run, and
  of all of them unless the kind says `several`: then each has its own, run.data, and `by_data` sorts them.
- A kind that compares rows of a table says `of_table = True` and is `mine(plan, settings)`, `plan` being the table's
  (pipeline/tables.py), whose verified results report.tables.build reads; its files in config/figures name a `table`.
- A kind of clusters says `of_clusters = True` and a `title`: its runs come with an assigner, whose clusters
  report/clusters.py reads, and figures {kind}-{recipe}-{assigner} need no file. `of_images = True`: rows that are
  vectors are refused before any job; `of_labels = True`: rows without labels are.
- Out: a matplotlib Figure without a title above all; the stage writes title and data sets there, and saves it. Or that
  and its numbers, a list of rows (name -> value), which go beside it as .csv.
- Errors. StageError that names the file and what it lacks: the figure is not drawn then. A kind may have
  `LACKS = diverged` (below), or a function like it that says why one run has nothing to show: the other runs are
  drawn without it, and the title says so.
- Style (report/style.py). Drawn at the size of a page. One colour per class, the same in every panel, named as in the
  data card in a legend below; curves also differ by dash and mark. Panels that are compared share their axes.
- Text in $...$ is drawn as mathematics; `style.plain` is for names that are a user's own.
- Heavy imports (umap, scikit-learn) go inside functions; torch is never needed.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.record import StageError
from preparation.arrays import read_arrays
from preparation.prepared import Prepared

ROWS = 2000  # points in a scatter


@dataclass(frozen=True)
class Shown:
    """A run in a figure: its folder, the features that the figure's entry asks of it, if it says so, the data set that
    it was trained on, its label in the entry, its seed, and the assigner whose clusters the entry asks for, if any.
    """

    folder: Path
    features: str | None
    data: Prepared
    label: str
    seed: int
    assigner: str | None = None
    status: str = "ok"  # of its training


def diverged(run: Shown) -> str | None:
    """Why a run has no features to show: its training diverged; None where it did not."""
    return "diverged" if run.status == "diverged" else None


def load(kind: str) -> Any:
    """The module of a kind. Raises ModuleNotFoundError for a name without a file."""
    return importlib.import_module(f"report.figures.{kind}")


def title(data: Prepared) -> str:
    """What a reader calls a data set."""
    return data.card["record"]["settings"].get("title", data.card["name"])


def by_data(runs: Mapping[str, Shown]) -> dict[str, dict[str, Shown]]:
    """Title of a data set -> the runs on it, by their names, in their order. Two of one title go by their names."""
    titles = {run.data.card["name"]: title(run.data) for run in runs.values()}
    found: dict[str, dict[str, Shown]] = {}
    for name, run in runs.items():
        dataset = run.data.card["name"]
        alone = list(titles.values()).count(titles[dataset]) == 1
        found.setdefault(titles[dataset] if alone else dataset, {})[name] = run
    return found


def by_label(runs: Mapping[str, Shown]) -> dict[str, dict[str, Shown]]:
    """Label -> the runs under it, by their names: those of one data set are its seeds."""
    found: dict[str, dict[str, Shown]] = {}
    for name, run in runs.items():
        found.setdefault(run.label, {})[name] = run
    return found


def rows_of(data: Prepared) -> np.ndarray:
    """The rows of a data set that a figure may show: those with a label, all where none has one.

    Raises StageError where images have several labels, since a point has one colour.
    """
    if data.labels.ndim != 1:
        raise StageError(
            f"{data.folder}: images with several labels, but a figure shows one a point; choose a data set with one"
        )
    labelled = np.flatnonzero(data.labels >= 0)
    return labelled if len(labelled) else np.arange(len(data.labels))


def class_names(data: Prepared) -> list[str]:
    """The names of the classes as the data card has them, else their numbers."""
    return [str(name) for name in data.card.get("class_names") or range(data.card["classes"])]


def short(name: str, length: int) -> str:
    """A name that fits beside a panel."""
    return name if len(name) <= length else f"{name[: length - 1]}…"


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
