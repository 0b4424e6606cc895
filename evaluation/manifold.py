"""UMAP with N2D's settings, for the assigners that cluster an embedding of the features."""

from typing import Any

import numpy as np


def fit_manifold(x: np.ndarray, dimensions: int, neighbours: int, seed: int) -> tuple[Any, np.ndarray]:
    """(fitted UMAP, embedding [N, dimensions] float64) of x [N, d]; no minimum distance.

    A fixed seed makes it single-threaded.
    """
    from umap import UMAP  # numba: ten seconds that other assigners need not pay

    manifold = UMAP(
        n_components=dimensions,
        n_neighbors=min(neighbours, len(x) - 1),
        min_dist=0.0,
        random_state=seed,
        n_jobs=1,
    )
    return manifold, manifold.fit_transform(x).astype(np.float64)
