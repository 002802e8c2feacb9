"""Metrics as pure functions: what was retrieved and what is true go in as arrays, numbers come out.

Per-query values come first (`first_hit`, `average_precision_at_k`, `ndcg_at_k`, …), because intervals and
comparisons of two models need them; shares and means over the queries are one line more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.arrays import as_array
from samespot.errors import InputError
from samespot.places.pose import angles_between

if TYPE_CHECKING:  # arrays in, numbers out: recall must not wait for pandas
    from samespot.overlap.labels import PairLabels
    from samespot.retrieval.exclusion import Exclusion

DISTANCES = tuple(float(metres) for metres in range(5, 51, 5))  # [m]
OVERLAPS = tuple(tenths / 10 for tenths in range(10))

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def hits(retrieved: ArrayLike, positives: Sequence[ArrayLike]) -> Bools:
    """(q, k) which of the retrieved ids are positives of their query; -1 never is.

    retrieved: (q, k) ids, best first; positives: for each query the ids that count as found. Ids are whole
    numbers or names.
    """
    ids = _retrieved(retrieved)
    if len(positives) != len(ids):
        raise InputError(f"{len(positives)} lists of positives for {len(ids)} queries; give one per query")
    queries, true_ids = _flat(positives, named=ids.dtype.kind == "U")
    # Numbering the ids that occur makes a pair (query, id) one whole number, whatever the ids are.
    known, numbers = np.unique(ids, return_inverse=True)
    pairs = np.arange(len(ids))[:, None] * len(known) + numbers.reshape(ids.shape)
    place = np.searchsorted(known, true_ids)
    place[place == len(known)] = 0
    there = known[place] == true_ids
    found: Bools = np.isin(pairs, queries[there] * len(known) + place[there])
    return found


def first_hit(retrieved: ArrayLike, positives: Sequence[ArrayLike]) -> NDArray[np.int64]:
    """(q,) rank, from 1, of the first positive of each query; 0 where none was retrieved."""
    found = hits(retrieved, positives)
    return np.where(found.any(axis=1), found.argmax(axis=1) + 1, 0).astype(np.int64)


def hits_at_k(ranks: ArrayLike, k: int) -> Bools:
    """(q,) whether a positive is among the first k, from the ranks of `first_hit`."""
    ranks = np.asarray(ranks)
    return (ranks >= 1) & (ranks <= k)


def recall_at_k(
    retrieved: ArrayLike, positives: Sequence[ArrayLike], ks: Sequence[int] = (1, 5, 10)
) -> dict[int, float]:
    """For each k the share of queries with a positive among their first k retrieved.

    retrieved: (q, k) ids, best first, -1 for nothing; positives: for each query the ids that count as found.
    Queries without any positive cannot be answered and do not count.
    """
    ids = _retrieved(retrieved)
    for k in ks:
        _refuse_k(k, ids.shape[1])
    ranks = first_hit(ids, positives)[_countable(positives)]
    return {int(k): float(hits_at_k(ranks, k).mean()) for k in ks}


def average_precision_at_k(retrieved: ArrayLike, positives: Sequence[ArrayLike], k: int) -> Floats:
    """(q,) the precision at each hit among the first k, summed and divided by min(number of positives, k).

    This is the definition of the MSLS benchmark: an id retrieved twice is a hit once, at its first rank. NaN for
    a query without positives.
    """
    ids = _retrieved(retrieved)
    _refuse_k(k, ids.shape[1])
    found = (hits(ids, positives) & ~_repeated(ids))[:, :k]
    precision = found.cumsum(axis=1) / np.arange(1, k + 1)
    best = np.minimum(_lengths(positives), k)
    return _ratio((precision * found).sum(axis=1), best)


def pose_errors(
    centres: ArrayLike, quaternions: ArrayLike, true_centres: ArrayLike, true_quaternions: ArrayLike
) -> tuple[Floats, Floats]:
    """(q,) distance [m] of camera centres (q, 3) and (q,) angle [deg] of rotations (q, 4) qw qx qy qz.

    A quaternion and its negative are the same rotation. NaN where a pose is unknown (NaN, or all zero rotation).
    """
    gap = np.asarray(centres, dtype=np.float64) - np.asarray(true_centres, dtype=np.float64)
    a, b = np.asarray(quaternions, dtype=np.float64), np.asarray(true_quaternions, dtype=np.float64)
    if a.shape != (len(gap), 4) or b.shape != a.shape:
        raise InputError(
            f"centres {gap.shape} and quaternions {a.shape}, {b.shape}: each pose needs x y z and qw qx qy qz"
        )
    known = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1) & a.any(axis=1) & b.any(axis=1)
    degrees = np.full(len(a), np.nan)
    degrees[known] = angles_between(a[known], b[known])
    return np.linalg.norm(gap, axis=-1), degrees


def localised(
    metres: ArrayLike, degrees: ArrayLike, limits: Sequence[tuple[float, float]]
) -> dict[tuple[float, float], float]:
    """For each limit (metres, degrees) the share of queries within both. An unknown error (NaN) is not within."""
    metres, degrees = np.asarray(metres, dtype=np.float64), np.asarray(degrees, dtype=np.float64)
    if metres.shape != degrees.shape or metres.ndim != 1:
        raise InputError(
            f"errors in metres {metres.shape} and degrees {degrees.shape}: need one of each per query"
        )
    if not metres.size:
        raise InputError("no query has a pose to compare with, so no share is localised")
    return {(m, deg): float(((metres <= m) & (degrees <= deg)).mean()) for m, deg in limits}


def gains(retrieved: ArrayLike, labels: PairLabels) -> NDArray[np.float32]:
    """(q, k) overlap of each retrieved map row with its query; 0 for -1, and for a row already retrieved above."""
    rows = _retrieved(retrieved)
    if len(rows) != len(labels):
        raise InputError(f"{len(rows)} queries were searched, the labels have {len(labels)}")
    if rows.dtype.kind == "U" or (rows.size and rows.max() >= labels.shape[1]):
        raise InputError(f"retrieved must be rows of the labels' map, which has {labels.shape[1]} images")
    nothing = (rows < 0) | _repeated(rows)
    overlap = labels.lookup(np.arange(len(rows))[:, None], np.where(nothing, 0, rows))
    overlap[nothing] = 0
    return overlap


def ideal_gains(labels: PairLabels, k: int, excluded: Exclusion | None = None) -> NDArray[np.float32]:
    """(q, k) the k largest overlaps each query has in the map, descending, then 0: the best possible `gains`.

    Pairs that must not be retrieved (the query itself, say) do not count as possible.
    """
    if k < 1:
        raise InputError(f"k is {k}; give at least 1")
    ideal = np.zeros((len(labels), k), dtype=np.float32)
    for query in range(len(labels)):
        columns, overlap = labels.row(query)
        if excluded is not None and len(columns):
            start, stop = int(columns[0]), int(columns[-1]) + 1
            out = excluded(slice(query, query + 1), slice(start, stop))[0]
            overlap = overlap[~out[columns - start]]
        if len(overlap) > k:
            overlap = np.partition(overlap, len(overlap) - k)[-k:]
        ideal[query, : len(overlap)] = np.sort(overlap)[::-1]
    return ideal


def ndcg_at_k(gains: ArrayLike, ideal: ArrayLike, k: int) -> Floats:
    """(q,) normalised discounted cumulative gain: the gain is the overlap itself, rank r counts 1/log2(r + 1).

    gains: (q, ≥ k) overlaps in the order retrieved; ideal: (q, ≥ k) the largest there are, descending. NaN where
    nothing in the map overlaps the query.
    """
    gains, ideal = _same_queries(gains, ideal)
    for values in (gains, ideal):
        _refuse_k(k, values.shape[1])
    discount = 1 / np.log2(np.arange(2, k + 2))
    return _ratio(gains[:, :k] @ discount, ideal[:, :k] @ discount)


def distances_to_retrieved(queries: ArrayLike, places: ArrayLike, retrieved: ArrayLike) -> Floats:
    """(q, k) metres from each query (q, 2) to the map images (m, 2) retrieved for it; inf for -1."""
    here, there = np.asarray(queries, dtype=np.float64), np.asarray(places, dtype=np.float64)
    rows = _retrieved(retrieved)
    if len(rows) != len(here):
        raise InputError(f"{len(rows)} queries were searched, {len(here)} have a position")
    if rows.dtype.kind == "U" or (rows.size and rows.max() >= len(there)):
        raise InputError(f"retrieved must be map rows; {len(there)} of them have a position")
    metres = np.full(rows.shape, np.inf)
    query, rank = np.nonzero(rows >= 0)
    metres[query, rank] = np.linalg.norm(here[query] - there[rows[query, rank]], axis=1)
    return metres


def recall_over_distance(
    metres: ArrayLike, nearest: ArrayLike, thresholds: Sequence[float] = DISTANCES, k: int = 1
) -> tuple[Floats, NDArray[np.int64]]:
    """(t,) recall at k if "found" meant within each threshold [m], and (t,) the number of queries that count.

    metres: (q, ≥ k) to each retrieved; nearest: (q,) to the nearest map image that may be retrieved. A query with
    nothing that near does not count at that threshold; the recall is NaN where none does.
    """
    first, near = _first(metres, k), np.asarray(nearest, dtype=np.float64)
    limits = np.asarray(thresholds, dtype=np.float64)[:, None]
    closest = np.where(np.isnan(first), np.inf, first).min(axis=1)
    return _recall(closest <= limits, near <= limits)


def recall_over_overlap(
    gains: ArrayLike, best: ArrayLike, thresholds: Sequence[float] = OVERLAPS, k: int = 1
) -> tuple[Floats, NDArray[np.int64]]:
    """(t,) recall at k if "found" meant more overlap than each threshold, and (t,) the queries that count.

    gains: (q, ≥ k) overlap of each retrieved; best: (q,) the largest there is in the map. A query with no larger
    overlap does not count at that threshold; the recall is NaN where none does.
    """
    # Labels are stored as float32, where .3 is above the float64 .3: both sides must be rounded alike.
    first, largest = _first(gains, k).astype(np.float32), np.asarray(best, dtype=np.float32)
    limits = np.asarray(thresholds, dtype=np.float32)[:, None]
    return _recall(first.max(axis=1) > limits, largest > limits)


def _recall(found: Bools, counts: Bools) -> tuple[Floats, NDArray[np.int64]]:
    """(t, q) found and counting queries -> (t,) recall, (t,) number that count."""
    counted = counts.sum(axis=1)
    return _ratio((found & counts).sum(axis=1), counted), counted.astype(np.int64)


def _retrieved(values: ArrayLike) -> NDArray[Any]:
    ids = _ids(values, "retrieved")
    if ids.ndim != 2 or not ids.shape[1]:
        raise InputError(f"retrieved has shape {ids.shape}; it needs a row a query and a column a rank")
    return ids


def _ids(values: ArrayLike, what: str) -> NDArray[Any]:
    ids = as_array(values, what)
    if ids.dtype.kind not in "iuU" and ids.size:
        if ids.dtype.kind != "O" or not all(isinstance(value, str) for value in ids.flat):
            raise InputError(f"{what} are {ids.dtype} values, not ids: whole numbers, or names")
        ids = ids.astype(str)
    return ids


def _flat(positives: Sequence[ArrayLike], named: bool) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Query number and id of each positive."""
    lists = [_ids(ids, f"positives of query {query}") for query, ids in enumerate(positives)]
    queries = np.repeat(np.arange(len(lists)), [ids.size for ids in lists])
    if any((ids.dtype.kind == "U") != named for ids in lists if ids.size):
        raise InputError(
            "retrieved and positives name images differently: one by numbers, the other by names"
        )
    flat = np.concatenate([np.zeros(0, "U1" if named else np.int64), *(ids for ids in lists if ids.size)])
    if not named and (flat < 0).any():
        query = queries[np.flatnonzero(flat < 0)[0]]
        raise InputError(f"positives of query {query} contain a negative id; leave the list empty for none")
    return queries, flat


