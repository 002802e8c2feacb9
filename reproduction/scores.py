"""From a result to one value a query, whose mean over queries is the measure. So every measure has an interval.

Measures that are not means themselves, the area below a curve or average precision over all pairs, are written as
one: each query's value is the whole and what the query adds to or takes from it (its influence, times the number of
queries). Their mean is the measure exactly, and resampling them is right to first order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reproduction.experiment import Answers, Result
from samespot.errors import InputError
from samespot.evaluation.metrics import DISTANCES, OVERLAPS
from samespot.statistics.intervals import Interval, paired_bootstrap_runs, wilson

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
AP, OVER_DISTANCE, OVER_OVERLAP = "AP", "R@5 over distances", "R@5 over overlaps"


def column_of(measure: str) -> str:
    """Of answers, what a measure is made of."""
    needed = {AP: "precision", OVER_DISTANCE: "metres", OVER_OVERLAP: "shared", "overlap@1": "overlap"}
    return needed.get(measure, "first_hit")


def per_query(result: Result, answers: Answers, measure: str) -> Floats:
    """(q,) what `measure` averages; NaN where a query does not count. measure: R@k, overlap@1, or one of above."""
    column = column_of(measure)
    if column not in answers.columns:
        raise InputError(f"{result.experiment}, seed {result.seed}: its result has no {column} for {measure}")
    values = np.asarray(answers.columns[column])
    if measure == AP:
        return values
    if measure == OVER_DISTANCE:
        return area_by_query(*over_distances(values, np.asarray(result.truth["metres"])))
    if measure == OVER_OVERLAP:
        return area_by_query(*over_overlaps(values, np.asarray(result.truth["shared"])))
    if measure == "overlap@1":
        return np.where(result.counted, values, np.nan)
    k = int(measure.removeprefix("R@"))
    return np.where(result.counted, ((values > 0) & (values <= k)).astype(np.float64), np.nan)


def over_distances(metres: Floats, nearest: Floats) -> tuple[Bools, Bools]:
    """(t, q) whether a query is found, and whether it counts, when found means within each distance."""
    limits = np.array(DISTANCES)[:, None]
    return metres <= limits, nearest <= limits


def over_overlaps(shared: Floats, best: Floats) -> tuple[Bools, Bools]:
    """(t, q) the same when found means more overlap than each threshold."""
    limits = np.array(OVERLAPS)[:, None]
    return shared > limits, best > limits


def curve(found: Bools, counts: Bools) -> Floats:
    """(t,) recall at each threshold; NaN where no query counts."""
    number = counts.sum(axis=1)
    hits = (found & counts).sum(axis=1)
    recall: Floats = np.divide(hits, number, out=np.full(len(number), np.nan), where=number > 0)
    return recall


def area_by_query(found: Bools, counts: Bools) -> Floats:
    """(q,) values whose mean is the mean recall over thresholds."""
    used = counts.any(axis=1)
    found, counts = found[used], counts[used]
    if not len(found):
        return np.full(found.shape[1], np.nan)
    recall, queries = curve(found, counts)[:, None], counts.shape[1]
    weight = queries / counts.sum(axis=1, keepdims=True)
    influence = np.where(counts, (found - recall) * weight, 0.0)
    by_query: Floats = (recall + influence).mean(axis=0)
    return by_query


def precision_by_query(distances: Sequence[Floats], positive: Sequence[Bools]) -> Floats:
    """(q,) values whose mean is the average precision over all pairs.

    distances, positive: of each query, to the map photos that it may find. Pairs of equal distance count together.
    A query weighs in by its own positive pairs, and by what its pairs do to the precision at those of others: each
    positive of it raises, and each pair of it lowers the precision at every positive that is as far or farther.
    """
    right = np.sort(np.concatenate([d[p] for d, p in zip(distances, positive, strict=True)]))
    if not len(right):
        return np.full(len(distances), np.nan)
    pairs = np.searchsorted(np.sort(np.concatenate(distances)), right, side="right")
    precision = np.searchsorted(right, right, side="right") / pairs
    average = precision.mean()
    # what is raised and lowered from each positive on: sums to the far end
    raised, lowered = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (1 / pairs, precision / pairs))
    influence = np.zeros(len(distances))
    for query, (far, true) in enumerate(zip(distances, positive, strict=True)):
        mine = np.searchsorted(right, far[true])
        influence[query] = (precision[mine] - average + raised[mine]).sum()
        influence[query] -= lowered[np.searchsorted(right, far)].sum()
    by_query: Floats = average + influence * len(distances) / len(right)
    return by_query


def stacked(results: Sequence[Result], answers: Sequence[Answers], measure: str) -> Floats:
    """(seeds, q) of runs that were asked the same."""
    return np.stack([per_query(r, a, measure) for r, a in zip(results, answers, strict=True)])


def mean_of(values: Floats) -> Interval:
    """(seeds, q) of a share -> its mean with the interval over queries and seeds."""
    counted = values[:, np.isfinite(values).all(axis=0)]
    if len(counted) == 1 and counted.size and bool(np.isin(counted, (0.0, 1.0)).all()):
        return wilson(int(counted.sum()), counted.size)
    mean = paired_bootstrap_runs(counted, np.zeros_like(counted))
    # few seeds that differ stretch an interval beyond what a share can be
    return Interval(mean.value, max(mean.low, 0.0), min(mean.high, 1.0), mean.n)


def difference(first: Floats, second: Floats) -> Interval:
    """(seeds, q) each -> first − second over the same queries. One without seeds stands against each of the other."""
    seeds = max(len(first), len(second))
    a, b = (np.repeat(side, seeds, axis=0) if len(side) == 1 else side for side in (first, second))
    return paired_bootstrap_runs(a, b)
