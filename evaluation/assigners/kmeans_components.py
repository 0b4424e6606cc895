"""K-means started once from the means of MIX'EM's components (spec: MIX'EM sec. 3.3)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluation.assigner import AssignError
from evaluation.centroids import Centroids, fit_kmeans
from evaluation.features import Features


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z"]
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"
    max_iter: int = 300


class KMeansComponentsAssigner(Centroids):
    """Start m is the mean of the features whose dominant component (argmax of p) is m, not normalised again.

    With more components than clusters the most frequent ones serve; missing starts are filled one after the other by
    the row farthest from all starts so far, which is deterministic (the paper is silent on empty components).
    """

    def fit(self, features: Features, seed: int) -> None:
        x = self.rows(features)
        if "p" not in features:
            raise AssignError("kmeans_components needs component probabilities p, which this method does not give")
        starts = component_centres(x, features["p"].argmax(1), min(self.clusters, len(x)))
        self.model = fit_kmeans(x, self.clusters, seed, init=starts, max_iter=self.settings.max_iter)


def component_centres(x: np.ndarray, dominant: np.ndarray, clusters: int) -> np.ndarray:
    """x [N, d], dominant component [N] -> starting centres [clusters, d]."""
    ids, counts = np.unique(dominant, return_counts=True)
    chosen = ids[np.argsort(-counts, kind="stable")][:clusters]
    centres = [x[dominant == component].mean(0) for component in np.sort(chosen)]
    while len(centres) < clusters:
        distance = np.min([((x - centre) ** 2).sum(1) for centre in centres], axis=0)
        centres.append(x[distance.argmax()])
    return np.asarray(centres, dtype=x.dtype)


ASSIGNER = KMeansComponentsAssigner
