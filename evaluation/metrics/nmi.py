"""Normalised mutual information; each name says which average of the entropies it is divided by (NMI: arithmetic)."""

import numpy as np
from sklearn.metrics import mutual_info_score, normalized_mutual_info_score


def nmi(labels: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
    return {
        "NMI": float(normalized_mutual_info_score(labels, clusters, average_method="arithmetic")),
        "NMI_geometric": float(normalized_mutual_info_score(labels, clusters, average_method="geometric")),
        "NMI_max": float(normalized_mutual_info_score(labels, clusters, average_method="max")),
        "mutual_information": float(mutual_info_score(labels, clusters)),  # in nats
    }


METRIC = nmi
