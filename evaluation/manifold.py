"""UMAP with N2D's settings, for the assigners that cluster an embedding of the features."""

from typing import Any

import numpy as np

from evaluation.assigner import AssignError

# Measured: the same row embedded alone and among others lies in other places, since their samples are drawn together.
MOVES = "where UMAP puts a new row depends on the rows that come with it, and its fitted state is no plain arrays"


def fit_manifold(x: np.ndarray, dimensions: int, neighbours: int, seed: int) -> tuple[Any, np.ndarray]:
    """(fitted UMAP, embedding [N, dimensions] float64) of x [N, d]; no minimum distance.

    A fixed seed makes it single-threaded. Raises AssignError for fewer than `dimensions` + 2 rows, of whose graph UMAP
    cannot take so many eigenvectors, and for values that it cannot embed.
    """
    if len(x) < dimensions + 2:
        raise AssignError(
            f"{len(x)} rows are too few for UMAP in {dimensions} dimensions, one for each cluster: {dimensions + 2} "
            "are needed"
        )
    from umap import UMAP  # numba: ten seconds that other assigners need not pay

    manifold = UMAP(
        n_components=dimensions,
        n_neighbors=min(neighbours, len(x) - 1),
        min_dist=0.0,
        random_state=seed,
        n_jobs=1,
    )
    try:
        return manifold, manifold.fit_transform(x).astype(np.float64)
    except ValueError as problem:
        raise AssignError(
            f"UMAP finds no embedding of {len(x)} rows with values from {x.min():.3g} to {x.max():.3g}"
        ) from problem
