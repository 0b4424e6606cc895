"""Counts of clusters against classes, and their best one-to-one matching."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from evaluation.metric import checked


def contingency(labels: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Counts int64 [occupied clusters, classes present]; rows and columns in the order of their ids."""
    row_ids, rows = np.unique(clusters, return_inverse=True)
    column_ids, columns = np.unique(labels, return_inverse=True)
    flat = np.bincount(rows * len(column_ids) + columns, minlength=len(row_ids) * len(column_ids))
    return flat.reshape(len(row_ids), len(column_ids))


def class_accuracies(labels: np.ndarray, clusters: np.ndarray) -> dict[int, float]:
    """Accuracy of each class under the one-to-one matching: class -> share; 0 for a class without a cluster."""
    matched = matched_confusion(labels, clusters)
    classes = np.unique(labels)
    return {int(c): float(matched[i, i] / matched[i].sum()) for i, c in enumerate(classes)}


def matched_confusion(labels: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Confusion matrix [classes, classes + surplus] after the one-to-one matching.

    Column i holds the cluster matched to class i (zeros where there is none); surplus clusters follow, largest first.
    """
    labels, clusters = checked(labels, clusters)
    counts = contingency(labels, clusters)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    surplus = [row for row in np.argsort(-counts.sum(1), kind="stable") if row not in set(rows)]
    result = np.zeros((counts.shape[1], counts.shape[1] + len(surplus)), dtype=np.int64)
    result[:, columns] = counts[rows].T
    result[:, counts.shape[1] :] = counts[surplus].T
    return result


def matched_classes(labels: np.ndarray, clusters: np.ndarray) -> dict[int, int]:
    """Cluster id -> class of the one-to-one matching; without clusters that it leaves over or matches to no sample."""
    labels, clusters = checked(labels, clusters)
    counts = contingency(labels, clusters)
    ids, classes = np.unique(clusters), np.unique(labels)
    pairs = zip(*linear_sum_assignment(counts, maximize=True), strict=True)
    return {int(ids[row]): int(classes[column]) for row, column in pairs if counts[row, column]}
