"""Adjusted Rand index."""

import numpy as np
from sklearn.metrics import adjusted_rand_score


def ari(labels: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
    return {"ARI": float(adjusted_rand_score(labels, clusters))}


METRIC = ari
