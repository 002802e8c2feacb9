"""3D labels of a reconstructed scene: from its cloud and the poses of its images to blocks of label rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from samespot.errors import InputError
from samespot.options import check_choice
from samespot.overlap.cloud import PointCloud, fuse_depth, read_depth, read_ply
from samespot.overlap.labels import Block
from samespot.overlap.rules import Occlusion
from samespot.overlap.visibility import Line, PackedSets, similarity_rows, visible_points
from samespot.places import colmap
from samespot.places.camera import Camera
from samespot.places.table import Places
from samespot.progress import Progress


@dataclass(frozen=True)
class Scene:
    """A reconstruction: its cloud, and the camera of each image (one for all, or by `camera_id`)."""

    cloud: PointCloud
    cameras: Camera | dict[int, Camera]
    source: str  # said in the labels' meta.json
    camera_notes: tuple[str, ...] = ()  # also said there: how the cameras differ from the real ones
    far: float = np.inf  # [m] beyond which no point is seen
    tolerance: float | None = (
        None  # [m] behind a depth image's surface where a point is still seen; None: usual
    )
    unknown_depth: Literal["visible", "hidden"] = "visible"  # points where a depth image has no reading

    def __post_init__(self) -> None:
        if not np.isfinite(self.cloud.xyz).all(axis=1).any():
            raise InputError(
                f"{self.source}: no points in the cloud, so no image sees any; give another cloud"
            )

    def facts(self) -> dict[str, Any]:
        """What labels made from it say."""
        return {
            "points": len(self.cloud),
            "cloud": self.source,
            "cloud_notes": list(self.cloud.notes),
            "camera_notes": list(self.camera_notes),
        }

    def cameras_of(self, places: Places) -> Camera | Sequence[Camera]:
        if isinstance(self.cameras, Camera):
            return self.cameras
        if "camera_id" not in places.table:
            raise InputError(
                f"{places.root}: several cameras in the scene, but no column camera_id in the table"
            )
        unknown = ~places.table["camera_id"].isin(list(self.cameras)).to_numpy()
        if unknown.any():
            row = int(np.flatnonzero(unknown)[0])
            raise InputError(
                f"{places.root}: image {places.table['image'].iloc[row]} has camera "
                f"{places.table['camera_id'].iloc[row]}, which is not one of the scene"
            )
        return [self.cameras[int(i)] for i in places.table["camera_id"]]


def read_scene(cloud: str | Path, camera: Camera) -> Scene:
    """A scene from a PLY cloud and one camera for all images."""
    return Scene(read_ply(cloud), camera, Path(cloud).name)


def colmap_scene(root: Path, part: str) -> Scene:
    """The scene of a COLMAP model. Its lenses are taken for pinholes; the scene's notes say which distort."""
    points = colmap.read_points(root / part)
    cloud, cameras = PointCloud(points.xyz, points.rgb), colmap.read_cameras(root / part)
    models = Counter(words.split()[-1] for words in colmap.distorted(root / part))
    notes = tuple(
        f"{count} {model} of {len(cameras)} cameras taken for pinholes, without their distortion"
        for model, count in sorted(models.items())
    )
    return Scene(cloud, cameras, "COLMAP points", notes)


def depth_scene(
    places: Places,
    camera: Camera,
    *,
    voxel: float = 0.02,
    every: int | None = None,
    most_frames: int = 250,
    progress: Progress | None = None,
) -> Scene:
    """A scene fused from the depth images of a table with poses and a `depth` column.

    Neighbouring frames of a video see the same surface, so only each n-th is used: n is `every`, or by default the
    smallest that leaves at most `most_frames`.
    """
    if "depth" not in places.table:
        raise InputError(
            f"{places.root}: no column `depth` with the paths of depth images; give `cloud` instead"
        )
    if (every is not None and every < 1) or most_frames < 1:
        raise InputError(f"every {every} and most_frames {most_frames}: give whole numbers, at least 1")
    rows = np.flatnonzero(places.table["depth"].notna().to_numpy())
    step = every or max(1, -(-len(rows) // most_frames))
    used = places.select(rows[::step])
    paths = [used.root / name for name in used.table["depth"]]
    advance = None if progress is None else lambda done: progress("fusing depth", done, len(paths))
    cloud = fuse_depth(
        paths, used.centres, used.quaternions, camera, voxel=voxel, colour_paths=used.images, progress=advance
    )
    source = f"fused from {len(paths)} of {len(rows)} depth images (one in {step}), voxel {voxel:g} m"
    return Scene(cloud, camera, source)


def refuse_missing_depth(places: Places) -> None:
    if "depth" not in places.table or places.table["depth"].isna().any():
        raise InputError(
            f"{places.root}: not every image has a depth image; use `occlusion=none` or `occlusion=cloud`"
        )


def visible_sets(
    scene: Scene,
    places: Places,
    occlusion: Occlusion = "none",
    *,
    line: Line | None = None,
    progress: Progress | None = None,
) -> PackedSets:
    """The points of the scene that each image sees. line: its cloud's, where it is made already."""
    check_choice("occlusion", occlusion, get_args(Occlusion))
    if occlusion == "depth":
        refuse_missing_depth(places)
    paths: list[Path] = []
    depth: Any = {"none": None, "cloud": "cloud", "depth": lambda row: read_depth(paths[row])}[occlusion]
    if occlusion == "depth":
        paths += [places.root / name for name in places.table["depth"]]
    return visible_points(
        line or line_of(scene, occlusion),
        places.centres,
        places.quaternions,
        scene.cameras_of(places),
        far=scene.far,
        depth=depth,
        tolerance=scene.tolerance if occlusion == "depth" else None,
        unknown_depth=scene.unknown_depth,
        progress=None if progress is None else lambda done: progress("seeing points", done, len(places)),
    )


def line_of(scene: Scene, occlusion: Occlusion) -> Line:
    """The points of the scene's cloud in line, as `visible_sets` looks through them."""
    return Line.of(scene.cloud.xyz, occlusion == "cloud")


def blocks_of_sets(
    queries: Places,
    places: Places,
    scene: Scene,
    occlusion: Occlusion,
    device: str,
    same_table: bool,
    progress: Progress | None,
) -> Iterator[Block]:
    """Blocks of label rows: the IoU of the sets of points that each query and each map image see."""
    line = line_of(scene, occlusion)
    sets = visible_sets(scene, places, occlusion, line=line, progress=progress)
    own = sets if same_table else visible_sets(scene, queries, occlusion, line=line, progress=progress)
    for start, counts, columns, similarity in similarity_rows(own, sets, device=device):
        yield counts, columns, similarity
        if progress is not None:
            progress("comparing sets", start + len(counts), len(queries))
