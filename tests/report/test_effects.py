"""Effects, intervals and verdicts against figures worked out by hand and scipy's own tests."""

import math

import numpy as np
import pytest
from scipy import stats

from report import effects
from report.effects import Bounds, bounds, effect, joined, mean_interval, std_interval, std_ratio_interval

A = {0: 71.0, 1: 74.0, 2: 75.5, 3: 72.5}
B = {0: 68.0, 1: 70.0, 2: 73.5, 3: 70.0}


def judged(claim, first, second=None, better="higher"):
    return effect(claim["kind"], bounds(claim, better), first, second)


def test_a_difference_is_scipys_paired_t():
    found = judged({"kind": "better"}, A, B)
    theirs = stats.ttest_rel(list(A.values()), list(B.values())).confidence_interval(0.95)
    assert (found.n, found.value) == (4, pytest.approx(2.875))
    assert (found.low, found.high) == (pytest.approx(theirs.low), pytest.approx(theirs.high))
    assert found.verdict == "supported"


def test_the_table_of_t_by_hand():
    mean, low, high = mean_interval([1.0, 2.0, 3.0])  # s = 1, t(.975, 2) = 4.303
    assert (mean, low, high) == (
        2.0,
        pytest.approx(2 - 4.3027 / math.sqrt(3), abs=1e-3),
        pytest.approx(4.4842, abs=1e-3),
    )


def test_seeds_are_paired_by_their_number():
    shifted = {3: 70.0, 2: 73.5, 1: 70.0, 7: 0.0}
    found = judged({"kind": "better"}, A, shifted)
    assert (found.n, found.value) == (3, pytest.approx((4.0 + 2.0 + 2.5) / 3))


def test_fewer_than_three_seeds_decide_nothing():
    found = judged({"kind": "better"}, {0: 90.0, 1: 90.1}, {0: 10.0, 1: 10.1})
    assert (found.n, found.verdict, found.note) == (2, "undecided", "fewer than 3 seeds")
    one = judged({"kind": "better"}, {0: 90.0}, {0: 10.0})
    assert (one.value, one.low, one.verdict) == (80.0, None, "undecided")
    assert judged({"kind": "better"}, {0: 90.0}, {1: 10.0}).verdict == "not run"
    assert judged({"kind": "value", "from": 1}, {}).verdict == "not run"


@pytest.mark.parametrize(
    ("claim", "difference", "better", "verdict"),
    [
        ({"kind": "better"}, [1, 1.1, 1.2], "higher", "supported"),
        ({"kind": "better"}, [-1, -1.1, -1.2], "higher", "contradicted"),
        ({"kind": "better"}, [-1, 1.1, 1.2], "higher", "undecided"),
        ({"kind": "better"}, [0, 0, 0], "higher", "undecided"),
        ({"kind": "better"}, [1, 1.1, 1.2], "lower", "contradicted"),
        ({"kind": "better"}, [-1, -1.1, -1.2], "lower", "supported"),
        ({"kind": "better", "by": 2}, [1, 1.1, 1.2], "higher", "contradicted"),
        ({"kind": "better", "by": 2}, [-1, -1.1, -1.2], "lower", "contradicted"),
        ({"kind": "better", "by": 2}, [-3, -3.1, -3.2], "lower", "supported"),
        ({"kind": "not_worse"}, [0, 0, 0], "higher", "supported"),
        ({"kind": "not_worse", "by": 2}, [-1, -1.1, -1.2], "higher", "supported"),
        ({"kind": "not_worse", "by": 1}, [-3, -3.1, -3.2], "higher", "contradicted"),
        ({"kind": "not_worse", "by": 2}, [1, 1.1, 1.2], "lower", "supported"),
        ({"kind": "higher"}, [1, 1.1, 1.2], "lower", "supported"),
        ({"kind": "higher", "by": 2}, [1, 1.1, 1.2], "neither", "contradicted"),
        ({"kind": "lower"}, [-1, -1.1, -1.2], "higher", "supported"),
        ({"kind": "lower", "by": 2}, [-1, -1.1, -1.2], "higher", "contradicted"),
        ({"kind": "unchanged", "within": 2}, [1, 1.1, 1.2], "higher", "supported"),
        ({"kind": "unchanged", "within": 1.1}, [1, 1.1, 1.2], "higher", "undecided"),
        ({"kind": "unchanged", "within": 0.5}, [1, 1.1, 1.2], "higher", "contradicted"),
        ({"kind": "unchanged", "within": 0.5}, [-1, -1.1, -1.2], "higher", "contradicted"),
    ],
)
def test_predicates_of_differences(claim, difference, better, verdict):
    first = {seed: 50.0 + value for seed, value in enumerate(difference)}
    assert judged(claim, first, dict.fromkeys(first, 50.0), better).verdict == verdict


@pytest.mark.parametrize(
    ("claim", "values", "verdict"),
    [
        ({"from": 0.995}, [1.0, 1.0, 1.0], "supported"),
        ({"from": 1.0}, [1.0, 1.0, 1.0], "supported"),
        ({"from": 0.2, "to": 0.4}, [0.30, 0.31, 0.32], "supported"),
        ({"from": 0.2, "to": 0.4}, [0.20, 0.31, 0.32], "undecided"),
        ({"from": 0.2, "to": 0.4}, [0.90, 0.91, 0.92], "contradicted"),
        ({"to": 5}, [7, 7.1, 7.2], "contradicted"),
        ({"to": 5}, [-7, -7.1, -7.2], "supported"),
    ],
)
def test_values(claim, values, verdict):
    assert judged({"kind": "value", **claim}, dict(enumerate(values))).verdict == verdict


