"""Features of labelled images in the plane, one panel per run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.figure import Figure

from preparation.prepared import Prepared
from report.figure import Shown, project, scatter, some
from report.figure import features as read_features


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"] = "h"  # of runs whose entry names none
    projection: Literal["umap", "tsne", "pca"] = "umap"


def embedding(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> Figure:
    rows = some(np.flatnonzero(data.labels >= 0))
    planes = {}
    for label, run in runs.items():
        z = read_features(run.folder, run.features or settings.features)[rows]
        planes[label] = project(z, settings.projection)
    return scatter(planes, data.labels[rows])


FIGURE = embedding
