"""The ground from above: what lies where (road, pavement, markings, grass), and its colours on a visit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from samespot.town.plan import Plan

TEXEL = 0.15  # [m]
LEVELS = 6
GRASS, ROAD, KERB, PAVEMENT, MARKING, PAVED, GRAVEL, PATCH, FLOOR = range(9)
# reflectance of each kind, dry
COLOURS = ((0.10, 0.15, 0.05), (0.075, 0.075, 0.08), (0.30, 0.30, 0.29), (0.24, 0.23, 0.215), (0.62, 0.62, 0.60),
           (0.30, 0.25, 0.20), (0.34, 0.30, 0.23), (0.045, 0.045, 0.05), (0.05, 0.05, 0.05))  # fmt: skip
GRASS_OF = {
    "spring": (0.13, 0.21, 0.05),
    "summer": (0.10, 0.15, 0.05),
    "autumn": (0.16, 0.13, 0.05),
    "winter": (0.15, 0.13, 0.08),
}
SNOW = (0.80, 0.82, 0.86)
LEAF = (0.36, 0.18, 0.04)


class Ground(NamedTuple):
    """Colours of the ground as a pyramid in one run of bytes, gamma 2, rows from south to north."""

    texels: NDArray[np.uint8]  # (t, 3)
    places: NDArray[np.int64]  # (LEVELS, 3) first texel, columns, rows
    west: float
    south: float


def map_kinds(plan: Plan) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(rows, columns) kind of each texel, from south to north, and its distance [m] to the nearest centre line."""
    columns, rows = (int(np.ceil(s / TEXEL)) for s in plan.size)
    away = np.full((rows, columns), 1e6, dtype=np.float32)
    kinds = np.full((rows, columns), GRASS, dtype=np.uint8)
    for square in plan.squares:
        if not square.green:
            _fill(kinds, square.corners, plan.west_south, PAVED)
    for path in plan.squares:
        _discs(kinds, np.array([[*path.centre, 11.5]]), plan.west_south, GRAVEL if path.green else PAVEMENT)
    segments = np.concatenate([_segments(street) for street in plan.streets])
    owner = np.concatenate([np.full(len(s.line) - 1, k) for k, s in enumerate(plan.streets)])
    _streets(kinds, away, segments, owner, plan.west_south)
    rng = np.random.default_rng((plan.seed, 8))
    _patches(kinds, plan, rng)
    for lot in plan.lots:
        _fill(kinds, lot.corners, plan.west_south, FLOOR)
    return kinds, away


def _segments(street: Any) -> NDArray[np.float64]:
    """(n, 9) both ends, metres along at the first, length of the street, half width, pavement, marked or not."""
    a, b, along = street.line[:-1], street.line[1:], street.along
    n = len(a)
    same = [
        np.full(n, v)
        for v in (street.length, street.half_width, street.pavement, float(street.half_width > 3.4))
    ]
    return np.column_stack([a, b, along[:-1], *same])


def _patches(kinds: NDArray[np.uint8], plan: Plan, rng: np.random.Generator) -> None:
    """Patched tarmac and manholes, which set one stretch of road apart from the next."""
    for street in plan.streets:
        for _ in range(int(street.length / 12)):
            along, off = rng.uniform(5, street.length - 5), rng.uniform(-0.7, 0.7) * street.half_width
            wide, long = (0.35, 0.35) if rng.random() < 0.5 else rng.uniform(0.6, 2.2, 2)
            s = np.array([-long, long, long, -long])
            t = np.array([-wide, -wide, wide, wide])
            corners = street.at(along + s, off + t)
            _fill(kinds, corners, plan.west_south, PATCH)


