"""The embedding over the epochs: one panel per snapshot that the training kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from pipeline.record import StageError
from preparation.prepared import Prepared
from report.figure import Shown, project, scatter
from report.figure import snapshots as read_snapshots


@dataclass(frozen=True)
class Settings:
    projection: Literal["umap", "tsne", "pca"] = "umap"


def snapshots(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    planes, labels = {}, {}
    for label, run in runs.items():
        stored = read_snapshots(run.folder)
        labels[label] = data.labels[stored["rows"]]
        for epoch in sorted((name for name in stored if name.isdigit()), key=int):
            if not np.isfinite(stored[epoch]).all():
                raise StageError(f"{run.folder / 'snapshots.npz'}: epoch {epoch} is not finite; the run diverged")
            plane = project(stored[epoch], settings.projection)
            planes[f"{label}, epoch {epoch}" if len(runs) > 1 else f"epoch {epoch}"] = plane
    first, *others = labels.values()
    if any(not np.array_equal(first, other) for other in others):
        raise StageError(f"{', '.join(labels)}: trained on other rows, whose colours differ; draw one figure for each")
    if not planes:
        folders = ", ".join(str(run.folder) for run in runs.values())
        raise StageError(f"no snapshots in {folders}: the recipe must name `snapshots`")
    return scatter(planes, first)


FIGURE = snapshots
