"""What a user asks `samespot label` for, turned into labelling tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from samespot.errors import InputError
from samespot.overlap.annotate import Panoramas, UnknownHeading
from samespot.overlap.sector import Measure
from samespot.overlap.task import LabelTask, Points, Progress, Sectors, Within, parse_within, preset_tasks
from samespot.places.catalogue import open_places, pose_frame
from samespot.places.table import MissingImages, Places


@dataclass(frozen=True)
class LabelRequest:
    """The options of the command, as typed by the user."""

    places: Path
    map: Path | None = None
    preset: str | None = None
    theta: float = 90.0
    radius: float = 50.0
    measure: str = "overlap"
    within: str | None = None
    kind: str = "2d"
    cloud: Path | None = None
    camera: str | None = None
    occlusion: str = "none"
    device: str = "cpu"
    dataset: str | None = None
    part: str | None = None
    map_part: str | None = None
    split: str | None = None
    map_split: str | None = None
    unknown_heading: str = "error"
    panoramas: str = "disk"
    axes: tuple[str, str, str] | None = None  # forward, up, north: take the ground pose from the 6DOF pose
    wrap_headings: bool = False
    projection: str | None = None
    missing_images: str = "warn"


def label_tasks(asked: LabelRequest) -> Iterator[LabelTask]:
    """The tasks of a preset, or the one that the options describe."""
    for name, choices in (
        ("measure", Measure),
        ("unknown_heading", UnknownHeading),
        ("panoramas", Panoramas),
        ("missing_images", MissingImages),
    ):
        _check_choice(name, getattr(asked, name), get_args(choices))
    _check_choice("kind", asked.kind, ("2d", "3d"))
    if asked.preset is not None:
        yield from preset_tasks(asked.preset, asked.places, asked.missing_images)  # type: ignore[arg-type]
        return
    queries = _read(asked, asked.places, asked.part, asked.split, None)
    another = (asked.map, asked.map_part, asked.map_split) != (None, None, None)
    places = queries
    if another:
        part = asked.map_part if asked.map_part is not None or asked.map is not None else asked.part
        # both tables must lie on one plane, so the map follows the queries' projection
        places = _read(asked, asked.map or asked.places, part, asked.map_split, queries.projection)
    yield LabelTask("labels", queries, places, _rule(asked, places))


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(
            f"--{name.replace('_', '-')} {value!r} is unknown; choose one of {', '.join(choices)}"
        )


def _read(
    asked: LabelRequest, source: Path, part: str | None, split: str | None, projection: str | None
) -> Places:
    places = open_places(
        source,
        dataset=asked.dataset,
        part=part,
        projection=asked.projection or projection,
        wrap_headings=asked.wrap_headings,
        missing_images=asked.missing_images,  # type: ignore[arg-type]
        frame=pose_frame(*asked.axes) if asked.axes else None,
    )
    return places if split is None else _of_split(places, split, source)


def _of_split(places: Places, split: str, source: Path) -> Places:
    if "split" not in places.table:
        raise InputError(f"{source}: no column split, so none of its images is {split!r}")
    chosen = (places.table["split"].astype(str) == split).to_numpy()
    if not chosen.any():
        there = ", ".join(sorted(set(places.table["split"].astype(str))))
        raise InputError(f"{source}: no image with split {split!r}; there are {there}")
    return places.select(chosen)


def _rule(asked: LabelRequest, places: Places) -> Sectors | Within | Points:
    if asked.within is not None:
        return parse_within(asked.within)
    if asked.kind == "3d":
        return _points_rule(asked, places)
    return Sectors(
        asked.theta,
        asked.radius,
        asked.measure,  # type: ignore[arg-type]
        asked.unknown_heading,  # type: ignore[arg-type]
        asked.panoramas,  # type: ignore[arg-type]
    )


def _points_rule(asked: LabelRequest, places: Places) -> Points:
    """Where the cloud comes from: a PLY file, a COLMAP model, or the depth images of the map."""
    from samespot.overlap import scene
    from samespot.places import colmap, seven_scenes

    root = asked.map or asked.places
    part = asked.map_part or asked.part
    camera = scene.parse_camera(asked.camera) if asked.camera else None
    if asked.cloud is not None and camera is None:
        raise InputError("--cloud also needs --camera width,height,fx,fy,cx,cy [px]")

    def make(progress: Progress | None) -> Any:
        if asked.cloud is not None and camera is not None:
            return scene.read_scene(asked.cloud, camera)
        models = colmap.parts(root) if root.is_dir() else []
        if models:
            return scene.colmap_scene(root, part or models[0])
        if "depth" not in places.table:
            raise InputError(
                f"{root}: 3D labels need a cloud: --cloud FILE.ply, a COLMAP model, or depth images"
            )
        sequences = seven_scenes.parts(root) if root.is_dir() else []
        known = camera or (scene.seven_scenes_camera(root, part or sequences[0]) if sequences else None)
        if known is None:
            raise InputError("depth images need --camera width,height,fx,fy,cx,cy [px]")
        return scene.depth_scene(places, known, progress=progress)

    return Points(make, asked.occlusion, asked.device)


def parse_pair(words: str | None) -> tuple[int, int] | None:
    """Two row numbers from "12,340"."""
    if words is None:
        return None
    try:
        query, place = (int(w) for w in words.split(","))
    except ValueError:
        raise InputError(
            f"--pair {words!r}: give the row of a query and of a map image, e.g. 12,340"
        ) from None
    return query, place
