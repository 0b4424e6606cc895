"""The statistics of claims: figures of runs by seed -> effect, 95 % interval and verdict.

Every predicate says between which bounds its effect lies where it is true. Supported: the whole interval lies between
them. Contradicted: none of it does. Undecided: all else, and whatever has fewer than three seeds. The interval is
that of a paired t over seeds (differences, or logarithms of ratios), of Student's t for a value, of chi-squared for a
standard deviation, and of Morgan and Pitman for the ratio of two that share their seeds.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SUPPORTED, CONTRADICTED, UNDECIDED, NOT_RUN = "supported", "contradicted", "undecided", "not run"
WITHIN, ABOVE, BELOW, NO_VERDICT = "within", "above", "below", "no verdict"  # of a cell against the paper's
FEWEST = 3  # seeds below which nothing is decided
LEVEL = 0.95
Values = Mapping[int, float]  # seed -> value


@dataclass(frozen=True)
class Bounds:
    """Where an effect lies if the claim is true; `strict`: an effect on a bound does not do."""

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False

    def verdict(self, low: float, high: float) -> str:
        """The verdict of an interval from `low` to `high`."""
        if math.isnan(low) or math.isnan(high):
            return UNDECIDED
        inside = self.low < low and high < self.high if self.strict else self.low <= low and high <= self.high
        if inside:
            return SUPPORTED
        return CONTRADICTED if high < self.low or low > self.high else UNDECIDED

    def __str__(self) -> str:
        less = "<" if self.strict else "<="
        if math.isinf(self.low):
            return f"{less} {self.high:g}"
        if math.isinf(self.high):
            return f"{less.replace('<', '>')} {self.low:g}"
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Effect:
    """An effect with its interval (None where there are too few values), of `n` seeds, and what it says."""

    n: int
    value: float | None
    low: float | None
    high: float | None
    verdict: str
    note: str = ""


def bounds(claim: Mapping[str, Any], better: str) -> Bounds:
    """The bounds of the effect of a claim. `better`: which end of the metric wins, "higher" or "lower"."""
    kind, by = claim["kind"], claim.get("by", 0.0)
    if kind in ("better", "not_worse"):
        margin, strict = (by, True) if kind == "better" else (-by, False)
        return Bounds(low=margin, strict=strict) if better == "higher" else Bounds(high=0.0 - margin, strict=strict)
    if kind == "higher":
        return Bounds(low=by, strict=True)
    if kind == "lower":
        return Bounds(high=0.0 - by, strict=True)
    if kind == "unchanged":
        return Bounds(-claim["within"], claim["within"])
    if kind == "degenerate":
        return Bounds(low=1.0) if claim["is"] else Bounds(high=0.0)
    low, high = claim.get("at_least", claim.get("from")), claim.get("at_most", claim.get("to"))
    return Bounds(-math.inf if low is None else low, math.inf if high is None else high)


def effect(kind: str, within: Bounds, first: Values, second: Values | None) -> Effect:
    """The effect of a claim. A spread is a standard deviation, or with `second` the ratio of two."""
    if kind == "degenerate":
        return _share(within, list(first.values()))
    seeds = sorted(first if second is None else set(first) & set(second))
    ours = [first[seed] for seed in seeds]
    theirs = None if second is None else [second[seed] for seed in seeds]
    if len(seeds) == 0:
        return Effect(0, None, None, None, NOT_RUN)
    if kind == "ratio":
        return _ratio(within, ours, theirs or [])
    if kind == "spread":
        return _spread(within, ours, theirs)
    values = ours if theirs is None else [one - other for one, other in zip(ours, theirs, strict=True)]
    mean, low, high = mean_interval(values)
    return _effect(within, len(values), mean, low, high)


def joined(verdicts: Iterable[str]) -> str:
    """The verdict of a claim that says several things at once: all of them have to hold."""
    found = set(verdicts)
    return next(verdict for verdict in (CONTRADICTED, NOT_RUN, UNDECIDED, SUPPORTED) if verdict in found)


def mean_interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and the ends of its interval by Student's t, NaN below two values."""
    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return mean, math.nan, math.nan
    from scipy.stats import t

    half = float(t.ppf((1 + LEVEL) / 2, n - 1)) * statistics.stdev(values) / math.sqrt(n)
    return mean, mean - half, mean + half


