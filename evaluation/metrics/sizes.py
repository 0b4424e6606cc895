"""Sizes of clusters. `degenerate`: the clusters are effectively fewer than half the classes.

Accuracy alone can look fine for a collapsed model.
"""

from typing import Any

import numpy as np


def sizes(labels: np.ndarray, clusters: np.ndarray) -> dict[str, Any]:
    occupied = np.bincount(np.unique(clusters, return_inverse=True)[1])
    classes = np.bincount(np.unique(labels, return_inverse=True)[1])
    size_entropy = _entropy(occupied)
    return {
        "occupied_clusters": len(occupied),
        "largest_share": float(occupied.max() / len(labels)),
        "size_entropy": size_entropy,
        "degenerate": bool(np.exp(size_entropy) < np.exp(_entropy(classes)) / 2),
        "n": len(labels),
    }


def _entropy(counts: np.ndarray) -> float:
    """Entropy in nats of the distribution that `counts` > 0 describe."""
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


METRIC = sizes
