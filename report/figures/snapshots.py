"""The embedding over the epochs: one panel per snapshot that the training kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from pipeline.record import StageError
from preparation.prepared import Prepared
from report.figure import Shown, by_data, diverged, project
from report.figure import snapshots as read_snapshots
from report.scatter import Scatter, scatters

several = True
LACKS = diverged


@dataclass(frozen=True)
class Settings:
    projection: Literal["umap", "tsne", "pca"] = "umap"


def snapshots(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    return scatters({title: _of_one_data_set(shown, settings) for title, shown in by_data(runs).items()})


def _of_one_data_set(runs: Mapping[str, Shown], settings: Settings) -> Scatter:
    planes, rows = {}, {}
    for name, run in runs.items():
        stored = read_snapshots(run.folder)
        rows[name] = stored["rows"]
        for epoch in sorted((key for key in stored if key.isdigit()), key=int):
            if not np.isfinite(stored[epoch]).all():
                raise StageError(f"{run.folder / 'snapshots.npz'}: epoch {epoch} is not finite; the run diverged")
            plane = project(stored[epoch], settings.projection)
            planes[f"{name}, epoch {epoch}" if len(runs) > 1 else f"epoch {epoch}"] = plane
    data = next(iter(runs.values())).data
    first, *others = (data.labels[some] for some in rows.values())
    if any(not np.array_equal(first, other) for other in others):
        raise StageError(f"{', '.join(rows)}: trained on other rows, whose colours differ; draw one figure for each")
    if not planes:
        folders = ", ".join(str(run.folder) for run in runs.values())
        raise StageError(f"no snapshots in {folders}: the recipe must name `snapshots`")
    return Scatter.of(planes, data, next(iter(rows.values())))


FIGURE = snapshots
