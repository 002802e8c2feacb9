"""Every option of labelling, and what they come to: a list of labellings to do. No numba and no pandas in here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from samespot.cluster import ClusterOptions
from samespot.errors import InputError
from samespot.options import ineffective, option
from samespot.overlap.rules import (
    RADIUS,
    THETA,
    Measure,
    Occlusion,
    Panoramas,
    Points,
    Rule,
    Sectors,
    SoftDistance,
    UnknownHeading,
    Within,
    parse_soft_distance,
    parse_within,
)
from samespot.places.catalogue import preset_names
from samespot.places.options import SOURCE, ReadOptions, RowOptions, two_tables
from samespot.progress import Progress

if TYPE_CHECKING:
    from samespot.overlap.scene import Scene
    from samespot.overlap.task import LabelTask
    from samespot.places.table import Places

_RULE, _POINTS = "The rule", "3D labels"
_SECTOR_OPTIONS = ("theta", "radius", "measure", "unknown_heading", "panoramas")
_POINT_OPTIONS = ("cloud", "camera", "occlusion", "device")


def parse_pair(words: str) -> tuple[int, int]:
    """Two row numbers from "12,340"."""
    query, place = (int(word) for word in words.split(","))
    return query, place


@dataclass(frozen=True)
class LabelOptions(RowOptions, ClusterOptions):
    """What is labelled, by which rule, and what is drawn of it."""

    places: Path = option(..., f"Queries: {SOURCE}.", argument=True)
    map: Path | None = option(None, "Map images.", default="PLACES itself", argument=True)
    out: Path = option(Path("labels"), "Folder for labels and figures.", writes="folder")

    preset: str | None = option(
        None,
        "Label the data set PLACES as the paper did (campus: as docs/label.md says).",
        choices=preset_names,
        panel=_RULE,
    )
    theta: float = option(THETA, "Opening angle of the field of view [degrees].", panel=_RULE)
    radius: float = option(RADIUS, "How far a camera sees [metres].", panel=_RULE)
    measure: Measure = option(
        "overlap", "Shared area over the area of one sector, or over that of the union.", panel=_RULE
    )
    within: Within | None = option(
        None,
        "Binary labels instead: 1 within these limits, e.g. 25m,40deg.",
        parse=parse_within,
        metavar="LIMITS",
        panel=_RULE,
    )
    soft_distance: SoftDistance | None = option(
        None,
        "Soft labels by distance instead: ½ at e.g. 15m, or with a steepness 15m,0.8/m.",
        parse=parse_soft_distance,
        metavar="METRES",
        panel=_RULE,
    )
    unknown_heading: UnknownHeading = option(
        "error", "Cameras of unknown heading: an error, or a disk: they see all around.", panel=_RULE
    )
    panoramas: Panoramas = option(
        "disk", "Panoramas see all around (disk), or only along their heading (sector).", panel=_RULE
    )
    kind: Literal["2d", "3d"] = option(
        "2d", "By the field of view on the ground, or by the points of a reconstruction.", panel=_RULE
    )

    cloud: Path | None = option(None, "A PLY cloud.", default="COLMAP points or fused depth", panel=_POINTS)
    camera: str | None = option(
        None, "width,height,fx,fy,cx,cy of all images [pixels].", panel=_POINTS, metavar="NUMBERS"
    )
    occlusion: Occlusion = option(
        "none", "What hides points: nothing, the depth images, or the cloud itself.", panel=_POINTS
    )
    device: str = option("cpu", "Where sets of points are compared: cpu or cuda.", panel=_POINTS)

    pair: tuple[int, int] | None = option(
        None, "Draw this pair, e.g. 12,340: rows of queries and map.", parse=parse_pair, metavar="ROWS"
    )
    figures: bool = option(True, "Draw figures.")
    h5: bool = option(
        False, "Also write <name>_gt.h5 in the layout of the paper's authors (fov, sim).", switch=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "2d" and self.within is None and self.soft_distance is None:
            self.sectors  # noqa: B018 - a wrong angle should show before a file is read
        if self.device not in ("cpu", "torch-cpu") and self.device.split(":")[0] != "cuda":
            raise InputError(f"`device` {self.device!r} is unknown; choose one of cpu, cuda, cuda:N")

    def refuse_ineffective(self, typed: set[str]) -> None:
        if self.preset is not None:
            # the device changes no label, so the one preset of 3D labels takes it
            taken = {"places", "preset", "figures", "out", "h5", "ray"}
            taken |= {"device"} if self.preset == "7scenes" else set()
            others = [one.name for one in fields(self) if one.name not in taken]
            return ineffective(typed, others, f"with `preset={self.preset}`")
        if self.kind == "3d":
            ineffective(typed, (*_SECTOR_OPTIONS, "within", "soft_distance"), "with `kind=3d`")
        else:
            ineffective(typed, _POINT_OPTIONS, "without `kind=3d`")
        if self.within is not None:
            # binary labels have no field of view, neither to choose nor to draw
            ineffective(typed, (*_SECTOR_OPTIONS, "soft_distance", "pair"), "with `within`")
        if self.soft_distance is not None:
            ineffective(typed, (*_SECTOR_OPTIONS, "pair"), "with `soft_distance`")
        super().refuse_ineffective(typed)
        if not self.figures:
            ineffective(typed, ("pair",), "with `figures=False`")
        return None

    @property
    def sectors(self) -> Sectors:
        return Sectors(self.theta, self.radius, self.measure, self.unknown_heading, self.panoramas)


def label_tasks(asked: LabelOptions, reading: ReadOptions | None = None) -> Iterator[LabelTask]:
    """The labellings of a preset, or the one that the options describe."""
    from samespot.overlap.task import LabelTask, preset_tasks

    reading = reading or ReadOptions()
    if asked.preset is not None:
        return _preset_tasks(preset_tasks(asked.preset, asked.places, reading.missing_images), asked.device)
    # words that name no rule are refused here, before the tables are read
    rule_on = _points_rule(asked, reading.part) if asked.kind == "3d" else _flat_rule(asked)
    queries, places = two_tables(asked.places, asked.map, reading, asked)
    task = LabelTask("labels", queries, places, rule_on(places))
    _check_pair(asked.pair, task)
    _check_depth(task)
    return iter([task])


def _preset_tasks(tasks: Iterator[LabelTask], device: str) -> Iterator[LabelTask]:
    for task in tasks:
        if isinstance(task.rule, Points):
            task.rule.device = device
        yield task


def _check_pair(pair: tuple[int, int] | None, task: LabelTask) -> None:
    queries, places = len(task.queries), len(task.places)
    if pair is not None and not (0 <= pair[0] < queries and 0 <= pair[1] < places):
        raise InputError(f"`pair` {pair[0]},{pair[1]}: there are {queries} queries and {places} map images")


def _check_depth(task: LabelTask) -> None:
    """Depth images that hide points must be there for every image; said before a cloud is fused."""
    if isinstance(task.rule, Points) and task.rule.occlusion == "depth":
        from samespot.overlap.scene import refuse_missing_depth

        for table in (task.queries, task.places):
            refuse_missing_depth(table)


def _flat_rule(asked: LabelOptions) -> Callable[[Places], Rule]:
    rule: Rule = asked.within or asked.soft_distance or asked.sectors
    return lambda places: rule


def _points_rule(asked: LabelOptions, queries_part: str | None) -> Callable[[Places], Rule]:
    """By points of a cloud: a PLY file, a COLMAP model, or the fused depth images of the map."""
    from samespot.overlap import scene
    from samespot.places import colmap, seven_scenes
    from samespot.places.camera import parse_camera

    root = asked.map or asked.places
    part = asked.map_part or queries_part
    camera = parse_camera(asked.camera) if asked.camera else None
    if camera is not None and any(camera.distortion):
        raise InputError(
            "`camera`: labels look through a pinhole; undistort the photos, and give six numbers"
        )
    if asked.cloud is not None and camera is None:
        raise InputError("`cloud` also needs `camera=width,height,fx,fy,cx,cy` [pixels]")
    models = colmap.parts(root) if root.is_dir() and asked.cloud is None else []
    if models and camera is not None:
        raise InputError("`camera` has no effect with a COLMAP model: it knows its cameras")

    def make(places: Places, progress: Progress | None) -> Scene:
        if asked.cloud is not None and camera is not None:
            return scene.read_scene(asked.cloud, camera)
        if models:
            return scene.colmap_scene(root, part or models[0])
        if "depth" not in places.table:
            raise InputError(
                f"{root}: 3D labels need a cloud: `cloud=FILE.ply`, a COLMAP model, or depth images"
            )
        sequences = seven_scenes.parts(root) if root.is_dir() else []
        known: Any = camera or (seven_scenes.camera(root, part or sequences[0]) if sequences else None)
        if known is None:
            raise InputError("depth images need `camera=width,height,fx,fy,cx,cy` [pixels]")
        return scene.depth_scene(places, known, progress=progress)

    return lambda places: Points(partial(make, places), asked.occlusion, asked.device)
