"""What a town on disk knows and real data rarely has: exact positions, its cameras, its point cloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from samespot.errors import InputError
from samespot.overlap.cloud import PointCloud, fuse_depth
from samespot.overlap.scene import Scene
from samespot.places.camera import Camera
from samespot.places.catalogue import placed_by_pose
from samespot.places.pose import PoseFrame
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.town.render import intrinsics_of

FRAME = PoseFrame()  # x east, y north, z up
SURFACE = 1.0  # [m] a point of the cloud may lie behind the surface seen: voxels are coarse, and streets long


def read_description(root: str | Path) -> dict[str, Any]:
    """What `town.json` says."""
    path = Path(root) / "town.json"
    try:
        said: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; `samespot town --out {root}` builds a town") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid json ({error}); build the town again") from error
    return said


def town_cameras(root: str | Path) -> dict[int, Camera]:
    """The camera of each visit, by the column `camera_id`."""
    said = read_description(root)
    h, w = said["size"]
    lenses = {v["number"]: intrinsics_of(v["fov"], (h, w)) for v in said["visits"]}
    return {number: Camera(w, h, *lens.tolist()) for number, lens in lenses.items()}


def exact_places(places: Places) -> Places:
    """The same photos with easting, northing and heading of their 6DOF poses in place of GPS and compass."""
    return placed_by_pose(places, FRAME)


def town_scene(
    places: Places,
    *,
    voxel: float = 0.5,
    max_depth: float = 60.0,
    stride: int = 4,
    every: int = 2,
    progress: Progress | None = None,
) -> Scene:
    """The scene that 3D labels of a town are measured on, fused from the depth images of every n-th photo.

    For `label_scene(queries, places, scene, occlusion="depth")`: a photo sees points up to `max_depth` [m], not
    through walls and not in the sky. Each visit has a lens of its own, so each is fused by itself; where two clouds
    meet, one point per voxel stays.
    """
    cameras = town_cameras(places.root)
    if "depth" not in places.table:
        raise InputError(f"{places.root}: no depth images; build the town with depth")
    clouds, done = [], 0
    for number, camera in cameras.items():
        rows = np.flatnonzero((places.table["camera_id"] == number).to_numpy())[::every]
        if not len(rows):
            continue
        mine = places.select(rows)
        paths = [mine.root / name for name in mine.table["depth"]]
        pose = (mine.centres, mine.quaternions)
        cloud = fuse_depth(paths, *pose, camera, voxel=voxel, stride=stride, max_depth=max_depth)
        clouds.append(cloud.xyz)
        done += len(rows)
        if progress is not None:
            progress("fusing depth", done, -(-len(places) // every))
    xyz = np.concatenate(clouds)
    _, first = np.unique(np.floor(xyz / voxel).astype(np.int64), axis=0, return_index=True)
    note = f"one photo in {every}, depth to {max_depth:g} m, voxels of {voxel:g} m"
    return Scene(
        PointCloud(np.ascontiguousarray(xyz[first])),
        cameras,
        f"town fused from depth: {note}",
        far=max_depth,
        tolerance=SURFACE,
        unknown_depth="hidden",  # in a room what has no depth is a gap in the sensor's reading; here it is sky
    )
