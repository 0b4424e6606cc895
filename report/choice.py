"""The statistics of choosing one run among seeds without labels: does a criterion order runs as their accuracy does,
and what does the run that it names gain over the mean?

Everything is turned so that more of a criterion is better before it gets here. The interval of a rank correlation is
that of Bonett and Wright (2000, Psychometrika 65): Fisher's z with the standard error sqrt((1 + r^2 / 2) / (n - 3)).
Those of the chosen run, of the best and of the gain are percentiles over resampled seeds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from report.effects import LEVEL, UNDECIDED, mean_interval

HELPS, MISLEADS = "helps", "misleads"
FEWEST = 10  # runs below which no criterion is judged
RESAMPLED = 4000
Values = Mapping[int, float]  # seed -> value


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its 95 % interval; NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Choice:
    """What a criterion says of `n` runs: its rank correlation with accuracy, the run that it names, and how that run
    stands beside the mean and the best of them.
    """

    n: int
    seed: int
    spearman: Estimate
    mean: Estimate
    best: Estimate
    chosen: Estimate
    gain: Estimate  # of the chosen run over the mean

    @property
    def verdict(self) -> str:
        """ "helps" where the whole interval of the rank correlation lies above 0, "misleads" where it lies below."""
        if self.n < FEWEST or math.isnan(self.spearman.low):
            return UNDECIDED
        if self.spearman.low > 0:
            return HELPS
        return MISLEADS if self.spearman.high < 0 else UNDECIDED


def choice(criterion: Values, accuracy: Values) -> Choice | None:
    """The choice by a criterion, more being better, of the seeds that have both numbers; None where none has.

    Of runs that the criterion holds alike the one with the lowest seed is chosen.
    """
    seeds = sorted(set(criterion) & set(accuracy))
    if not seeds:
        return None
    by = np.array([criterion[seed] for seed in seeds])
    reached = np.array([accuracy[seed] for seed in seeds])
    named = int(by.argmax())
    mean = Estimate(*mean_interval(reached.tolist()))
    drawn = _resampled(len(seeds))
    of_draw = reached[drawn]
    chosen = reached[drawn[np.arange(len(drawn)), by[drawn].argmax(1)]]
    return Choice(
        len(seeds),
        seeds[named],
        spearman(by, reached),
        mean,
        _percentiles(float(reached.max()), of_draw.max(1), len(seeds)),
        _percentiles(float(reached[named]), chosen, len(seeds)),
        _percentiles(float(reached[named]) - mean.value, chosen - of_draw.mean(1), len(seeds)),
    )


def spearman(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Rank correlation of two float arrays [n], ties at their mean rank; NaN below three values or where one is
    constant. Below four values it has no interval.
    """
    from scipy.stats import norm, rankdata

    n = len(first)
    if n < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return Estimate(math.nan)
    value = float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])
    if n < 4:
        return Estimate(value)
    # A perfect order has no finite z: it counts as half an exchange of neighbours short of it.
    most = 1 - 6 / (n * (n * n - 1))
    held = min(max(value, -most), most)
    half = float(norm.ppf((1 + LEVEL) / 2)) * math.sqrt((1 + held**2 / 2) / (n - 3))
    return Estimate(value, math.tanh(math.atanh(held) - half), math.tanh(math.atanh(held) + half))


def _resampled(n: int) -> np.ndarray:
    """Positions [RESAMPLED, n] drawn with replacement, each draw sorted so that ties go to the lowest seed; always the
    same.
    """
    return np.sort(np.random.default_rng(0).integers(0, n, (RESAMPLED, n)), axis=1)


def _percentiles(value: float, drawn: np.ndarray, n: int) -> Estimate:
    if n < 2:
        return Estimate(value)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))
