"""N2D's variant with K-means in place of the mixture."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.assigner import Assigner, enough_rows
from evaluation.centroids import fit_kmeans, predict_kmeans
from evaluation.features import Features, prepare
from evaluation.manifold import MOVES, fit_manifold


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    umap_neighbours: int
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"
    n_init: int = 1
    init: Literal["random", "k-means++"] = "random"
    finalists: int | None = None


class ManifoldKMeansAssigner(Assigner):
    """UMAP to as many dimensions as clusters, then K-means."""

    refuses_new_rows = MOVES

    def fit(self, features: Features, seed: int) -> None:
        settings = self.settings
        x = prepare(features, settings.features, settings.normalise).astype(np.float64)
        enough_rows(self.clusters, x)
        self.manifold, plane = fit_manifold(x, self.clusters, settings.umap_neighbours, seed)
        self.model = fit_kmeans(
            plane.astype(np.float32), self.clusters, seed, settings.n_init, settings.init, finalists=settings.finalists
        )

    def predict(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise).astype(np.float64)
        plane = self.manifold.transform(x).astype(np.float64)
        return predict_kmeans(self.model, plane.astype(np.float32))

    def facts(self) -> dict[str, Any]:
        return {"clusters": self.clusters}


ASSIGNER = ManifoldKMeansAssigner
