"""K-means with restarts on the chosen features, L2-normalised or raw."""

from dataclasses import dataclass
from typing import Literal

from evaluation.centroids import Centroids, fit_kmeans
from evaluation.features import Features


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"
    n_init: int = 1  # restarts; the lowest inertia wins
    init: Literal["random", "k-means++"] = "random"
    max_iter: int = 300
    finalists: int | None = None  # restarts that are finished after a race; none: all


class KMeansAssigner(Centroids):
    """The lowest inertia of `n_init` starts; other rows go to the nearest centre."""

    def fit(self, features: Features, seed: int) -> None:
        x, settings = self.rows(features), self.settings
        self.model = fit_kmeans(
            x, self.clusters, seed, settings.n_init, settings.init, settings.max_iter, settings.finalists
        )


ASSIGNER = KMeansAssigner