def _lengths(positives: Sequence[ArrayLike]) -> NDArray[np.int64]:
    return np.array([as_array(ids, "positives").size for ids in positives], dtype=np.int64)


def _countable(positives: Sequence[ArrayLike]) -> Bools:
    """(q,) which queries have a positive."""
    counts = _lengths(positives) > 0
    if not counts.any():
        raise InputError(f"none of the {len(positives)} queries has a positive, so no recall can be given")
    return counts


def _repeated(ids: NDArray[Any]) -> Bools:
    """(q, k) where an id stands that the same row has already had."""
    order = np.argsort(ids, axis=1, kind="stable")
    sorted_ids = np.take_along_axis(ids, order, axis=1)
    again = np.zeros(ids.shape, dtype=bool)
    again[:, 1:] = sorted_ids[:, 1:] == sorted_ids[:, :-1]
    repeated = np.empty_like(again)
    np.put_along_axis(repeated, order, again, axis=1)
    return repeated


def _refuse_k(k: int, columns: int) -> None:
    if k < 1:
        raise InputError(f"k is {k}; give at least 1")
    if k > columns:
        raise InputError(
            f"k is {k}, but {columns} images were retrieved per query; search for more or lower k"
        )


def _first(values: ArrayLike, k: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 2:
        raise InputError(f"values of retrieved images have shape {array.shape}, not (queries, ranks)")
    _refuse_k(k, array.shape[1])
    return array[:, :k]


def _same_queries(gains: ArrayLike, ideal: ArrayLike) -> tuple[Floats, Floats]:
    a, b = np.asarray(gains, dtype=np.float64), np.asarray(ideal, dtype=np.float64)
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b):
        raise InputError(
            f"gains {a.shape} and ideal gains {b.shape} are not (queries, ranks) of the same queries"
        )
    return a, b


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """part / whole, NaN where the whole is 0."""
    ratio: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return ratio
