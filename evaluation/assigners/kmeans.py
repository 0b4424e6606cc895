"""K-means with restarts on the chosen features, L2-normalised or raw."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.assigner import Assigner
from evaluation.centroids import MARGIN, fit_kmeans, kmeans_state, margins, predict_kmeans, restored_kmeans
from evaluation.features import Features, prepare


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"
    n_init: int = 1  # restarts; the lowest inertia wins
    init: Literal["random", "k-means++"] = "random"
    max_iter: int = 300
    finalists: int | None = None  # restarts that are finished after a race; none: all


class KMeansAssigner(Assigner):
    """The lowest inertia of `n_init` starts; other rows go to the nearest centre."""

    refuses_new_rows = ""
    confidence_is = MARGIN

    def fit(self, features: Features, seed: int) -> None:
        settings = self.settings
        x = prepare(features, settings.features, settings.normalise)
        self.model = fit_kmeans(
            x, self.clusters, seed, settings.n_init, settings.init, settings.max_iter, settings.finalists
        )

    def predict(self, features: Features) -> np.ndarray:
        return predict_kmeans(self.model, prepare(features, self.settings.features, self.settings.normalise))

    def state(self) -> dict[str, np.ndarray]:
        return kmeans_state(self.model)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.model = restored_kmeans(state)

    def confidence(self, features: Features) -> np.ndarray:
        return margins(self.model, prepare(features, self.settings.features, self.settings.normalise))

    def facts(self) -> dict[str, Any]:
        return {"inertia": self.model.inertia, "iterations": self.model.iterations, "clusters": self.clusters}


ASSIGNER = KMeansAssigner
