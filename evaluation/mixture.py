"""Gaussian mixture by EM, for the assigners that use one."""

import numpy as np
from sklearn.mixture import GaussianMixture

from evaluation.assigner import AssignError, enough_rows


def fit_mixture(x: np.ndarray, clusters: int, restarts: int, seed: int) -> GaussianMixture:
    """The likeliest of `restarts` mixtures with full covariances on x [N, d] float64.

    Raises AssignError for fewer rows than clusters, for a single row, and where a covariance has no inverse.
    """
    enough_rows(clusters, x, least=2)
    try:
        return GaussianMixture(clusters, covariance_type="full", n_init=restarts, random_state=seed).fit(x)
    except ValueError as problem:
        raise AssignError(
            f"a mixture of {clusters} Gaussians does not fit {len(x)} rows of {x.shape[1]} values from {x.min():.3g} "
            f"to {x.max():.3g}: a covariance has no inverse"
        ) from problem
