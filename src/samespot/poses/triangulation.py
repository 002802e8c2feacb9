"""Keypoints of map photos that know how far away they are: from other photos that show them, and all their poses.

Photos that stand near each other and look the same way are matched. Since their poses are known, only matches that
lie on each other's epipolar lines are kept. What they have in common is followed over all photos, and triangulated by
pycolmap.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.matching.keypoints import Keypoints
from samespot.places.camera import Camera
from samespot.places.pose import rotation_matrices
from samespot.poses.lifting import pixels_of
from samespot.progress import Progress, counting
from samespot.signals import signals_kept

NEIGHBOURS = 10  # photos that each is matched with
TURNED = 60.0  # [deg] beyond which two photos show different things
PIXELS = 4.0  # of 640 along the longer side, that a keypoint may lie off its line or its point
FEWEST, CHANCE = (
    15,
    0.1,
)  # matches of two photos, and share of them, on the lines: of unrelated photos a few lie there
ANGLE = 1.5  # [deg] between the rays to a point, at least: with less, its distance is not known
MOST_SEEN = 30  # photos of one point that are looked at
Floats = NDArray[np.float64]
Pairs = NDArray[np.int64]
Match = Callable[[Keypoints, Keypoints], Pairs]  # (k, 2) rows of keypoints that may be the same thing


def triangulated(
    centres: Floats,
    quaternions: Floats,
    keypoints: Sequence[Keypoints],
    cameras: Sequence[Camera],
    match: Match,
    progress: Progress,
) -> list[NDArray[np.float32]]:
    """Of each photo (n, 3) its keypoints in the coordinates of its camera; NaN where no other photo shows them."""
    try:
        with signals_kept():  # it takes SIGTERM, to print the stack of its C++
            importlib.import_module("pycolmap")
    except ImportError:
        raise InputError(
            "triangulating the keypoints of a map needs pycolmap: pip install 'samespot[pose]'; or pass"
            " `geometry=none`"
        ) from None
    rotation = rotation_matrices(quaternions)
    rays = [lens.rays(pixels_of(one)) for lens, one in zip(cameras, keypoints, strict=True)]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in keypoints])])
    links = [np.zeros((0, 2), dtype=np.int64)]
    pairs = neighbours(centres, rotation)
    tick = counting(progress, "matching neighbours", len(pairs))
    for a, b in pairs:
        found = match(keypoints[a], keypoints[b])
        off = _off_lines(
            rays[a][found[:, 0]],
            rays[b][found[:, 1]],
            rotation[[a, b]],
            centres[[a, b]],
            cameras[a],
            cameras[b],
        )
        kept = found[off <= PIXELS * max(cameras[a].width, cameras[a].height) / 640.0]
        if len(kept) >= max(FEWEST, CHANCE * len(found)):
            links.append(kept + starts[[a, b]])
        tick(1)
    points = [np.full((len(one), 3), np.nan, dtype=np.float32) for one in keypoints]
    photo = np.repeat(np.arange(len(keypoints)), np.diff(starts))
    for seen in _tracks(np.concatenate(links), photo, progress):
        rows = photo[seen], seen - starts[photo[seen]]
        where, good = _point(rows, rays, rotation, centres, cameras)
        if where is None:
            continue
        for image, row in zip(rows[0][good], rows[1][good], strict=True):
            points[image][row] = rotation[image].T @ (where - centres[image])
    return points


def neighbours(centres: Floats, rotation: Floats) -> list[tuple[int, int]]:
    """Pairs of photos to match: of each the nearest that look its way, but not from the very same spot."""
    from scipy.spatial import cKDTree

    tree, ahead, found = cKDTree(centres), rotation[:, :, 2], set[tuple[int, int]]()
    most = min(len(centres), 8 * NEIGHBOURS)
    for photo in range(len(centres)):
        apart, near = tree.query(centres[photo], most)
        apart, near = np.atleast_1d(apart), np.atleast_1d(near)
        alike = ahead[near] @ ahead[photo] >= np.cos(np.radians(TURNED))
        for other in near[alike & (apart > 0)][:NEIGHBOURS]:
            found.add((min(photo, int(other)), max(photo, int(other))))
    return sorted(found)


def _off_lines(a: Floats, b: Floats, rotation: Floats, centres: Floats, one: Camera, other: Camera) -> Floats:
    """(k,) [px] that matched rays (k, 2) of two photos lie off each other's epipolar lines (Sampson)."""
    turn = rotation[1].T @ rotation[0]
    along = rotation[1].T @ (centres[0] - centres[1])
    x, y, z = along / np.linalg.norm(along)
    essential = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]) @ turn
    first, second = (np.hstack([ray, np.ones((len(ray), 1))]) for ray in (a, b))
    lines, back = first @ essential.T, second @ essential
    product = (second * lines).sum(axis=1)
    length = np.sqrt(
        (lines[:, :2] ** 2).sum(axis=1) / one.fx**2 + (back[:, :2] ** 2).sum(axis=1) / other.fx**2
    )
    off: Floats = np.abs(product) / np.maximum(length, 1e-12)
    return off


def _tracks(links: Pairs, photo: NDArray[np.int64], progress: Progress) -> Iterator[NDArray[np.int64]]:
    """Keypoints of different photos that are one thing, by their numbers over all photos."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(photo)
    graph = coo_array((np.ones(len(links), dtype=np.int8), links.T), shape=(count, count))
    _, track = connected_components(graph, directed=False)
    order = np.argsort(track, kind="stable")
    parts = [seen for seen in np.split(order, np.flatnonzero(np.diff(track[order])) + 1) if len(seen) > 1]
    tick = counting(progress, "triangulating", len(parts))
    for seen in parts:
        tick(1)
        images, counts = np.unique(photo[seen], return_counts=True)
        seen = seen[np.isin(photo[seen], images[counts == 1])]  # twice in one photo: who knows which
        if len(seen) > 1:
            yield seen[np.linspace(0, len(seen) - 1, min(len(seen), MOST_SEEN)).astype(np.int64)]


def _point(
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    rays: Sequence[Floats],
    rotation: Floats,
    centres: Floats,
    cameras: Sequence[Camera],
) -> tuple[Floats | None, NDArray[np.bool_]]:
    """The point that keypoints of several photos see, and which of them see it there."""
    import pycolmap

    images = rows[0]
    flat = np.array([rays[image][row] for image, row in zip(*rows, strict=True)])
    lens = pycolmap.Camera(model="SIMPLE_PINHOLE", width=2, height=2, params=[1.0, 0.0, 0.0])
    poses = [
        pycolmap.Rigid3d(np.hstack([rotation[one].T, -(rotation[one].T @ centres[one])[:, None]]))
        for one in images
    ]
    options = pycolmap.EstimateTriangulationOptions()
    options.min_tri_angle = np.radians(ANGLE)
    focal = np.median([cameras[one].fx for one in images])
    longer = max(cameras[int(images[0])].width, cameras[int(images[0])].height)
    options.residual_type = pycolmap.TriangulationResidualType.REPROJECTION_ERROR
    options.ransac.max_error = PIXELS * longer / 640.0 / focal
    options.ransac.random_seed = 0
    found: Any = pycolmap.estimate_triangulation(flat, poses, [lens] * len(images), options)
    if found is None:
        return None, np.zeros(len(images), dtype=bool)
    return np.asarray(found["xyz"], dtype=np.float64), np.asarray(found["inliers"], dtype=bool)
