"""Gaussian mixture by EM, for the assigners that use one."""

from collections.abc import Mapping

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


STATE = ("weights_", "means_", "precisions_cholesky_")  # all that scikit-learn's mixture predicts with


def mixture_state(model: GaussianMixture) -> dict[str, np.ndarray]:
    """Weights [K], means [K, d] and Cholesky factors of the precisions [K, d, d]."""
    return {name.rstrip("_"): getattr(model, name) for name in STATE}


def restored_mixture(state: Mapping[str, np.ndarray]) -> GaussianMixture:
    """A mixture that predicts with a `mixture_state`."""
    model = GaussianMixture(len(state["weights"]), covariance_type="full")
    for name in STATE:
        setattr(model, name, state[name.rstrip("_")])
    return model
