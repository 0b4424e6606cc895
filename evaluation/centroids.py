"""K-means on feature arrays, for all that need it. Torch is imported when the first one runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evaluation.assigner import Assigner, enough_rows
from evaluation.features import Features, prepare

if TYPE_CHECKING:
    from methods.blocks.kmeans import KMeans

BLOCK = 1 << 22  # distances held at a time, in numbers
MARGIN = "margin, 1 - distance to the own centre / distance to the nearest other: 0 half-way between two, 1 at a centre"


def fit_kmeans(
    x: np.ndarray,
    clusters: int,
    seed: int,
    n_init: int = 1,
    init: Literal["random", "k-means++"] | np.ndarray = "random",
    max_iter: int = 300,
    finalists: int | None = None,
) -> "KMeans":
    """K-means of x [N, d] float32 with `n_init` restarts, or from the centres `init` [K, d].

    Raises AssignError for fewer rows than clusters.
    """
    import torch  # two seconds that other assigners need not pay

    from methods.blocks.kmeans import kmeans

    enough_rows(clusters, x)
    return kmeans(
        torch.from_numpy(np.ascontiguousarray(x)),
        clusters,
        n_init=n_init,
        init=torch.from_numpy(init) if isinstance(init, np.ndarray) else init,
        max_iter=max_iter,
        seed=seed,
        finalists=finalists,
    )


def predict_kmeans(model: "KMeans", x: np.ndarray) -> np.ndarray:
    """Nearest centre of each row of x [N, d] -> [N]."""
    import torch

    return model.predict(torch.from_numpy(np.ascontiguousarray(x))).numpy()


def kmeans_state(model: "KMeans") -> dict[str, np.ndarray]:
    """What predicting needs: the centres [K, d]."""
    return {"centres": model.centres.numpy()}


def restored_kmeans(state: Mapping[str, np.ndarray]) -> "KMeans":
    """A K-means that predicts with the centres of a `kmeans_state`; of its fit it knows nothing."""
    import torch

    from methods.blocks.kmeans import KMeans

    nothing = torch.empty(0)
    return KMeans(torch.from_numpy(state["centres"]), nothing.long(), float("nan"), 0, 0, nothing)


def margins(model: "KMeans", x: np.ndarray) -> np.ndarray:
    """1 - d1 / d2 of each row of x [N, d], in 0..1: its distance to its own centre over that to the nearest other one.

    1 where there is one centre only, 0 where a row lies on two.
    """
    centres, ids = model.centres.numpy().astype(np.float64), predict_kmeans(model, x)
    found = np.ones(len(x))
    if len(centres) == 1:
        return found
    size = max(1, BLOCK // len(centres))
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        rows = x[part].astype(np.float64)
        squares = (rows**2).sum(1, keepdims=True) - 2 * rows @ centres.T + (centres**2).sum(1)
        distances = np.sqrt(np.maximum(squares, 0))
        every = np.arange(len(rows))
        own = distances[every, ids[part]].copy()
        distances[every, ids[part]] = np.inf
        other = distances.min(1)
        found[part] = 1 - np.divide(own, other, out=np.ones_like(own), where=other > 0)
    return found.clip(0, 1)  # a centre that is nearest in float32 need not be so in float64


class Centroids(Assigner):
    """What assigners share whose clusters are centres: `fit` sets `model`, other rows go to the nearest one."""

    refuses_new_rows = ""
    confidence_is = MARGIN

    def rows(self, features: Features) -> np.ndarray:
        """The features that are clustered, as the settings say [N, d]."""
        return prepare(features, self.settings.features, self.settings.normalise)

    def predict(self, features: Features) -> np.ndarray:
        return predict_kmeans(self.model, self.rows(features))

    def state(self) -> dict[str, np.ndarray]:
        return kmeans_state(self.model)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.model = restored_kmeans(state)

    def confidence(self, features: Features) -> np.ndarray:
        return margins(self.model, self.rows(features))

    def facts(self) -> dict[str, Any]:
        return {"inertia": self.model.inertia, "iterations": self.model.iterations, "clusters": self.clusters}
