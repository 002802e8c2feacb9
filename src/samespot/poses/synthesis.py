"""Is this pose right? Draw what a camera there would see of the map's coloured points, and hold the query beside it.

Map photos with depth are clouds of coloured points. Drawn into a pose they give a picture with gaps; where it has none,
dense descriptors of gradients (RootSIFT's, so light matters little) of the picture and of the photo are compared. The
score of a pose is the median of their likeness, so that a car that has left or a wrong corner of depth does not decide.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.overlap.cloud import PointCloud
from samespot.places.camera import Camera
from samespot.places.pose import rotation_matrices
from samespot.poses.lifting import lifted

Floats = NDArray[np.float64]
Photo = NDArray[np.uint8]  # (h, w, 3) RGB
WIDTH = 320  # [px] of the pictures that are compared
CELL, CELLS, ANGLES = 4, 3, 8  # a descriptor: 3 × 3 cells of 4 × 4 px, each a histogram of 8 directions
FILLED = 0.5  # share of a descriptor's pixels that must be drawn
LEAST = 0.05  # share of the descriptors that must be compared for a score above 0
BEHIND = 0.02  # a point's surroundings count as so much farther than itself: where two points of a surface compete, the
# one whose own pixel it is wins


def shrunk(photo: Photo, width: int = WIDTH) -> Photo:
    """A photo of the width that pictures are compared at; one that is smaller is enlarged."""
    from PIL import Image

    size = width, round(photo.shape[0] * width / photo.shape[1])
    return np.asarray(Image.fromarray(photo).resize(size, Image.Resampling.BOX))


def photo_cloud(
    photo: Photo,
    depth: NDArray[np.float32],
    centre: ArrayLike,
    quaternion: ArrayLike,
    camera: Camera,
    depth_camera: Camera | None = None,
) -> PointCloud:
    """The points that a photo's pixels show, with their colours; those without depth are left out.

    camera, depth_camera: for photo and depth at their own sizes; the same unless told
    """
    height, width = photo.shape[:2]
    if (camera.height, camera.width) != (height, width):
        raise InputError(f"a photo of {width} × {height} px and a camera of {camera.width} × {camera.height}")
    rows, columns = np.mgrid[:height, :width]
    pixels = np.column_stack([columns.ravel(), rows.ravel()]) + 0.5
    points = lifted(pixels, camera, depth, depth_camera)
    known = np.isfinite(points[:, 2])
    xyz = points[known].astype(np.float64) @ rotation_matrices(quaternion)[0].T + np.asarray(centre)
    return PointCloud(xyz, photo.reshape(-1, 3)[known])


def joined(clouds: Iterable[PointCloud]) -> PointCloud:
    """One cloud of several coloured ones."""
    xyz, rgb = zip(*((cloud.xyz, cloud.rgb) for cloud in clouds), strict=True)
    return PointCloud(np.concatenate(xyz), np.concatenate(rgb))


def render(
    cloud: PointCloud, camera: Camera, centre: ArrayLike, quaternion: ArrayLike, splat: int = 1
) -> tuple[Photo, NDArray[np.bool_]]:
    """(h, w, 3) what a camera sees of a coloured cloud, and (h, w) which pixels are drawn; the nearest point wins.

    splat: each point also fills the pixels so far around its own, unless a point there is about as near
    """
    if cloud.rgb is None:
        raise InputError("a cloud without colours cannot be compared with a photo")
    local = (cloud.xyz - np.asarray(centre, dtype=np.float64)) @ rotation_matrices(quaternion)[0]
    ahead = np.flatnonzero(local[:, 2] > 0)
    at = camera.pixels(local[ahead])
    margin = splat + 1
    limit = (camera.width + margin, camera.height + margin)
    near = ((at > -margin) & (at < limit)).all(axis=1)
    ahead, cells = ahead[near], np.floor(at[near]).astype(np.int64)
    drawn = np.full((camera.height, camera.width), -1, dtype=np.int64)
    _draw(cells, local[ahead, 2], ahead, splat, 1.0 + BEHIND, drawn)
    filled = drawn >= 0
    picture = np.zeros((camera.height, camera.width, 3), dtype=np.uint8)
    picture[filled] = cloud.rgb[drawn[filled]]
    return picture, filled


@njit(cache=True)
def _draw(cells, depths, numbers, splat, behind, drawn):  # type: ignore[no-untyped-def]
    height, width = drawn.shape
    nearest = np.full((height, width), np.inf)
    for i in range(len(cells)):
        column, row = cells[i]
        for y in range(max(0, row - splat), min(height, row + splat + 1)):
            for x in range(max(0, column - splat), min(width, column + splat + 1)):
                steps = max(abs(x - column), abs(y - row))
                depth = depths[i] * (1.0 if steps == 0 else behind + 1e-3 * steps)
                if depth < nearest[y, x]:
                    nearest[y, x] = depth
                    drawn[y, x] = numbers[i]


def likeness(photo: Photo, picture: Photo, filled: NDArray[np.bool_]) -> float:
    """Median likeness of a photo and a picture (h, w, 3) where that is drawn; 1 of equals, 0 where too little is drawn.

    Gradients at gaps are left out of both, so that a gap looks the same in both.
    """
    whole = _eroded(filled)
    a, b = (_descriptors(image, whole) for image in (photo, picture))
    share = _pooled(whole[None].astype(np.float64))[0] / CELL**2
    enough = _windows(share[None]).mean(axis=-1) >= FILLED
    enough &= (a > 0).any(axis=-1) & (b > 0).any(axis=-1)
    if enough.sum() < max(1.0, LEAST * enough.size):
        return 0.0
    return float(np.median((a[enough] * b[enough]).sum(axis=-1)))


def pose_likeness(
    photo: Photo, camera: Camera, cloud: PointCloud, centres: ArrayLike, quaternions: ArrayLike
) -> Floats:
    """(n,) how well poses (n, 3), (n, 4), camera to world, explain a photo; 0 for NaN. camera: of the photo"""
    shown = shrunk(photo)
    small = camera.scaled(*shown.shape[:2])
    scores = np.zeros(len(np.atleast_2d(np.asarray(centres))))
    for row, (centre, turn) in enumerate(
        zip(np.atleast_2d(centres), np.atleast_2d(quaternions), strict=True)
    ):
        if np.isfinite([*centre, *turn]).all():
            scores[row] = likeness(shown, *render(cloud, small, centre, turn))
    return scores


# ---- descriptors ----


def _eroded(filled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels whose four neighbours are filled, too: only they have a gradient of their own."""
    padded = np.pad(filled, 1)
    return filled & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]


