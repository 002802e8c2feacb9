"""From matched photos, whose places are known, to where a photo was taken and which way it looks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from samespot.matching.keypoints import Keypoints
from samespot.places.camera import Camera

Floats = NDArray[np.float64]
VIEW = 65.0  # [deg] that the longer side of a photo is taken to show, where nobody says; phones have 60 to 70
FEWEST = 12  # verified matches that a heading needs


def position_of(positions: Floats, inliers: Floats, near: float) -> Floats:
    """(2,) [m]: the mean of the matches (k, 2) within `near` metres of the first, weighted by their verified matches.

    Where the first was not verified (NaN), its own position.
    """
    there = np.hypot(*(positions - positions[0]).T) <= near
    share = np.where(there & (inliers > 0), inliers, 0.0)
    if not share.sum() > 0:
        return np.asarray(positions[0])
    return np.asarray((share[:, None] * positions).sum(axis=0) / share.sum())


def heading_of(heading: float, asked: Keypoints, match: Keypoints, pairs: NDArray[np.int64]) -> float | None:
    """Which way a photo looks [deg], from a matched one that looks towards `heading`; None if it cannot be determined.

    What stands far away is seen under the same bearing from both places, so that the angle between the two views is
    the shift of the matches across the photo. Their median is not misled by what stands near.
    """
    if not math.isfinite(heading) or len(pairs) < FEWEST:
        return None
    turned = _angles(match, pairs[:, 1]) - _angles(asked, pairs[:, 0])
    return float((heading + np.median(turned)) % 360.0)


def assumed_camera(size: tuple[int, int]) -> Camera:
    """Of a photo of this size (h, w) whose camera nobody knows."""
    height, width = size
    focal = max(height, width) / 2 / math.tan(math.radians(VIEW / 2))
    return Camera.of_focal(width, height, focal)


def _angles(seen: Keypoints, rows: NDArray[np.int64]) -> Floats:
    """[deg] to the right of the middle of the photo."""
    camera = assumed_camera(seen.size)
    right: Floats = seen.xy[rows, 0].astype(np.float64) - camera.cx
    return np.asarray(np.degrees(np.arctan(right / camera.fx)))
