"""Precision and recall over all pairs of queries and map images: exact, without ever holding all pairs.

Only the scores of the positive pairs are kept. The negatives stream by and are counted between them, which is all
that precision at a positive's score needs. 7Scenes has 10⁸ pairs; of these some millions are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.retrieval.exclusion import Exclusion

PAIRS_AT_ONCE = 1 << 22  # 16 MB of scores
PLACES_AT_ONCE = 8192  # wide enough for a fast matrix product, with some hundred queries
Score = Literal["distance", "dot"]
Blocks = Callable[[], Iterator[tuple[NDArray[Any], NDArray[np.bool_]]]]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairCurve:
    """Precision and recall when pairs that score at least a threshold are called the same place.

    Thresholds ascend, and each is the score of some positive pair: between two of them recall does not change. The
    last point (precision 1, recall 0) has no threshold, as in scikit-learn.
    """

    precision: Floats  # (t + 1,)
    recall: Floats  # (t + 1,)
    thresholds: NDArray[Any]  # (t,)
    average_precision: float
    positives: int
    pairs: int

    def thinned(self, points: int = 500) -> PairCurve:
        """At most so many of the points, both ends among them, for a plot.

        Two thirds are even in recall. The others crowd towards recall 0, where precision jumps with every pair.
        """
        if points < 2:
            raise InputError(f"a curve thinned to {points} points has no ends; keep at least 2")
        if points >= len(self.recall):
            return self
        early = points // 3
        wanted = np.concatenate(
            [np.linspace(0, 1, points - early), np.geomspace(1 / self.positives, 1, early)]
        )
        last = len(self.recall) - 1
        kept = last - np.unique(np.searchsorted(self.recall[::-1], wanted))[::-1]
        return PairCurve(
            self.precision[kept],
            self.recall[kept],
            self.thresholds[kept[:-1]],
            self.average_precision,
            self.positives,
            self.pairs,
        )


def pair_curve(blocks: Blocks) -> PairCurve:
    """The curve over all pairs that `blocks` yields, in any order and size.

    `blocks` is called twice and must give the same pairs both times, as (n,) scores, higher for more alike, and
    (n,) whether the pair is positive. Pairs of equal score are told apart by no threshold, so they count together.
    """
    thresholds, found, pairs = _positives(blocks)
    between, seen = _negatives(blocks, thresholds)
    positives = int(found.sum())
    if seen != pairs:
        raise InputError(f"the blocks gave {pairs} pairs, then {seen}; they must give the same ones twice")
    above = np.cumsum(found[::-1])[::-1]
    below = np.cumsum(between[::-1])[::-1]
    precision = np.append(above / (above + below), 1.0)
    recall = np.append(above / positives, 0.0)
    average = float(-np.sum(np.diff(recall) * precision[:-1]))
    return PairCurve(precision, recall, thresholds, average, positives, pairs)


def _positives(blocks: Blocks) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Scores that positive pairs have, ascending, how many have each, and the number of all pairs."""
    gathered, pairs = [], 0
    for scores, truth in blocks():
        if scores.shape != truth.shape or truth.dtype != np.bool_:
            raise InputError(f"a block has {scores.shape} scores and {truth.shape} {truth.dtype} truths")
        gathered.append(scores[truth])
        pairs += scores.size
    scores = np.concatenate(gathered) if gathered else np.zeros(0)
    if not scores.size:
        raise InputError(f"none of the {pairs} pairs is positive, so there is no precision or recall")
    _refuse_nan(scores)
    thresholds, found = np.unique(scores, return_counts=True)
    return thresholds, found.astype(np.int64), pairs


