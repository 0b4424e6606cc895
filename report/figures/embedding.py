"""Features of images in the plane, coloured by class: one panel per run, one row of panels per data set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from matplotlib.figure import Figure

from preparation.prepared import Prepared
from report.figure import Shown, by_data, diverged, project, rows_of, some
from report.figure import features as read_features
from report.scatter import Scatter, scatters

several = True
LACKS = diverged


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"] = "h"  # of runs whose entry names none
    projection: Literal["umap", "tsne", "pca"] = "umap"


def embedding(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    found = {}
    for title, shown in by_data(runs).items():
        planes = {}
        for name, run in shown.items():
            rows = some(rows_of(run.data))
            z = read_features(run.folder, run.features or settings.features)[rows]
            planes[name] = project(z, settings.projection)
        found[title] = Scatter.of(planes, run.data, rows)
    return scatters(found)


FIGURE = embedding
