"""Parked cars: which places at the kerbs are taken on a visit, and by what."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from samespot.town.mesh import Mesh, MeshBuilder
from samespot.town.plan import Plan

TAKEN = 0.55  # share of the places that have a car
PAINT = (
    (0.75, 0.75, 0.76), (0.03, 0.03, 0.035), (0.22, 0.23, 0.25), (0.40, 0.03, 0.03), (0.04, 0.10, 0.30),
    (0.60, 0.58, 0.54), (0.05, 0.16, 0.10), (0.62, 0.40, 0.06), (0.10, 0.28, 0.42),
)  # fmt: skip
GLASS, RUBBER = (0.025, 0.03, 0.035), (0.02, 0.02, 0.02)
LAMP_WHITE, LAMP_RED = (0.7, 0.7, 0.65), (0.45, 0.02, 0.02)
# length, width, bonnet height, roof height, where the cabin starts and ends as shares of the length
SHAPES = (
    (4.3, 1.75, 0.85, 1.45, 0.30, 0.97),
    (4.7, 1.8, 0.85, 1.42, 0.32, 0.80),
    (3.7, 1.65, 0.85, 1.5, 0.27, 0.98),
    (5.2, 1.95, 1.05, 2.1, 0.20, 0.99),
)


def park(plan: Plan, visit: int) -> Mesh:
    """The cars of one visit."""
    rng = np.random.default_rng((plan.seed, 6, visit))
    builder = MeshBuilder()
    for x, y, turn in plan.parking:
        if rng.random() < TAKEN:
            shape, paint = SHAPES[rng.integers(len(SHAPES))], PAINT[rng.integers(len(PAINT))]
            at = np.array([x, y]) + rng.uniform(-0.15, 0.15, 2)
            _car(builder, at, turn + float(rng.uniform(-0.03, 0.03)), shape, paint)
            builder.close()
    return builder.build()


def _car(
    builder: MeshBuilder,
    at: NDArray[np.float64],
    turn: float,
    shape: tuple[float, ...],
    paint: tuple[float, ...],
) -> None:
    long, wide, bonnet, roof, cabin_from, cabin_to = shape
    ahead, left = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])

    def point(s: float, t: float, z: float) -> tuple[float, float, float]:
        """s: share of the length from the front, t: share of the width from the middle to the left."""
        x, y = at + (0.5 - s) * long * ahead + 0.5 * t * wide * left
        return float(x), float(y), z

    def quad(points: list[tuple[float, float, float]], colour: tuple[float, ...]) -> None:
        builder.polygon(points, colour, two_sided=True)

    low = 0.28
    for t in (1.0, -1.0):
        quad([point(0, t, low), point(1, t, low), point(1, t, bonnet), point(0, t, bonnet)], paint)
        glass = [point(cabin_from, 0.97 * t, bonnet), point(cabin_to, 0.97 * t, bonnet)]
        glass += [point(cabin_to - 0.05, 0.82 * t, roof), point(cabin_from + 0.14, 0.82 * t, roof)]
        quad(glass, GLASS)
        for s in (0.19, 0.80):
            tread = 0.36 / long
            wheel = [(s - tread, 0.0), (s + tread, 0.0), (s + tread, 0.6), (s - tread, 0.6)]
            quad([point(u, 1.015 * t, z) for u, z in wheel], RUBBER)
    quad([point(0, -1, low), point(0, 1, low), point(0, 1, bonnet), point(0, -1, bonnet)], paint)
    quad([point(1, -1, low), point(1, 1, low), point(1, 1, bonnet), point(1, -1, bonnet)], paint)
    quad(
        [
            point(0, -1, bonnet),
            point(cabin_from, -1, bonnet),
            point(cabin_from, 1, bonnet),
            point(0, 1, bonnet),
        ],
        paint,
    )
    quad(
        [point(cabin_to, -1, bonnet), point(1, -1, bonnet), point(1, 1, bonnet), point(cabin_to, 1, bonnet)],
        paint,
    )
    f, b = cabin_from, cabin_to
    quad(
        [
            point(f, -0.97, bonnet),
            point(f, 0.97, bonnet),
            point(f + 0.14, 0.82, roof),
            point(f + 0.14, -0.82, roof),
        ],
        GLASS,
    )
    quad(
        [
            point(b, -0.97, bonnet),
            point(b, 0.97, bonnet),
            point(b - 0.05, 0.82, roof),
            point(b - 0.05, -0.82, roof),
        ],
        GLASS,
    )
    quad(
        [
            point(f + 0.14, -0.82, roof),
            point(b - 0.05, -0.82, roof),
            point(b - 0.05, 0.82, roof),
            point(f + 0.14, 0.82, roof),
        ],
        paint,
    )
    for s, colour in ((-0.004, LAMP_WHITE), (1.004, LAMP_RED)):
        for t in (0.75, -0.75):
            quad(
                [
                    point(s, t - 0.2, 0.55),
                    point(s, t + 0.2, 0.55),
                    point(s, t + 0.2, 0.75),
                    point(s, t - 0.2, 0.75),
                ],
                colour,
            )
    quad(
        [point(0.05, -0.9, 0.05), point(0.95, -0.9, 0.05), point(0.95, 0.9, 0.05), point(0.05, 0.9, 0.05)],
        RUBBER,
    )
