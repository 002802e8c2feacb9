"""3D labels of a reconstructed scene: from its cloud and the poses of its images to `PairLabels`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from samespot.errors import InputError
from samespot.overlap.cloud import PointCloud, fuse_depth, read_depth, read_ply
from samespot.overlap.labels import Block, PairLabels
from samespot.overlap.visibility import PackedSets, similarity_rows, visible_points
from samespot.places import colmap, seven_scenes
from samespot.places.camera import Camera
from samespot.places.table import Places

Occlusion = Literal["none", "depth", "cloud"]
OCCLUSIONS: tuple[Occlusion, ...] = ("none", "depth", "cloud")
Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


@dataclass(frozen=True)
class Scene:
    """A reconstruction: its cloud, and the camera of each image (one for all, or by `camera_id`)."""

    cloud: PointCloud
    cameras: Camera | dict[int, Camera]
    source: str  # said in the labels' meta.json

    def cameras_of(self, places: Places) -> Camera | Sequence[Camera]:
        if isinstance(self.cameras, Camera):
            return self.cameras
        if "camera_id" not in places.table:
            raise InputError(
                f"{places.root}: several cameras in the scene, but no column camera_id in the table"
            )
        return [self.cameras[int(i)] for i in places.table["camera_id"]]


def read_scene(cloud: str | Path, camera: Camera) -> Scene:
    """A scene from a PLY cloud and one camera for all images."""
    return Scene(read_ply(cloud), camera, Path(cloud).name)


def parse_camera(words: str) -> Camera:
    """A camera from "width,height,fx,fy,cx,cy" in pixels."""
    try:
        width, height, fx, fy, cx, cy = (float(w) for w in words.split(","))
    except ValueError:
        raise InputError(f"camera {words!r}: give six numbers, width,height,fx,fy,cx,cy [px]") from None
    return Camera(int(width), int(height), fx, fy, cx, cy)


def colmap_scene(root: Path, part: str) -> Scene:
    """The scene of a COLMAP model."""
    points = colmap.read_points(root / part)
    return Scene(PointCloud(points.xyz, points.rgb), colmap.read_cameras(root / part), "COLMAP points")


def depth_scene(
    places: Places, camera: Camera, *, voxel: float = 0.02, every: int = 1, progress: Progress | None = None
) -> Scene:
    """A scene fused from the depth images of a table with poses and a `depth` column.

    every: use each n-th frame only; neighbouring frames of a video see the same surface.
    """
    if "depth" not in places.table:
        raise InputError(
            f"{places.root}: no column `depth` with the paths of depth images; give --cloud instead"
        )
    rows = np.flatnonzero(places.table["depth"].notna().to_numpy())[::every]
    used = places.select(rows)
    paths = [used.root / name for name in used.table["depth"]]
    advance = None if progress is None else lambda done: progress("fusing depth", done, len(paths))
    cloud = fuse_depth(
        paths, used.centres, used.quaternions, camera, voxel=voxel, colour_paths=used.images, progress=advance
    )
    return Scene(cloud, camera, f"fused from {len(paths)} depth images, voxel {voxel:g} m")


def seven_scenes_camera(root: Path, part: str) -> Camera:
    matrix = seven_scenes.intrinsics(root, part)
    known = seven_scenes.KINECT
    return Camera(known.width, known.height, matrix[0, 0], matrix[1, 1], matrix[0, 2], matrix[1, 2])


def visible_sets(
    scene: Scene, places: Places, occlusion: Occlusion = "none", *, progress: Progress | None = None
) -> PackedSets:
    """The points of the scene that each image sees."""
    if occlusion not in OCCLUSIONS:
        raise InputError(f"occlusion {occlusion!r} is unknown; choose one of {', '.join(OCCLUSIONS)}")
    if occlusion == "depth" and ("depth" not in places.table or places.table["depth"].isna().any()):
        raise InputError(f"{places.root}: not every image has a depth image; use --occlusion none or cloud")
    paths: list[Path] = []
    depth: Any = {"none": None, "cloud": "cloud", "depth": lambda row: read_depth(paths[row])}[occlusion]
    if occlusion == "depth":
        paths += [places.root / name for name in places.table["depth"]]
    return visible_points(
        scene.cloud.xyz,
        places.centres,
        places.quaternions,
        scene.cameras_of(places),
        depth=depth,
        progress=None if progress is None else lambda done: progress("seeing points", done, len(places)),
    )


def label_scene(
    queries: Places,
    places: Places,
    scene: Scene,
    *,
    occlusion: Occlusion = "none",
    device: str = "cpu",
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> PairLabels:
    """Graded 3D labels: the IoU of the sets of points that each query and each map image see.

    device: "cpu", or "cuda" for a matrix product on the GPU with the same result.
    """
    sets = visible_sets(scene, places, occlusion, progress=progress)
    same = queries is places or queries.digest() == places.digest()
    query_sets = sets if same else visible_sets(scene, queries, occlusion, progress=progress)
    meta = {
        "measure": "iou",
        "kind": "3D field of view",
        "points": len(scene.cloud),
        "cloud": scene.source,
        "occlusion": occlusion,
        "queries_digest": queries.digest(),
        "places_digest": places.digest(),
        "same_table": same,
        "dropped": {"queries": queries.dropped, "places": places.dropped},
    }

    def blocks() -> Iterator[Block]:
        for start, counts, columns, similarity in similarity_rows(query_sets, sets, device=device):
            yield counts, columns, similarity
            if progress is not None:
                progress("comparing sets", start + len(counts), len(queries))

    return PairLabels.from_blocks(blocks(), (len(queries), len(places)), meta, out)
