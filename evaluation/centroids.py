"""K-means on feature arrays, for all that need it. Torch is imported when the first one runs."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from evaluation.assigner import enough_rows

if TYPE_CHECKING:
    from methods.blocks.kmeans import KMeans


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
