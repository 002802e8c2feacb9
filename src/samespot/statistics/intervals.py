"""Confidence intervals: how far a recall, or the difference of two, may be chance of the queries (and seeds) drawn.

Wilson's for one share; the percentile bootstrap over queries for means and for differences of two models on the
same queries; McNemar's exact test for the same question as a p-value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan, nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError

RESAMPLES = 10_000
CONFIDENCE = 0.95
DRAWS_AT_ONCE = 1 << 22  # 32 MB of drawn numbers
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A value, the interval it may have had by chance, and the number of queries it comes from."""

    value: float
    low: float
    high: float
    n: int

    @property
    def significant(self) -> bool:
        """Of a difference: whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0

    def percent(self, digits: int = 1) -> str:
        """Of a share: "61.8 [57.5, 65.9]"."""
        return self._words(f".{digits}f")

    def points(self, digits: int = 1) -> str:
        """Of a difference of shares, in percentage points: "+8.7 [+5.9, +11.4]"."""
        return self._words(f"+.{digits}f")

    def _words(self, form: str) -> str:
        if isnan(self.value):
            return "–"
        value, low, high = (
            _without_zero_sign(f"{100 * x:{form}}") for x in (self.value, self.low, self.high)
        )
        return f"{value} [{low}, {high}]"


def _without_zero_sign(number: str) -> str:
    return number if float(number) else number.lstrip("+-")


def wilson(hits: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Interval of a share of n independent queries. With no query the share is unknown: NaN in [0, 1]."""
    if not 0 <= hits <= n:
        raise InputError(f"{hits} hits among {n} queries: hits must lie between 0 and the number of queries")
    _tail(confidence)  # refuses what is none
    if n == 0:
        return Interval(nan, 0.0, 1.0, 0)
    from scipy.stats import binomtest

    ends = binomtest(int(hits), int(n)).proportion_ci(confidence, method="wilson")
    return Interval(hits / n, float(ends.low), float(ends.high), int(n))


