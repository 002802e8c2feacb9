"""How the world of a map's poses lies on the map's plane. No table says it; the photos, whose places are known in both,
do."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from samespot.places.pose import PoseFrame, ground_pose
from samespot.places.table import Places

NEAR, TURNED = 5.0, 20.0  # [m], [deg] what GPS and a compass are off by, at most, in the middle
SAME, SAME_TURN = 0.01, 0.1  # [m], [deg] of positions that were taken from the poses themselves
ASKED = 1000  # photos at most


@dataclass(frozen=True)
class Lying:
    """`frame`: which axes of the poses point up and north. `exact`: the table's positions and headings are those of
    its poses, so that plane and poses are the same by the word of who made it; else they agree as GPS does."""

    frame: PoseFrame
    exact: bool


def lying(places: Places) -> Lying | None:
    """None: not to be told."""
    if not places.has_pose:
        return None
    some = places.select(np.unique(np.linspace(0, len(places) - 1, ASKED).astype(np.int64)))
    given = np.hstack([some.positions, some.centres, some.quaternions])
    given = given[np.isfinite(given).all(axis=1)]
    if not len(given):
        return None
    near, exact = list[tuple[float, PoseFrame]](), list[PoseFrame]()
    for frame in _frames():
        easting, northing, heading = ground_pose(given[:, 3:6], given[:, 6:], frame)
        away = np.hypot(easting - given[:, 0], northing - given[:, 1])
        turned = np.nan_to_num(np.abs((heading - given[:, 2] + 180.0) % 360.0 - 180.0), nan=180.0)
        if (middle := float(max(np.median(away) / NEAR, np.median(turned) / TURNED))) <= 1.0:
            near.append((middle, frame))
        if (away <= SAME).all() and (turned <= SAME_TURN).all():
            exact.append(frame)
    if len(exact) == 1:
        return Lying(exact[0], True)
    return Lying(min(near, key=lambda one: one[0])[1], False) if near else None


def _frames() -> list[PoseFrame]:
    """All whose axes are those of the poses: x right, y down, z ahead of a camera."""
    axes = [tuple(map(float, axis)) for axis in np.vstack([np.eye(3), -np.eye(3)])]
    pairs = itertools.product(axes, axes)
    return [PoseFrame(up=up, north=north) for up, north in pairs if not np.dot(up, north)]  # type: ignore[arg-type]
