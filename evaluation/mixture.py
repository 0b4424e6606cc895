"""Gaussian mixture by EM, for the assigners that use one."""

import numpy as np
from sklearn.mixture import GaussianMixture


def fit_mixture(x: np.ndarray, clusters: int, restarts: int, seed: int) -> GaussianMixture:
    """The likeliest of `restarts` mixtures with full covariances on x [N, d] float64."""
    return GaussianMixture(clusters, covariance_type="full", n_init=restarts, random_state=seed).fit(x)
