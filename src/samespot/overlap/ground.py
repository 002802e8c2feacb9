"""Every pair of cameras that can be similar, touching only those within reach of each other on the ground."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.overlap.labels import Block
from samespot.overlap.sector import Sector, compass_sector, pair_share
from samespot.progress import Progress

# Pairs looked at in one block: 8 bytes each of scratch memory, whatever the size of the sets.
BLOCK_PAIRS = 8_000_000
_MOST_CELLS = 2.0**60  # so that the number of any cell, and of its neighbours, is an int64


def _threads(asked: int | None) -> int:
    """How many threads to use: all there are, or as many as asked for if there are so many."""
    if asked is not None and asked < 1:
        raise InputError(f"threads {asked}: give at least 1, or leave it out to use every core")
    there = numba.get_num_threads()
    return there if asked is None else min(asked, there)


def views(cameras: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """(n, 4) easting, northing [m], heading, opening angle [deg] -> (n, 9) position and `Sector` of each camera."""
    return np.column_stack([cameras[:, :2], _sectors(cameras[:, 2], cameras[:, 3], float(radius))])


@njit(cache=True)
def _sectors(headings: Any, angles: Any, radius: float) -> Any:  # pragma: no cover - compiled
    rows = np.empty((len(headings), 7))
    for i in range(len(headings)):
        s = compass_sector(headings[i], angles[i], radius)
        rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3] = s.axis, s.cos, s.sin, s.half
        rows[i, 4], rows[i, 5], rows[i, 6] = s.cos_half, s.sin_half, s.radius
    return rows


_NO_SECTOR = Sector(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # a binary rule looks at none


class PairRule(NamedTuple):
    """How similar a pair at most `metres` apart is: the share of two sectors (graded), less the farther apart (where
    there is a steepness), or 1 if turned by at most `degrees`."""

    metres: float
    degrees: float = 360.0
    graded: bool = False
    iou: bool = False
    middle: float = 0.0  # [m] and ...
    steepness: float = 0.0  # ... [1/m] of `SoftDistance`


class Grid(NamedTuple):
    """The map sorted by grid cell, so that a column of neighbouring cells is one contiguous run of it."""

    cameras: NDArray[np.float64]  # (n, 3 or 9) easting, northing [m], then heading or the `Sector`
    columns: NDArray[np.int32]  # (n,) which map image each is
    keys: NDArray[np.int64]  # (n,) ascending: column of the cell times `tall`, plus its row
    west: float
    south: float
    cell: float  # side of a cell [m], half the distance that a pair can be apart
    tall: int  # cells from south to north


def blocks_of_rows(
    queries: NDArray[np.float64],
    places: NDArray[np.float64],
    rule: PairRule,
    block_pairs: int,
    threads: int | None,
    progress: Progress | None,
) -> Iterator[Block]:
    """Blocks of label rows, in order. Only pairs in neighbouring cells of a grid are looked at."""
    queries, places = (
        np.ascontiguousarray(queries),
        np.ascontiguousarray(places),
    )  # one compilation serves all
    # a little over half the reach, so that no pair exactly at the limit is more than two cells apart
    grid = _grid(queries, places, 0.5 * rule.metres * (1.0 + 1e-12))
    before = numba.get_num_threads()
    numba.set_num_threads(_threads(threads))
    try:
        candidates = _count_candidates(queries, grid)
        start = 0
        while start < len(queries):
            stop = start + _block_length(candidates[start:], block_pairs)
            room = np.concatenate([[0], np.cumsum(candidates[start:stop])]).astype(np.int64)
            columns, similarity = np.empty(room[-1], np.int32), np.empty(room[-1], np.float32)
            counts = _label_block(queries[start:stop], grid, rule, room, columns, similarity)
            yield counts, *_packed(columns, similarity, room, counts)
            start = stop
            if progress is not None:
                progress("labelling", start, len(queries))
    finally:
        numba.set_num_threads(before)


def _grid(queries: NDArray[np.float64], places: NDArray[np.float64], cell: float) -> Grid:
    ends = np.array([f(table[:, :2], axis=0) for table in (queries, places) for f in (np.min, np.max)])
    with np.errstate(over="ignore"):
        spread = np.ptp(ends, axis=0)
        cells_in_all = np.prod(spread / cell + 1.0)
    if not cells_in_all < _MOST_CELLS:
        raise InputError(
            f"the positions spread over {spread.max():.3g} m, too far for a grid with cells of {cell:.3g} m; "
            "look for a wrong position or choose a larger radius"
        )
    south_west = places[:, :2].min(axis=0)
    cells = np.floor((places[:, :2] - south_west) / cell).astype(np.int64)
    tall = int(cells[:, 1].max()) + 1
    keys = cells[:, 0] * tall + cells[:, 1]
    order = np.argsort(keys, kind="stable")
    return Grid(
        np.ascontiguousarray(places[order]),
        order.astype(np.int32),
        keys[order],
        float(south_west[0]),
        float(south_west[1]),
        cell,
        tall,
    )


def _block_length(candidates: NDArray[np.int64], block_pairs: int) -> int:
    """Number of queries whose candidates fit into one block, at least one, at most 65,536."""
    some = candidates[:65536]
    return max(1, int(np.searchsorted(np.cumsum(some), block_pairs, side="right")))


@njit(cache=True)
def _column_run(grid: Grid, column: int, row: int) -> tuple[int, int]:  # pragma: no cover - compiled
    """Run of the sorted map in grid column `column`, from two cells below `row` to two above."""
    low, high = max(row - 2, 0), min(row + 2, grid.tall - 1)
    if column < 0 or high < low:
        return 0, 0
    base = column * grid.tall
    return (
        int(np.searchsorted(grid.keys, base + low)),
        int(np.searchsorted(grid.keys, base + high, side="right")),
    )


@njit(cache=True)
def _cell_of(grid: Grid, x: float, y: float) -> tuple[int, int]:  # pragma: no cover - compiled
    return math.floor((x - grid.west) / grid.cell), math.floor((y - grid.south) / grid.cell)


@njit(cache=True, parallel=True)
def _count_candidates(queries: Any, grid: Grid) -> Any:  # pragma: no cover - compiled
    counts = np.zeros(len(queries), np.int64)
    for i in prange(len(queries)):
        column, row = _cell_of(grid, queries[i, 0], queries[i, 1])
        for c in range(column - 2, column + 3):
            start, end = _column_run(grid, c, row)
            counts[i] += end - start
    return counts


@njit(cache=True)
def _sector_at(row: Any) -> Sector:  # pragma: no cover - compiled
    return Sector(row[2], row[3], row[4], row[5], row[6], row[7], row[8])


@njit(cache=True, error_model="numpy")
def _similarity(a: Any, view: Sector, b: Any, rule: PairRule) -> float:  # pragma: no cover - compiled
    """Of two cameras, rows of (3 or 9,); `view` is a's sector, the same for many b and so read once."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    if dx * dx + dy * dy > rule.metres * rule.metres:
        return 0.0
    if rule.graded:
        return pair_share(dx, dy, view, _sector_at(b), rule.iou)
    if rule.steepness > 0.0:
        return 1.0 / (1.0 + math.exp(rule.steepness * (math.sqrt(dx * dx + dy * dy) - rule.middle)))
    turn = abs(b[2] - a[2]) % 360.0
    return 1.0 if rule.degrees >= 180.0 or min(turn, 360.0 - turn) <= rule.degrees else 0.0


