"""Houses on their lots: walls with painted fronts, roofs, awnings, signs, chimneys; and the church of a square."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from samespot.town.mesh import MeshBuilder
from samespot.town.painting import (
    TEXEL,
    VIVID,
    Colour,
    Style,
    make_style,
    paint_front,
    paint_side,
    paint_tiles,
    wall_colour,
)
from samespot.town.plan import Lot, Plan

Floats = NDArray[np.float64]
Pictures = list[NDArray[np.uint8]]

STYLES = 12  # builders in town
ROOF_COLOURS: tuple[Colour, ...] = (
    (0.56, 0.27, 0.20),
    (0.34, 0.35, 0.39),
    (0.43, 0.31, 0.25),
    (0.46, 0.52, 0.50),
)
FLAT_ROOF = (0.22, 0.21, 0.21)
SOOT = (0.30, 0.20, 0.17)


def raise_buildings(plan: Plan, builder: MeshBuilder, pictures: Pictures) -> Floats:
    """Add a house on every lot to `builder` and its textures to `pictures`; return (lots,) heights [m]."""
    rng = np.random.default_rng((plan.seed, 2))
    styles = [make_style(rng) for _ in range(STYLES)]
    roofs = range(len(pictures), len(pictures) + len(ROOF_COLOURS))
    pictures += [paint_tiles(rng, colour) for colour in ROOF_COLOURS]
    heights = np.zeros(len(plan.lots))
    for number, lot in enumerate(plan.lots):
        own = np.random.default_rng((plan.seed, 3, number))  # a house does not depend on its neighbours
        roof = roofs[int(own.integers(len(roofs)))]
        if lot.landmark:
            heights[number] = _church(own, lot, builder, pictures, roofs[1])
        else:
            heights[number] = _house(own, lot, styles[int(own.integers(STYLES))], builder, pictures, roof)
        builder.close()
    return heights


def _house(
    rng: np.random.Generator, lot: Lot, style: Style, builder: MeshBuilder, pictures: Pictures, roof: int
) -> float:
    a, b, c, d = lot.corners
    width, deep = float(np.hypot(*(b - a))), float(np.hypot(*(c - b)))
    modern = style.material == "panel"
    floors = int(rng.integers(3, 7) if modern else rng.integers(2, 5))
    uses = ["shop", "house", "garage", "arcade"]
    use = str(rng.choice(uses, p=[0.42, 0.42, 0.08, 0.08]))
    ground = float(rng.uniform(3.4, 4.2)) if use != "house" else style.storey + 0.3
    height = ground + (floors - 1) * style.storey + float(rng.uniform(0.5, 1.0))
    colour = wall_colour(rng, style)
    front, accent = paint_front(rng, style, colour, width, floors, ground, height, use)
    side = paint_side(rng, style, colour, deep, floors, ground, height)
    first = len(pictures)
    pictures += [front, side]
    builder.wall(a, b, 0.0, height, texture=first, texel=TEXEL)
    for p, q in ((b, c), (c, d), (d, a)):
        builder.wall(p, q, 0.0, height, texture=first + 1, texel=TEXEL)
    kind = (
        "flat" if modern else str(rng.choice(["eaves", "gable", "flat", "mansard"], p=[0.5, 0.2, 0.15, 0.15]))
    )
    top = _ROOFS[kind](rng, lot.corners, height, colour, builder, roof)
    if kind != "flat" or rng.random() < 0.5:
        _chimney(rng, lot.corners, top, builder)
    if use == "shop":
        if rng.random() < 0.5:
            _awning(rng, a, b, ground - 1.0, accent, builder)
        if rng.random() < 0.45:
            _hanging_sign(rng, a, b, ground + 0.6, builder)
    return top


# ---- roofs: each returns the height of its top -----------------------------------------------------------


def _flat(
    rng: np.random.Generator, corners: Floats, height: float, wall: Colour, builder: MeshBuilder, roof: int
) -> float:
    builder.polygon(np.column_stack([corners, np.full(4, height)]), FLAT_ROOF)
    return height


def _eaves(
    rng: np.random.Generator, corners: Floats, height: float, wall: Colour, builder: MeshBuilder, roof: int
) -> float:
    """The ridge runs along the street."""
    return _saddle(corners, height, float(rng.uniform(2.0, 4.5)), wall, builder, roof)


def _gable(
    rng: np.random.Generator, corners: Floats, height: float, wall: Colour, builder: MeshBuilder, roof: int
) -> float:
    """The ridge runs away from the street, and the front ends in a triangle."""
    return _saddle(np.roll(corners, -1, axis=0), height, float(rng.uniform(2.5, 5.0)), wall, builder, roof)


def _saddle(
    corners: Floats, height: float, rise: float, wall: Colour, builder: MeshBuilder, roof: int
) -> float:
    """Slopes over the first and the third side, triangles over the others."""
    a, b, c, d = (np.array([*p, height]) for p in corners)
    left, right = 0.5 * (a + d) + (0, 0, rise), 0.5 * (b + c) + (0, 0, rise)
    builder.polygon([a, b, right, left], texture=roof, texel=TEXEL)
    builder.polygon([c, d, left, right], texture=roof, texel=TEXEL)
    builder.polygon([b, c, right], _reflectance(wall))
    builder.polygon([d, a, left], _reflectance(wall))
    return height + rise


def _mansard(
    rng: np.random.Generator, corners: Floats, height: float, wall: Colour, builder: MeshBuilder, roof: int
) -> float:
    rise = float(rng.uniform(1.8, 2.8))
    middle = corners.mean(axis=0)
    inner = middle + 0.78 * (corners - middle)
    low, high = (np.column_stack([p, np.full(4, z)]) for p, z in ((corners, height), (inner, height + rise)))
    for k in range(4):
        n = (k + 1) % 4
        builder.polygon([low[k], low[n], high[n], high[k]], texture=roof, texel=TEXEL)
    builder.polygon(high, FLAT_ROOF)
    return height + rise


_ROOFS = {"flat": _flat, "eaves": _eaves, "gable": _gable, "mansard": _mansard}


def _reflectance(colour: tuple[float, ...]) -> tuple[float, ...]:
    """Paint as it is seen to the share of light it reflects, which is what a polygon's own colour is."""
    return tuple(c * c for c in colour)


