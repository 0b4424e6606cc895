"""Geometry of the scored rows: input pixels in 0..1 against their features (DCRL sec. 4), and the order of centres."""

from dataclasses import dataclass
from typing import Any, Literal

from evaluation.centroids import fit_kmeans, predict_kmeans
from evaluation.features import prepare
from evaluation.geometry import GeometryError, centre_rank_agreement, geometry
from evaluation.probe import Task


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"]
    normalise: bool  # unit rows
    centres: Literal["argmax", "kmeans"] | None = None  # clusters whose centres CRA ranks; none: no CRA


def geometry_of_features(task: Task) -> dict[str, Any]:
    """RRE, Trust, Cont, RMSE, LGD, and with `centres` CRA; an empty cluster has no centre: no number then, a reason."""
    rows, settings = task.scored, task.settings
    x, z = task.data.vectors(rows), task.array()[rows]
    result = geometry(x, z)
    if settings.centres is None:
        return result
    classes = task.data.card["classes"]
    if settings.centres == "argmax":
        clusters = prepare(task.features, "p")[rows].argmax(1)
    else:
        clusters = predict_kmeans(fit_kmeans(z, classes, task.seed, n_init=20, init="k-means++"), z)
    try:
        return result | {"CRA": centre_rank_agreement(x, z, clusters, classes)}
    except GeometryError as problem:
        return result | {"CRA_reason": str(problem)}


PROBE = geometry_of_features