def test_a_ratio_is_the_t_interval_of_its_logarithms():
    found = judged({"kind": "ratio", "at_least": 2}, {0: 20.0, 1: 42.0, 2: 9.0}, {0: 5.0, 1: 10.0, 2: 2.0})
    logs = np.log([4, 4.2, 4.5])
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert found.value == pytest.approx(math.exp(logs.mean()))
    assert (found.low, found.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))
    assert found.verdict == "supported"
    assert judged({"kind": "ratio", "at_least": 9}, {0: 4.0, 1: 4.2, 2: 4.5}, dict.fromkeys(range(3), 1.0)).verdict == (
        "contradicted"
    )
    upside_down = judged({"kind": "ratio", "at_most": 1}, {0: 4.0, 1: 4.2, 2: 4.5}, dict.fromkeys(range(3), 1.0))
    assert upside_down.verdict == "contradicted"
    assert (
        judged({"kind": "ratio", "at_least": 2}, {0: 1.0, 1: 1.0, 2: 1.0}, {0: 1.0, 1: 0.0, 2: 1.0}).verdict
        == "undecided"
    )


def test_a_spread_is_a_standard_deviation_with_chi_squared_ends():
    std, low, high = std_interval([1.0, 2.0, 3.0])  # chi2(2): .0506 and 7.3778
    assert (std, low, high) == (1.0, pytest.approx(math.sqrt(2 / 7.3778), abs=1e-4), pytest.approx(6.2847, abs=1e-3))
    values = {0: 1.0, 1: 2.0, 2: 3.0}
    assert judged({"kind": "spread", "at_most": 7}, values).verdict == "supported"
    assert judged({"kind": "spread", "at_most": 2}, values).verdict == "undecided"
    assert judged({"kind": "spread", "at_most": 0.5}, values).verdict == "contradicted"


def test_the_ends_of_a_ratio_of_spreads_are_where_pitmans_test_turns():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=12)
    one, other = 5 * (shared + rng.normal(size=12)), shared + rng.normal(size=12)
    ratio, low, high = std_ratio_interval(list(one), list(other))
    assert ratio == pytest.approx(one.std(ddof=1) / other.std(ddof=1))
    assert low < ratio < high
    for end in (low, high):  # Pitman: no correlation of sum and difference where the ratio is `end`
        assert stats.pearsonr(one + end * other, one - end * other).pvalue == pytest.approx(0.05)
    first, second = dict(enumerate(one)), dict(enumerate(other))
    assert judged({"kind": "spread", "at_most": 0.1}, first, second).verdict == "contradicted"
    assert judged({"kind": "spread", "at_most": 1}, second, first).verdict == "supported"
    assert (
        judged({"kind": "spread", "at_most": 1}, {0: 1.0, 1: 1.0, 2: 1.0}, {0: 1.0, 1: 2.0, 2: 3.0}).verdict
        == "undecided"
    )


@pytest.mark.parametrize(
    ("values", "wanted", "verdict"),
    [
        ([1, 1, 1], True, "supported"),
        ([0, 0, 0], True, "contradicted"),
        ([0, 1, 1], True, "undecided"),
        ([1, 1], True, "undecided"),
        ([0, 0, 0], False, "supported"),
        ([1, 1, 1], False, "contradicted"),
        ([], False, "not run"),
    ],
)
def test_degenerate_runs(values, wanted, verdict):
    found = judged({"kind": "degenerate", "is": wanted}, dict(enumerate(map(float, values))))
    assert found.verdict == verdict
    if len(values) == 3 and sum(values) == 3:
        assert (found.value, found.low, found.high) == (1.0, pytest.approx(0.025 ** (1 / 3)), 1.0)


def test_a_claim_of_several_things_needs_them_all():
    assert joined(["supported", "supported"]) == "supported"
    assert joined(["supported", "undecided"]) == "undecided"
    assert joined(["undecided", "not run"]) == "not run"
    assert joined(["not run", "contradicted", "supported"]) == "contradicted"


def test_bounds_in_words():
    assert [str(Bounds(low=2, strict=True)), str(Bounds(high=2)), str(Bounds(1, 2))] == ["> 2", "<= 2", "1 to 2"]


@pytest.mark.parametrize(
    ("ours", "paper", "band", "verdict"),
    [
        ((50.0, 3.0, 9), (54.0, 4.0, 4), None, "within"),  # 2 SE = 2 sqrt(1 + 4) = 4.47
        ((50.0, 3.0, 9), (54.5, 4.0, 4), None, "below"),
        ((54.5, 4.0, 4), (50.0, 3.0, 9), None, "above"),
        ((50.0, 0.0, 3), (50.0, 0.0, 3), None, "within"),
        ((50.0, 0.0, 3), (50.1, 0.0, 3), None, "below"),
        ((50.0, 3.0, 9), (54.0, 4.0, None), 4.0, "within"),  # the paper's n is not known: the band
        ((50.0, 3.0, 9), (54.0, None, 4), 3.9, "below"),
        ((50.0, None, 1), (54.0, 4.0, 4), None, "no verdict"),
        ((50.0, 3.0, 9), (54.5, 4.0, 4), 10.0, "below"),  # both spreads are known, the band has no say
    ],
)
def test_a_mean_against_the_papers(ours, paper, band, verdict):
    assert effects.against(effects.Sample(*ours), effects.Sample(*paper), band) == verdict
