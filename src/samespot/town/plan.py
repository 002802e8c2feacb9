"""The plan of a town from a seed: streets, squares, lots, trees, lamps and kerbs to park at, in metres.

Two quarters, one to train on and one to test on. Between them lie gardens and the old town wall, and no street
crosses: no photo of one quarter shows what a photo of the other shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

QUARTERS = {"train": (4, 4), "test": (3, 4)}  # junctions from west to east and from south to north
BLOCK = (52.0, 86.0)  # [m] from junction to junction
JITTER = 7.0  # [m] a junction off its line
BEND = 8.0  # [m] the middle of a street off the straight line
GARDENS = 102.0  # [m] between the outermost streets of the two quarters: farther than depth images reach
MARGIN = 34.0  # [m] of land around the streets
STEP = 1.0  # [m] between the points of a street's centre line
MISSING_STREETS = 0.17  # share of the grid's streets that are not there
LOT_WIDTH, LOT_DEPTH = (7.0, 15.0), (9.0, 14.0)  # [m]
WALL_HEIGHT = 9.0  # [m] of the old town wall, over which no camera looks
PARKING_WIDTH = 4.2  # [m] half width from which on a street has cars at its kerbs


@dataclass(frozen=True)
class Street:
    """A street between two junctions. `line` (n, 2) is its centre line, a point about every metre."""

    ends: tuple[int, int]
    line: Floats
    half_width: float  # [m] from the centre line to the kerb
    pavement: float  # [m] from the kerb to the fronts
    avenue: bool  # trees along both kerbs
    part: str
    beside: tuple[int, ...]  # block to its left and to its right, -1: outside, -2: a square

    @cached_property
    def along(self) -> Floats:
        """(n,) metres from the first junction."""
        steps = np.linalg.norm(np.diff(self.line, axis=0), axis=1)
        return np.concatenate([[0.0], np.cumsum(steps)])

    @property
    def length(self) -> float:
        return float(self.along[-1])

    @cached_property
    def left(self) -> Floats:
        """(n, 2) unit vectors to the left of the way."""
        ahead = np.gradient(self.line, axis=0)
        ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
        return np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)

    def at(self, along: Any, to_left: Any) -> Floats:
        """(..., 2) points that many metres along the street and to the left of its centre line."""
        s, line, left = self.along, self.line, self.left
        axes = [np.interp(along, s, line[:, k]) + to_left * np.interp(along, s, left[:, k]) for k in (0, 1)]
        return np.stack(axes, axis=-1)


@dataclass(frozen=True)
class Lot:
    """A piece of land with a house. `corners` (4, 2) counter-clockwise; the front is from the first to the second."""

    corners: Floats
    part: str
    landmark: bool = False  # a church, in a square

    @cached_property
    def middle(self) -> tuple[float, float]:
        x, y = self.corners.mean(axis=0).tolist()
        return x, y


@dataclass(frozen=True)
class Square:
    """A block without houses. `corners` (n, 2) along the centre lines of the streets around it."""

    corners: Floats
    centre: Floats
    part: str
    green: bool  # grass, or paved


@dataclass(frozen=True)
class Plan:
    """All that stays from one visit to the next, seen from above."""

    seed: int
    west_south: Floats  # (2,) corner of the land
    size: Floats  # (2,) metres to the east and to the north
    junctions: Floats  # (n, 2)
    streets: tuple[Street, ...]
    squares: tuple[Square, ...]
    lots: tuple[Lot, ...]
    trees: Floats  # (n, 4) x, y, height [m], species
    lamps: Floats  # (n, 4) x, y of the foot, x, y of the unit vector to the street
    wall: Floats  # (2, 2) southern and northern end of the old town wall between the quarters
    parking: Floats  # (n, 3) x, y, direction [rad, counter-clockwise from east] of each place at a kerb


def make_plan(seed: int = 7) -> Plan:
    """The plan of the town with this seed."""
    rng = np.random.default_rng((seed, 1))
    streets: list[Street] = []
    squares: list[Square] = []
    junctions: list[Floats] = []
    west = 0.0
    for part, (columns, rows) in QUARTERS.items():
        points = _junctions(rng, columns, rows, west)
        first, blocks = sum(len(p) for p in junctions), 1000 * len(junctions)
        open_blocks = _open_blocks(rng, columns, rows)
        streets += _streets(rng, points, part, first, blocks, open_blocks)
        squares += [_square(points, i, j, part, bool(rng.random() < 0.6)) for i, j in open_blocks]
        junctions.append(points.reshape(-1, 2))
        west = max(float(s.line[:, 0].max()) for s in streets) + GARDENS
    corridor = _corridors(streets)
    lots = _churches(rng, squares)
    for number in rng.permutation(len(streets)):
        _build_along(rng, streets[number], lots, corridor)
    for number, junction in enumerate(np.concatenate(junctions)):
        _build_around(rng, junction, [s for s in streets if number in s.ends], lots, corridor, squares)
    lines = np.concatenate([s.line for s in streets])
    low, high = lines.min(axis=0) - MARGIN, lines.max(axis=0) + MARGIN
    middle = 0.5 * (
        max(p[:, 0].max() for p in _lines(streets, "train"))
        + min(p[:, 0].min() for p in _lines(streets, "test"))
    )
    wall = np.array([[middle, low[1]], [middle, high[1]]])
    trees = _trees(rng, streets, squares, lots, corridor, low, high)
    by_the_wall = np.abs(trees[:, 0] - middle) < 0.35 * GARDENS
    trees[by_the_wall, 2] = np.minimum(trees[by_the_wall, 2], 0.6 * WALL_HEIGHT)
    lamps, parking = _lamps(rng, streets, squares), _parking(rng, streets)
    return Plan(
        seed,
        low,
        high - low,
        np.concatenate(junctions),
        tuple(streets),
        tuple(squares),
        tuple(lots),
        trees,
        lamps,
        wall,
        parking,
    )


# ---- streets ---------------------------------------------------------------------------------------------


def _junctions(rng: np.random.Generator, columns: int, rows: int, west: float) -> Floats:
    """(columns, rows, 2) junctions of an uneven grid whose westernmost lies at `west`."""
    x = np.concatenate([[0.0], np.cumsum(rng.uniform(*BLOCK, columns - 1))])
    y = np.concatenate([[0.0], np.cumsum(rng.uniform(*BLOCK, rows - 1))])
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1) + rng.uniform(
        -JITTER, JITTER, (columns, rows, 2)
    )
    points[..., 0] += west - points[..., 0].min()
    return points


def _open_blocks(rng: np.random.Generator, columns: int, rows: int) -> list[tuple[int, int]]:
    """Which blocks are squares: about one in five, no two of them side by side."""
    blocks = [(i, j) for i in range(columns - 1) for j in range(rows - 1)]
    chosen: list[tuple[int, int]] = []
    for at in rng.permutation(len(blocks)):
        i, j = blocks[at]
        if len(chosen) < max(1, len(blocks) // 4) and all(abs(i - p) + abs(j - q) > 1 for p, q in chosen):
            chosen.append((i, j))
    return sorted(chosen)


def _square(points: Floats, i: int, j: int, part: str, green: bool) -> Square:
    corners = np.array([points[i, j], points[i + 1, j], points[i + 1, j + 1], points[i, j + 1]])
    return Square(corners, corners.mean(axis=0), part, green)


def _streets(
    rng: np.random.Generator, points: Floats, part: str, first: int, blocks: int, squares: list[Any]
) -> list[Street]:
    columns, rows = points.shape[:2]

    def block(i: int, j: int) -> int:
        return blocks + i * (rows - 1) + j if 0 <= i < columns - 1 and 0 <= j < rows - 1 else -1

    edges = [
        ((i, j), (i + 1, j), (block(i, j), block(i, j - 1))) for i in range(columns - 1) for j in range(rows)
    ]
    edges += [
        ((i, j), (i, j + 1), (block(i - 1, j), block(i, j))) for i in range(columns) for j in range(rows - 1)
    ]
    around_squares = {block(i, j) for i, j in squares}
    kept = _without_some(rng, edges, around_squares)
    streets = []
    for a, b, beside in kept:
        half = float(rng.choice([3.2, 3.6, 4.4, 4.8, 5.2]))
        ends = (first + a[0] * rows + a[1], first + b[0] * rows + b[1])
        bend = BEND * float(rng.uniform(-1.0, 1.0)) if not around_squares & set(beside) else 0.0
        line = _bent_line(points[a], points[b], bend)
        pavement, avenue = float(rng.uniform(2.2, 3.4)), bool(rng.random() < 0.35)
        sides = tuple(-2 if number in around_squares else number for number in beside)
        streets.append(Street(ends, line, half, pavement, avenue, part, sides))
    return streets


def _without_some(rng: np.random.Generator, edges: list[Any], around_squares: set[int]) -> list[Any]:
    """Leave some streets out, never one at a square, and none whose loss makes a dead end or a second town."""
    kept = list(edges)
    for at in rng.permutation(len(edges)):
        edge = edges[at]
        if len(edges) - len(kept) >= MISSING_STREETS * len(edges):
            break
        rest = [e for e in kept if e is not edge]
        degree = [sum(end in e[:2] for e in rest) for end in edge[:2]]
        if not around_squares & set(edge[2]) and min(degree) >= 2 and _connected(rest):
            kept = rest
    return kept


def _connected(edges: list[Any]) -> bool:
    reached, grown = {edges[0][0]}, True
    while grown:
        more = {end for a, b, _ in edges if a in reached or b in reached for end in (a, b)}
        grown, reached = not more <= reached, reached | more
    return reached >= {end for a, b, _ in edges for end in (a, b)}


def _bent_line(a: Floats, b: Floats, bend: float) -> Floats:
    """(n, 2) a parabola from a to b that passes `bend` metres beside the middle of the straight line."""
    way = b - a
    length = float(np.hypot(*way))
    t = np.linspace(0.0, 1.0, max(3, round(length / STEP) + 1))[:, None]
    side = np.array([-way[1], way[0]]) / length
    line: Floats = a + t * way + 4.0 * t * (1.0 - t) * bend * side
    return line


def _lines(streets: list[Street], part: str) -> list[Floats]:
    return [street.line for street in streets if street.part == part]


def _corridors(streets: list[Street]) -> Floats:
    """(n, 3) x, y of all points of all streets and how far from them no house may stand."""
    return np.concatenate(
        [np.column_stack([s.line, np.full(len(s.line), s.half_width + s.pavement)]) for s in streets]
    )


# ---- lots ------------------------------------------------------------------------------------------------


def _churches(rng: np.random.Generator, squares: list[Square]) -> list[Lot]:
    """The first square of each quarter has a church in it."""
    lots = []
    for part in QUARTERS:
        square = next(s for s in squares if s.part == part)
        turn = float(rng.uniform(0, 2 * np.pi))
        ahead, left = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
        wide, deep = 8.0, 17.0
        front = square.centre - 0.5 * wide * ahead - 0.5 * deep * left
        corners = np.array(
            [front, front + wide * ahead, front + wide * ahead + deep * left, front + deep * left]
        )
        lots.append(Lot(corners, part, landmark=True))
    return lots


def _build_along(rng: np.random.Generator, street: Street, lots: list[Lot], corridor: Floats) -> None:
    """Houses along both sides, each where it hits neither a street nor a house that is there."""
    for side, block in ((1.0, street.beside[0]), (-1.0, street.beside[1])):
        if block == -2:  # a square
            continue
        along, end = float(rng.uniform(-4.0, 0.0)), street.length + 4.0
        while along < end:
            width, deep = float(rng.uniform(*LOT_WIDTH)), float(rng.uniform(*LOT_DEPTH))
            setback = float(rng.uniform(1.0, 3.5)) if rng.random() < 0.12 else 0.15
            lot = _fitting(street, side, along, width, deep, setback, lots, corridor)
            if lot is None:
                along += 1.0
                continue
            lots.append(lot)
            along += width + (float(rng.uniform(1.2, 4.5)) if rng.random() < 0.18 else 0.05)


def _fitting(
    street: Street,
    side: float,
    along: float,
    width: float,
    deep: float,
    setback: float,
    lots: list[Lot],
    corridor: Floats,
) -> Lot | None:
    off = side * (street.half_width + street.pavement + setback)
    if along < 0 or along + width > street.length:
        return None
    a, b = street.at(along, off), street.at(along + width, off)
    if side < 0:
        a, b = b, a  # seen from the street, from left to right
    inward = np.array([-(b - a)[1], (b - a)[0]]) / np.hypot(*(b - a))
    for depth in (deep, 0.7 * deep):
        corners = np.array([a, b, b + depth * inward, a + depth * inward])
        if _free_of_streets(corners, corridor) and _free_of_houses(corners, lots):
            return Lot(corners, street.part)
    return None


def _build_around(
    rng: np.random.Generator,
    junction: Floats,
    streets: list[Street],
    lots: list[Lot],
    corridor: Floats,
    squares: list[Square],
) -> None:
    """Houses that face a junction where its streets leave room: the outer side of a corner, the end of a view."""
    away = max(s.half_width + s.pavement for s in streets) + 0.3
    for turn in np.arange(24) * np.pi / 12 + rng.uniform(0, 0.2):
        out = np.array([np.cos(turn), np.sin(turn)])
        along = np.array([out[1], -out[0]])  # to the right of one who looks at the front
        wide, deep = float(rng.uniform(8.0, 12.0)), float(rng.uniform(8.0, 11.0))
        for far, share in ((away, 1.0), (away + 2.0, 0.7), (away + 4.5, 1.0)):
            a, b = (junction + far * out + 0.5 * sign * share * wide * along for sign in (-1.0, 1.0))
            corners = np.array([a, b, b + deep * out, a + deep * out])
            in_square = any(inside(corners, square.corners).any() for square in squares)
            clear = not in_square and _free_of_streets(corners, corridor)
            if clear and _free_of_houses(corners, lots):
                lots.append(Lot(corners, streets[0].part))
                break


def _free_of_streets(corners: Floats, corridor: Floats) -> bool:
    t = np.linspace(0.0, 1.0, 7)[:, None, None]
    rim = (corners + t * (np.roll(corners, -1, axis=0) - corners)).reshape(-1, 2)
    near = corridor[np.abs(corridor[:, :2] - corners.mean(axis=0)).max(axis=1) < 30.0]
    away = np.hypot(rim[:, None, 0] - near[:, 0], rim[:, None, 1] - near[:, 1])
    return bool((away > near[:, 2] - 0.1).all())


def _free_of_houses(corners: Floats, lots: list[Lot]) -> bool:
    return not any(_overlap(corners, lot.corners) for lot in near_lots(corners.mean(axis=0), lots))


def _overlap(a: Floats, b: Floats, slack: float = 0.25) -> bool:
    """Whether two convex counter-clockwise polygons share more than a strip of `slack` metres."""
    for polygon, other in ((a, b), (b, a)):
        way = np.roll(polygon, -1, axis=0) - polygon
        out = np.stack([way[:, 1], -way[:, 0]], axis=1) / np.linalg.norm(way, axis=1, keepdims=True)
        beyond = ((other[None] - polygon[:, None]) * out[:, None]).sum(axis=2).min(axis=1)
        if (beyond > -slack).any():
            return False
    return True


# ---- what stands in the street ---------------------------------------------------------------------------


def near_lots(point: Floats, lots: Iterable[Lot]) -> list[Lot]:
    """Those lots that are so near that something at the point may touch them."""
    x, y = point.tolist()
    return [lot for lot in lots if abs(lot.middle[0] - x) < 26.0 and abs(lot.middle[1] - y) < 26.0]


def inside(points: Floats, polygon: Floats) -> NDArray[np.bool_]:
    """(n,) which points lie in a convex counter-clockwise polygon (k, 2)."""
    way = np.roll(polygon, -1, axis=0) - polygon
    offset = points[:, None] - polygon
    left_of = way[:, 0] * offset[..., 1] - way[:, 1] * offset[..., 0] >= 0
    return np.asarray(left_of.all(axis=1), dtype=np.bool_)


def _trees(
    rng: np.random.Generator,
    streets: list[Street],
    squares: list[Square],
    lots: list[Lot],
    corridor: Floats,
    low: Floats,
    high: Floats,
) -> Floats:
    """(n, 4) trees of avenues, of squares and of gardens."""
    rows = []
    for street in streets:
        if not street.avenue:
            continue
        species, gap = int(rng.integers(0, 4)), float(rng.uniform(8.0, 12.0))
        for side in (1.0, -1.0):
            spots = np.arange(11.0 + rng.uniform(0, 4), street.length - 10.0, gap)
            spots = spots + rng.uniform(-1.0, 1.0, len(spots))
            at = street.at(spots, side * (street.half_width + 0.8))
            rows += [(*p, rng.uniform(5.5, 8.5), species) for p in at]
    for square in squares:
        at = rng.uniform(square.corners.min(axis=0), square.corners.max(axis=0), (26, 2))
        rows += [
            (*p, rng.uniform(5.0, 11.0), rng.integers(0, 5)) for p in _spaced(at, corridor, lots, 1.5, 4.5)
        ]
    gardens = rng.uniform(low, high, (420, 2))
    rows += [
        (*p, rng.uniform(4.0, 10.0), rng.integers(0, 5)) for p in _spaced(gardens, corridor, lots, 2.5, 5.0)
    ]
    return np.array(rows, dtype=np.float64)


def _spaced(points: Floats, corridor: Floats, lots: list[Lot], clear: float, apart: float) -> list[Floats]:
    """Those points that are clear of streets, of houses and of each other."""
    kept: list[Floats] = []
    away = np.hypot(points[:, None, 0] - corridor[:, 0], points[:, None, 1] - corridor[:, 1]) - corridor[:, 2]
    for point, gap in zip(points, away.min(axis=1), strict=True):
        ring = point + clear * np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]])
        if gap < 0.5 or any(np.hypot(*(point - other)) < apart for other in kept):
            continue
        if not any(inside(ring, lot.corners).any() for lot in near_lots(point, lots)):
            kept.append(point)
    return kept


def _lamps(rng: np.random.Generator, streets: list[Street], squares: list[Square]) -> Floats:
    rows = []
    for street in streets:
        side = 1.0
        for along in np.arange(9.0 + rng.uniform(0, 4), street.length - 7.0, rng.uniform(17.0, 24.0)):
            foot = street.at(along, side * (street.half_width + 0.45))
            inward = street.at(along, 0.0) - foot
            rows.append((*foot, *(inward / np.hypot(*inward))))
            side = -side
    for square in squares:
        rows += [(*(0.5 * (square.centre + corner)), 1.0, 0.0) for corner in square.corners]
    return np.array(rows)


def _parking(rng: np.random.Generator, streets: list[Street]) -> Floats:
    rows = []
    for street in streets:
        if street.half_width < PARKING_WIDTH:
            continue
        for side in (1.0, -1.0):
            spots = np.arange(13.0 + rng.uniform(0, 3), street.length - 13.0, 6.0)
            at = street.at(spots, side * (street.half_width - 1.05))
            ahead = street.at(spots + 0.5, 0.0) - street.at(spots - 0.5, 0.0)
            turn = np.arctan2(ahead[:, 1], ahead[:, 0]) + (0.0 if side < 0 else np.pi)
            rows += list(np.column_stack([at, turn]))
    return np.array(rows)
