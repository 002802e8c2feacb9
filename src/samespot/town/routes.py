"""The way of a visit: every street of a quarter once in each direction, and where on it photos are taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samespot.town.plan import Plan
from samespot.town.visits import Visit

Floats = NDArray[np.float64]
STEP = 0.5  # [m] between the points of a tour
CORNER = 7.0  # [m] over which a driver rounds a corner
SIDEWAYS = 0.18  # share of photos that look to the side


@dataclass(frozen=True)
class Shots:
    """The cameras of a tour: `centres` (n, 3) and `heading`, `pitch`, `roll` (n,) [deg], `along` (n,) [m]."""

    centres: Floats
    heading: Floats
    pitch: Floats
    roll: Floats
    along: Floats


def tour(plan: Plan, part: str, rng: np.random.Generator) -> Floats:
    """(n, 2) centre lines of all streets of a quarter, each driven both ways, in one go."""
    ways: dict[int, list[tuple[int, Floats]]] = {}
    for street in (s for s in plan.streets if s.part == part):
        a, b = street.ends
        ways.setdefault(a, []).append((b, street.line))
        ways.setdefault(b, []).append((a, street.line[::-1]))
    for choices in ways.values():
        order = rng.permutation(len(choices))
        choices[:] = [choices[k] for k in order]
    # Hierholzer's circuit: as many ways lead into a junction as out of it
    stack: list[tuple[int, Floats | None]] = [(min(ways), None)]
    lines: list[Floats] = []
    while stack:
        at = stack[-1][0]
        if ways[at]:
            stack.append(ways[at].pop())
        else:
            _, line = stack.pop()
            if line is not None:
                lines.append(line)
    return np.concatenate(lines[::-1])


def shoot(plan: Plan, part: str, visit: Visit, count: int) -> Shots:
    """`count` photos about evenly along the tour of a visit, most of them ahead and some to the side."""
    rng = np.random.default_rng((plan.seed, 21, visit.number, len(part)))
    path, ahead, along = _smoothed(tour(plan, part, rng))
    steady = np.flatnonzero(np.linalg.norm(ahead, axis=1) > 0.75)  # not while turning round
    spacing = len(steady) / count
    at = steady[((np.arange(count) + rng.uniform(0.15, 0.85, count)) * spacing).astype(np.int64)]
    ahead = ahead[at] / np.linalg.norm(ahead[at], axis=1, keepdims=True)
    knots = rng.normal(0.0, 0.3, int(along[-1] / 15.0) + 2)
    drift = np.interp(along[at], np.arange(len(knots)) * 15.0, knots)
    off = np.clip(visit.lateral + drift, 0.4, 1.75)[:, None]
    ground = path[at] + off * np.stack([ahead[:, 1], -ahead[:, 0]], axis=1)
    turn = np.where(
        rng.random(count) < SIDEWAYS,
        rng.choice([-1.0, 1.0], count) * rng.uniform(35.0, 90.0, count),
        rng.normal(0.0, 4.0, count),
    )
    heading = (np.rad2deg(np.arctan2(ahead[:, 0], ahead[:, 1])) + turn) % 360.0
    height = visit.height + rng.normal(0.0, 0.04, count)
    pitch, roll = visit.pitch + rng.normal(0.0, 1.2, count), rng.normal(0.0, 0.8, count)
    return Shots(np.column_stack([ground, height]), heading, pitch, roll, along[at])


def _smoothed(line: Floats) -> tuple[Floats, Floats, Floats]:
    """(n, 2) points every half metre with round corners, (n, 2) way per metre of the tour, (n,) metres along."""
    s = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    new = np.concatenate([[True], np.diff(s) > 1e-6])  # junctions stand in it twice
    along = np.arange(0.0, s[-1], STEP)
    points = np.stack([np.interp(along, s[new], line[new, k]) for k in (0, 1)], axis=1)
    window = int(CORNER / STEP) | 1
    padded = np.pad(points, ((window // 2, window // 2), (0, 0)), mode="edge")
    sums = np.cumsum(np.vstack([np.zeros(2), padded]), axis=0)
    path = (sums[window:] - sums[:-window]) / window
    return path, np.gradient(path, STEP, axis=0), along