# ---- what sticks out -------------------------------------------------------------------------------------


def _square(middle: Floats, half: float, turn: float = 0.0) -> Floats:
    angle = turn + np.pi * np.array([1.25, 1.75, 0.25, 0.75])
    outline: Floats = middle + half * np.sqrt(2.0) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return outline


def _chimney(rng: np.random.Generator, corners: Floats, top: float, builder: MeshBuilder) -> None:
    s, t = rng.uniform(0.2, 0.8, 2)
    at = (1 - t) * ((1 - s) * corners[0] + s * corners[1]) + t * ((1 - s) * corners[3] + s * corners[2])
    way = corners[1] - corners[0]
    outline = _square(at, float(rng.uniform(0.3, 0.5)), float(np.arctan2(way[1], way[0])))
    builder.box(
        outline, top - 3.0 if top > 8 else top - 1.0, top + float(rng.uniform(0.4, 1.2)), _reflectance(SOOT)
    )


def _awning(
    rng: np.random.Generator, a: Floats, b: Floats, height: float, colour: Colour, builder: MeshBuilder
) -> None:
    """Striped cloth over a shop window, and its two ends."""
    along = (b - a) / np.hypot(*(b - a))
    out = np.array([along[1], -along[0]])
    left, right = a + 0.4 * along, b - 0.4 * along
    reach, drop = float(rng.uniform(1.0, 1.7)), float(rng.uniform(0.5, 0.8))
    stripes = 2 * max(2, int(np.hypot(*(right - left)) / 1.1)) + 1
    pale = (0.92, 0.90, 0.84) if rng.random() < 0.6 else tuple(0.6 * c for c in colour)
    for k in range(stripes):
        p, q = (left + (right - left) * (k + e) / stripes for e in (0, 1))
        tint = _reflectance(colour if k % 2 == 0 else pale)
        low, high = height - drop, height
        slope = [(*(p + reach * out), low), (*(q + reach * out), low), (*q, high), (*p, high)]
        builder.polygon(slope, tint, two_sided=True)
        p, q = p + reach * out, q + reach * out
        builder.wall(p, q, low - 0.25, low, tint, two_sided=True)
    for p in (left, right):
        triangle = [(*p, height), (*p, height - drop), (*(p + reach * out), height - drop)]
        builder.polygon(triangle, _reflectance(colour), two_sided=True)


