"""Shortlists by plain matrix products: with numpy's BLAS on the processor, with torch on a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

_SCORE_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}  # scores of one product, by device
_NOTHING_OUT = np.zeros((0, 0), dtype=np.bool_)

# Both score |y|² − 2xy: a query's own |x|² is the same for its whole row and is added to the shortlist only.
# Doubling is exact, so it is done to the queries, which are fewer than the scores.


class NumpyEngine:
    """An `Engine` (see `search`) for the processor."""

    def __init__(self) -> None:
        self._threads = (
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        )
        self._pool = ThreadPoolExecutor(self._threads)

    def hold(self, block: NDArray[np.float32], squares: NDArray[np.float32]) -> None:
        self._block, self._squares = block, squares

    def at_once(self) -> int:
        return max(1, _SCORE_BYTES["cpu"] // (4 * len(self._block)))

    def nearest(
        self, queries: NDArray[np.float32], count: int, out: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        scores = (-2 * queries) @ self._block.T
        scores += self._squares
        runs = [run for run in np.array_split(np.arange(len(queries)), self._threads) if len(run)]
        spans = [slice(run[0], run[-1] + 1) for run in runs]
        outs = [_NOTHING_OUT if out is None else out[span] for span in spans]
        lists = list(self._pool.map(_smallest, [scores[span] for span in spans], [count] * len(spans), outs))
        least, rows = (np.concatenate(parts) for parts in zip(*lists, strict=True))
        return least + _squared_lengths(queries), rows


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
        self, queries: NDArray[np.float32], count: int, out: NDArray[np.bool_] | None
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
def _smallest(scores: Any, count: int, out: Any) -> Any:  # pragma: no cover - compiled
    """(q, count) smallest of each row of (q, n), ascending, and their columns; inf where too few are not `out`.

    A heap of the best so far, its worst on top: almost every score is only compared with that one.
    """
    least = np.full((len(scores), count), np.inf, dtype=np.float32)
    columns = np.zeros((len(scores), count), dtype=np.int64)
    for i in range(len(scores)):
        heap, names = least[i], columns[i]
        for j in range(scores.shape[1]):
            if scores[i, j] < heap[0] and (out.size == 0 or not out[i, j]):
                _replace_top(heap, names, scores[i, j], j, count)
        for size in range(count - 1, 0, -1):  # the worst goes to the end, and so on
            score, name = heap[size], names[size]
            heap[size], names[size] = heap[0], names[0]
            _replace_top(heap, names, score, name, size)
    return least, columns


@njit(cache=True, nogil=True)
def _replace_top(
    heap: Any, names: Any, score: float, name: int, size: int
) -> None:  # pragma: no cover - compiled
    """Replace the largest of heap[:size] and let the new score sink to where it belongs."""
    here = 0
    while True:
        child = 2 * here + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= score:
            break
        heap[here], names[here] = heap[child], names[child]
        here = child
    heap[here], names[here] = score, name
