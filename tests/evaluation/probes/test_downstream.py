import numpy as np
import pytest

from evaluation.probe import ProbeError
from evaluation.probes.downstream import classifiers
from tests.evaluation.samples import blobs, probe


@pytest.mark.parametrize("era", ["current", "0.21"])
def test_four_classifiers_on_an_embedding(era):
    x, y = blobs(rows=150)
    found = probe("downstream", x, y, era=era, splits=2)
    assert all(found[name] > 0.95 for name in ("MLP", "RFC", "SVM", "LR"))
    assert found == probe("downstream", x, y, era=era, splits=2)
    noise = probe("downstream", np.random.default_rng(0).normal(size=x.shape), y, era=era, splits=2)
    assert all(noise[name] < 0.6 for name in ("MLP", "RFC", "SVM", "LR"))


def test_eras_differ_where_the_defaults_did():
    now, then = classifiers("current", 0), classifiers("0.21", 0)
    assert (now["RFC"].n_estimators, then["RFC"].n_estimators) == (100, 10)
    assert (now["SVM"].gamma, then["SVM"].gamma) == ("scale", "auto")
    assert then["LR"].estimator.solver == "liblinear"


def test_too_few_rows_are_refused():
    x, y = blobs(rows=16)
    with pytest.raises(ProbeError, match="16 rows of 4 classes are too few"):
        probe("downstream", x, y, splits=1)
