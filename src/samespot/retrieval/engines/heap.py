"""The smallest scores of many: a heap with the worst of them on top, so that almost every score is only compared with
that one."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True, nogil=True)
def keep_smallest(
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


@njit(cache=True, nogil=True)
def sort_heap(heap: Any, names: Any) -> None:  # pragma: no cover - compiled
    """Into ascending order: the worst goes to the end, and so on."""
    for size in range(len(heap) - 1, 0, -1):
        score, name = heap[size], names[size]
        heap[size], names[size] = heap[0], names[0]
        keep_smallest(heap, names, score, name, size)
