"""Shortlists by plain matrix products: with numpy's BLAS on the processor, with torch on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from samespot.cores import cores
from samespot.retrieval.engines.heap import keep_smallest, sort_heap

_SCORE_BYTES = {
    "cpu": 8 << 20,
    "cuda": 1 << 30,
}  # scores of one product, by device: they stay in a cache, if any
_FEWEST_ROWS = 1024  # of the map in one product: fewer make it slow
_STRETCH = 128  # scores looked at together
_NOTHING_OUT = np.zeros((0, 0), dtype=np.bool_)

# Both score |y|² − 2xy: a query's own |x|² is the same for its whole row and is added to the shortlist only.
# Doubling is exact, so it is done to the queries, which are fewer than the scores.


class NumpyEngine:
    """An `Engine` (see `search`) for the processor.

    Scores are made in tiles that stay in the cache, and looked through there: of all but the first few, hardly any is
    small enough to be kept.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or cores()
        self._pool = ThreadPoolExecutor(self._threads)

    def hold(self, block: NDArray[np.float32], squares: NDArray[np.float32]) -> None:
        self._block, self._squares = block, squares

    def at_once(self) -> int:
        return max(1, _SCORE_BYTES["cpu"] // (4 * min(len(self._block), _FEWEST_ROWS)))

    def nearest(
        self,
        queries: NDArray[np.float32],
        count: int,
        out: NDArray[np.bool_] | None,
        limits: NDArray[np.float64],
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        own = _squared_lengths(queries)
        least = np.full((len(queries), count), np.inf, dtype=np.float32)
        rows = np.zeros((len(queries), count), dtype=np.int64)
        # rounded up: what is left out must be above the limit
        most = np.nextafter((limits - own[:, 0]).astype(np.float32), np.float32(np.inf))
        doubled = -2 * queries
        tile = max(1, _SCORE_BYTES["cpu"] // (4 * len(queries)))
        runs = [run for run in np.array_split(np.arange(len(queries)), self._threads) if len(run)]
        spans = [slice(run[0], run[-1] + 1) for run in runs]
        for start in range(0, len(self._block), tile):
            held = slice(start, start + tile)
            scores = doubled @ self._block[held].T

            def look(span: slice, held: slice = held, scores: NDArray[np.float32] = scores) -> None:
                kept_out = _NOTHING_OUT if out is None else out[span, held]
                _keep(
                    scores[span],
                    self._squares[held],
                    held.start,
                    most[span],
                    kept_out,
                    least[span],
                    rows[span],
                )

            list(self._pool.map(look, spans))
        _sort(least, rows)
        return least + own, rows


class TorchEngine:
    """An `Engine` (see `search`) for a GPU; it works on the processor, too."""

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._device = torch.device(device)

    def hold(self, block: NDArray[np.float32], squares: NDArray[np.float32]) -> None:
        self._block, self._squares = self._moved(block), self._moved(squares)

    def at_once(self) -> int:
        return max(1, _SCORE_BYTES[self._device.type] // (4 * len(self._block)))

    def nearest(
        self,
        queries: NDArray[np.float32],
        count: int,
        out: NDArray[np.bool_] | None,
        limits: NDArray[np.float64],
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        with full_precision():
            scores = self._torch.addmm(self._squares, self._moved(-2 * queries), self._block.T)
        if out is not None:
            scores.masked_fill_(self._moved(out), self._torch.inf)
        least, rows = scores.topk(count, largest=False, sorted=True)
        return least.cpu().numpy() + _squared_lengths(queries), rows.cpu().numpy()

    def _moved(self, array: NDArray[Any]) -> Any:
        # torch warns of arrays that cannot be written, such as memory-mapped files
        return self._torch.from_numpy(array if array.flags.writeable else array.copy()).to(self._device)


@contextmanager
def full_precision() -> Iterator[None]:
    """Products in real float32: training may have allowed shorter mantissas, which shortlists cannot bear."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _squared_lengths(queries: NDArray[np.float32]) -> NDArray[np.float32]:
    squares: NDArray[np.float32] = np.einsum("ij,ij->i", queries, queries)[:, None]
    return squares


@njit(cache=True, nogil=True)
def _keep(
    scores: Any, squares: Any, first: int, limits: Any, out: Any, least: Any, rows: Any
) -> None:  # pragma: no cover - compiled
    """Put the scores (q, n) that are small enough, with the squares (n,) added, into the heaps (q, count) `least`.
    Their rows are counted from `first`. Not where `out` (q, n) is True."""
    n, count = scores.shape[1], least.shape[1]
    for i in range(len(scores)):
        for start in range(0, n, _STRETCH):
            some, theirs = scores[i, start : start + _STRETCH], squares[start : start + _STRETCH]
            most, any_of_them = min(least[i, 0], limits[i]), False
            for j in range(len(some)):  # without branches, many at once
                any_of_them |= some[j] + theirs[j] <= most
            if not any_of_them:
                continue
            for j in range(len(some)):
                score = some[j] + theirs[j]
                if score < least[i, 0] and score <= limits[i] and (out.size == 0 or not out[i, start + j]):
                    keep_smallest(least[i], rows[i], score, first + start + j, count)


@njit(cache=True, nogil=True)
def _sort(least: Any, rows: Any) -> None:  # pragma: no cover - compiled
    for i in range(len(least)):
        sort_heap(least[i], rows[i])
