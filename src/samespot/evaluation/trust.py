"""Can a single answer be trusted? Predicted overlap against the true one, and when to say "not in the map"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.acceptance import acceptance_curve
from samespot.evaluation.calibration import IsotonicCalibration, calibration_pairs, reliability
from samespot.evaluation.cases import Case
from samespot.evaluation.outcomes import NDCG_AT
from samespot.overlap.annotate import label_pairs, label_within
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places
from samespot.retrieval import exclusion
from samespot.retrieval.search import Found, search

Vectors = NDArray[Any]


def isotonic_from(
    vectors: Vectors, places: Places, fitted_on: str, rule: Mapping[str, Any], device: str
) -> IsotonicCalibration | None:
    """Distance -> overlap, learned from the nearest neighbours within another set.

    vectors: (n, d) of `places`. rule: meta of the labels that it shall predict; None where it is not one of sectors.
    """
    if "theta" not in rule or len(places) < 2:
        return None
    truth = label_pairs(places, places, rule["theta"], rule["radius"], rule["measure"])
    names = places.table["image"].to_numpy(dtype=str)
    apart = exclusion.same_name(names, names)
    found = search(vectors, vectors, min(NDCG_AT, len(places) - 1), excluded=apart, device=device)
    return IsotonicCalibration.fit(*calibration_pairs(found, truth), fitted_on=fitted_on)


def calibration_curves(
    found: Sequence[Found],
    labels: Sequence[PairLabels | None],
    by_margin: Callable[[Vectors], Vectors] | None,
    isotonic: IsotonicCalibration | None,
) -> dict[str, Any]:
    """How well the predicted overlap of the retrieved pairs agrees with the true one."""
    pairs = [
        calibration_pairs(one, truth) for one, truth in zip(found, labels, strict=True) if truth is not None
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
    cases: Sequence[Case],
    queries: Sequence[Vectors],
    places: Sequence[Vectors],
    labels: Sequence[PairLabels | None],
    answers: Mapping[str, NDArray[Any]],
    counted: NDArray[np.bool_],
    precision: float,
    device: str,
) -> dict[str, Any]:
    """Each query is asked again with its surroundings taken out of the map: then the right answer is "not there"."""
    absent = []
    for case, q, p, truth in zip(cases, queries, places, labels, strict=True):
        near = _surroundings(case, truth)
        if near is None:
            return {}
        out = exclusion.pairs(near.indptr, near.columns, near.shape)
        excluded = out if case.excluded is None else exclusion.any_of(out, case.excluded)
        absent.append(search(q, p, 1, excluded=excluded, device=device).distances[:, 0])
    distance, right = answers["distance"][counted], answers["first_hit"][counted] == 1
    curve = acceptance_curve(distance, right, np.concatenate(absent))
    return {"acceptance": {**curve.thinned(2000).to_dict(), "at": curve.threshold_for(precision).to_dict()}}


def _surroundings(case: Case, labels: PairLabels | None) -> PairLabels | None:
    """Map images that may show what a query shows: within reach, or of any overlap. None where that is not known."""
    if case.query_frames is not None or case.place_frames is not None:
        return None
    if case.reach is not None:
        return label_within(case.queries, case.places, case.reach)
    return labels
