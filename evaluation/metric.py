"""The contract of a clustering metric: labels against clusters. All that one needs to know to write a new one.

A new metric is one file, evaluation/metrics/{name}.py, found by its name, that ends in `METRIC = function` with

    function(labels, clusters) -> {name: number, ...}

Both are integer arrays [N], N > 0, all >= 0, already checked (`checked`); ids may be any integers with gaps. Values are
fractions, not percent, finite, plain int, float or bool. Names are the keys of the record's result and of the tables:
an entry in config/metrics.yaml says how a table prints one, a test in tests/evaluation/metrics compares with an
independent oracle. A name that two files return is an error. Neither the order of rows nor the names of clusters
count: the generic test of the wing permutes both. A file that has something to say of clusters of rows without labels
ends besides in `UNLABELLED = function`, function(clusters, asked) -> {name: number, ...}, `asked` being the number of
clusters asked for; its names are among those of METRIC. An edit in any file of this wing makes every score of
clusters anew, and no probe.
"""

import importlib
from typing import Any

import numpy as np

from pipeline.record import StageError
from pipeline.wings import wing_modules


class MetricError(StageError):
    """Input for which a metric has no meaning."""


def clustering_metrics(labels: np.ndarray, clusters: np.ndarray, asked: int = 1) -> dict[str, Any]:
    """Every metric of the wing for one assignment, file by file in the order of their names.

    Where no row has a label (all are -1), what can be said without; `asked`: the clusters asked for, which count there.
    Raises MetricError where some rows have a label and others none, for negative ids, unequal lengths, and a name that
    two files return.
    """
    labels = np.asarray(labels)
    known = not (labels.ndim == 1 and labels.dtype.kind == "i" and len(labels) and (labels == -1).all())
    labels, clusters = checked(labels if known else np.zeros(len(labels), np.int64), clusters)
    merged: dict[str, Any] = {}
    for module in map(importlib.import_module, wing_modules("metric")):
        values = module.METRIC(labels, clusters) if known else getattr(module, "UNLABELLED", _nothing)(clusters, asked)
        if twice := sorted(set(values) & set(merged)):
            raise MetricError(f"{module.__name__}: {twice[0]!r} is returned by another file too; rename one")
        merged |= values
    return merged


def _nothing(clusters: np.ndarray, asked: int) -> dict[str, Any]:
    return {}


def checked(labels: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and clusters as arrays [N] of integers >= 0. Raises MetricError for anything else."""
    labels, clusters = np.asarray(labels), np.asarray(clusters)
    if labels.ndim > 1:
        raise MetricError("images have several labels: clusters cannot be scored, only probes for several labels can")
    if labels.ndim != 1 or labels.shape != clusters.shape or not len(labels):
        raise MetricError(
            f"labels {list(labels.shape)} and clusters {list(clusters.shape)} must be equally long, not empty"
        )
    for name, values in (("labels", labels), ("clusters", clusters)):
        if values.dtype.kind not in "iu":
            raise MetricError(f"{name} must be integers, found {values.dtype}")
        if values.min() < 0:
            raise MetricError(
                f"{name} contain {values.min()}: unlabelled rows (-1) cannot be scored beside others; choose a "
                "protocol that scores labelled splits only"
            )
    return labels, clusters
