"""The most probable cluster of each image: MIX'EM's "max component", and every method with clusters of its own."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluation.assigner import Assigner
from evaluation.features import Features, prepare


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p"]
    normalise: bool = False  # unit rows


class ArgmaxAssigner(Assigner):
    """Nothing to fit; fitting only finds out whether the features can be read."""

    def fit(self, features: Features, seed: int) -> None:
        self.predict(features)

    def predict(self, features: Features) -> np.ndarray:
        return prepare(features, self.settings.features, self.settings.normalise).argmax(1).astype(np.int64)


ASSIGNER = ArgmaxAssigner
