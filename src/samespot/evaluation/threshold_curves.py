"""Recall when "found" means nearer, or farther; more overlap, or less: does a ranking survive the threshold chosen?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.cases import Case
from samespot.evaluation.metrics import (
    DISTANCES,
    OVERLAPS,
    distances_to_retrieved,
    gains,
    ideal_gains,
    recall_over_distance,
    recall_over_overlap,
)
from samespot.overlap.labels import PairLabels
from samespot.retrieval.exclusion import Exclusion
from samespot.retrieval.search import Found

CURVE_K = 5  # recall over thresholds is R@5
Floats = NDArray[Any]


def threshold_curves(
    cases: Sequence[Case], found: Sequence[Found], labels: Sequence[PairLabels | None]
) -> dict[str, Any]:
    """R@5 when "found" means nearer than so many metres, or more overlap than that; over all cases."""
    curves: dict[str, Any] = {}
    parts = [_over_distance(case, one) for case, one in zip(cases, found, strict=True)]
    if all(part is not None for part in parts):
        curves["distance"] = _pooled([part for part in parts if part is not None], DISTANCES)
    graded = [
        recall_over_overlap(
            gains(one.rows, truth), ideal_gains(truth, 1, case.excluded)[:, 0], OVERLAPS, CURVE_K
        )
        for case, one, truth in zip(cases, found, labels, strict=True)
        if truth is not None
    ]
    if len(graded) == len(cases):
        curves["overlap"] = _pooled(graded, OVERLAPS)
    return curves


def _over_distance(case: Case, found: Found) -> tuple[Any, Any] | None:
    """None for sequences, and where positions are not known."""
    here, there = case.queries.positions[:, :2], case.places.positions[:, :2]
    sequences = case.query_frames is not None or case.place_frames is not None
    if sequences or not (np.isfinite(here).all() and np.isfinite(there).all()):
        return None
    metres = distances_to_retrieved(here, there, found.rows)
    return recall_over_distance(metres, _nearest(here, there, case.excluded), DISTANCES, CURVE_K)


def nearest_in_map(case: Case) -> Floats:
    """(q,) metres to the nearest map image that may be retrieved."""
    return _nearest(case.queries.positions[:, :2], case.places.positions[:, :2], case.excluded)


def _nearest(here: Floats, there: Floats, excluded: Exclusion | None) -> Floats:
    """(q,) metres to the nearest map image that may be retrieved."""
    from scipy.spatial import cKDTree
    from scipy.spatial.distance import cdist

    if excluded is None:
        return np.asarray(cKDTree(there).query(here)[0])
    nearest, whole = np.full(len(here), np.inf), slice(0, len(there))
    block = max(1, (1 << 24) // max(1, len(there)))
    for start in range(0, len(here), block):
        part = slice(start, min(start + block, len(here)))
        metres = np.where(excluded(part, whole), np.inf, cdist(here[part], there))
        nearest[part] = metres.min(axis=1)
    return nearest


def _pooled(parts: Sequence[tuple[Any, Any]], thresholds: Sequence[float]) -> dict[str, Any]:
    counts = np.sum([n for _, n in parts], axis=0)
    hits = np.sum([np.nan_to_num(recall) * n for recall, n in parts], axis=0)
    recall = np.divide(hits, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return {"k": CURVE_K, "thresholds": list(thresholds), "recall": recall, "queries": counts}
