"""The most probable cluster of each image: MIX'EM's "max component", and every method with clusters of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import softmax

from evaluation.assigner import Assigner
from evaluation.features import Features, prepare


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    normalise: bool = False  # unit rows


class ArgmaxAssigner(Assigner):
    """Nothing to fit; fitting only finds out whether the features can be read."""

    refuses_new_rows = ""
    confidence_is = "probability of the cluster (of features that are no probabilities, their softmax)"

    def fit(self, features: Features, seed: int) -> None:
        self.predict(features)

    def predict(self, features: Features) -> np.ndarray:
        return prepare(features, self.settings.features, self.settings.normalise).argmax(1).astype(np.int64)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        pass

    def confidence(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings.features, self.settings.normalise).astype(np.float64)
        probable = self.settings.features == "p" and not self.settings.normalise
        return (x if probable else softmax(x, axis=1)).max(1).clip(0, 1)


ASSIGNER = ArgmaxAssigner
