import numpy as np

from tests.evaluation.samples import assigner


def test_sinkhorn_balances_unbalanced_probabilities():
    generator = np.random.default_rng(0)
    p = generator.dirichlet([5, 1, 1, 1], 400)
    model = assigner("sinkhorn_p")
    model.fit({"p": p}, seed=0)
    sizes = np.bincount(model.predict({"p": p}), minlength=4)
    assert np.bincount(p.argmax(1)).max() > 300
    assert sizes.max() < 180
