"""What a town on disk knows and real data rarely has: exact positions, its cameras, its point cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from samespot.errors import InputError
from samespot.overlap.cloud import PointCloud, fuse_depth, read_depth
from samespot.overlap.labels import Block, PairLabels, refuse_empty_tables, tables_meta
from samespot.overlap.scene import Scene
from samespot.overlap.visibility import PackedSets, similarity_rows, visible_points
from samespot.places.camera import Camera
from samespot.places.pose import PoseFrame, ground_pose
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
    easting, northing, heading = ground_pose(places.centres, places.quaternions, FRAME)
    table = places.table.assign(easting=easting, northing=northing, heading=heading)
    return Places(places.root, table, places.projection, dict(places.dropped), places.notes)


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

    Each visit has a lens of its own, so each is fused by itself; where two clouds meet, one point a voxel stays.
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
    return Scene(PointCloud(np.ascontiguousarray(xyz[first])), cameras, f"town fused from depth: {note}")


def town_sets(
    scene: Scene, places: Places, *, reach: float = 60.0, progress: Progress | None = None
) -> PackedSets:
    """The points of the scene that each photo sees up to `reach` [m], not through walls and not in the sky.

    A room's settings do not suit a town: there, what has no depth is a gap in the sensor's reading; here it is sky.
    """
    paths = [places.root / name for name in places.table["depth"]]
    return visible_points(
        scene.cloud.xyz,
        places.centres,
        places.quaternions,
        scene.cameras_of(places),
        far=reach,
        depth=lambda row: read_depth(paths[row]),
        tolerance=SURFACE,
        unknown_depth="hidden",
        progress=None if progress is None else lambda done: progress("seeing points", done, len(places)),
    )


def label_town(
    queries: Places,
    places: Places,
    scene: Scene,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> PairLabels:
    """Graded 3D labels of a town: the IoU of the sets of points that two photos see."""
    refuse_empty_tables(queries, places)
    tables = tables_meta(queries, places)
    sets = town_sets(scene, places, progress=progress)
    own = sets if tables["same_table"] else town_sets(scene, queries, progress=progress)

    def blocks() -> Iterator[Block]:
        for start, counts, columns, similarity in similarity_rows(own, sets):
            yield counts, columns, similarity
            if progress is not None:
                progress("comparing sets", start + len(counts), len(queries))

    meta = {
        "measure": "iou",
        "kind": "3D field of view",
        "points": len(scene.cloud),
        "cloud": scene.source,
        "occlusion": "depth",
        **tables,
    }
    return PairLabels.from_blocks(blocks(), (len(queries), len(places)), meta, out)
