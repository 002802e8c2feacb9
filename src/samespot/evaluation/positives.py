"""What counts as found, as one list of map rows for each query: by distance and angle, by overlap, by sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.cases import Rows
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import Rule, label_within
from samespot.places.table import Places
from samespot.retrieval.exclusion import Exclusion

# Queries labelled at a time: beyond the lists themselves, memory holds the pairs of so many.
BLOCK_QUERIES = 65_536


def rows_within(
    queries: Places,
    places: Places,
    metres: float,
    degrees: float | None = None,
    *,
    unknown_heading: Literal["error", "never"] = "error",
    block_queries: int = BLOCK_QUERIES,
) -> list[Rows]:
    """For each query the map rows, ascending, at most `metres` away and turned by at most `degrees`.

    Both limits belong to it: 25 m apart is within 25 m. An image without a heading is an error where an angle is
    asked for, or with "never" is no match of any other.
    """
    if degrees is not None and unknown_heading == "never":
        return _rows_where_headings_are_known(queries, places, metres, degrees, block_queries)
    found: list[Rows] = []
    for start in range(0, len(queries), block_queries):
        some = queries.select(slice(start, start + block_queries))
        found += rows_of(label_within(some, places, metres, degrees))
    return found


def _rows_where_headings_are_known(
    queries: Places, places: Places, metres: float, degrees: float, block_queries: int
) -> list[Rows]:
    ours, theirs = (np.flatnonzero(~np.isnan(table.positions[:, 2])) for table in (queries, places))
    found = [np.zeros(0, np.int64)] * len(queries)
    if len(ours) and len(theirs):
        near = rows_within(
            queries.select(ours), places.select(theirs), metres, degrees, block_queries=block_queries
        )
        for query, rows in zip(ours, near, strict=True):
            found[query] = theirs[rows]
    return found


def rows_of(labels: PairLabels, at_least: float = 0.0) -> list[Rows]:
    """For each query the map rows, ascending, that are labelled at least so similar, and above 0."""
    kept = labels.similarity >= np.float32(at_least)
    before = np.concatenate([[0], np.cumsum(kept)])[labels.indptr]  # pairs kept before each row
    return np.split(labels.columns[kept].astype(np.int64), before[1:-1])[: len(labels)]


def rows_only(found: Sequence[Rows], keep: Callable[[int, Rows], NDArray[np.bool_]]) -> list[Rows]:
    """The lists without the rows that `keep(query, rows)` says no to."""
    return [rows[keep(query, rows)] for query, rows in enumerate(found)]


def rows_allowed(found: Sequence[Rows], excluded: Exclusion) -> list[Rows]:
    """The lists without the rows that are never retrieved for their query."""

    def allowed(query: int, rows: Rows) -> NDArray[np.bool_]:
        if not len(rows):
            return np.zeros(0, dtype=bool)
        first, last = int(rows[0]), int(rows[-1])
        barred: NDArray[np.bool_] = excluded(slice(query, query + 1), slice(first, last + 1))[0, rows - first]
        return ~barred

    return rows_only(found, allowed)


def sequences_found(near: Sequence[Rows], query_frames: Rows, place_frames: Rows) -> list[Rows]:
    """For each sequence of query images the map sequences with any frame near any of its own.

    near: for each query image the map images that match it; frames (n, s): images of each sequence.
    """
    images = int(place_frames.max()) + 1 if place_frames.size else 0
    order = np.argsort(place_frames.ravel(), kind="stable")
    counts = np.bincount(place_frames.ravel(), minlength=images)
    sequences_of = np.split(order // place_frames.shape[1], np.cumsum(counts)[:-1])
    nothing = np.zeros(0, np.int64)
    found = []
    for frames in query_frames:
        matched = np.unique(np.concatenate([near[frame] for frame in frames]))
        lists = [sequences_of[image] for image in matched[matched < images]]
        found.append(np.unique(np.concatenate([nothing, *lists])))
    return found


def graded_truth(
    name: str, queries: Places, places: Places, rule: Rule
) -> tuple[Rule | None, tuple[str, ...]]:
    """The rule, where it knows all that it needs of both tables; None and why, where it does not."""
    for role, table in (("query", queries), ("map", places)):
        for what, unknown in rule.unknown(table).items():
            lack = f"{unknown.sum()} of {len(table)} {role} images have no {what}"
            return None, (f"{name}: {lack}, so there is no graded truth",)
    return rule, ()
