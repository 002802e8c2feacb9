"""From what an index lists to what exact search would find: measured again, by the vectors themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import read_only
from samespot.retrieval.search import Block, offer, read_block, score_error, search

Rows = NDArray[np.int64]
Listed = tuple[Rows, NDArray[np.float64]]  # (k,) map rows and their distances, the nearest first
Bools = NDArray[np.bool_]
SPARE = 16  # listed beyond k: an index computes in float32, or with less
LONGER = 4  # times as long is the next list where one was too short
GATHERED = (
    0.25  # share of the map up to which the allowed rows are copied, which is faster than to leave out others
)


def exactly(
    vector: NDArray[Any], vectors: NDArray[Any], k: int, allowed: Bools | None = None, device: str = "cpu"
) -> Listed:
    """The k rows of vectors (n, d) nearest to one vector (d,), among the allowed ones (n,)."""
    if allowed is None:
        found = search(vector[None], vectors, k, device=device)
    elif (chosen := np.flatnonzero(allowed)).size <= GATHERED * len(allowed):
        if not len(chosen):
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        found = search(vector[None], vectors[chosen], k, device=device)
        there = found.rows[0] >= 0
        return chosen[found.rows[0][there]], found.distances[0][there]
    else:
        found = search(vector[None], vectors, k, excluded=lambda _, m: ~allowed[None, m], device=device)
    there = found.rows[0] >= 0
    return found.rows[0][there], found.distances[0][there]


def measured(
    ask: Callable[[int], tuple[Rows, NDArray[np.float32]]],
    vector: NDArray[Any],
    vectors: NDArray[Any],
    k: int,
    allowed: Bools | None = None,
    *,
    first: int | None = None,
    most: int = 16_384,
    rounded: bool = False,
) -> Listed:
    """The k nearest of what `ask(count)` lists: count rows, ascending by their squared distances, and these.

    first: rows to ask for at first. Where too few of them are allowed, or the list may have been cut through a tie,
    more are asked for; from `most` on all are compared. rounded: the distances are of codes, and tell of no tie.
    """
    asked = read_block(vector[None], slice(0, 1), np.float32, "query")
    if not len(asked.numbers):
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    count = min(max(k + SPARE, first or 0), most)
    while True:
        rows, scores = ask(count)
        squares, found = reranked(asked, vectors, (rows if allowed is None else rows[allowed[rows]])[None], k)
        cut = not rounded and len(rows) > 0 and float(scores[-1]) - _slack(asked) <= squares[0, -1]
        missed = found[0, -1] < 0 and len(rows) < (len(vectors) if allowed is None else int(allowed.sum()))
        if (len(rows) < count and not missed) or (found[0, -1] >= 0 and not cut):
            there = found[0] >= 0
            return found[0][there], np.sqrt(squares[0][there])
        if count >= most or len(rows) < count:  # an index may list fewer than there are
            return exactly(vector, vectors, k, allowed)
        count = min(LONGER * count, most)


def _slack(asked: Block) -> float:
    """How far a float32 score can be from the squared distance to a row of the map, which is about as long."""
    return 1.1 * float(score_error(asked, asked)[0])


def reranked(asked: Block, vectors: NDArray[Any], listed: Rows, k: int) -> tuple[NDArray[np.float64], Rows]:
    """(q, k) squared distances and rows: the best of the listed map rows (q, count); -1 ends a list."""
    numbers = np.unique(listed[listed >= 0])
    values = np.asarray(vectors[numbers], dtype=np.float32)
    kept = values.any(axis=1)  # an all-zero row is no image
    numbers, values = numbers[kept], read_only(values[kept])
    squares = np.full((len(listed), k), np.inf)
    rows = np.full((len(listed), k), -1, dtype=np.int64)
    positions = np.minimum(np.searchsorted(numbers, listed), max(len(numbers) - 1, 0))
    known = (
        (listed >= 0) & (numbers[positions] == listed) if len(numbers) else np.zeros(listed.shape, dtype=bool)
    )
    # `offer` stops at inf, so what is no image goes to the end
    order = np.argsort(~known, axis=1, kind="stable")
    known, positions = np.take_along_axis(known, order, 1), np.take_along_axis(positions, order, 1)
    unscored = np.where(known, np.float32(0), np.float32(np.inf))
    if listed.size and len(numbers):
        which, slack = np.arange(len(listed)), np.zeros(len(listed))
        offer(which, asked.values, values, numbers, unscored, positions, slack, squares, rows)
    return squares, rows
