"""Stage `plot`: files of finished runs -> one figure.

python -m report.plot --figure digits_embeddings --data results/data/digits --out results/figures/some.png \\
    --runs "SimCLR=results/runs/digits/full/simclr/seed0"
"""

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.clustering import accuracy
from pipeline.catalogue import entry_or_json
from pipeline.record import StageError, run_stage, whole
from preparation.prepared import Prepared, open_prepared
from report import figures

ROWS = 2000  # points in a scatter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", required=True, help="name in config/figures, or its JSON")
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--runs", required=True, nargs="+", help="label=folder of every run")
    parser.add_argument("--out", required=True, help="the .png to write")
    given = parser.parse_args()
    _, settings = entry_or_json("figure", given.figure)
    # The last "=" divides: a label may be "t = 0.1".
    runs = {label: Path(folder) for label, _, folder in (text.rpartition("=") for text in given.runs)}
    for label, folder in runs.items():
        if not label or not folder.is_dir():
            raise StageError(f"--runs {label}={folder}: no such folder; give label=folder of a finished run")
    data = open_prepared(given.data, verify=False)
    figure = KINDS[settings["kind"]](settings, data, runs)
    figure.suptitle(f"{settings['title']} ({data.card['name']})")
    with whole(given.out) as file:
        figure.savefig(file, format="png", dpi=150)
    print(f"{given.out}: {', '.join(runs)}")


def _history(settings: Mapping[str, Any], data: Prepared, runs: Mapping[str, Path]) -> figures.Figure:
    curves = {}
    for label, folder in runs.items():
        with open(folder / "history.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        curves[label] = {name: np.array([float(row[name]) for row in rows]) for name in (rows[0] if rows else {})}
    columns = [name for name in settings["columns"] if any(name in own for own in curves.values())]
    if not columns:
        raise StageError(
            f"no history has a column of {settings['columns']}; found: {sorted(set().union(*curves.values()))}"
        )
    return figures.history(curves, columns)


def _convergence(settings: Mapping[str, Any], data: Prepared, runs: Mapping[str, Path]) -> figures.Figure:
    """ACC of the clusters of the snapshots' rows over the epochs; labels are used here, never in training."""
    curves = {}
    for label, folder in runs.items():
        with np.load(folder / "snapshots.npz") as stored:
            names = {int(name.removesuffix("_clusters")): name for name in stored.files if name.endswith("_clusters")}
            labels = data.labels[stored["rows"]]
            known = labels >= 0
            points = [(epoch, accuracy(labels[known], stored[names[epoch]][known])) for epoch in sorted(names)]
        if not points:
            raise StageError(
                f"{folder / 'snapshots.npz'}: no clusters; the recipe must name `snapshots`, the method have p"
            )
        curves[label] = np.array(points)
    return figures.convergence(curves)


def _embedding(settings: Mapping[str, Any], data: Prepared, runs: Mapping[str, Path]) -> figures.Figure:
    rows = _some(np.flatnonzero(data.labels >= 0))
    planes = {}
    for label, folder in runs.items():
        shown = settings["recipes"][label]
        name = settings.get("features", "h") if isinstance(shown, str) else shown["features"]
        z = _features(folder, name)[rows]
        planes[label] = figures.project(z, settings.get("projection", "umap"))
    return figures.embedding(planes, data.labels[rows])


def _snapshots(settings: Mapping[str, Any], data: Prepared, runs: Mapping[str, Path]) -> figures.Figure:
    planes, rows = {}, None
    for label, folder in runs.items():
        with np.load(folder / "snapshots.npz") as stored:
            rows = stored["rows"]
            epochs = sorted((name for name in stored.files if name.isdigit()), key=int)
            for epoch in epochs:
                plane = figures.project(stored[epoch], settings.get("projection", "umap"))
                planes[f"{label}, epoch {epoch}" if len(runs) > 1 else f"epoch {epoch}"] = plane
    if not planes:
        raise StageError(f"no snapshots in {', '.join(map(str, runs.values()))}: the recipe must name `snapshots`")
    return figures.embedding(planes, data.labels[rows])


def _rank_grid(settings: Mapping[str, Any], data: Prepared, runs: Mapping[str, Path]) -> figures.Figure:
    rows, tables = np.flatnonzero(data.labels >= 0), {}
    for label, folder in runs.items():
        clusters = _features(folder, "p")[rows].argmax(1)
        tables[label] = figures.rank_tables(data.vectors(rows), _features(folder, "h")[rows], clusters)
    return figures.rank_grid(tables)


def _distances(settings: Mapping[str, Any], data: Prepared, runs: Mapping[str, Path]) -> figures.Figure:
    rows = _some(np.flatnonzero(data.labels >= 0))
    x = data.vectors(rows)
    return figures.distances({label: figures.neighbour_gaps(x, _features(f, "h")[rows]) for label, f in runs.items()})


def _some(rows: np.ndarray) -> np.ndarray:
    return rows[np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).astype(int)]


def _features(folder: Path, name: str) -> np.ndarray:
    with np.load(folder / "features.npz") as stored:
        if name not in stored.files:
            raise StageError(f"{folder / 'features.npz'}: no array {name!r}, it has {', '.join(stored.files)}")
        z = stored[name]
    if not np.isfinite(z).all():
        raise StageError(f"{folder / 'features.npz'}: array {name!r} is not finite; the run diverged")
    return z


KINDS = {
    "history": _history,
    "convergence": _convergence,
    "embedding": _embedding,
    "snapshots": _snapshots,
    "rank_grid": _rank_grid,
    "distances": _distances,
}


if __name__ == "__main__":
    run_stage(main)
