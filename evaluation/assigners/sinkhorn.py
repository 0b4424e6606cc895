"""Balanced assignment: every cluster takes about N/K of the fitted rows (Sinkhorn-Knopp, as SwAV and CDC balance)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp, softmax

from evaluation.assigner import Assigner
from evaluation.centroids import fit_kmeans
from evaluation.features import Features, prepare


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    epsilon: float  # scores are divided by it
    iterations: int
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"
    n_init: int = 1  # restarts of the K-means that finds prototypes
    finalists: int | None = None


class SinkhornAssigner(Assigner):
    """Scores are log-probabilities (`features: p`), or cosine similarities with K-means centres as prototypes.

    Fitting finds the scaling of the clusters; unseen rows are assigned with that scaling.
    """

    refuses_new_rows = ""
    confidence_is = "probability of the cluster in the balanced assignment"

    def fit(self, features: Features, seed: int) -> None:
        settings = self.settings
        x = prepare(features, settings.features, settings.normalise)
        self.prototypes: np.ndarray | None = None
        if settings.features != "p":
            model = fit_kmeans(x, self.clusters, seed, settings.n_init, finalists=settings.finalists)
            prototypes = model.centres.numpy()
            self.prototypes = prototypes / np.maximum(np.linalg.norm(prototypes, axis=1, keepdims=True), 1e-12)
        logits = self._scores(x)
        scale = np.zeros(logits.shape[1])
        for _ in range(settings.iterations):
            rows = logsumexp(logits + scale, axis=1, keepdims=True)
            scale -= logsumexp(logits + scale - rows, axis=0) - np.log(len(x) / logits.shape[1])
        self.scale = scale

    def predict(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise)
        return (self._scores(x) + self.scale).argmax(1).astype(np.int64)

    def state(self) -> dict[str, np.ndarray]:
        prototypes = {} if self.prototypes is None else {"prototypes": self.prototypes}
        return {"scale": self.scale, **prototypes}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.scale, self.prototypes = state["scale"], state.get("prototypes")

    def confidence(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise)
        return softmax(self._scores(x) + self.scale, axis=1).max(1)

    def facts(self) -> dict[str, Any]:
        return {"clusters": len(self.scale)}

    def _scores(self, x: np.ndarray) -> np.ndarray:
        """Features or probabilities [N, d] -> scores [N, K] in float64."""
        x = x.astype(np.float64)
        scores = np.log(np.maximum(x, 1e-30)) if self.prototypes is None else x @ self.prototypes.T
        return scores / self.settings.epsilon


ASSIGNER = SinkhornAssigner