def bootstrap_mean(
    values: ArrayLike, *, resamples: int = RESAMPLES, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """Interval of the mean of per-query values (q,), resampling queries. NaN: the query does not count."""
    values = _per_query(values, 1)
    counted = values[~np.isnan(values)]
    if not counted.size:
        return Interval(nan, nan, nan, 0)
    rng = np.random.default_rng(seed)
    means = _resampled_means(counted[None], _number(resamples), rng)[:, 0]
    return _percentiles(float(counted.mean()), means, confidence, counted.size)


def paired_bootstrap(
    a: ArrayLike, b: ArrayLike, *, resamples: int = RESAMPLES, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """Interval of mean(a) - mean(b), values (q,) of two models on the same queries, resampling queries.

    A query that does not count is NaN in both.
    """
    difference = _difference(_per_query(a, 1), _per_query(b, 1))
    return bootstrap_mean(difference, resamples=resamples, confidence=confidence, seed=seed)


def paired_bootstrap_runs(
    a: ArrayLike, b: ArrayLike, *, resamples: int = RESAMPLES, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """Interval of mean(a) - mean(b) for two ways of training, each run with several seeds: (seeds, q) values.

    Queries and seeds are both resampled, so the interval is for other queries and another training. Few seeds
    resampled look more alike than they are; what they differ by is stretched as Student's t does (2.7 times for
    three seeds, 1.6 for five). The interval errs on the wide side where seeds differ on single queries only. One
    seed says nothing about seeds: then only queries are resampled.
    """
    difference = _difference(_per_query(a, 2), _per_query(b, 2))
    missing = np.isnan(difference)
    if (missing != missing[:1]).any():
        raise InputError("the seeds disagree on which queries count; compare runs of one protocol")
    counted = difference[:, ~missing[0]] if len(difference) else difference
    if not counted.size:
        return Interval(nan, nan, nan, 0)
    rng, seeds = np.random.default_rng(seed), len(counted)
    means = _resampled_means(counted, _number(resamples), rng)  # (resamples, seeds)
    drawn = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
    centre = means.mean(axis=1)
    apart = ((means - centre[:, None]) * drawn).sum(axis=1) / seeds
    spread = centre + _stretch(seeds, confidence) * apart
    return _percentiles(float(counted.mean()), spread, confidence, counted.shape[1])


def mcnemar(a: ArrayLike, b: ArrayLike) -> float:
    """Exact two-sided p-value that two models find equally many of the same queries (q,), hits as 0 and 1."""
    from scipy.stats import binomtest

    first, second = _per_query(a, 1), _per_query(b, 1)
    difference = _difference(first, second)
    counted = ~np.isnan(difference)
    if not np.isin([first[counted], second[counted]], (0, 1)).all():
        raise InputError("McNemar's test compares hits and misses; the values must be 0 or 1")
    only_a, only_b = int((difference == 1).sum()), int((difference == -1).sum())
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def _resampled_means(values: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """(seeds, q) -> (resamples, seeds): means over q queries drawn with replacement, the same ones for all seeds.

    Negated values give negated means for the same generator, so that a - b and b - a agree to the last digit.
    """
    queries = len(values[0])
    distinct, counts = _distinct_columns(values)
    if len(counts) == 1:  # exact: no rounding of a sum
        return np.repeat(distinct.T, resamples, axis=0)
    if 8 * len(counts) <= queries:
        # Hits take few values: how often each is drawn is multinomial, far fewer draws than one a query.
        shares = counts / queries
        blocks = (
            rng.multinomial(queries, shares, size=b) @ distinct.T for b in _parts(resamples, len(counts))
        )
        return np.concatenate(list(blocks)) / queries
    drawn = (rng.integers(0, queries, size=(b, queries)) for b in _parts(resamples, queries))
    return np.concatenate([np.stack([row[d].mean(axis=1) for row in values], axis=1) for d in drawn])


def _distinct_columns(values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The different columns of (seeds, q) values in order of first appearance, and how often each occurs."""
    _, first, counts = np.unique(values, axis=1, return_index=True, return_counts=True)
    order = np.argsort(first)  # the order of the values themselves would turn round when they are negated
    return values[:, first[order]], counts[order]


def _parts(resamples: int, draws: int) -> Iterator[int]:
    """How many resamples to make at a time when each takes so many draws."""
    step = max(1, DRAWS_AT_ONCE // draws)
    return (min(step, resamples - done) for done in range(0, resamples, step))


def _percentiles(value: float, means: Floats, confidence: float, n: int) -> Interval:
    tail = _tail(confidence)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(value, float(low), float(high), int(n))


def _stretch(seeds: int, confidence: float) -> float:
    """By how much deviations of resampled seeds fall short of those of new seeds, at the interval's ends."""
    if seeds == 1:
        return 1.0
    from scipy.stats import t

    end = 1 - _tail(confidence)
    return float(sqrt(seeds / (seeds - 1)) * t.ppf(end, seeds - 1) / NormalDist().inv_cdf(end))


def _per_query(values: ArrayLike, ndim: int) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != ndim:
        raise InputError(
            f"values have shape {array.shape}, not {'(queries,)' if ndim == 1 else '(seeds, queries)'}"
        )
    return array


def _difference(a: Floats, b: Floats) -> Floats:
    if a.shape != b.shape:
        raise InputError(
            f"values {a.shape} and {b.shape} are not of the same queries; compare runs of one protocol"
        )
    differ = np.argwhere(np.isnan(a) != np.isnan(b))
    if len(differ):
        raise InputError(f"query {differ[0, -1]} counts in one run only; compare runs of one protocol")
    return a - b


def _tail(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise InputError(f"confidence {confidence} is not between 0 and 1; 0.95 is usual")
    return (1 - confidence) / 2


def _number(resamples: int) -> int:
    if resamples < 1:
        raise InputError(f"{resamples} resamples give no interval; 10000 is usual")
    return resamples
