"""Is one better than the other? Two evaluations of the same queries, query by query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.outcomes import per_query_scores
from samespot.evaluation.results import RULE, Evaluation, evaluation_of
from samespot.evaluation.run_groups import runs_of
from samespot.statistics.intervals import Interval, mcnemar, paired_bootstrap_runs

Scores = NDArray[np.float64]  # (runs, queries)


@dataclass(frozen=True)
class Difference:
    """A metric of both sides, and first minus second with its interval."""

    metric: str
    first: float
    second: float
    difference: Interval
    p: float | None  # McNemar's, for one run a side and a metric that is yes or no

    @property
    def significant(self) -> bool:
        return self.difference.significant


@dataclass(frozen=True)
class Comparison:
    first: str  # descriptor of each side
    second: str
    runs: tuple[int, int]
    queries: int  # that count
    differences: list[Difference]
    titles: tuple[str, str]  # the descriptors in words

    def to_dict(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "second": self.second,
            "runs": list(self.runs),
            "queries": self.queries,
            "differences": [
                {
                    "metric": one.metric,
                    "first": one.first,
                    "second": one.second,
                    "difference": one.difference.value,
                    "low": one.difference.low,
                    "high": one.difference.high,
                    "n": one.difference.n,
                    "p": one.p,
                    "significant": one.significant,
                }
                for one in self.differences
            ],
        }


def compare(
    a: Any,
    b: Any,
    *,
    variants: tuple[str | None, str | None] = (None, None),
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """A minus B, query by query over the same queries.

    a, b: what `evaluate` returned, an `Evaluation`, its file, an evaluation folder, a run folder; or several seeds of
    one recipe, whose spread is then part of the interval: a list of them, or a folder of runs. variants: names of
    the descriptors to compare; by default those that the network gives.
    """
    first, second = _side(a), _side(b)
    reference = first[0]
    _refuse_other_numbers(len(first), len(second))
    for other in (*first[1:], *second):
        _refuse_other_protocol(reference, other)
        _refuse_other_truth(reference, other)
    chosen = [
        [run.variant(name) for run in side] for side, name in zip((first, second), variants, strict=True)
    ]
    scores = [
        [
            _in_order(per_query_scores(variant, run), run, reference)
            for variant, run in zip(side, runs, strict=True)
        ]
        for side, runs in zip(chosen, (first, second), strict=True)
    ]
    metrics = [name for name in scores[0][0] if all(name in run for side in scores for run in side)]
    differences = []
    for name in metrics:
        a, b = (np.stack([run[name] for run in side]) for side in scores)
        counted = np.isfinite(a).all(axis=0) & np.isfinite(b).all(axis=0)
        if counted.any():
            differences.append(_difference(name, a[:, counted], b[:, counted], resamples, seed))
    runs, queries = (len(first), len(second)), int(reference.queries.counted.sum())
    mine, theirs = chosen[0][0], chosen[1][0]
    return Comparison(mine.name, theirs.name, runs, queries, differences, (mine.title, theirs.title))


def _side(given: Any) -> list[Evaluation]:
    sources = given if isinstance(given, list | tuple) else [given]
    if not sources:
        raise InputError("nothing to compare: give at least one evaluation of A and one of B")
    return [evaluation_of(run) for source in sources for run in runs_of(source)]


def _difference(name: str, a: Scores, b: Scores, resamples: int, seed: int) -> Difference:
    # a single run, of an off-the-shelf network, stands against each run of the other side
    runs = max(len(a), len(b))
    one, other = (np.repeat(side, runs, axis=0) if len(side) == 1 else side for side in (a, b))
    between = paired_bootstrap_runs(one, other, resamples=resamples, seed=seed)
    yes_or_no = len(a) == len(b) == 1 and bool(np.isin(np.concatenate([a, b]), (0.0, 1.0)).all())
    p = mcnemar(a[0] > 0, b[0] > 0) if yes_or_no else None
    return Difference(name, float(a.mean()), float(b.mean()), between, p)


def _refuse_other_numbers(first: int, second: int) -> None:
    """Runs are paired in order, as seeds that began alike; a single one can be paired with all."""
    if first != second and 1 not in (first, second):
        raise InputError(
            f"A has {first} runs and B has {second}: give as many of each, seed by seed, or one of either"
        )


def _refuse_other_protocol(one: Evaluation, other: Evaluation) -> None:
    for key in RULE:
        mine, theirs = one.protocol.get(key), other.protocol.get(key)
        if mine != theirs:
            raise InputError(
                f"these runs cannot be compared: {key} is {mine!r} in one and {theirs!r} in another;"
                " evaluate both in the same way"
            )
    if set(one.queries.keys()) != set(other.queries.keys()):
        apart = len(set(one.queries.keys()) ^ set(other.queries.keys()))
        raise InputError(
            f"these runs cannot be compared: {apart} queries are in one of them only; evaluate both on the same tables"
        )


def _refuse_other_truth(one: Evaluation, other: Evaluation) -> None:
    """The same queries in another map are another question."""
    maps, others = ({case["name"]: case["map images"] for case in run.cases} for run in (one, other))
    for name, images in maps.items():
        if others[name] != images:
            raise InputError(
                f"these runs cannot be compared: the map of {name} has {images} images in one and {others[name]} in"
                " another"
            )
    mine, theirs = (
        {key for key, counts in zip(run.queries.keys(), run.queries.counted, strict=True) if counts}
        for run in (one, other)
    )
    if mine != theirs:
        raise InputError(
            f"these runs cannot be compared: {len(mine ^ theirs)} queries have something to find in one of them only"
        )


def _in_order(scores: Mapping[str, Scores], run: Evaluation, reference: Evaluation) -> dict[str, Scores]:
    """Per-query values in the order of the reference's queries."""
    row_of = {key: row for row, key in enumerate(run.queries.keys())}
    wanted = reference.queries.keys()
    order = np.array([row_of[key] for key in wanted])
    return {name: values[order] for name, values in scores.items()}