def _descriptors(image: Photo, whole: NDArray[np.bool_]) -> Floats:
    """(rows, columns, d) unit descriptors of windows of cells: square roots of shares of the directions in them."""
    grey = image.astype(np.float64).mean(axis=2)
    down, across = np.gradient(grey)
    strength = np.hypot(down, across) * whole
    turn = np.arctan2(down, across) / (2 * np.pi) * ANGLES
    low = np.floor(turn).astype(np.int64)
    part = turn - low
    directions = np.zeros((ANGLES, *grey.shape))
    rows, columns = np.indices(grey.shape)
    directions[low % ANGLES, rows, columns] = strength * (1 - part)
    directions[(low + 1) % ANGLES, rows, columns] += strength * part
    windows = _windows(_pooled(directions))
    total = windows.sum(axis=-1, keepdims=True)
    roots: Floats = np.sqrt(np.divide(windows, total, out=np.zeros_like(windows), where=total > 0))
    return roots


def _pooled(values: Floats) -> Floats:
    """(k, h, w) -> (k, h', w') sums over cells."""
    k, height, width = values.shape
    rows, columns = height // CELL, width // CELL
    cut = values[:, : rows * CELL, : columns * CELL]
    sums: Floats = cut.reshape(k, rows, CELL, columns, CELL).sum(axis=(2, 4))
    return sums


def _windows(cells: Floats) -> Floats:
    """(k, h, w) -> (h - 2, w - 2, 9 k) what each window of 3 × 3 cells holds."""
    views = np.lib.stride_tricks.sliding_window_view(cells, (CELLS, CELLS), axis=(1, 2))
    return np.ascontiguousarray(views.transpose(1, 2, 0, 3, 4)).reshape(*views.shape[1:3], -1)