@njit(cache=True)
def _fill(kinds, corners, west_south, kind):  # type: ignore[no-untyped-def]
    """Set the texels of a convex counter-clockwise polygon (k, 2)."""
    west, south = west_south[0], west_south[1]
    rows, columns = kinds.shape
    j0 = max(0, int((corners[:, 0].min() - west) / TEXEL))
    j1 = min(columns, int((corners[:, 0].max() - west) / TEXEL) + 2)
    i0 = max(0, int((corners[:, 1].min() - south) / TEXEL))
    i1 = min(rows, int((corners[:, 1].max() - south) / TEXEL) + 2)
    n = len(corners)
    for i in range(i0, i1):
        y = south + (i + 0.5) * TEXEL
        for j in range(j0, j1):
            x = west + (j + 0.5) * TEXEL
            within = True
            for k in range(n):
                ax, ay = corners[k]
                bx, by = corners[(k + 1) % n]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) < 0.0:
                    within = False
                    break
            if within:
                kinds[i, j] = kind


@njit(cache=True)
def _discs(kinds, discs, west_south, kind):  # type: ignore[no-untyped-def]
    west, south = west_south[0], west_south[1]
    rows, columns = kinds.shape
    for x0, y0, r in discs:
        for i in range(max(0, int((y0 - r - south) / TEXEL)), min(rows, int((y0 + r - south) / TEXEL) + 1)):
            for j in range(
                max(0, int((x0 - r - west) / TEXEL)), min(columns, int((x0 + r - west) / TEXEL) + 1)
            ):
                x, y = west + (j + 0.5) * TEXEL - x0, south + (i + 0.5) * TEXEL - y0
                if x * x + y * y < r * r:
                    kinds[i, j] = kind


@njit(cache=True)
def _streets(kinds, away, segments, owner, west_south):  # type: ignore[no-untyped-def]
    """Roads over pavements, wherever two streets meet; markings where no other road is."""
    west, south = west_south[0], west_south[1]
    rows, columns = kinds.shape
    rank = np.zeros((rows, columns), np.uint8)  # 3 road, 2 kerb, 1 pavement
    roads = np.full((rows, columns), -1, np.int16)
    for k in range(len(segments)):
        ax, ay, bx, by, along, length, half, pavement, marked = segments[k]
        reach = half + pavement + 0.2
        j0 = max(0, int((min(ax, bx) - reach - west) / TEXEL))
        j1 = min(columns, int((max(ax, bx) + reach - west) / TEXEL) + 2)
        i0 = max(0, int((min(ay, by) - reach - south) / TEXEL))
        i1 = min(rows, int((max(ay, by) + reach - south) / TEXEL) + 2)
        dx, dy = bx - ax, by - ay
        long = np.sqrt(dx * dx + dy * dy)
        for i in range(i0, i1):
            y = south + (i + 0.5) * TEXEL - ay
            for j in range(j0, j1):
                x = west + (j + 0.5) * TEXEL - ax
                t = min(1.0, max(0.0, (x * dx + y * dy) / (long * long)))
                d = np.sqrt((x - t * dx) ** 2 + (y - t * dy) ** 2)
                if d > half + pavement:
                    continue
                here = 3 if d < half else (2 if d < half + 0.18 else 1)
                if here == 3 and roads[i, j] >= 0 and roads[i, j] != owner[k]:
                    kinds[i, j] = ROAD  # a junction
                    away[i, j] = min(away[i, j], d)
                    roads[i, j] = 30000
                    continue
                if here < rank[i, j] or (here == rank[i, j] and d >= away[i, j]):
                    continue
                rank[i, j], away[i, j] = here, d
                if here < 3:
                    kinds[i, j] = KERB if here == 2 else PAVEMENT
                    continue
                if roads[i, j] < 0:
                    roads[i, j] = owner[k]
                s = along + t * long
                end = min(s, length - s)
                kinds[i, j] = ROAD
                if roads[i, j] != owner[k]:
                    continue
                if end > 8.5 and end < 11.5:
                    if (d + 0.25) % 1.0 < 0.5:
                        kinds[i, j] = MARKING  # a crossing
                elif marked > 0.0 and end > 13.0 and (d < 0.12 and s % 7.0 < 3.0):
                    kinds[i, j] = MARKING


