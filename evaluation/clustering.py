"""Clustering metrics: labels against clusters. Both are integer arrays [N]; cluster ids may be any integers >= 0."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    mutual_info_score,
    normalized_mutual_info_score,
)

from pipeline.record import StageError


class MetricError(StageError):
    """Input for which a metric has no meaning."""


def clustering_metrics(labels: np.ndarray, clusters: np.ndarray) -> dict[str, float | int | bool]:
    """Every clustering metric of one assignment; fractions, not percent.

    ACC is the one-to-one accuracy, majority_ACC the many-to-one accuracy: neither stands in for the other. NMI and AMI
    name their average. `degenerate` says that the clusters are effectively fewer than half the classes: accuracy
    alone can look fine for a collapsed model. Raises MetricError for -1 labels, negative ids and unequal lengths.
    """
    labels, clusters = _checked(labels, clusters)
    sizes = np.bincount(np.unique(clusters, return_inverse=True)[1])
    classes = np.bincount(np.unique(labels, return_inverse=True)[1])
    size_entropy = _entropy(sizes)
    return {
        "ACC": accuracy(labels, clusters),
        "majority_ACC": majority_accuracy(labels, clusters),
        "NMI": float(normalized_mutual_info_score(labels, clusters, average_method="arithmetic")),
        "NMI_geometric": float(normalized_mutual_info_score(labels, clusters, average_method="geometric")),
        "NMI_max": float(normalized_mutual_info_score(labels, clusters, average_method="max")),
        "AMI": float(adjusted_mutual_info_score(labels, clusters, average_method="arithmetic")),
        "AMI_max": float(adjusted_mutual_info_score(labels, clusters, average_method="max")),
        "ARI": float(adjusted_rand_score(labels, clusters)),
        "mutual_information": float(mutual_info_score(labels, clusters)),
        "occupied_clusters": len(sizes),
        "largest_share": float(sizes.max() / len(labels)),
        "size_entropy": size_entropy,
        "degenerate": bool(np.exp(size_entropy) < np.exp(_entropy(classes)) / 2),
        "n": len(labels),
    }


def class_accuracies(labels: np.ndarray, clusters: np.ndarray) -> dict[int, float]:
    """Accuracy of each class under the one-to-one matching: class -> share; 0 for a class without a cluster."""
    matched = matched_confusion(labels, clusters)
    classes = np.unique(labels)
    return {int(c): float(matched[i, i] / matched[i].sum()) for i, c in enumerate(classes)}


def matched_confusion(labels: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Confusion matrix [classes, classes + surplus] after the one-to-one matching.

    Column i holds the cluster matched to class i (zeros where there is none); surplus clusters follow, largest first.
    """
    labels, clusters = _checked(labels, clusters)
    counts = contingency(labels, clusters)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    surplus = [row for row in np.argsort(-counts.sum(1), kind="stable") if row not in set(rows)]
    result = np.zeros((counts.shape[1], counts.shape[1] + len(surplus)), dtype=np.int64)
    result[:, columns] = counts[rows].T
    result[:, counts.shape[1] :] = counts[surplus].T
    return result


def contingency(labels: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Counts int64 [occupied clusters, classes present]; rows and columns in the order of their ids."""
    row_ids, rows = np.unique(clusters, return_inverse=True)
    column_ids, columns = np.unique(labels, return_inverse=True)
    flat = np.bincount(rows * len(column_ids) + columns, minlength=len(row_ids) * len(column_ids))
    return flat.reshape(len(row_ids), len(column_ids))


def accuracy(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Share of samples whose cluster is matched to their class by the best one-to-one matching.

    Rectangular: with more clusters than classes the samples of unmatched clusters count as errors.
    """
    labels, clusters = _checked(labels, clusters)
    counts = contingency(labels, clusters)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(labels))


def majority_accuracy(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Share of samples that belong to the most frequent class of their cluster (many-to-one; grows with K)."""
    labels, clusters = _checked(labels, clusters)
    return float(contingency(labels, clusters).max(1).sum() / len(labels))


def _checked(labels: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels, clusters = np.asarray(labels), np.asarray(clusters)
    if labels.ndim != 1 or labels.shape != clusters.shape or not len(labels):
        raise MetricError(
            f"labels {list(labels.shape)} and clusters {list(clusters.shape)} must be equally long, not empty"
        )
    for name, values in (("labels", labels), ("clusters", clusters)):
        if values.dtype.kind not in "iu":
            raise MetricError(f"{name} must be integers, found {values.dtype}")
        if values.min() < 0:
            raise MetricError(
                f"{name} contain {values.min()}: unlabelled rows (-1) cannot be scored; choose a protocol that scores "
                "labelled splits only"
            )
    return labels, clusters


def _entropy(counts: np.ndarray) -> float:
    """Entropy in nats of the distribution that `counts` > 0 describe."""
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
