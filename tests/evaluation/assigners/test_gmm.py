import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs
from sklearn.mixture import GaussianMixture

from tests.evaluation.samples import assigner


def test_of_several_mixtures_the_likeliest_is_kept():
    """EM from one start ends in a worse optimum for some seeds; a restart is never worse than its first start."""
    x, _ = make_blobs(400, 3, centers=9, cluster_std=1.0, random_state=3)

    def fitted(seed, **changes):
        model = assigner("gmm", 9, **changes)
        model.fit({"h": x}, seed)
        return model.facts()["log_likelihood"]

    gains = [fitted(seed, n_init=5) - fitted(seed) for seed in range(5)]
    assert min(gains) >= 0
    assert max(gains) > 0.01


def test_confidence_is_the_posterior_of_the_component():
    x, _ = make_blobs(200, 2, centers=4, cluster_std=3.0, random_state=1)
    model = assigner("gmm")
    model.fit({"h": x}, seed=0)
    rows = x.astype(np.float32).astype(np.float64)
    peer = GaussianMixture(4, random_state=0).fit(rows)
    joint = np.stack([
        weight * multivariate_normal(mean, covariance).pdf(rows)
        for weight, mean, covariance in zip(peer.weights_, peer.means_, peer.covariances_, strict=True)
    ])  # fmt: skip
    assert model.confidence({"h": x}) == pytest.approx((joint / joint.sum(0)).max(0))
