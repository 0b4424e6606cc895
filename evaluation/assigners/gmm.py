"""Gaussian mixture with full covariances."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.assigner import Assigner
from evaluation.features import Features, prepare
from evaluation.mixture import fit_mixture, mixture_state, restored_mixture


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    normalise: bool = False  # unit rows
    clusters: int | Literal["classes"] = "classes"
    n_init: int = 1  # mixtures; the likeliest is kept


class MixtureAssigner(Assigner):
    """One component per cluster; rows go to the component of highest responsibility."""

    refuses_new_rows = ""
    confidence_is = "posterior probability of the component"

    def fit(self, features: Features, seed: int) -> None:
        x = prepare(features, self.settings.features, self.settings.normalise).astype(np.float64)
        self.model = fit_mixture(x, self.clusters, self.settings.n_init, seed)

    def predict(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise).astype(np.float64)
        return self.model.predict(x).astype(np.int64)

    def state(self) -> dict[str, np.ndarray]:
        return mixture_state(self.model)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.model = restored_mixture(state)

    def confidence(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise).astype(np.float64)
        return self.model.predict_proba(x).max(1).clip(0, 1)

    def facts(self) -> dict[str, Any]:
        return {"clusters": self.clusters, "log_likelihood": float(self.model.lower_bound_)}


ASSIGNER = MixtureAssigner