def _negatives(blocks: Blocks, thresholds: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """How many negative pairs score from each threshold up to below the next, and the number of all pairs."""
    between, pairs = np.zeros(len(thresholds), dtype=np.int64), 0
    for scores, truth in blocks():
        pairs += scores.size
        _refuse_nan(scores)
        # Sorted first, a block walks through the thresholds in order: ten times faster than jumping about.
        negatives = np.sort(scores[~truth & (scores >= thresholds[0])])
        at = np.searchsorted(thresholds, negatives, side="right") - 1
        runs = np.flatnonzero(np.diff(at, prepend=-1))
        between[at[runs]] += np.diff(runs, append=at.size)
    return between, pairs


def _refuse_nan(scores: NDArray[Any]) -> None:
    if np.isnan(scores).any():
        raise InputError("a pair has score NaN, which no threshold can place; are the descriptors finite?")


@dataclass(frozen=True)
class DescriptorBlocks:
    """All pairs of two descriptor matrices, as `pair_curve` wants them; call it for the blocks.

    Pairs with an unreadable image (its descriptor is all zero) are left out: they have no score.
    """

    queries: NDArray[Any]  # (q, d)
    places: NDArray[Any]  # (m, d)
    indptr: NDArray[np.int64]  # (q + 1,) and
    columns: NDArray[np.int64]  # (positives,): the positives of each query, as in `PairLabels`
    readable_queries: NDArray[np.bool_]  # (q,)
    readable_places: NDArray[np.bool_]  # (m,)
    excluded: Exclusion | None
    score: Score
    pairs_at_once: int

    @property
    def unreadable_queries(self) -> int:
        return int(np.count_nonzero(~self.readable_queries))

    @property
    def unreadable_places(self) -> int:
        return int(np.count_nonzero(~self.readable_places))

    def __call__(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
        columns = max(1, min(len(self.places), PLACES_AT_ONCE, self.pairs_at_once))
        rows = max(1, self.pairs_at_once // columns)
        for q in _slices(len(self.queries), rows):
            queries = np.asarray(self.queries[q], dtype=np.float32)
            for m in _slices(len(self.places), columns):
                scores = _scores(queries, np.asarray(self.places[m], dtype=np.float32), self.score)
                kept = self._kept(q, m)
                yield scores[kept], self._truth(q, m)[kept]

    def _kept(self, q: slice, m: slice) -> NDArray[np.bool_]:
        kept = self.readable_queries[q, None] & self.readable_places[None, m]
        return kept if self.excluded is None else kept & ~self.excluded(q, m)

    def _truth(self, q: slice, m: slice) -> NDArray[np.bool_]:
        """(q, m) which pairs of the block are positive."""
        truth = np.zeros((q.stop - q.start, m.stop - m.start), dtype=bool)
        columns = self.columns[self.indptr[q.start] : self.indptr[q.stop]]
        rows = np.repeat(np.arange(len(truth)), np.diff(self.indptr[q.start : q.stop + 1]))
        here = (columns >= m.start) & (columns < m.stop)
        truth[rows[here], columns[here] - m.start] = True
        return truth


def descriptor_blocks(
    queries: NDArray[Any],
    places: NDArray[Any],
    positives: Sequence[ArrayLike] | Any,
    excluded: Exclusion | None = None,
    block: int = PAIRS_AT_ONCE,
    score: Score = "distance",
) -> DescriptorBlocks:
    """Blocks of at most `block` pairs of queries (q, d) and map images (m, d), which may be memory-mapped.

    positives: for each query the map rows that are positive, or a scipy sparse matrix (q, m) that is nonzero
    there. score: "distance" is minus the squared distance, "dot" the dot product. Excluded pairs are left out.
    """
    if queries.ndim != 2 or places.ndim != 2 or queries.shape[1] != places.shape[1]:
        raise InputError(f"descriptors {queries.shape} and {places.shape} are not of the same model and dims")
    if score not in get_args(Score):
        raise InputError(f"score {score!r} is unknown; choose one of {', '.join(get_args(Score))}")
    if block < 1:
        raise InputError(f"blocks of {block} pairs hold nothing; 1 is the smallest")
    indptr, columns = _rows_of(positives)
    if len(indptr) - 1 != len(queries):
        raise InputError(
            f"{len(indptr) - 1} lists of positives for {len(queries)} queries; give one per query"
        )
    if columns.size and (columns.min() < 0 or columns.max() >= len(places)):
        raise InputError(f"positives name map rows that are not among the {len(places)} images of the map")
    return DescriptorBlocks(
        queries, places, indptr, columns, _readable(queries), _readable(places), excluded, score, block
    )


def _rows_of(positives: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if hasattr(positives, "tocsr"):
        matrix = positives.tocsr()
        true = np.flatnonzero(matrix.data)  # a stored 0 is no positive
        return np.searchsorted(true, matrix.indptr).astype(np.int64), matrix.indices[true].astype(np.int64)
    lists = [np.asarray(rows, dtype=np.int64) for rows in positives]
    indptr = np.cumsum([0, *(len(rows) for rows in lists)], dtype=np.int64)
    return indptr, np.concatenate([np.zeros(0, np.int64), *lists])


def _readable(vectors: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) which rows are not all zero, looked at in parts since they may lie on disk."""
    parts = [np.asarray(vectors[part]).any(axis=1) for part in _slices(len(vectors), 1 << 14)]
    return np.concatenate([np.zeros(0, dtype=bool), *parts])


def _scores(queries: NDArray[np.float32], places: NDArray[np.float32], score: Score) -> NDArray[np.float32]:
    scores = queries @ places.T
    if score == "distance":
        scores *= 2
        scores -= np.einsum("md,md->m", places, places)
        scores -= np.einsum("qd,qd->q", queries, queries)[:, None]
        np.minimum(scores, 0, out=scores)  # rounding must not give a pair less than no distance
    return scores


def _slices(length: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, length)) for start in range(0, length, step))
