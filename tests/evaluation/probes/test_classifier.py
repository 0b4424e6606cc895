import numpy as np

from tests.evaluation.samples import probe


def test_class_probabilities_are_scored_as_they_are():
    p = np.tile(np.arange(7, 0, -1) / 28, (4, 1)).astype(np.float32)  # class 0 first, class 6 last
    found = probe("classifier", p, np.array([0, 4, 5, 6]), range(2), range(4))
    assert (found["ACC"], found["top5"]) == (0.25, 0.5)
