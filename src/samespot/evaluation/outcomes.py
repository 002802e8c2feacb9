"""What happened to each query, as columns; and from columns to metrics, for all queries or any part of them.

Every metric is a mean over queries of a per-query score, NaN where a query does not count. So a table by city or
condition, an interval and a comparison of two runs all come from the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.cases import Case
from samespot.evaluation.metrics import (
    average_precision_at_k,
    first_hit,
    gains,
    ideal_gains,
    ndcg_at_k,
    pose_errors,
)
from samespot.evaluation.poses import known_poses, pose_estimates
from samespot.overlap.labels import PairLabels
from samespot.places.pose import ground_pose
from samespot.poses.plane import lying
from samespot.retrieval.search import Found
from samespot.statistics.intervals import Interval, bootstrap_mean, wilson

if TYPE_CHECKING:
    from samespot.evaluation.results import Evaluation, Variant

Columns = dict[str, NDArray[Any]]
Limits = Sequence[Sequence[float]]
NDCG_AT = 10
NOWHERE = 1e9  # [m]
POSE_PLACES = ("pose_easting", "pose_northing", "pose_heading")


def outcomes(case: Case, found: Found, ks: Sequence[int], labels: PairLabels | None, pose: bool) -> Columns:
    """One value a query and column: what the top match was, and how good the list is."""
    names = np.array([*case.place_names, ""], dtype=np.str_)  # -1, nothing found, is the last
    columns: Columns = {"top": names[found.rows[:, 0]], "distance": found.distances[:, 0]}
    if case.positives is not None:
        columns["first_hit"] = first_hit(found.rows, case.positives)
        for k in ks:
            precision = average_precision_at_k(found.rows, case.positives, k)
            columns[f"ap@{k}"] = np.where(case.counted, precision, np.nan)
    if labels is not None:
        overlap, k = gains(found.rows, labels), min(NDCG_AT, found.rows.shape[1])
        columns["overlap"] = overlap[:, 0].astype(np.float64)
        columns[f"ndcg@{k}"] = ndcg_at_k(overlap, ideal_gains(labels, k, case.excluded), k)
    if pose:
        columns |= pose_columns(case, *pose_estimates(case, found.rows[:, 0]))
    return columns


def pose_columns(case: Case, centres: NDArray[np.float64], quaternions: NDArray[np.float64]) -> Columns:
    """How far poses (q, 3), (q, 4) are off; NaN where there is none."""
    # NaN: the pose is secret; far beyond any limit: it is known, but nothing was found
    metres, degrees = (np.where(known_poses(case), nothing, np.nan) for nothing in (NOWHERE, 180.0))
    known = np.flatnonzero(known_poses(case) & np.isfinite(centres).all(axis=1))
    if len(known):
        truth = case.queries.centres[known], case.queries.quaternions[known]
        metres[known], degrees[known] = pose_errors(centres[known], quaternions[known], *truth)
    return {"metres": metres, "degrees": degrees}


def pose_places(case: Case, centres: NDArray[np.float64], quaternions: NDArray[np.float64]) -> Columns:
    """Where poses lie on the map's plane, for figures: easting, northing and heading; NaN where that is not known."""
    lies, places = lying(case.places), np.full((3, len(centres)), np.nan)
    known = np.flatnonzero(np.isfinite(centres).all(axis=1))
    if lies is not None and len(known):
        places[:, known] = np.array(ground_pose(centres[known], quaternions[known], lies.frame))
    return dict(zip(POSE_PLACES, places, strict=True))


def median_pose(variant: Variant) -> tuple[float, float] | None:
    """[m], [deg] that half of the poses are nearer than; None where no pose is known."""
    metres = variant.outcomes.get("metres")
    if metres is None or not np.isfinite(metres).any():
        return None
    known = np.isfinite(metres)
    return float(np.median(metres[known])), float(np.median(variant.outcomes["degrees"][known]))


def joined(parts: Sequence[Columns]) -> Columns:
    """The columns of several cases, one below the other; only what all of them have."""
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def per_query_scores(variant: Variant, run: Evaluation) -> dict[str, NDArray[np.float64]]:
    """What each metric averages, one value a query, of a saved evaluation."""
    return scores(variant.outcomes, run.queries.counted, run.protocol["ks"], run.protocol["limits"])


def scores(
    columns: Mapping[str, NDArray[Any]], counted: NDArray[np.bool_], ks: Sequence[int], limits: Limits
) -> dict[str, NDArray[np.float64]]:
    """Metric -> (q,) what it averages; NaN where a query does not count."""
    found: dict[str, NDArray[np.float64]] = {}
    if "first_hit" in columns:
        rank = columns["first_hit"]
        for k in ks:
            hit = ((rank > 0) & (rank <= k)).astype(np.float64)
            found[f"R@{k}"] = np.where(counted, hit, np.nan)
    if "metres" in columns:
        metres, degrees = columns["metres"], columns["degrees"]
        for near, turned in limits:
            within = ((metres <= near) & (degrees <= turned)).astype(np.float64)
            found[f"{near:g} m, {turned:g}°"] = np.where(np.isfinite(metres), within, np.nan)
    named = {"ap@": "mAP@", "ndcg@": "nDCG@", "overlap": "overlap@1"}
    for column, values in columns.items():
        for prefix, metric in named.items():
            if column.startswith(prefix):
                found[metric + column.removeprefix(prefix)] = np.asarray(values, dtype=np.float64)
    if "overlap@1" in found and "first_hit" in columns:  # of the same queries as the recalls beside it
        found["overlap@1"] = np.where(counted, found["overlap@1"], np.nan)
    return found


def summary(by_query: Mapping[str, NDArray[np.float64]], seed: int = 0) -> dict[str, Interval]:
    """Metrics with their intervals: Wilson's for shares, a bootstrap over queries for other means."""
    return {name: _interval(values[np.isfinite(values)], seed) for name, values in by_query.items()}


def _interval(values: NDArray[np.float64], seed: int) -> Interval:
    if bool(np.isin(values, (0.0, 1.0)).all()):
        return wilson(int(values.sum()), len(values))
    return bootstrap_mean(values, seed=seed)


def broken_down(
    by_query: Mapping[str, NDArray[np.float64]], groups: Mapping[str, NDArray[np.str_]], seed: int = 0
) -> dict[str, dict[str, dict[str, Interval]]]:
    """Metrics by each value of each group that has more than one value."""
    tables: dict[str, dict[str, dict[str, Interval]]] = {}
    for column, values in groups.items():
        kinds = list(dict.fromkeys(values.tolist()))
        if len(kinds) < 2:
            continue
        tables[column] = {
            kind: summary({name: row[values == kind] for name, row in by_query.items()}, seed)
            for kind in kinds
        }
    return tables
