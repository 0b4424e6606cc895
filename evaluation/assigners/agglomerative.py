"""Agglomerative clustering with Ward's linkage."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from evaluation.assigner import Assigner, enough_rows, only_fitted_rows
from evaluation.features import Features, prepare


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"


class AgglomerativeAssigner(Assigner):
    """Clusters the rows it is given and knows no others: predicting other rows is refused."""

    refuses_new_rows = "agglomerative clusters only the rows it was fitted on"

    def fit(self, features: Features, seed: int) -> None:
        self.fitted_on = prepare(features, self.settings.features, self.settings.normalise)
        enough_rows(self.clusters, self.fitted_on, least=2)
        ward = AgglomerativeClustering(self.clusters, linkage="ward")
        self.labels = ward.fit_predict(self.fitted_on).astype(np.int64)

    def predict(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise)
        only_fitted_rows("agglomerative", x, self.fitted_on)
        return self.labels

    def facts(self) -> dict[str, Any]:
        return {"clusters": self.clusters}


ASSIGNER = AgglomerativeAssigner
