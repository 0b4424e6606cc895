import numpy as np
import pytest

from tests.evaluation.samples import assigner


def test_argmax():
    p = np.array([[0.1, 0.9], [0.8, 0.2]])
    model = assigner("argmax")
    model.fit({"p": p}, seed=0)
    np.testing.assert_array_equal(model.predict({"p": p}), [1, 0])


def test_confidence_is_the_probability_itself_or_the_softmax_of_what_is_none():
    x = np.array([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25]], np.float32)
    assert assigner("argmax").confidence({"p": x}) == pytest.approx([0.7, 0.5])
    exponentials = np.exp(x.astype(np.float64))
    wanted = (exponentials / exponentials.sum(1, keepdims=True)).max(1)
    assert assigner("argmax", features="h").confidence({"h": x}) == pytest.approx(wanted)
