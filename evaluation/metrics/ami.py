"""Mutual information adjusted for chance; each name says which average of the entropies it uses (AMI: arithmetic)."""

import numpy as np
from sklearn.metrics import adjusted_mutual_info_score


def ami(labels: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
    return {
        "AMI": float(adjusted_mutual_info_score(labels, clusters, average_method="arithmetic")),
        "AMI_max": float(adjusted_mutual_info_score(labels, clusters, average_method="max")),
    }


METRIC = ami
