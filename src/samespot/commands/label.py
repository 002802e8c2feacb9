"""What a user asks `samespot label` for, turned into labelling tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from samespot.commands.words import one_of, parse_pair, refuse_absent_gpu, refuse_ineffective
from samespot.errors import InputError
from samespot.overlap.rules import (
    Measure,
    Occlusion,
    Panoramas,
    Points,
    Rule,
    Sectors,
    UnknownHeading,
    parse_soft_distance,
    parse_within,
)
from samespot.overlap.task import LabelTask, preset_tasks
from samespot.places.catalogue import MissingImages, open_places, pose_frame
from samespot.places.table import Places
from samespot.progress import Progress

if TYPE_CHECKING:
    from samespot.overlap.scene import Scene

SECTOR_OPTIONS = ("theta", "radius", "measure", "unknown_heading", "panoramas")
POINT_OPTIONS = ("cloud", "camera", "occlusion", "device")
AXES = {"forward": "z", "up": "z", "north": "y"}  # of --from-pose


@dataclass(frozen=True)
class LabelRequest:
    """The options of the command as the user typed them; None where nothing was typed."""

    places: Path
    map: Path | None = None
    preset: str | None = None
    theta: float | None = None
    radius: float | None = None
    measure: str | None = None
    within: str | None = None
    soft_distance: str | None = None
    kind: str | None = None
    cloud: Path | None = None
    camera: str | None = None
    occlusion: str | None = None
    device: str | None = None
    dataset: str | None = None
    part: str | None = None
    map_part: str | None = None
    split: str | None = None
    map_split: str | None = None
    unknown_heading: str | None = None
    panoramas: str | None = None
    from_pose: bool = False
    forward: str | None = None
    up: str | None = None
    north: str | None = None
    pair: str | None = None
    figures: bool = True
    wrap_headings: bool = False
    projection: str | None = None
    missing_images: str | None = None

    def __post_init__(self) -> None:
        """Whatever can be known to be wrong before a file is read."""
        _refuse_ineffective(self)
        parse_pair(self.pair)
        if self.preset is None and self.from_pose:
            pose_frame(*self.axes)
        if self.device is not None:
            _check_device(self.device)

    @property
    def axes(self) -> tuple[str, str, str]:
        """Axes of the pose that look ahead, point up and point north."""
        forward, up, north = (getattr(self, name) or word for name, word in AXES.items())
        return forward, up, north

    @property
    def missing(self) -> MissingImages:
        return one_of("missing_images", self.missing_images, get_args(MissingImages), "warn")


def _refuse_ineffective(asked: LabelRequest) -> None:
    if asked.preset is not None:
        # the device changes no label, so the one preset of 3D labels takes it
        taken = {"places", "preset", "figures", "missing_images"} | (
            {"device"} if asked.preset == "7scenes" else set()
        )
        others = [field.name for field in fields(asked) if field.name not in taken]
        refuse_ineffective(asked, others, f"with --preset {asked.preset}")
        return
    if one_of("kind", asked.kind, ("2d", "3d"), "2d") == "3d":
        refuse_ineffective(asked, (*SECTOR_OPTIONS, "within", "soft_distance"), "with --kind 3d")
    else:
        refuse_ineffective(asked, POINT_OPTIONS, "without --kind 3d")
    if asked.within is not None:
        # binary labels have no field of view, neither to choose nor to draw
        refuse_ineffective(asked, (*SECTOR_OPTIONS, "soft_distance", "pair"), "with --within")
    if asked.soft_distance is not None:
        refuse_ineffective(asked, (*SECTOR_OPTIONS, "pair"), "with --soft-distance")
    if not asked.from_pose:
        refuse_ineffective(asked, AXES, "without --from-pose")
    if not asked.figures:
        refuse_ineffective(asked, ("pair",), "with --no-figures")


def _check_device(device: str) -> None:
    if device not in ("cpu", "torch-cpu") and device.split(":")[0] != "cuda":
        raise InputError(f"--device {device!r} is unknown; choose one of cpu, cuda, cuda:N")
    refuse_absent_gpu(device)


def label_tasks(asked: LabelRequest) -> Iterator[LabelTask]:
    """The tasks of a preset, or the one that the options describe."""
    if asked.preset is not None:
        return _preset_tasks(asked, asked.preset)
    # words that name no rule are refused here, before the tables are read
    rule_on = _points_rule(asked) if asked.kind == "3d" else _flat_rule(asked)
    queries = _read(asked, asked.places, asked.part, asked.split, None)
    places = queries
    if (asked.map, asked.map_part, asked.map_split) != (None, None, None):
        part = asked.map_part if asked.map_part is not None or asked.map is not None else asked.part
        # both tables must lie on one plane, so the map follows the queries' projection
        places = _read(asked, asked.map or asked.places, part, asked.map_split, queries.projection)
    task = LabelTask("labels", queries, places, rule_on(places))
    _check_pair(parse_pair(asked.pair), task)
    _check_depth(task)
    return iter([task])


def _preset_tasks(asked: LabelRequest, preset: str) -> Iterator[LabelTask]:
    for task in preset_tasks(preset, asked.places, asked.missing):
        if asked.device is not None and isinstance(task.rule, Points):
            task.rule.device = asked.device
        yield task


def _check_pair(pair: tuple[int, int] | None, task: LabelTask) -> None:
    queries, places = len(task.queries), len(task.places)
    if pair is not None and not (0 <= pair[0] < queries and 0 <= pair[1] < places):
        raise InputError(f"--pair {pair[0]},{pair[1]}: there are {queries} queries and {places} map images")


def _check_depth(task: LabelTask) -> None:
    """Depth images that hide points must be there for every image; said before a cloud is fused."""
    if not isinstance(task.rule, Points) or task.rule.occlusion != "depth":
        return
    for table in (task.queries, task.places):
        if "depth" not in table.table or table.table["depth"].isna().any():
            raise InputError(
                f"{table.root}: not every image has a depth image; use --occlusion none or cloud"
            )


def _read(asked: LabelRequest, source: Path, part: str | None, split: str | None, onto: str | None) -> Places:
    places = open_places(
        source,
        dataset=asked.dataset,
        part=part,
        projection=asked.projection,
        onto=onto,
        wrap_headings=asked.wrap_headings,
        missing_images=asked.missing,
        frame=pose_frame(*asked.axes) if asked.from_pose else None,
    )
    return places if split is None else places.of_split(split)


def _flat_rule(asked: LabelRequest) -> Callable[[Places], Rule]:
    if asked.within is not None:
        limits = parse_within(asked.within)
        return lambda places: limits
    if asked.soft_distance is not None:
        soft = parse_soft_distance(asked.soft_distance)
        return lambda places: soft
    usual = Sectors()
    sectors = Sectors(
        theta=usual.theta if asked.theta is None else asked.theta,
        radius=usual.radius if asked.radius is None else asked.radius,
        measure=one_of("measure", asked.measure, get_args(Measure), usual.measure),
        unknown_heading=one_of(
            "unknown_heading", asked.unknown_heading, get_args(UnknownHeading), usual.unknown_heading
        ),
        panoramas=one_of("panoramas", asked.panoramas, get_args(Panoramas), usual.panoramas),
    )
    return lambda places: sectors


def _points_rule(asked: LabelRequest) -> Callable[[Places], Rule]:
    """By points of a cloud: a PLY file, a COLMAP model, or the fused depth images of the map."""
    from samespot.overlap import scene
    from samespot.places import colmap, seven_scenes

    root = asked.map or asked.places
    part = asked.map_part or asked.part
    camera = scene.parse_camera(asked.camera) if asked.camera else None
    occlusion = one_of("occlusion", asked.occlusion, get_args(Occlusion), "none")
    if asked.cloud is not None and camera is None:
        raise InputError("--cloud also needs --camera width,height,fx,fy,cx,cy [px]")
    models = colmap.parts(root) if root.is_dir() and asked.cloud is None else []
    if models and camera is not None:
        raise InputError("--camera has no effect with a COLMAP model: it knows its cameras")

    def make(places: Places, progress: Progress | None) -> Scene:
        if asked.cloud is not None and camera is not None:
            return scene.read_scene(asked.cloud, camera)
        if models:
            return scene.colmap_scene(root, part or models[0])
        if "depth" not in places.table:
            raise InputError(
                f"{root}: 3D labels need a cloud: --cloud FILE.ply, a COLMAP model, or depth images"
            )
        sequences = seven_scenes.parts(root) if root.is_dir() else []
        known = camera or (seven_scenes.camera(root, part or sequences[0]) if sequences else None)
        if known is None:
            raise InputError("depth images need --camera width,height,fx,fy,cx,cy [px]")
        return scene.depth_scene(places, known, progress=progress)

    return lambda places: Points(partial(make, places), occlusion, asked.device or "cpu")
