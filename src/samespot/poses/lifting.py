"""Keypoints of a map photo that know how far away they are: by its depth image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.matching.keypoints import Keypoints
from samespot.places.camera import Camera

EDGE = 0.05  # of the depth: beyond this step between neighbouring pixels there is an edge, and none is mixed
DEPTH_FOV = "depth_fov"  # column of a table
CENTRE = 0.5  # of a pixel: keypoints count from the centre of the first one
Floats = NDArray[np.float64]


def pixels_of(keypoints: Keypoints) -> Floats:
    """(n, 2) of the photo as it was looked at, counted as cameras do: the first pixel's centre is at (.5, .5)."""
    return keypoints.xy.astype(np.float64) + CENTRE


def lifted(
    pixels: Floats, camera: Camera, depth: NDArray[np.float32], seen_by: Camera | None = None
) -> NDArray[np.float32]:
    """(n, 3) pixels (n, 2) of a photo in the coordinates of its camera; NaN where the depth image says nothing.

    camera: of the photo at the size that the pixels are of. depth: (h, w) [m] along the optical axis; NaN: unknown.
    seen_by: the camera of the depth image if that is another one, at the same spot; by default the photo's.
    """
    height, width = depth.shape
    rays = camera.rays(pixels)
    through = (camera if seen_by is None else seen_by).scaled(height, width)
    at = through.pixels(np.hstack([rays, np.ones((len(rays), 1))]))
    z = depth_at(depth, at)
    points: NDArray[np.float32] = np.hstack([rays * z[:, None], z[:, None]]).astype(np.float32)
    return points


def depth_camera_of(table: Any, row: int, camera: Camera) -> Camera | None:
    """The camera of a photo's depth image where that is another: the column depth_fov, [deg] that its width shows."""
    view = float(table[DEPTH_FOV].iloc[row]) if DEPTH_FOV in table else np.nan
    return Camera.of_view(camera.width, camera.height, view) if 0 < view < 180 else None


def depth_at(depth: NDArray[np.float32], at: Floats) -> Floats:
    """(n,) [m] at pixels (n, 2); NaN outside the image and where the nearest pixel has none.

    Between pixels, 1/depth is mixed: on a plane, that is exact. Across an edge the nearest pixel counts alone.
    """
    height, width = depth.shape
    inside = (at[:, 0] >= 0) & (at[:, 0] < width) & (at[:, 1] >= 0) & (at[:, 1] < height)
    where = np.where(inside[:, None], at, 0.0) - CENTRE
    x, y = where.T
    nearest = depth[_within(np.rint(y), height), _within(np.rint(x), width)].astype(np.float64)
    left, top = np.floor(x), np.floor(y)
    corners = np.stack(
        [depth[_within(top + dy, height), _within(left + dx, width)] for dy in (0, 1) for dx in (0, 1)]
    ).astype(np.float64)
    shares = np.stack([(1 - (y - top)) * (1 - (x - left)), (1 - (y - top)) * (x - left)])
    shares = np.concatenate([shares, np.stack([(y - top) * (1 - (x - left)), (y - top) * (x - left)])])
    with np.errstate(invalid="ignore", divide="ignore"):
        mixed = 1.0 / (shares / corners).sum(axis=0)
        smooth = (np.abs(corners - nearest) <= EDGE * nearest).all(axis=0)
        found: Floats = np.where(smooth, mixed, nearest)
        return np.where(inside & (found > 0), found, np.nan)


def _within(numbers: Floats, size: int) -> NDArray[np.int64]:
    return np.clip(numbers, 0, size - 1).astype(np.int64)
