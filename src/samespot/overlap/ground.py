"""Every pair of cameras that can be similar, touching only those within reach of each other on the ground."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from samespot.arrays import read_only
from samespot.errors import InputError
from samespot.overlap.labels import Block
from samespot.overlap.sector import NUMBERS, RUN, may_share, put_sectors, sector_shares
from samespot.progress import Progress

# Pairs looked at in one block: 8 bytes each of scratch memory, whatever the size of the sets.
BLOCK_PAIRS = 8_000_000
_STRETCH = 64  # map images looked at together, to see which may share anything
_MOST_CELLS = 2.0**60  # so that the number of any cell, and of its neighbours, is an int64


@contextmanager
def kernel_threads(asked: int | None) -> Iterator[None]:
    """Kernels use all threads there are, or as many as asked for if there are so many; as before afterwards."""
    if asked is not None and asked < 1:
        raise InputError(f"threads {asked}: give at least 1, or leave it out to use every core")
    there = numba.get_num_threads()
    numba.set_num_threads(there if asked is None else min(asked, there))
    try:
        yield
    finally:
        numba.set_num_threads(there)


def views(cameras: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """(n, 4) easting, northing [m], heading, opening angle [deg] -> (9, n) position and sector of each camera."""
    return _views(np.ascontiguousarray(cameras.T), float(radius))  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _views(cameras: Any, radius: float) -> Any:  # pragma: no cover - compiled
    n = cameras.shape[1]
    rows = np.empty((2 + NUMBERS, n))
    for i in range(n):
        rows[0, i], rows[1, i] = cameras[0, i], cameras[1, i]
    put_sectors(rows[2:], cameras[2], cameras[3], np.full(n, radius))
    return rows


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

    cameras: NDArray[np.float64]  # (3 or 9, n) easting, northing [m], then heading or the sector
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
    """Blocks of label rows, in order, for queries and places (3 or 9, n) as in `Grid`. Only pairs in neighbouring
    cells of a grid are looked at."""
    queries, places = read_only(queries), read_only(places)
    # a little over half the reach, so that no pair exactly at the limit is more than two cells apart
    grid = _grid(queries, places, 0.5 * rule.metres * (1.0 + 1e-12))
    with kernel_threads(threads):
        candidates = _count_candidates(queries, grid)
        start = 0
        while start < len(candidates):
            stop = start + _block_length(candidates[start:], block_pairs)
            room = np.concatenate([[0], np.cumsum(candidates[start:stop])]).astype(np.int64)
            columns, similarity = np.empty(room[-1], np.int32), np.empty(room[-1], np.float32)
            counts = _label_block(queries, start, grid, rule, room, columns, similarity)
            yield counts, *_packed(columns, similarity, room, counts)
            start = stop
            if progress is not None:
                progress("labelling", start, len(candidates))


def _grid(queries: NDArray[np.float64], places: NDArray[np.float64], cell: float) -> Grid:
    ends = np.array([f(table[:2], axis=1) for table in (queries, places) for f in (np.min, np.max)])
    with np.errstate(over="ignore"):
        spread = np.ptp(ends, axis=0)
        cells_in_all = np.prod(spread / cell + 1.0)
    if not cells_in_all < _MOST_CELLS:
        raise InputError(
            f"the positions spread over {spread.max():.3g} m, too far for a grid with cells of {cell:.3g} m; "
            "look for a wrong position or choose a larger radius"
        )
    south_west = places[:2].min(axis=1)
    cells = np.floor((places[:2] - south_west[:, None]) / cell).astype(np.int64)
    tall = int(cells[1].max()) + 1
    keys = cells[0] * tall + cells[1]
    order = np.argsort(keys, kind="stable")
    return Grid(
        np.ascontiguousarray(places[:, order]),
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
    counts = np.zeros(queries.shape[1], np.int64)
    for i in prange(len(counts)):
        column, row = _cell_of(grid, queries[0, i], queries[1, i])
        for c in range(column - 2, column + 3):
            start, end = _column_run(grid, c, row)
            counts[i] += end - start
    return counts


@njit(cache=True, parallel=True, error_model="numpy")
def _label_block(
    queries: Any, top: int, grid: Grid, rule: PairRule, room: Any, columns: Any, similarity: Any
) -> Any:  # pragma: no cover - compiled
    """Fill in the map images similar to each query from `top` on, into its `room`, and return how many they are."""
    counts = np.zeros(len(room) - 1, np.int64)
    for i in prange(len(counts)):
        mine = slice(room[i], room[i + 1])
        if rule.graded:
            counts[i] = _views_shared(queries[:, top + i], grid, rule, columns[mine], similarity[mine])
        else:
            counts[i] = _near(queries[:, top + i], grid, rule, columns[mine], similarity[mine])
    return counts


@njit(cache=True, error_model="numpy")
def _near(
    query: Any, grid: Grid, rule: PairRule, columns: Any, similarity: Any
) -> int:  # pragma: no cover - compiled
    """By a rule of positions and headings: fill in what is similar to one query (3,) and return how many."""
    column, row = _cell_of(grid, query[0], query[1])
    n = 0
    for c in range(column - 2, column + 3):
        start, end = _column_run(grid, c, row)
        for j in range(start, end):
            dx, dy = grid.cameras[0, j] - query[0], grid.cameras[1, j] - query[1]
            distance2 = dx * dx + dy * dy
            if distance2 > rule.metres * rule.metres:
                continue
            if rule.steepness > 0.0:
                similar = 1.0 / (1.0 + math.exp(rule.steepness * (math.sqrt(distance2) - rule.middle)))
            else:
                turn = abs(grid.cameras[2, j] - query[2]) % 360.0
                similar = 1.0 if rule.degrees >= 180.0 or min(turn, 360.0 - turn) <= rule.degrees else 0.0
            if similar > 0.0:
                columns[n], similarity[n] = grid.columns[j], similar
                n += 1
    return n


@njit(cache=True, error_model="numpy")
def _views_shared(
    query: Any, grid: Grid, rule: PairRule, columns: Any, similarity: Any
) -> int:  # pragma: no cover - compiled
    """By the share of sectors, the same for one query (9,).

    Most of those around look elsewhere: what cannot share anything is left out first, in a pass without branches.
    """
    mine, shares = _repeated(query), np.empty(RUN)
    kept, possible = np.empty(RUN, np.int64), np.empty(_STRETCH, np.bool_)
    column, row = _cell_of(grid, query[0], query[1])
    n = held = 0
    for c in range(column - 2, column + 3):
        start, end = _column_run(grid, c, row)
        for first in range(start, end, _STRETCH):
            size = min(_STRETCH, end - first)
            may_share(query, grid.cameras[:, first : first + size], possible)
            if held + size > RUN:
                _shares_of(query, mine, grid.cameras, kept[:held], rule.iou, shares)
                n = _write(grid.columns, kept[:held], shares, columns, similarity, n)
                held = 0
            for j in range(size):
                kept[held] = first + j
                held += possible[j]
    _shares_of(query, mine, grid.cameras, kept[:held], rule.iou, shares)
    return _write(grid.columns, kept[:held], shares, columns, similarity, n)


@njit(cache=True)
def _repeated(camera: Any) -> Any:  # pragma: no cover - compiled
    """(7, RUN) the sector of one camera (9,), for as many pairs as are worked on at once."""
    mine = np.empty((NUMBERS, RUN))
    for k in range(NUMBERS):
        mine[k] = camera[2 + k]
    return mine


@njit(cache=True, error_model="numpy")
def _shares_of(
    camera: Any, mine: Any, others: Any, kept: Any, iou: bool, shares: Any
) -> None:  # pragma: no cover - compiled
    """Fill in the shares of one camera (9,), `mine` being its sector repeated, with some of the others (9, n)."""
    n = len(kept)
    dx, dy, theirs = np.empty(RUN), np.empty(RUN), np.empty((NUMBERS, RUN))
    for i in range(n):
        j = kept[i]
        dx[i], dy[i] = others[0, j] - camera[0], others[1, j] - camera[1]
        for k in range(NUMBERS):
            theirs[k, i] = others[2 + k, j]
    sector_shares(dx, dy, mine, theirs, iou, shares[:n])


@njit(cache=True)
def _write(
    names: Any, kept: Any, shares: Any, columns: Any, similarity: Any, n: int
) -> int:  # pragma: no cover - compiled
    """Append the shares that are not 0, and return how many there are now."""
    for i in range(len(kept)):
        if shares[i] > 0.0:
            columns[n], similarity[n] = names[kept[i]], shares[i]
            n += 1
    return n


@njit(cache=True, parallel=True)
def _packed(columns: Any, similarity: Any, room: Any, counts: Any) -> Any:  # pragma: no cover - compiled
    """Close the gaps that each row's spare room left, and put each row's columns in ascending order."""
    starts = np.zeros(len(counts) + 1, np.int64)
    starts[1:] = np.cumsum(counts)
    packed_columns = np.empty(starts[-1], np.int32)
    packed_similarity = np.empty(starts[-1], np.float32)
    bits, packed_bits = similarity.view(np.int32), packed_similarity.view(np.int32)
    for i in prange(len(counts)):
        # a column and the bits of its similarity are one number, which sorts faster than two
        first, pairs = room[i], np.empty(counts[i], np.int64)
        for k in range(len(pairs)):
            pairs[k] = (np.int64(columns[first + k]) << 32) | np.int64(bits[first + k])
        pairs.sort()
        for k in range(len(pairs)):
            packed_columns[starts[i] + k] = pairs[k] >> 32
            packed_bits[starts[i] + k] = pairs[k] & 0xFFFFFFFF
    return packed_columns, packed_similarity


@njit(cache=True, nogil=True, error_model="numpy")
def sector_matrix(cameras: Any, radius: float, iou: bool) -> Any:  # pragma: no cover - compiled
    """(n, n) shares of cameras (n, 4) easting, northing, heading, opening angle; 1 on the diagonal."""
    n, all_of_them = len(cameras), _views(np.ascontiguousarray(cameras.T), radius)
    matrix = np.ones((n, n), np.float32)
    kept, shares = np.empty(RUN, np.int64), np.empty(RUN)
    for i in range(n):
        mine = _repeated(all_of_them[:, i])
        matrix[i, i + 1 :] = matrix[i + 1 :, i] = 0.0
        held = 0
        for j in range(i + 1, n):
            dx, dy = cameras[j, 0] - cameras[i, 0], cameras[j, 1] - cameras[i, 1]
            kept[held] = j
            held += dx * dx + dy * dy < 4.0 * radius * radius
            if held == RUN or (j == n - 1 and held > 0):
                _shares_of(all_of_them[:, i], mine, all_of_them, kept[:held], iou, shares)
                for k in range(held):
                    matrix[i, kept[k]] = matrix[kept[k], i] = shares[k]
                held = 0
    return matrix
