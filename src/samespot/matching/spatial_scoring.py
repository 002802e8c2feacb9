"""Do matches agree on how the view moved? Quickly by their mean shift, or properly by one homography for all.

Both take matched positions a, b (n, 2) and are pure functions; a larger score is a better match. `inlier_counts` asks
the second for one photo against many at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
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
    a, b = (np.asarray(x, dtype=np.float64) for x in (a, b))
    if len(a) < 4:
        return np.zeros(len(a), dtype=bool)
    inliers: NDArray[np.bool_] = _most_inliers(*_columns(a), *_columns(b), float(within) ** 2, tries, seed)
    return inliers


def inlier_counts(
    grid: Floats, matches: NDArray[np.int64], within: float, *, tries: int = TRIES, seed: int = 0
) -> NDArray[np.int64]:
    """How many matches of one photo with each of k others the best homography explains: (k,).

    grid: (squares, 2) where the squares lie, in all of the photos. matches: (k, squares) square of the other photo, or
    -1. The counts are those of `homography_inliers` for each photo, on any number of threads.
    """
    x, y = _columns(np.asarray(grid, dtype=np.float64))
    matches = np.ascontiguousarray(matches, dtype=np.int64)
    counts: NDArray[np.int64] = _count_all(x, y, matches, float(within) ** 2, tries, seed)
    return counts


def _columns(points: Floats) -> tuple[Floats, Floats]:
    """(n, 2) -> x and y, each in a row of its own: so the inner loop takes several matches at once."""
    return np.ascontiguousarray(points[:, 0]), np.ascontiguousarray(points[:, 1])


@njit(cache=True, parallel=True, error_model="numpy")
def _count_all(
    x: Any, y: Any, matches: Any, square: float, tries: int, seed: int
) -> Any:  # pragma: no cover - compiled
    counts = np.zeros(len(matches), np.int64)
    for k in prange(len(matches)):
        here = np.flatnonzero(matches[k] >= 0)
        if len(here) >= 4:
            there = matches[k][here]
            best = np.zeros(4, np.int64)
            counts[k] = _search(x[here], y[here], x[there], y[there], square, tries, seed, best)
    return counts


@njit(cache=True, nogil=True, error_model="numpy")
def _most_inliers(
    ax: Any, ay: Any, bx: Any, by: Any, square: float, tries: int, seed: int
) -> Any:  # pragma: no cover - compiled
    four, scale, inside = np.zeros(4, np.int64), np.zeros(3), np.zeros(len(ax), np.bool_)
    if _search(ax, ay, bx, by, square, tries, seed, four):
        _scales(ax, ay, bx, by, four, scale)
        _count(ax, ay, bx, by, four, scale, square, inside)
    return inside


@njit(cache=True, nogil=True, error_model="numpy")
def _search(
    ax: Any, ay: Any, bx: Any, by: Any, square: float, tries: int, seed: int, best: Any
) -> int:  # pragma: no cover - compiled
    """Inliers of the best homography; it goes through the matches `best`. 0: there is none.

    Each thread has a random generator of its own, so each search begins with a seed.
    """
    np.random.seed(seed)  # noqa: NPY002 - of this compiled code, not of numpy
    n = len(ax)
    most, needed = 0, float(tries)
    four, scale, inside = np.zeros(4, np.int64), np.zeros(3), np.zeros(n, np.bool_)
    done = 0
    while done < needed:
        done += 1
        _draw(four, n)
        if not _scales(ax, ay, bx, by, four, scale):
            continue
        count = _count(ax, ay, bx, by, four, scale, square, inside)
        if count > most:
            best[:], most = four, count
            missed = 1.0 - (most / n) ** 4
            needed = min(needed, np.log(1.0 - SURE) / np.log(missed)) if missed > 0.0 else 0.0
    return most


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
def _area(
    px: float, py: float, qx: float, qy: float, rx: float, ry: float
) -> float:  # pragma: no cover - compiled
    """Twice the signed area of a triangle."""
    return (qx - px) * (ry - py) - (qy - py) * (rx - px)


@njit(cache=True, nogil=True)
def _corners(x: Any, y: Any, p: int, q: int, r: int) -> float:  # pragma: no cover - compiled
    """The same of three of the points."""
    return _area(x[p], y[p], x[q], y[q], x[r], y[r])


@njit(cache=True, nogil=True, error_model="numpy")
def _scales(ax: Any, ay: Any, bx: Any, by: Any, four: Any, scale: Any) -> bool:  # pragma: no cover - compiled
    """The homography H = sum_i scale_i · b_i ⊗ (a_j × a_k) through four matches; False where there is none.

    A view of a plane keeps the turning sense of every triangle; three points on a line have none.
    """
    for i in range(4):
        j, k, m = four[(i + 1) % 4], four[(i + 2) % 4], four[(i + 3) % 4]
        if _corners(ax, ay, j, k, m) * _corners(bx, by, j, k, m) <= 1e-12:
            return False
    p, q, r, s = four
    scale[0] = _corners(bx, by, s, q, r) / _corners(ax, ay, s, q, r)
    scale[1] = _corners(bx, by, p, s, r) / _corners(ax, ay, p, s, r)
    scale[2] = _corners(bx, by, p, q, s) / _corners(ax, ay, p, q, s)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _count(
    ax: Any, ay: Any, bx: Any, by: Any, four: Any, scale: Any, square: float, inside: Any
) -> int:  # pragma: no cover - compiled
    """How many matches it carries to within the root of `square`, and which. No branch: several are taken at once."""
    p, q, r = four[0], four[1], four[2]
    px, py, qx, qy, rx, ry = ax[p], ay[p], ax[q], ay[q], ax[r], ay[r]
    to_px, to_py, to_qx, to_qy, to_rx, to_ry = bx[p], by[p], bx[q], by[q], bx[r], by[r]
    s0, s1, s2 = scale[0], scale[1], scale[2]
    side = _area(px, py, qx, qy, rx, ry)
    count = 0
    for i in range(len(ax)):
        x, y = ax[i], ay[i]
        # an area with two corners is the product of the point with the line through them
        c0 = s0 * _area(x, y, qx, qy, rx, ry)
        c1 = s1 * _area(px, py, x, y, rx, ry)
        c2 = s2 * _area(px, py, qx, qy, x, y)
        w = c0 + c1 + c2
        dx = (c0 * to_px + c1 * to_qx + c2 * to_rx) / w - bx[i]
        dy = (c0 * to_py + c1 * to_qy + c2 * to_ry) / w - by[i]
        # with w on the other side it would lie behind the camera
        inside[i] = (w * side > 0.0) & (dx * dx + dy * dy <= square)
        count += inside[i]
    return count
