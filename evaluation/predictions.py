"""Scores of predicted classes, the same for every probe that predicts one class per image."""

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score


def prediction_scores(labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Top-1 accuracy, and NMI and ARI of the predictions [n] read as clusters (MIX'EM Table 2, first row)."""
    return {
        "ACC": float((labels == predicted).mean()),
        "NMI": float(normalized_mutual_info_score(labels, predicted, average_method="arithmetic")),
        "ARI": float(adjusted_rand_score(labels, predicted)),
        "n": len(labels),
    }
