"""Counts of clusters against classes, and their best one-to-one matching."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from evaluation.metric import checked


def contingency(labels: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Counts int64 [occupied clusters, classes present]; rows and columns in the order of their ids."""
    row_ids, rows = np.unique(clusters, return_inverse=True)
    column_ids, columns = np.unique(labels, return_inverse=True)
    flat = np.bincount(rows * len(column_ids) + columns, minlength=len(row_ids) * len(column_ids))
    return flat.reshape(len(row_ids), len(column_ids))


class Matched(NamedTuple):
    """Counts int64 [classes, classes + surplus] after the one-to-one matching, and what its rows and columns are."""

    counts: np.ndarray
    classes: np.ndarray  # their ids, ascending
    clusters: np.ndarray  # ids; column i is matched to class i, -1 where a class has none; surplus ones, largest first

    @property
    def accuracies(self) -> np.ndarray:
        """Accuracy of each class [classes]; 0 for a class without a cluster."""
        return self.counts.diagonal() / self.counts.sum(1)

    @property
    def pairs(self) -> dict[int, int]:
        """Cluster id -> class; without clusters that are left over or matched to no sample."""
        matched = zip(self.clusters, self.classes, self.counts.diagonal(), strict=False)  # surplus clusters come last
        return {int(cluster): int(own) for cluster, own, count in matched if count}


def matched_confusion(labels: np.ndarray, clusters: np.ndarray) -> Matched:
    """Confusion matrix in the order of the matching behind `accuracy`: its diagonal over N is that accuracy."""
    labels, clusters = checked(labels, clusters)
    counts, ids = contingency(labels, clusters), np.unique(clusters)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    surplus = [row for row in np.argsort(-counts.sum(1), kind="stable") if row not in set(rows)]
    result = np.zeros((counts.shape[1], counts.shape[1] + len(surplus)), dtype=np.int64)
    result[:, columns] = counts[rows].T
    result[:, counts.shape[1] :] = counts[surplus].T
    of_columns = np.full(result.shape[1], -1, dtype=np.int64)
    of_columns[columns], of_columns[counts.shape[1] :] = ids[rows], ids[surplus]
    return Matched(result, np.unique(labels), of_columns)
