"""SC-Ncut of the deep-clustering papers: normalised cut on a symmetrised nearest-neighbour graph."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.assigner import Assigner, enough_rows, only_fitted_rows
from evaluation.features import Features, prepare
from evaluation.normalised_cut import normalised_cut


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    neighbours: int  # of the graph, the row itself among them
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"


class SpectralAssigner(Assigner):
    """Clusters the rows it is given and knows no others: predicting other rows is refused."""

    refuses_new_rows = "spectral clusters only the rows it was fitted on"

    def fit(self, features: Features, seed: int) -> None:
        self.fitted_on = prepare(features, self.settings.features, self.settings.normalise)
        enough_rows(self.clusters, self.fitted_on)
        self.labels = normalised_cut(self.fitted_on, self.clusters, self.settings.neighbours, seed)

    def predict(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise)
        only_fitted_rows("spectral", x, self.fitted_on)
        return self.labels

    def facts(self) -> dict[str, Any]:
        return {"clusters": self.clusters}


ASSIGNER = SpectralAssigner
