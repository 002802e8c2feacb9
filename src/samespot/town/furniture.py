"""What stands in streets and squares on every visit: lamps, benches, hedges, columns, kiosks and fountains."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.town.mesh import MeshBuilder
from samespot.town.painting import VIVID
from samespot.town.plan import WALL_HEIGHT, Plan, inside, near_lots

Floats = NDArray[np.float64]
LAMP_HEIGHT, LAMP_REACH = 5.2, 1.1  # [m] of the light above the ground and before its pole
IRON, WOOD, HEDGE, SANDSTONE = (0.05, 0.055, 0.06), (0.16, 0.09, 0.05), (0.05, 0.09, 0.03), (0.42, 0.38, 0.31)


def furnish(plan: Plan, builder: MeshBuilder) -> Floats:
    """Add lamps and furniture to `builder`; return (lamps, 3) where the lights hang."""
    rng = np.random.default_rng((plan.seed, 7))
    lights = np.array([_lamp(builder, row) for row in plan.lamps])
    _streets(rng, plan, builder)
    for square in plan.squares:
        _square(rng, plan, square.centre, builder)
    _garden_hedges(rng, plan, builder)
    south, north = plan.wall
    builder.box(
        outline(0.5 * (south + north), 4.0, float(north[1] - south[1]), 0.0), 0.0, WALL_HEIGHT, SANDSTONE
    )
    builder.close()
    return lights


def outline(middle: ArrayLike, wide: float, deep: float, turn: float) -> Floats:
    """(4, 2) corners of a turned rectangle around a point, counter-clockwise."""
    ahead, left = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return np.array([np.asarray(middle) + 0.5 * (s * wide * ahead + t * deep * left) for s, t in signs])


def _lamp(builder: MeshBuilder, row: Floats) -> tuple[float, float, float]:
    x, y, ex, ey = row
    turn = float(np.arctan2(ey, ex))
    builder.box(outline((x, y), 0.13, 0.13, turn), 0.0, LAMP_HEIGHT + 0.2, IRON)
    arm = outline((x + 0.5 * LAMP_REACH * ex, y + 0.5 * LAMP_REACH * ey), LAMP_REACH, 0.08, turn)
    builder.box(arm, LAMP_HEIGHT + 0.12, LAMP_HEIGHT + 0.2, IRON)
    hx, hy = x + LAMP_REACH * ex, y + LAMP_REACH * ey
    head = outline((hx, hy), 0.5, 0.26, turn)
    builder.box(head, LAMP_HEIGHT, LAMP_HEIGHT + 0.14, IRON)
    under = np.column_stack([head, np.full(4, LAMP_HEIGHT - 0.02)])
    builder.polygon(under, (0.8, 0.8, 0.75), two_sided=True, glow=1.0)
    builder.close()
    return hx, hy, LAMP_HEIGHT - 0.1


def _streets(rng: np.random.Generator, plan: Plan, builder: MeshBuilder) -> None:
    """Bins, letter boxes, advertising columns and bollards near the kerbs."""
    for street in plan.streets:
        for along in np.arange(15.0, street.length - 14.0, 13.0):
            if rng.random() > 0.6:
                continue
            side, kind = (1.0 if rng.random() < 0.5 else -1.0), int(rng.integers(0, 4))
            at = street.at(along + rng.uniform(-3, 3), side * (street.half_width + 0.7))
            colour = tuple(c * c for c in VIVID[rng.integers(len(VIVID))])
            turn = float(rng.uniform(0, np.pi))
            if kind == 0:
                builder.box(outline(at, 0.5, 0.4, turn), 0.0, 1.1, colour)
            elif kind == 1:
                builder.box(outline(at, 0.9, 0.9, turn), 0.0, 2.6, colour, top=IRON)
                builder.box(outline(at, 1.0, 1.0, turn), 2.6, 2.8, IRON)
            elif kind == 2:
                for k in range(4):
                    spot = street.at(along + 1.3 * k, side * (street.half_width + 0.3))
                    builder.box(
                        outline(spot, 0.16, 0.16, turn), 0.0, 0.9, (0.5, 0.5, 0.48) if k % 2 else IRON
                    )
            else:
                pole = outline(at, 0.09, 0.09, turn)
                builder.box(pole, 0.0, 2.5, (0.35, 0.35, 0.36))
                ahead = street.at(along + 0.5, 0.0) - street.at(along - 0.5, 0.0)
                across = 0.35 * np.array([-ahead[1], ahead[0]]) / np.hypot(*ahead)
                builder.wall(at - across, at + across, 2.1, 2.8, colour, two_sided=True)
            builder.close()


def _square(rng: np.random.Generator, plan: Plan, centre: Floats, builder: MeshBuilder) -> None:
    """A fountain or a monument, a kiosk, benches."""
    near = [lot for lot in plan.lots if lot.landmark and np.hypot(*(lot.corners.mean(axis=0) - centre)) < 5]
    spot = centre + (rng.uniform(-1, 1, 2) if not near else np.array([0.0, -14.0]))
    if rng.random() < 0.5:
        for radius, low, high in ((2.6, 0.0, 0.55), (0.5, 0.55, 1.7), (1.1, 1.7, 1.9)):
            ring = spot + radius * np.stack([np.cos(_EIGHT), np.sin(_EIGHT)], axis=1)
            for k in range(8):
                builder.wall(ring[k], ring[(k + 1) % 8], low, high, SANDSTONE)
            lid = np.column_stack([ring, np.full(8, high - 0.06)])
            for part in (lid[[0, 1, 2, 3]], lid[[0, 3, 4, 7]], lid[[4, 5, 6, 7]]):
                builder.polygon(part, (0.08, 0.16, 0.2) if radius > 2 else SANDSTONE)
    else:
        turn = float(rng.uniform(0, np.pi))
        builder.box(outline(spot, 2.2, 2.2, turn), 0.0, 0.4, SANDSTONE)
        builder.box(outline(spot, 1.2, 1.2, turn), 0.4, 2.2, SANDSTONE)
        tall = float(rng.uniform(3.5, 6.0))
        bronze = (0.10, 0.20, 0.16) if rng.random() < 0.5 else SANDSTONE
        builder.box(outline(spot, 0.55, 0.45, turn), 2.2, tall, bronze)
    builder.close()
    for _ in range(int(rng.integers(1, 3))):
        turn, away = float(rng.uniform(0, 2 * np.pi)), float(rng.uniform(13.0, 17.0))
        x, y = centre + away * np.array([np.cos(turn), np.sin(turn)])
        colour = tuple(c * c for c in VIVID[rng.integers(len(VIVID))])
        builder.box(outline((x, y), 2.6, 2.0, turn), 0.0, 2.4, colour)
        builder.box(outline((x, y), 3.2, 2.6, turn), 2.4, 2.6, tuple(0.4 * c for c in colour))
        builder.close()
    for turn in np.arange(6) * 1.05 + rng.uniform(0, 1):
        x, y = centre + 10.0 * np.array([np.cos(turn), np.sin(turn)])
        builder.box(outline((x, y), 0.5, 1.8, turn), 0.35, 0.45, WOOD)
        builder.box(
            outline((x + 0.25 * np.cos(turn), y + 0.25 * np.sin(turn)), 0.08, 1.8, turn), 0.0, 0.9, WOOD
        )
        builder.close()


_EIGHT = np.arange(8) * np.pi / 4


def _garden_hedges(rng: np.random.Generator, plan: Plan, builder: MeshBuilder) -> None:
    """Hedges and garden walls close the gaps between houses, so that streets have an edge."""
    for street in plan.streets:
        for side, block in ((1.0, street.beside[0]), (-1.0, street.beside[1])):
            if block == -2:
                continue
            for along in np.arange(street.half_width + 6.0, street.length - street.half_width - 6.0, 3.0):
                off = side * (street.half_width + street.pavement + 0.4)
                a, b = street.at(along, off), street.at(along + 3.0, off)
                probe = np.array([a, b, 0.5 * (a + b)]) + side * 0.5 * street.left[0]
                if any(inside(probe, lot.corners).any() for lot in near_lots(a, plan.lots)):
                    continue
                hedge = rng.random() < 0.6
                colour = HEDGE if hedge else SANDSTONE
                way, middle = b - a, 0.5 * (a + b)
                box = outline(middle, float(np.hypot(*way)), 0.5, float(np.arctan2(way[1], way[0])))
                builder.box(
                    box, 0.0, float(rng.uniform(1.0, 2.0)), tuple(c * rng.uniform(0.8, 1.2) for c in colour)
                )
                builder.close()