def _hanging_sign(
    rng: np.random.Generator, a: Floats, b: Floats, height: float, builder: MeshBuilder
) -> None:
    """A board at right angles to the front: seen from along the street."""
    along = (b - a) / np.hypot(*(b - a))
    out = np.array([along[1], -along[0]])
    at = a + float(rng.uniform(0.15, 0.85)) * (b - a)
    colour, inner = (VIVID[int(rng.integers(len(VIVID)))] for _ in range(2))
    wide, tall = float(rng.uniform(0.6, 1.1)), float(rng.uniform(0.7, 1.6))
    for shift, inset, tint, glow in (
        (0.0, 0.0, colour, 0.12),
        (0.03, 0.16, inner, 0.2),
        (-0.03, 0.16, inner, 0.2),
    ):
        p, q = (at + shift * along + s * out for s in (0.25 + inset, 0.25 + wide - inset))
        builder.wall(
            p, q, height + inset, height + tall - inset, _reflectance(tint), two_sided=True, glow=glow
        )


# ---- the church ------------------------------------------------------------------------------------------


def _church(rng: np.random.Generator, lot: Lot, builder: MeshBuilder, pictures: Pictures, roof: int) -> float:
    """A nave, and a tower with a spire before it."""
    a, b, c, d = lot.corners
    window = (float(rng.uniform(0.7, 1.0)), float(rng.uniform(2.6, 3.4)))
    material = str(rng.choice(["stone", "brick", "plaster"]))
    style = Style(material, 4.5, 2.6, window, (2, 4), (0.80, 0.77, 0.70), True, False, False)
    colour, first, nave = wall_colour(rng, style), len(pictures), 7.5
    front, _ = paint_front(rng, style, colour, 8.0, 2, 4.5, nave, "arcade")
    long, _ = paint_front(rng, style, colour, 17.0, 2, 1.4, nave, "arcade")
    tower = paint_side(rng, style, colour, 4.0, 3, 5.0, 15.0)
    pictures += [front, long, tower]
    builder.wall(a, b, 0.0, nave, texture=first, texel=TEXEL)
    builder.wall(c, d, 0.0, nave, texture=first, texel=TEXEL)
    for p, q in ((b, c), (d, a)):
        builder.wall(p, q, 0.0, nave, texture=first + 1, texel=TEXEL)
    _saddle(np.roll(lot.corners, -1, axis=0), nave, 4.5, colour, builder, roof)
    inward = (d - a) / np.hypot(*(d - a))
    foot = _square(0.5 * (a + b) - 1.2 * inward, 2.0, float(np.arctan2(*(b - a)[::-1])))
    height = float(rng.uniform(13.0, 15.0))
    for k in range(4):
        builder.wall(foot[k], foot[(k + 1) % 4], 0.0, height, texture=first + 2, texel=TEXEL)
    tip = np.array([*foot.mean(axis=0), height + float(rng.uniform(5.0, 9.0))])
    for k in range(4):
        p, q = (np.array([*foot[i % 4], height]) for i in (k, k + 1))
        builder.polygon([p, q, tip], texture=roof, texel=TEXEL)
    return nave + 4.5
