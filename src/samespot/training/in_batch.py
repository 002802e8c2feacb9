"""How similar are any two photos of a batch? Geometry says it for all of them, not only for the pairs drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from samespot.overlap.nearness import soft_nearness
from samespot.overlap.sector import compass_sector, pair_share
from samespot.places.table import Places
from samespot.training.sets import LabelledSet


class InBatchSimilarity:
    """Similarity matrices of batches, by the rule that the labels of each set were made with.

    Labels of a field of view or by the distance on the ground are computed from the positions, so they are known
    between two queries, too. Any other labels (3D, the reference's files) are looked up; there two queries, or two
    map photos, have a similarity only where the table was labelled against itself. Else it is unknown: NaN.
    """

    def __init__(self, sets: list[LabelledSet], *, graded: bool = False) -> None:
        """graded: binary labels within so many metres are graded by distance, for a loss that needs degrees."""
        self._rules = [_rule(one, graded) for one in sets]

    def __call__(
        self,
        of_set: NDArray[np.int64],
        queries: NDArray[np.int64],
        matches: NDArray[np.int64],
        images: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """(2n, 2n) for n pairs; queries first, then matches. `images`: (2n,) numbers, equal for one photo."""
        matrix = np.zeros((2 * len(queries), 2 * len(queries)), dtype=np.float32)
        for number in np.unique(of_set):
            at = np.flatnonzero(of_set == number)
            block = self._rules[number](queries[at], matches[at])
            both = np.concatenate([at, len(queries) + at])
            matrix[np.ix_(both, both)] = block
        matrix[images[:, None] == images[None, :]] = np.nan
        return matrix


def _rule(one: LabelledSet, graded: bool) -> Any:
    meta = one.labels.meta
    if meta.get("measure") in ("overlap", "iou") and "theta" in meta and "radius" in meta:
        return _FieldOfView(one)
    if meta.get("measure") == "within" and "metres" in meta:
        return _Within(one, graded)
    if meta.get("measure") == "distance" and "steepness" in meta:
        return _SoftDistance(one)
    return _Stored(one)


class _FieldOfView:
    def __init__(self, one: LabelledSet) -> None:
        meta = one.labels.meta
        self._sides = [_cameras(table, meta) for table in (one.queries, one.places)]
        self._radius, self._iou = float(meta["radius"]), meta["measure"] == "iou"

    def __call__(self, queries: NDArray[np.int64], matches: NDArray[np.int64]) -> NDArray[np.float32]:
        cameras = np.concatenate([self._sides[0][queries], self._sides[1][matches]])
        return _sector_matrix(cameras, self._radius, self._iou)  # type: ignore[no-any-return]


def _cameras(table: Places, meta: dict[str, Any]) -> NDArray[np.float64]:
    """(n, 4) easting, northing [m], heading, opening angle [deg], as `label_pairs` read them."""
    positions = table.positions
    angle = np.full(len(table), float(meta["theta"]))
    if meta.get("panoramas", "disk") == "disk":
        angle[table.panoramas] = 360.0
    angle[np.isnan(positions[:, 2])] = 360.0
    positions[:, 2] = np.nan_to_num(positions[:, 2], nan=0.0)
    return np.column_stack([positions, angle])


class _Within:
    """1 within the limits. Graded: 1 at the same spot, 0.5 at the limit, 0 from twice as far or beyond the angle."""

    def __init__(self, one: LabelledSet, graded: bool) -> None:
        self._sides = [table.positions for table in (one.queries, one.places)]
        self._metres, self._degrees = float(one.labels.meta["metres"]), one.labels.meta.get("degrees")
        self._graded = graded

    def __call__(self, queries: NDArray[np.int64], matches: NDArray[np.int64]) -> NDArray[np.float32]:
        at = np.concatenate([self._sides[0][queries], self._sides[1][matches]])
        apart2 = _squared_metres(at)
        near = apart2 <= self._metres * self._metres
        if self._graded:
            near = np.maximum(1.0 - np.sqrt(apart2) / (2.0 * self._metres), 0.0)
        if self._degrees is not None:
            turn = np.abs(at[:, None, 2] - at[None, :, 2]) % 360.0
            near = near * (np.minimum(turn, 360.0 - turn) <= self._degrees)
        return near.astype(np.float32)


class _SoftDistance:
    def __init__(self, one: LabelledSet) -> None:
        self._sides = [table.positions for table in (one.queries, one.places)]
        meta = one.labels.meta
        self._metres, self._steepness = float(meta["metres"]), float(meta["steepness"])

    def __call__(self, queries: NDArray[np.int64], matches: NDArray[np.int64]) -> NDArray[np.float32]:
        apart = np.sqrt(_squared_metres(np.concatenate([self._sides[0][queries], self._sides[1][matches]])))
        return soft_nearness(apart, self._metres, self._steepness).astype(np.float32)


def _squared_metres(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, n) between positions (n, 3)."""
    apart = positions[:, None, :2] - positions[None, :, :2]
    return np.asarray((apart**2).sum(axis=2))


class _Stored:
    def __init__(self, one: LabelledSet) -> None:
        labels = one.labels
        self._arrays: Any = tuple(np.asarray(a) for a in (labels.indptr, labels.columns, labels.similarity))
        self._same_table = one.same_table

    def __call__(self, queries: NDArray[np.int64], matches: NDArray[np.int64]) -> NDArray[np.float32]:
        rows = np.concatenate([queries, matches])
        if self._same_table:
            return _stored_matrix(self._arrays, rows, rows)  # type: ignore[no-any-return]
        n = len(queries)
        matrix = np.full((2 * n, 2 * n), np.nan, dtype=np.float32)
        matrix[:n, n:] = _stored_matrix(self._arrays, queries, matches)
        matrix[n:, :n] = matrix[:n, n:].T
        return matrix


@njit(cache=True, nogil=True, error_model="numpy")
def _sector_matrix(cameras: Any, radius: float, iou: bool) -> Any:  # pragma: no cover - compiled
    n = len(cameras)
    matrix = np.ones((n, n), np.float32)
    for i in range(n):
        mine = compass_sector(cameras[i, 2], cameras[i, 3], radius)
        for j in range(i + 1, n):
            dx, dy = cameras[j, 0] - cameras[i, 0], cameras[j, 1] - cameras[i, 1]
            share = 0.0
            if dx * dx + dy * dy < 4.0 * radius * radius:
                share = pair_share(dx, dy, mine, compass_sector(cameras[j, 2], cameras[j, 3], radius), iou)
            matrix[i, j] = matrix[j, i] = share
    return matrix


@njit(cache=True, nogil=True)
def _stored_matrix(labels: Any, rows: Any, wanted: Any) -> Any:  # pragma: no cover - compiled
    indptr, columns, similarity = labels
    matrix = np.zeros((len(rows), len(wanted)), np.float32)
    for i in range(len(rows)):
        start, end = indptr[rows[i]], indptr[rows[i] + 1]
        for j in range(len(wanted)):
            at = start + np.searchsorted(columns[start:end], wanted[j])
            if at < end and columns[at] == wanted[j]:
                matrix[i, j] = similarity[at]
    return matrix