def std_interval(values: list[float]) -> tuple[float, float, float]:
    """Standard deviation and the ends of its interval by chi-squared, NaN below two values."""
    n = len(values)
    if n < 2:
        return math.nan, math.nan, math.nan
    from scipy.stats import chi2

    std, tail = statistics.stdev(values), (1 - LEVEL) / 2
    ends = (math.sqrt((n - 1) / float(chi2.ppf(at, n - 1))) for at in (1 - tail, tail))
    low, high = (std * end for end in ends)
    return std, low, high


def std_ratio_interval(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Ratio of two standard deviations of paired values and the ends of its interval (Morgan 1939, Pitman 1939): those
    ratios for which ours + ratio * theirs and ours - ratio * theirs are not correlated. NaN below three values, or
    where one does not vary.
    """
    n = len(ours)
    if n < 3 or 0.0 in (statistics.stdev(ours), statistics.stdev(theirs)):
        return math.nan, math.nan, math.nan
    from scipy.stats import t

    ratio, correlation = statistics.stdev(ours) / statistics.stdev(theirs), statistics.correlation(ours, theirs)
    quantile = float(t.ppf((1 + LEVEL) / 2, n - 2))
    k = 1 + 2 * (1 - correlation**2) * quantile**2 / (n - 2)
    root = math.sqrt(max(k * k - 1, 0.0))
    high = ratio * math.sqrt(k + root)
    return ratio, ratio / math.sqrt(k + root), high


def _ratio(within: Bounds, ours: list[float], theirs: list[float]) -> Effect:
    """The geometric mean of the seeds' ratios."""
    if min([*ours, *theirs]) <= 0:
        return Effect(len(ours), None, None, None, UNDECIDED, "no ratio of values that are not above 0")
    logarithms = [math.log(one / other) for one, other in zip(ours, theirs, strict=True)]
    mean, low, high = mean_interval(logarithms)
    return _effect(within, len(ours), math.exp(mean), math.exp(low), math.exp(high))


def _spread(within: Bounds, ours: list[float], theirs: list[float] | None) -> Effect:
    found = std_interval(ours) if theirs is None else std_ratio_interval(ours, theirs)
    return _effect(within, len(ours), *found)


def _share(within: Bounds, degenerate: list[float]) -> Effect:
    """The share of degenerate runs, with the interval of Clopper and Pearson. Decided where all runs are alike."""
    n = len(degenerate)
    if n == 0:
        return Effect(0, None, None, None, NOT_RUN)
    from scipy.stats import binomtest

    share = statistics.fmean(degenerate)
    interval = binomtest(round(share * n), n).proportion_ci(LEVEL)
    verdict = UNDECIDED if n < FEWEST or 0 < share < 1 else within.verdict(share, share)
    return Effect(n, share, float(interval.low), float(interval.high), verdict, _few(n))


def _effect(within: Bounds, n: int, value: float, low: float, high: float) -> Effect:
    verdict = UNDECIDED if n < FEWEST else within.verdict(low, high)
    given = [None if math.isnan(number) else number for number in (value, low, high)]
    return Effect(n, given[0], given[1], given[2], verdict, _few(n))


def _few(n: int) -> str:
    return f"fewer than {FEWEST} seeds" if n < FEWEST else ""


@dataclass(frozen=True)
class Sample:
    """A mean with what is known of its spread: the sample standard deviation of `n` runs, None where not stated."""

    mean: float
    std: float | None = None
    n: int | None = None

    @property
    def squared_error(self) -> float | None:
        """The squared standard error of the mean, s^2 / n; None where s or n is not known."""
        return None if self.std is None or not self.n else self.std**2 / self.n


def against(ours: Sample, paper: Sample, band: float | None = None) -> str:
    """The verdict of our mean against a paper's: "within", "above", "below", or "no verdict".

    Within: |difference| <= 2 SE, SE = sqrt(s1^2 / n1 + s2^2 / n2). Where a standard deviation or a number of runs is
    not known, `band` stands for 2 SE; without one there is no verdict. All in one unit.
    """
    errors = (ours.squared_error, paper.squared_error)
    allowed = band if None in errors else 2 * math.sqrt(sum(error for error in errors if error is not None))
    if allowed is None:
        return NO_VERDICT
    difference = ours.mean - paper.mean
    # What is printed with one digit is stored with rounding errors: a difference of exactly the band lies within.
    if abs(difference) <= allowed or math.isclose(abs(difference), allowed, rel_tol=1e-9):
        return WITHIN
    return ABOVE if difference > 0 else BELOW