@njit(cache=True, parallel=True, error_model="numpy")
def _label_block(
    queries: Any, grid: Grid, rule: PairRule, room: Any, columns: Any, similarity: Any
) -> Any:  # pragma: no cover - compiled
    """Fill in the map images similar to each query, from `room[i]` on, and return how many they are."""
    counts = np.zeros(len(queries), np.int64)
    for i in prange(len(queries)):
        column, row = _cell_of(grid, queries[i, 0], queries[i, 1])
        view = _sector_at(queries[i]) if rule.graded else _NO_SECTOR
        n, first = 0, room[i]
        for c in range(column - 2, column + 3):
            start, end = _column_run(grid, c, row)
            for j in range(start, end):
                share = _similarity(queries[i], view, grid.cameras[j], rule)
                if share > 0.0:
                    columns[first + n] = grid.columns[j]
                    similarity[first + n] = share
                    n += 1
        counts[i] = n
    return counts


@njit(cache=True, parallel=True)
def _packed(columns: Any, similarity: Any, room: Any, counts: Any) -> Any:  # pragma: no cover - compiled
    """Close the gaps that each row's spare room left, and put each row's columns in ascending order."""
    starts = np.zeros(len(counts) + 1, np.int64)
    starts[1:] = np.cumsum(counts)
    packed_columns = np.empty(starts[-1], np.int32)
    packed_similarity = np.empty(starts[-1], np.float32)
    for i in prange(len(counts)):
        mine = slice(room[i], room[i] + counts[i])
        order = np.argsort(columns[mine])
        packed_columns[starts[i] : starts[i + 1]] = columns[mine][order]
        packed_similarity[starts[i] : starts[i + 1]] = similarity[mine][order]
    return packed_columns, packed_similarity


@njit(cache=True, nogil=True, error_model="numpy")
def sector_matrix(cameras: Any, radius: float, iou: bool) -> Any:  # pragma: no cover - compiled
    """(n, n) shares of cameras (n, 4) easting, northing, heading, opening angle; 1 on the diagonal."""
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
