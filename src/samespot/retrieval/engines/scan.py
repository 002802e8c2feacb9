"""Shortlists of one query, or of a few, in a single pass over the map as it lies in memory.

A matrix product for one query waits for memory, so what counts is how often the map is read, and how large it is. Here
its squared lengths and its products with the queries are summed up in the same pass, and float16 is turned into
float32 on the way, in registers: a map of half the size is read in half the time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from samespot.cores import cores
from samespot.retrieval.engines.heap import keep_smallest, sort_heap

FEW = 4  # queries up to which this is faster than matrix products
# sums in any order, which the bound on scores allows for (`score_error`); NaN and inf are left as they are
_ANY_ORDER = {"reassoc", "contract", "nsz"}
_WORTH_A_THREAD = 4096  # rows; waking one takes about as long
_LOST = 1e-30  # a row whose square is smaller may be all zero, which is no image


class Scan:
    """Looks through blocks of a map (n, d) float16 or float32, with all cores or fewer threads."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or cores()
        self._pool = ThreadPoolExecutor(self._threads)

    def nearest(
        self, queries: NDArray[np.float32], block: NDArray[Any], count: int
    ) -> list[tuple[NDArray[np.float32], NDArray[np.int64], int, float]] | None:
        """One list for each run of the block's rows: (q, count) smallest scores, ascending, their rows, how many rows
        the run has and the largest of their squared lengths. None: there is a row that is not finite."""
        # more runs than threads, so that one that is held up leaves the rest to the others
        count_runs = max(1, min(4 * self._threads, len(block) // _WORTH_A_THREAD))
        spans = np.linspace(0, len(block), count_runs + 1).astype(int).tolist()
        runs = [(a, b) for a, b in pairwise(spans) if a < b]
        bits = block.view(np.uint16) if block.dtype == np.float16 else block
        twice = 2 * queries

        def look(run: tuple[int, int]) -> tuple[NDArray[np.float32], NDArray[np.int64], int, float]:
            least, rows, largest = _look(bits[run[0] : run[1]], twice, count)
            return least, rows + run[0], run[1] - run[0], float(largest)

        lists = list(self._pool.map(look, runs))
        if not all(np.isfinite(largest) for *_, largest in lists):
            return None
        own = np.einsum("ij,ij->i", queries, queries)[:, None]
        return [(least + own, rows, size, largest) for least, rows, size, largest in lists]


def _half_to_single(typing_context, bits):  # type: ignore[no-untyped-def]
    """A float16, given as its bits, as float32: exact, and one instruction for many where the machine has it."""

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), emit


_widened: Any = intrinsic(_half_to_single)


def _single(value: Any) -> Any:
    """float32 of a float32, or of the bits of a float16."""


@overload(_single, inline="always")
def _single_of(value):  # type: ignore[no-untyped-def]
    if value == types.uint16:
        return lambda value: _widened(value)
    return lambda value: value


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _square_and_product(row: Any, query: Any) -> Any:  # pragma: no cover - compiled
    total, product = np.float32(0.0), np.float32(0.0)
    for j in range(len(row)):
        value = _single(row[j])
        total += value * value
        product += value * query[j]
    return total, product


@njit(cache=True, nogil=True)
def _look(block: Any, twice: Any, count: int) -> Any:  # pragma: no cover - compiled
    """(q, count) smallest |y|² − 2xy, ascending, their rows, and the largest |y|²; the queries are given doubled."""
    least = np.full((len(twice), count), np.inf, dtype=np.float32)
    rows = np.zeros((len(twice), count), dtype=np.int64)
    largest = np.float32(0.0)
    for r in range(len(block)):
        for i in range(len(twice)):
            square, product = _square_and_product(block[r], twice[i])
            if not square <= largest:  # also if it is not a number
                largest = square
                if not square < np.inf:
                    return least, rows, largest
            if square < _LOST and not _any(block[r]):
                break
            if square - product < least[i, 0]:
                keep_smallest(least[i], rows[i], square - product, r, count)
    for i in range(len(twice)):
        sort_heap(least[i], rows[i])
    return least, rows, largest


@njit(cache=True, nogil=True)
def _any(row: Any) -> bool:  # pragma: no cover - compiled
    found = False
    for j in range(len(row)):
        found |= _single(row[j]) != 0.0
    return found