def colour_ground(
    plan: Plan,
    kinds: NDArray[np.uint8],
    away: NDArray[np.float32],
    *,
    season: str,
    wet: float,
    snow: float,
    visit: int,
) -> Ground:
    """The ground as it looks on a visit: grass of the season, fallen leaves, wet tarmac, snow with tracks."""
    palette = np.array(COLOURS, dtype=np.float32)
    palette[GRASS] = GRASS_OF[season]
    palette *= 1.0 - 0.45 * wet
    texels = np.empty((*kinds.shape, 3), dtype=np.uint8)
    fallen = _leaf_fall(plan, kinds.shape) if season == "autumn" else np.zeros((1, 1), dtype=np.uint8)
    _paint_ground(
        kinds, away, palette, np.array(SNOW), snow, np.array(LEAF), fallen, plan.seed, visit, texels
    )
    levels, places, at = [], np.zeros((LEVELS, 3), dtype=np.int64), 0
    level = texels
    for depth in range(LEVELS):
        rows, columns = level.shape[:2]
        places[depth] = (at, columns, rows)
        levels.append(level.reshape(-1, 3))
        at += rows * columns
        level = _half(level)
    return Ground(np.concatenate(levels), places, float(plan.west_south[0]), float(plan.west_south[1]))


def _leaf_fall(plan: Plan, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """1 where leaves may lie: around the trees that lose them."""
    fallen = np.zeros(shape, dtype=np.uint8)
    bare = plan.trees[plan.trees[:, 3] < 4]
    _discs(fallen, np.column_stack([bare[:, :2], 0.5 * bare[:, 2]]), plan.west_south, 1)
    return fallen


@njit(cache=True)
def speck(x, y, z):  # type: ignore[no-untyped-def]
    """A number in [0, 1) that three whole numbers always give again."""
    h = np.uint32(np.int64(x) * 374761393 + np.int64(y) * 668265263 + np.int64(z) * 2147483647 + 374761)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(1274126177)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(2246822519)
    h = h ^ (h >> np.uint32(13))
    return np.float64(h & np.uint32(0xFFFFFF)) / 16777216.0


@njit(cache=True, parallel=True)
def _paint_ground(kinds, away, palette, snow_colour, snow, leaf, fallen, seed, visit, out):  # type: ignore[no-untyped-def]
    rows, columns = kinds.shape
    for i in prange(rows):
        for j in range(columns):
            kind = kinds[i, j]
            grain = 0.82 + 0.36 * speck(i, j, seed)
            slab = 1.0
            if kind == PAVEMENT:
                slab = 0.86 + 0.28 * speck(i // 5, j // 5, seed + 1)
            elif kind == PAVED:
                slab = 0.75 + 0.5 * speck(i // 2, j // 3, seed + 2)
            elif kind == ROAD:
                slab = 0.88 + 0.24 * speck(i // 40, j // 40, seed + 3)
            cover = 0.0
            if snow > 0.0:
                cover = snow * (0.55 + 0.45 * speck(i // 3, j // 3, seed + 10 + visit))
                if kind in (ROAD, MARKING, PATCH):
                    d = away[i, j]
                    rut = 0.15 if (d > 0.5 and d < 1.1) or (d > 2.0 and d < 2.6) else 0.6
                    cover *= rut
                elif kind == PAVEMENT:
                    cover *= 0.75
            strewn = fallen.shape[0] > 1 and fallen[i, j] == 1 and speck(i, j, seed + 50 + visit) < 0.4
            for c in range(3):
                value = palette[kind, c] * grain * slab
                if strewn:
                    value = leaf[c] * (0.5 + grain * 0.5)
                value = value * (1.0 - cover) + snow_colour[c] * cover
                out[i, j, c] = np.uint8(min(255.0, 255.0 * np.sqrt(value)))


@njit(cache=True, parallel=True)
def _half(level):  # type: ignore[no-untyped-def]
    rows, columns = (level.shape[0] + 1) // 2, (level.shape[1] + 1) // 2
    out = np.empty((rows, columns, 3), np.uint8)
    for i in prange(rows):
        k = min(2 * i + 1, level.shape[0] - 1)
        for j in range(columns):
            m = min(2 * j + 1, level.shape[1] - 1)
            for c in range(3):
                total = (
                    np.int64(level[2 * i, 2 * j, c])
                    + level[k, 2 * j, c]
                    + level[2 * i, m, c]
                    + level[k, m, c]
                )
                out[i, j, c] = np.uint8((total + 2) // 4)
    return out
