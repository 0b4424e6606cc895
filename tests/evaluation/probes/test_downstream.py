import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from evaluation.probe import ProbeError, stratified
from evaluation.probes.downstream import classifiers
from tests.evaluation.samples import blobs, probe


@pytest.mark.parametrize("sklearn_defaults", ["current", "0.21"])
def test_four_classifiers_on_an_embedding(sklearn_defaults):
    x, y = blobs(rows=150)
    found = probe("downstream", x, y, sklearn_defaults=sklearn_defaults, splits=2)
    assert all(found[name] > 0.95 for name in ("MLP", "RFC", "SVM", "LR"))
    assert found == probe("downstream", x, y, sklearn_defaults=sklearn_defaults, splits=2)
    noise = probe(
        "downstream", np.random.default_rng(0).normal(size=x.shape), y, sklearn_defaults=sklearn_defaults, splits=2
    )
    assert all(noise[name] < 0.6 for name in ("MLP", "RFC", "SVM", "LR"))


def test_eras_differ_where_the_defaults_did():
    now, then = classifiers("current", 0), classifiers("0.21", 0)
    assert (now["RFC"].n_estimators, then["RFC"].n_estimators) == (100, 10)
    assert (now["SVM"].gamma, then["SVM"].gamma) == ("scale", "auto")
    assert then["LR"].estimator.solver == "liblinear"


def test_too_few_rows_are_refused():
    x, y = blobs(rows=15)
    with pytest.raises(ProbeError, match="15 rows of 4 classes are too few: a hold-out of 3 and the other 12"):
        probe("downstream", x, y, splits=1)
    y = np.minimum(y, 2)
    y[y == 1] = np.array([1, *[0] * ((y == 1).sum() - 1)])
    with pytest.raises(ProbeError, match="class 1 has 1 row: a hold-out with every class needs 2"):
        probe("downstream", x, y, splits=1)
    with pytest.raises(ProbeError, match=r"one class only \(0\) in 15 rows"):
        probe("downstream", x, np.zeros(15, dtype=int), splits=1)


def test_splits_are_scikit_learns():
    """Rows [n] or labels of several classes: the same hold-out as its own function draws."""
    _, y = blobs(rows=57)
    several = np.stack([y % 2, y // 2], 1)
    for labels in (y, several):
        kept, held = stratified(labels, 0.2, seed=3)
        expected = train_test_split(np.arange(57), test_size=0.2, stratify=labels, random_state=3)
        np.testing.assert_array_equal(kept, expected[0])
        np.testing.assert_array_equal(held, expected[1])
    several[0] = 7
    with pytest.raises(ProbeError, match="a combination of labels has 1 row: a hold-out"):
        stratified(several, 0.2, seed=3)
    with pytest.raises(ProbeError, match=r"class 8 has 1 row \(and 1 more\): "):
        stratified(np.array([1, 1, 8, 9]), 0.2, seed=3)
    with pytest.raises(ProbeError, match="0 rows of 0 classes are too few"):
        stratified(np.array([], dtype=int), 0.2, seed=3)
