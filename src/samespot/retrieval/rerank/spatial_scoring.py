"""Do matches agree on how the view moved? Quickly by their mean shift, or properly by one homography for all.

Both take matched positions a, b (n, 2) and are pure functions; a larger score is a better match.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TRIES = 2000  # homographies that are tried at most
SURE = 0.995  # as soon as the best one would have been met with this probability, no more are tried


def rapid_score(a: Floats, b: Floats, extent: tuple[float, float]) -> float:
    """Patch-NetVLAD's rapid spatial scoring, before it is divided by the number of patches.

    Each match adds (extent - |its shift - the mean shift|)², along both axes. extent: the largest position along
    each; a match that is off by more than that adds nothing.
    """
    if not len(a):
        return 0.0
    shift = b - a
    off = np.abs(shift - shift.mean(axis=0))
    return float((np.maximum(np.asarray(extent) - off, 0.0) ** 2).sum())


def homography_inliers(
    a: Floats, b: Floats, within: float, *, tries: int = TRIES, seed: int = 0
) -> NDArray[np.bool_]:
    """(n,) the matches that the best homography a -> b, of those through four random matches, brings within `within`.

    All False where no four matches span one. The same matches and seed always give the same answer.
    """
    a, b = (np.ascontiguousarray(x, dtype=np.float64) for x in (a, b))
    if len(a) < 4:
        return np.zeros(len(a), dtype=bool)
    inliers: NDArray[np.bool_] = _most_inliers(a, b, float(within) ** 2, tries, seed)
    return inliers


@njit(cache=True, nogil=True, error_model="numpy")
def _most_inliers(a: Any, b: Any, square: float, tries: int, seed: int) -> Any:  # pragma: no cover - compiled
    np.random.seed(seed)  # noqa: NPY002 - of this compiled code, not of numpy
    n = len(a)
    best, most, needed = np.zeros(n, np.bool_), 0, float(tries)
    inside, four, scale = np.zeros(n, np.bool_), np.zeros(4, np.int64), np.zeros(3)
    done = 0
    while done < needed:
        done += 1
        _draw(four, n)
        if not _scales(a, b, four, scale):
            continue
        count = _count(a, b, four, scale, square, inside)
        if count > most:
            best[:], most = inside, count
            missed = 1.0 - (most / n) ** 4
            needed = min(needed, np.log(1.0 - SURE) / np.log(missed)) if missed > 0.0 else 0.0
    return best


@njit(cache=True, nogil=True)
def _draw(four: Any, n: int) -> None:  # pragma: no cover - compiled
    """Four different numbers below n."""
    k = 0
    while k < 4:
        four[k] = np.random.randint(n)  # noqa: NPY002
        again = False
        for i in range(k):
            again = again or four[i] == four[k]
        if not again:
            k += 1


@njit(cache=True, nogil=True)
def _area(p: Any, q: Any, r: Any) -> Any:  # pragma: no cover - compiled
    """Twice the signed area of a triangle."""
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


@njit(cache=True, nogil=True)
def _scales(a: Any, b: Any, four: Any, scale: Any) -> bool:  # pragma: no cover - compiled
    """The homography H = sum_i scale_i · b_i ⊗ (a_j × a_k) through four matches; False where there is none.

    A view of a plane keeps the turning sense of every triangle; three points on a line have none.
    """
    for i in range(4):
        x, y, z = four[(i + 1) % 4], four[(i + 2) % 4], four[(i + 3) % 4]
        if _area(a[x], a[y], a[z]) * _area(b[x], b[y], b[z]) <= 1e-12:
            return False
    p, q, r, s = four
    scale[0] = _area(b[s], b[q], b[r]) / _area(a[s], a[q], a[r])
    scale[1] = _area(b[p], b[s], b[r]) / _area(a[p], a[s], a[r])
    scale[2] = _area(b[p], b[q], b[s]) / _area(a[p], a[q], a[s])
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _count(
    a: Any, b: Any, four: Any, scale: Any, square: float, inside: Any
) -> int:  # pragma: no cover - compiled
    """How many matches it carries to within the root of `square`, and which."""
    p, q, r = four[0], four[1], four[2]
    side = _area(a[p], a[q], a[r])
    count = 0
    for i in range(len(a)):
        # an area with two corners is the product of the point with the line through them
        c0 = scale[0] * _area(a[i], a[q], a[r])
        c1 = scale[1] * _area(a[p], a[i], a[r])
        c2 = scale[2] * _area(a[p], a[q], a[i])
        w = c0 + c1 + c2
        inside[i] = False
        if w * side > 0.0:  # else it would lie behind the camera
            dx = (c0 * b[p, 0] + c1 * b[q, 0] + c2 * b[r, 0]) / w - b[i, 0]
            dy = (c0 * b[p, 1] + c1 * b[q, 1] + c2 * b[r, 1]) / w - b[i, 1]
            if dx * dx + dy * dy <= square:
                inside[i] = True
                count += 1
    return count
