"""Choosing a run without labels: rank correlations, intervals and the chosen run against independent computations."""

import math

import numpy as np
import pytest
from scipy import stats

from report.choice import FEWEST, HELPS, MISLEADS, choice, spearman
from report.effects import UNDECIDED

ACC = dict(enumerate([71.0, 93.0, 80.5, 88.0, 64.0, 97.0, 75.0, 90.0, 84.0, 79.0]))


def by(order):
    """A criterion that orders the seeds so, the best of them last."""
    return {seed: float(place) for place, seed in enumerate(order)}


SORTED = by(sorted(ACC, key=ACC.__getitem__))
REVERSED = by(sorted(ACC, key=ACC.__getitem__, reverse=True))
MIXED = by([5, 0, 3, 8, 1, 9, 2, 7, 4, 6])


@pytest.mark.parametrize(
    "values", [[3.0, 1, 2, 5, 4, 6, 9, 8, 7, 10], [1, 1, 2, 2, 3, 3, 4, 4, 5, 5], [2, 9, 9, 4, 1, 1, 3, 8, 2, 2]]
)
def test_rank_correlation_is_that_of_scipy_ties_included(values):
    other = list(ACC.values())
    assert spearman(np.array(values), np.array(other)).value == pytest.approx(stats.spearmanr(values, other).statistic)


def test_its_interval_is_bonett_and_wrights():
    first, second = np.array([3.0, 1, 2, 5, 4, 6, 9, 8, 7, 10]), np.arange(10.0)
    found = spearman(first, second)
    rho = 1 - 6 * sum((np.argsort(np.argsort(first)) - np.arange(10)) ** 2) / (10 * 99)
    half = 1.959964 * math.sqrt((1 + rho * rho / 2) / 7)
    z = 0.5 * math.log((1 + rho) / (1 - rho))
    ends = [(math.exp(2 * v) - 1) / (math.exp(2 * v) + 1) for v in (z - half, z + half)]
    assert [found.value, found.low, found.high] == pytest.approx([rho, *ends], abs=1e-6)


def test_a_perfect_order_has_an_interval_that_is_not_certain():
    found = spearman(np.arange(10.0), np.arange(10.0))
    assert found.value == pytest.approx(1)
    assert 0.9 < found.low < 0.99 < found.high < 1
    turned = spearman(np.arange(10.0), -np.arange(10.0))
    assert [turned.value, turned.low, turned.high] == pytest.approx([-found.value, -found.high, -found.low])


@pytest.mark.parametrize(("n", "numbers"), [(1, 0), (2, 0), (3, 1), (4, 3)])
def test_few_runs_have_no_interval_or_no_correlation(n, numbers):
    found = spearman(np.arange(float(n)), np.array([2.0, 1, 3, 4])[:n])
    assert sum(not math.isnan(value) for value in (found.value, found.low, found.high)) == numbers


def test_the_chosen_run_stands_beside_mean_and_best():
    made = choice(MIXED, ACC)
    assert [made.n, made.seed, made.chosen.value, made.best.value] == [10, 6, 75.0, 97.0]
    mean = np.mean(list(ACC.values()))
    assert [made.mean.value, made.gain.value] == pytest.approx([mean, 75.0 - mean])
    low, high = stats.t.interval(0.95, 9, mean, stats.sem(list(ACC.values())))
    assert [made.mean.low, made.mean.high] == pytest.approx([low, high])


def test_intervals_of_the_choice_are_those_of_resampled_seeds():
    made, seeds, draw = choice(MIXED, ACC), sorted(ACC), np.random.default_rng(7)
    gains, chosen, best = [], [], []
    for _ in range(3000):
        drawn = [seeds[place] for place in draw.integers(0, 10, 10)]
        named = max(drawn, key=MIXED.__getitem__)
        chosen.append(ACC[named])
        best.append(max(ACC[seed] for seed in drawn))
        gains.append(ACC[named] - sum(ACC[seed] for seed in drawn) / 10)
    for found, values in ((made.chosen, chosen), (made.best, best), (made.gain, gains)):
        assert [found.low, found.high] == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.8)


@pytest.mark.parametrize(("criterion", "verdict"), [(SORTED, HELPS), (REVERSED, MISLEADS), (MIXED, UNDECIDED)])
def test_the_whole_interval_decides(criterion, verdict):
    assert choice(criterion, ACC).verdict == verdict


def test_too_few_seeds_decide_nothing_however_clear():
    held = {seed: ACC[seed] for seed in range(FEWEST - 1)}
    assert choice({seed: ACC[seed] for seed in range(FEWEST)}, ACC).verdict == HELPS
    made = choice(held, held)
    assert made.verdict == UNDECIDED
    assert made.spearman.low > 0.9


def test_only_seeds_with_both_numbers_count_and_their_order_does_not():
    made = choice(MIXED | {77: 99.0}, {**ACC, 78: 100.0})
    assert made == choice(dict(reversed(MIXED.items())), dict(reversed(ACC.items()))) == choice(MIXED, ACC)
    assert choice({1: 2.0}, {3: 80.0}) is None
    assert choice({}, {}) is None


def test_a_constant_criterion_says_nothing_and_takes_the_first_seed():
    made = choice(dict.fromkeys(ACC, 0.5), ACC)
    assert math.isnan(made.spearman.value)
    assert made.verdict == UNDECIDED
    assert made.seed == 0


def test_one_run_is_its_own_choice():
    made = choice({4: 1.0}, {4: 80.0})
    assert [made.chosen.value, made.gain.value, made.verdict] == [80.0, 0.0, UNDECIDED]
    assert all(math.isnan(value) for value in (made.chosen.low, made.gain.high, made.mean.low))
