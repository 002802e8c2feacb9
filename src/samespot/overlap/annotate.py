"""Label every pair of two tables that can see the same ground, touching only the pairs within reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.overlap.labels import Block, PairLabels
from samespot.overlap.sector import Measure, Sector, check_measure, compass_sector, pair_share
from samespot.places.table import Places

UnknownHeading = Literal["error", "disk"]
Panoramas = Literal["disk", "sector"]
Progress = Callable[[int], None]  # called with the number of queries done since the last call
# Pairs looked at in one block: 8 bytes each of scratch memory, whatever the size of the sets.
BLOCK_PAIRS = 8_000_000
_FULL_CIRCLE = 360.0


def label_pairs(
    queries: Places,
    places: Places,
    theta: float = 90.0,
    radius: float = 50.0,
    measure: Measure = "overlap",
    *,
    out: str | Path | None = None,
    unknown_heading: UnknownHeading = "error",
    panoramas: Panoramas = "disk",
    block_pairs: int = BLOCK_PAIRS,
    threads: int | None = None,
    progress: Progress | None = None,
) -> PairLabels:
    """Graded labels: the field-of-view overlap of each query with each map image (see `sector_overlap`).

    theta: opening angle [deg]; radius: how far a camera sees [m]. With `out` the labels go to that folder
    and are memory-mapped; memory stays bounded whatever the size. The result does not depend on
    `block_pairs` or `threads`. A camera of unknown heading is an error, or with "disk" sees all around.
    Panoramas see all around, or with "sector" only along their heading.
    """
    check_measure(measure)
    if not 0 < theta <= _FULL_CIRCLE:
        raise InputError(f"theta {theta:g} is not in (0, 360] degrees")
    if not (radius > 0 and math.isfinite(radius)):
        raise InputError(f"radius {radius:g} is not a positive number of metres")
    _check_tables(queries, places)
    views = [
        _fields_of_view(table, theta, radius, unknown_heading, panoramas, role)
        for role, table in (("query", queries), ("map", places))
    ]
    meta = {
        "measure": measure,
        "kind": "2D field of view",
        "theta": float(theta),
        "radius": float(radius),
        "unknown_heading": unknown_heading,
        "panoramas": panoramas,
        **_tables_meta(queries, places),
    }
    blocks = _rows(
        views[0], views[1], 2.0 * radius, block_pairs, threads, progress, _share_block, measure == "iou"
    )
    return PairLabels.from_blocks(blocks, (len(queries), len(places)), meta, out)


def label_within(
    queries: Places,
    places: Places,
    metres: float = 25.0,
    degrees: float | None = None,
    *,
    out: str | Path | None = None,
    block_pairs: int = BLOCK_PAIRS,
    threads: int | None = None,
    progress: Progress | None = None,
) -> PairLabels:
    """Binary labels: 1 for a pair at most `metres` apart and turned by at most `degrees`, else 0.

    What the field trains with today, and the counterpart of graded labels. Without `degrees` headings
    do not matter and may be unknown.
    """
    if not (metres > 0 and math.isfinite(metres)):
        raise InputError(f"a distance of {metres:g} m is not positive")
    if degrees is not None and not 0 <= degrees <= 180:
        raise InputError(f"an angle of {degrees:g}° is not in [0, 180]")
    _check_tables(queries, places)
    if degrees is not None:
        for role, table in (("query", queries), ("map", places)):
            _refuse_unknown_headings(table, role, "leave out the angle")
    meta = {
        "measure": "within",
        "kind": "binary",
        "metres": float(metres),
        "degrees": None if degrees is None else float(degrees),
        **_tables_meta(queries, places),
    }
    # the closed disk of this radius, so the grid must not miss a pair exactly at the limit
    reach = metres * (1.0 + 1e-12)
    turn = 360.0 if degrees is None else float(degrees)
    blocks = _rows(
        queries.positions,
        places.positions,
        reach,
        block_pairs,
        threads,
        progress,
        _within_block,
        (metres, turn),
    )
    return PairLabels.from_blocks(blocks, (len(queries), len(places)), meta, out)


def _tables_meta(queries: Places, places: Places) -> dict[str, Any]:
    return {
        "queries_digest": queries.digest(),
        "places_digest": places.digest(),
        "same_table": queries.digest() == places.digest(),
        "dropped": {"queries": queries.dropped, "places": places.dropped},
    }


def _check_tables(queries: Places, places: Places) -> None:
    for role, table in (("query", queries), ("map", places)):
        unplaced = np.isnan(table.positions[:, :2]).any(axis=1)
        if unplaced.any():
            raise InputError(
                f"{unplaced.sum()} of {len(table)} {role} images have no position (first: "
                f"{table.table['image'].iloc[int(np.flatnonzero(unplaced)[0])]}); they cannot be labelled"
            )
    if queries.projection and places.projection and queries.projection != places.projection:
        raise InputError(
            f"queries are in {queries.projection}, the map in {places.projection}: their metres are not comparable; "
            "read both with one --projection"
        )


def _refuse_unknown_headings(table: Places, role: str, remedy: str) -> None:
    unknown = np.isnan(table.positions[:, 2])
    if unknown.any():
        first = table.table["image"].iloc[int(np.flatnonzero(unknown)[0])]
        raise InputError(
            f"{unknown.sum()} of {len(table)} {role} images have no heading (first: {first}); {remedy}"
        )


def _fields_of_view(
    table: Places,
    theta: float,
    radius: float,
    unknown_heading: UnknownHeading,
    panoramas: Panoramas,
    role: str,
) -> NDArray[np.float64]:
    """(n, 9) easting, northing and the `Sector` of each camera."""
    positions = table.positions
    angle = np.full(len(table), float(theta))
    if panoramas == "disk":
        angle[table.panoramas] = _FULL_CIRCLE
    if unknown_heading == "error":
        sees_around = angle == _FULL_CIRCLE  # a panorama needs no heading
        _refuse_unknown_headings(
            table.select(~sees_around) if sees_around.any() else table,
            role,
            "pass --unknown-heading disk to let such a camera see all around",
        )
    angle[np.isnan(positions[:, 2])] = _FULL_CIRCLE
    headings = np.nan_to_num(positions[:, 2], nan=0.0)
    return np.column_stack([positions[:, :2], _sectors(headings, angle, float(radius))])


@njit(cache=True)
def _sectors(headings: Any, angles: Any, radius: float) -> Any:  # pragma: no cover - compiled
    rows = np.empty((len(headings), 7))
    for i in range(len(headings)):
        s = compass_sector(headings[i], angles[i], radius)
        rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3] = s.axis, s.cos, s.sin, s.half
        rows[i, 4], rows[i, 5], rows[i, 6] = s.cos_half, s.sin_half, s.radius
    return rows


def _rows(
    queries: NDArray[np.float64],
    places: NDArray[np.float64],
    reach: float,
    block_pairs: int,
    threads: int | None,
    progress: Progress | None,
    kernel: Any,
    option: Any,
) -> Iterator[Block]:
    """Blocks of label rows, in order. Only pairs in neighbouring cells of a grid are looked at.

    The map is sorted by grid cell, so that a column of neighbouring cells is one contiguous run of it.
    """
    cell = 0.5 * reach
    south_west = places[:, :2].min(axis=0)
    cells = np.floor((places[:, :2] - south_west) / cell).astype(np.int64)
    tall = int(cells[:, 1].max()) + 1
    keys = cells[:, 0] * tall + cells[:, 1]
    order = np.argsort(keys, kind="stable")
    keys, sorted_places = keys[order], np.ascontiguousarray(places[order])
    columns_of = order.astype(np.int32)

    before = numba.get_num_threads()
    numba.set_num_threads(min(threads or before, before))
    try:
        candidates = _count_candidates(queries, south_west, cell, tall, keys)
        start = 0
        while start < len(queries):
            stop = start + _block_length(candidates[start:], block_pairs)
            room = np.concatenate([[0], np.cumsum(candidates[start:stop])]).astype(np.int64)
            columns, similarity = np.empty(room[-1], np.int32), np.empty(room[-1], np.float32)
            counts = kernel(
                queries[start:stop],
                sorted_places,
                columns_of,
                south_west,
                cell,
                tall,
                keys,
                option,
                room,
                columns,
                similarity,
            )
            yield counts, *_packed(columns, similarity, room, counts)
            if progress is not None:
                progress(stop - start)
            start = stop
    finally:
        numba.set_num_threads(before)


def _block_length(candidates: NDArray[np.int64], block_pairs: int) -> int:
    """Number of queries whose candidates fit into one block, at least one, at most 65,536."""
    some = candidates[:65536]
    return max(1, int(np.searchsorted(np.cumsum(some), block_pairs, side="right")))


@njit(cache=True)
def _column_run(
    keys: Any, column: int, row: int, tall: int
) -> tuple[int, int]:  # pragma: no cover - compiled
    """Run of the sorted map in grid column `column`, from two cells below `row` to two above."""
    low, high = max(row - 2, 0), min(row + 2, tall - 1)
    if column < 0 or high < low:
        return 0, 0
    base = column * tall
    return int(np.searchsorted(keys, base + low)), int(np.searchsorted(keys, base + high, side="right"))


@njit(cache=True)
def _cell_of(
    x: float, y: float, south_west: Any, cell: float
) -> tuple[int, int]:  # pragma: no cover - compiled
    return math.floor((x - south_west[0]) / cell), math.floor((y - south_west[1]) / cell)


@njit(cache=True, parallel=True)
def _count_candidates(
    queries: Any, south_west: Any, cell: float, tall: int, keys: Any
) -> Any:  # pragma: no cover
    counts = np.zeros(len(queries), np.int64)
    for i in prange(len(queries)):
        column, row = _cell_of(queries[i, 0], queries[i, 1], south_west, cell)
        for c in range(column - 2, column + 3):
            start, end = _column_run(keys, c, row, tall)
            counts[i] += end - start
    return counts


@njit(cache=True)
def _sector_at(row: Any) -> Sector:  # pragma: no cover - compiled
    return Sector(row[2], row[3], row[4], row[5], row[6], row[7], row[8])


@njit(cache=True, parallel=True, error_model="numpy")
def _share_block(
    queries: Any,
    places: Any,
    columns_of: Any,
    south_west: Any,
    cell: float,
    tall: int,
    keys: Any,
    iou: bool,
    room: Any,
    columns: Any,
    similarity: Any,
) -> Any:  # pragma: no cover - compiled
    counts = np.zeros(len(queries), np.int64)
    for i in prange(len(queries)):
        column, row = _cell_of(queries[i, 0], queries[i, 1], south_west, cell)
        mine = _sector_at(queries[i])
        n, first = 0, room[i]
        for c in range(column - 2, column + 3):
            start, end = _column_run(keys, c, row, tall)
            for j in range(start, end):
                dx, dy = places[j, 0] - queries[i, 0], places[j, 1] - queries[i, 1]
                share = pair_share(dx, dy, mine, _sector_at(places[j]), iou)
                if share > 0.0:
                    columns[first + n] = columns_of[j]
                    similarity[first + n] = share
                    n += 1
        counts[i] = n
    return counts


@njit(cache=True, parallel=True)
def _within_block(
    queries: Any,
    places: Any,
    columns_of: Any,
    south_west: Any,
    cell: float,
    tall: int,
    keys: Any,
    limits: Any,
    room: Any,
    columns: Any,
    similarity: Any,
) -> Any:  # pragma: no cover - compiled
    metres, degrees = limits
    counts = np.zeros(len(queries), np.int64)
    for i in prange(len(queries)):
        column, row = _cell_of(queries[i, 0], queries[i, 1], south_west, cell)
        n, first = 0, room[i]
        for c in range(column - 2, column + 3):
            start, end = _column_run(keys, c, row, tall)
            for j in range(start, end):
                dx, dy = places[j, 0] - queries[i, 0], places[j, 1] - queries[i, 1]
                if dx * dx + dy * dy > metres * metres:
                    continue
                turn = abs(places[j, 2] - queries[i, 2]) % 360.0
                if degrees >= 180.0 or min(turn, 360.0 - turn) <= degrees:
                    columns[first + n] = columns_of[j]
                    similarity[first + n] = 1.0
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
