"""Can a single answer be trusted? Predicted overlap against the true one, and when to say "not in the map"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.calibration import IsotonicCalibration, calibration_pairs
from samespot.evaluation.cases import Case
from samespot.evaluation.outcomes import NDCG_AT
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import Rule, label_within
from samespot.places.table import Places
from samespot.retrieval import exclusion
from samespot.retrieval.search import Found, Searching
from samespot.statistics.acceptance import acceptance_curve
from samespot.statistics.reliability import reliability

Vectors = NDArray[Any]


def isotonic_from(
    vectors: Vectors, places: Places, fitted_on: str, rule: Rule, searching: Searching
) -> IsotonicCalibration | None:
    """Distance -> overlap by this rule, learned from the nearest neighbours of each photo within another set.

    vectors: (n, d) of `places`.
    """
    if len(places) < 2:
        return None
    names = places.table["image"].to_numpy(dtype=str)
    apart = exclusion.same_name(names, names)
    found = searching(vectors, vectors, min(NDCG_AT, len(places) - 1), excluded=apart)
    query, rank = np.nonzero(found.rows >= 0)
    pairs = np.stack([query, found.rows[query, rank]], axis=1)
    overlap = rule.of_pairs(places, places, pairs)
    return IsotonicCalibration.fit(found.distances[query, rank], overlap, fitted_on=fitted_on)


def calibration_curves(
    found: Sequence[Found],
    labels: Sequence[PairLabels | None],
    by_margin: Callable[[Vectors], Vectors] | None,
    isotonic: IsotonicCalibration | None,
) -> dict[str, Any]:
    """How well the predicted overlap of the retrieved pairs agrees with the true one."""
    # as many of each query as the isotonic curve is fitted on, whatever ranks a protocol asks for
    pairs = [
        calibration_pairs(one, truth, NDCG_AT)
        for one, truth in zip(found, labels, strict=True)
        if truth is not None
    ]
    if not pairs:
        return {}
    distances, truth = (np.concatenate(column) for column in zip(*pairs, strict=True))
    curves: dict[str, Any] = {}
    if by_margin is not None:
        curves["calibration"] = reliability(by_margin(distances), truth).to_dict()
    if isotonic is not None:
        curves["calibration, isotonic"] = reliability(isotonic(distances), truth).to_dict()
    return curves


def acceptance_at(
    queries: Sequence[Vectors],
    places: Sequence[Vectors],
    without: Sequence[exclusion.Exclusion],
    answers: Mapping[str, NDArray[Any]],
    counted: NDArray[np.bool_],
    precision: float,
    searching: Searching,
) -> dict[str, Any]:
    """Each query is asked again with its surroundings taken out of the map: then the right answer is "not there".

    queries, places: vectors of each case. without: what is taken out, of each case (`surroundings`).
    """
    absent = [
        searching(q, p, 1, excluded=out).distances[:, 0]
        for q, p, out in zip(queries, places, without, strict=True)
    ]
    distance, right = answers["distance"][counted], answers["first_hit"][counted] == 1
    curve = acceptance_curve(distance, right, np.concatenate(absent))
    return {"acceptance": {**curve.thinned(2000).to_dict(), "at": curve.threshold_for(precision).to_dict()}}


def surroundings(case: Case, labels: PairLabels | None) -> exclusion.Exclusion | None:
    """What may show a query's place: within reach or of any overlap, and its positives; and what is never retrieved.

    None where it is not known.
    """
    if case.query_frames is not None or case.place_frames is not None or case.positives is None:
        return None
    near = labels if case.reach is None else label_within(case.queries, case.places, case.reach)
    if near is None:
        return None
    starts = np.cumsum([0, *(len(rows) for rows in case.positives)])
    found = np.concatenate([np.zeros(0, np.int64), *case.positives])
    out = [
        exclusion.pairs(near.indptr, near.columns, near.shape),
        exclusion.pairs(starts, found, near.shape),
    ]
    if case.excluded is not None:
        out.append(case.excluded)
    return exclusion.any_of(*out)
