"""The embedding over the epochs: one panel per snapshot that the training kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from pipeline.record import StageError
from preparation.prepared import Prepared
from report.figure import Shown, project, scatter


@dataclass(frozen=True)
class Settings:
    projection: Literal["umap", "tsne", "pca"] = "umap"


def snapshots(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    planes, rows = {}, None
    for label, run in runs.items():
        with np.load(run.folder / "snapshots.npz") as stored:
            rows = stored["rows"]
            epochs = sorted((name for name in stored.files if name.isdigit()), key=int)
            for epoch in epochs:
                plane = project(stored[epoch], settings.projection)
                planes[f"{label}, epoch {epoch}" if len(runs) > 1 else f"epoch {epoch}"] = plane
    if not planes:
        folders = ", ".join(str(run.folder) for run in runs.values())
        raise StageError(f"no snapshots in {folders}: the recipe must name `snapshots`")
    return scatter(planes, data.labels[rows])


FIGURE = snapshots
