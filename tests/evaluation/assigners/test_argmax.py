import numpy as np

from tests.evaluation.samples import assigner


def test_argmax():
    p = np.array([[0.1, 0.9], [0.8, 0.2]])
    model = assigner("argmax")
    model.fit({"p": p}, seed=0)
    np.testing.assert_array_equal(model.predict({"p": p}), [1, 0])
