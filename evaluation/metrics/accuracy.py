"""Accuracy of clusters: one-to-one (ACC) and many-to-one (majority_ACC). Neither stands in for the other."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from evaluation.confusion import contingency
from evaluation.metric import checked


def accuracy(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Share of samples whose cluster is matched to their class by the best one-to-one matching.

    Rectangular: with more clusters than classes the samples of unmatched clusters count as errors.
    """
    labels, clusters = checked(labels, clusters)
    counts = contingency(labels, clusters)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(labels))


def majority_accuracy(labels: np.ndarray, clusters: np.ndarray) -> float:
    """Share of samples that belong to the most frequent class of their cluster (many-to-one; grows with K)."""
    labels, clusters = checked(labels, clusters)
    return float(contingency(labels, clusters).max(1).sum() / len(labels))


def accuracies(labels: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
    return {"ACC": accuracy(labels, clusters), "majority_ACC": majority_accuracy(labels, clusters)}


METRIC = accuracies
