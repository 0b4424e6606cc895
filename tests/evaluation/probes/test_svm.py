import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.svm import LinearSVC

from evaluation import svm
from evaluation.probe import ProbeError
from evaluation.probes.low_shot_svm import GOYAL_COSTS
from evaluation.svm import interpolated_ap, one_against_rest, scaled
from tests.evaluation.samples import probe


def by_loops(present, scores):
    """VOC's definition: at each new positive the best precision at this recall or any higher one."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    precisions, hits = [], 0
    for place, i in enumerate(order, 1):
        hits += bool(present[i])
        if present[i]:
            precisions.append(hits / place)
    return sum(max(precisions[i:]) for i in range(len(precisions))) / len(precisions)


@pytest.mark.parametrize("seed", range(5))
def test_interpolated_ap(seed):
    generator = np.random.default_rng(seed)
    present, scores = generator.random(60) < 0.3, generator.normal(size=60)
    found = interpolated_ap(present, scores)
    assert found == pytest.approx(by_loops(present, scores), abs=1e-12)
    # Without the interpolation it is scikit-learn's average precision, which it never falls below.
    precision, recall, _ = precision_recall_curve(present, scores)
    assert average_precision_score(present, scores) == pytest.approx((precision[:-1] * -np.diff(recall)).sum())
    assert found >= average_precision_score(present, scores) - 1e-12


def test_ap_of_ties_does_not_depend_on_their_order():
    present = np.array([True, False, True, False])
    assert interpolated_ap(present, np.zeros(4)) == 0.5
    assert interpolated_ap(present[::-1], np.zeros(4)) == 0.5
    assert np.isnan(interpolated_ap(np.zeros(4, bool), np.arange(4)))


def objects(rows, seed):
    """Images with several objects, one direction per class; a fifth of the objects that are there is difficult."""
    generator = np.random.default_rng(seed)
    there = generator.random((rows, 4)) < 0.3
    x = there @ (4 * np.eye(4, 12)) + 0.5 * generator.normal(size=(rows, 12)) + 0.3
    return x.astype(np.float32), np.where(there, np.where(generator.random((rows, 4)) < 0.2, 0, 1), -1)


def machines(name, train, test, seed=0, **changes):
    """A probe on training and test objects that lie one after the other."""
    x, y = (np.concatenate(parts) for parts in zip(train, test, strict=True))
    count = len(train[0])
    return probe(name, x, y, range(count), range(count, len(x)), seed, **changes)


def test_difficult_objects_count_as_absent_or_not_at_all():
    train, test = objects(300, 0), objects(200, 1)
    dropped = machines("voc07_svm", train, test, difficult="drop")["mAP"]
    negative = machines("voc07_svm", train, test)["mAP"]
    assert dropped > 0.98
    assert negative < dropped - 0.05  # objects that are there but count as absent cost precision


def test_classes_that_are_nowhere_absent_have_no_precision():
    x, y = objects(40, 0)
    with pytest.raises(ProbeError, match="no class is both present and absent in 40 training rows"):
        machines("voc07_svm", (x, np.ones_like(y)), objects(20, 1))


@pytest.mark.parametrize("name", ["lowshot_svm", "lowshot_svm_goyal", "lowshot_svm_goyal_code"])
def test_more_shots_help_and_draws_repeat(name):
    changes = {"shots": [1, 8], "draws": 3} | ({"negatives": 60} if "goyal" in name else {})
    train, test = objects(150, 0), objects(150, 1)
    found = machines(name, train, test, 3, **changes)
    assert found["mAP@8"] > found["mAP@1"] > 0.25
    assert found["mAP@1_std"] > 0  # every draw has images of its own
    assert found["mAP@8_std"] < 0.2
    assert found == machines(name, train, test, 3, **changes)
    assert found.get("selected_on_test", False) == name.endswith("_code")


def test_a_positive_weighs_as_two_rows():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(80, 5)).astype(np.float32)
    present = x[:, 0] + generator.normal(size=80) > 0.8
    twice = LinearSVC(C=0.7, dual=True, tol=1e-8, max_iter=100_000, random_state=0)
    twice.fit(np.concatenate([x, x[present]]), np.concatenate([present, present[present]]))
    np.testing.assert_allclose(svm.fitted(x, present, 0.7, 0).coef_, twice.coef_, rtol=0.02, atol=2e-3)


def test_goyals_costs_are_chosen_without_test_labels():
    changes = {"shots": [2], "draws": 1, "negatives": 40}
    (x, y), (x_test, y_test) = objects(120, 0), objects(100, 1)
    honest = machines("lowshot_svm_goyal", (x, y), (x_test, y_test), **changes)
    # The order of precision of all costs on the test set plays no part: a test set of two rows fits the same machines.
    few = machines("lowshot_svm_goyal", (x, y), (x_test[:2], y_test[:2]), **changes)
    assert honest["selection"] == few["selection"]
    assert honest["selection"] == "cost by mean AP on a fifth of the training images, which no machine is fitted on"
    assert honest["trained_on"] == 96
    assert not honest["selected_on_test"]
    assert len(GOYAL_COSTS) == 26


@pytest.mark.parametrize("negatives", [40, 19000])
def test_no_machine_of_goyals_has_seen_the_rows_that_choose_its_cost(monkeypatch, negatives):
    """A machine that records what it is fitted on and what it is asked."""
    (x, y), (x_test, y_test) = objects(120, 0), objects(100, 1)
    known = {row.tobytes(): number for number, row in enumerate(scaled((np.concatenate([x, x_test]), y))[0])}
    numbers = lambda rows: {known[row.tobytes()] for row in np.ascontiguousarray(rows)}  # noqa: E731
    seen = []

    class Recorder:
        def __init__(self, rows):
            self.fitted_on = numbers(rows)

        def decision_function(self, rows):
            seen.append((self.fitted_on, numbers(rows)))
            return rows[:, 0]

    monkeypatch.setattr(svm, "fitted", lambda rows, *_: Recorder(rows))
    machines("lowshot_svm_goyal", (x, y), (x_test, y_test), shots=[2, 8], draws=2, negatives=negatives)
    chose = [asked for _, asked in seen if max(asked) < 120]
    assert len(chose) == 2 * 2 * 4 * len(GOYAL_COSTS)  # of each draw, class and cost
    for fitted_on, asked in seen:
        assert not fitted_on & asked
        assert max(fitted_on) < 120
    every = set.union(*(fitted_on for fitted_on, _ in seen))
    assert not every & set.union(*chose)  # nor has any other machine, of any draw
    assert len(every | set.union(*chose)) <= 120
    assert len(set.union(*chose)) <= 24
    if negatives == 19000:
        assert len(every) == 96  # all others are used


def test_goyals_costs_need_rows_that_choose_and_classes_in_them():
    (x, y), test = objects(4, 0), objects(20, 1)
    with pytest.raises(ProbeError, match="4 training rows: a fifth of them chooses the cost, so 5 are needed"):
        machines("lowshot_svm_goyal", (x, y), test, shots=[1], draws=1)
    x, y = objects(30, 0)
    with pytest.raises(ProbeError, match="no class is present in the 6 rows that choose the cost"):
        machines("lowshot_svm_goyal", (x, -np.ones_like(y)), test, shots=[1], draws=1)


def test_single_labels_become_one_against_rest():
    np.testing.assert_array_equal(one_against_rest(np.array([0, 2])), [[1, -1, -1], [-1, -1, 1]])
