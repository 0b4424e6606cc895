import numpy as np
import pytest

from tests.evaluation.samples import assigner


def test_sinkhorn_balances_unbalanced_probabilities():
    generator = np.random.default_rng(0)
    p = generator.dirichlet([5, 1, 1, 1], 400)
    model = assigner("sinkhorn_p")
    model.fit({"p": p}, seed=0)
    sizes = np.bincount(model.predict({"p": p}), minlength=4)
    assert np.bincount(p.argmax(1)).max() > 300
    assert sizes.max() < 180


def test_confidence_is_the_share_of_the_cluster_in_the_balanced_assignment():
    p = np.random.default_rng(0).dirichlet([3, 1, 1], 60)
    model = assigner("sinkhorn_p", 3, epsilon=0.5)
    model.fit({"p": p}, seed=0)
    weights = p.astype(np.float32).astype(np.float64) ** 2 * np.exp(model.state()["scale"])
    np.testing.assert_allclose((weights / weights.sum(1, keepdims=True)).sum(0), [20] * 3, rtol=1e-3)  # balanced
    assert model.confidence({"p": p}) == pytest.approx((weights / weights.sum(1, keepdims=True)).max(1))
