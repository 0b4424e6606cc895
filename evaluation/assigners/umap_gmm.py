"""N2D: a Gaussian mixture on the UMAP embedding of the features (arXiv 1908.05968)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.assigner import Assigner, enough_rows
from evaluation.features import Features, prepare
from evaluation.manifold import MOVES, fit_manifold
from evaluation.mixture import fit_mixture


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    umap_neighbours: int
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"
    n_init: int = 1  # mixtures; the likeliest is kept


class ManifoldMixtureAssigner(Assigner):
    """UMAP to as many dimensions as clusters, then a mixture with full covariances."""

    refuses_new_rows = MOVES

    def fit(self, features: Features, seed: int) -> None:
        x = prepare(features, self.settings.features, self.settings.normalise).astype(np.float64)
        enough_rows(self.clusters, x)
        self.manifold, plane = fit_manifold(x, self.clusters, self.settings.umap_neighbours, seed)
        self.model = fit_mixture(plane, self.clusters, self.settings.n_init, seed)

    def predict(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise).astype(np.float64)
        return self.model.predict(self.manifold.transform(x).astype(np.float64)).astype(np.int64)

    def facts(self) -> dict[str, Any]:
        return {"clusters": self.clusters, "log_likelihood": float(self.model.lower_bound_)}


ASSIGNER = ManifoldMixtureAssigner
