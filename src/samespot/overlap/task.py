"""One labelling to be done: which pairs, by which rule. Presets make a list of them for a whole data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samespot.errors import InputError
from samespot.overlap.annotate import (
    Panoramas,
    UnknownHeading,
    label_by_distance,
    label_pairs,
    label_within,
)
from samespot.overlap.labels import LabelWriter, PairLabels
from samespot.overlap.nearness import METRES, STEEPNESS, reach_of
from samespot.overlap.sector import Measure
from samespot.places.catalogue import data_set, open_places
from samespot.places.table import MissingImages, Places
from samespot.progress import Progress

if TYPE_CHECKING:
    from samespot.overlap.scene import Occlusion, Scene
    from samespot.places.camera import Camera


@dataclass(frozen=True)
class Sectors:
    """Graded 2D labels: opening angle [deg], radius [m], measure."""

    theta: float = 90.0
    radius: float = 50.0
    measure: Measure = "overlap"
    unknown_heading: UnknownHeading = "error"
    panoramas: Panoramas = "disk"


@dataclass(frozen=True)
class Within:
    """Binary labels: at most this far apart [m] and turned [deg]."""

    metres: float = 25.0
    degrees: float | None = 40.0


@dataclass(frozen=True)
class SoftDistance:
    """Soft labels by the distance alone: 0.5 so far apart [m], falling so fast [1/m]."""

    metres: float = METRES
    steepness: float = STEEPNESS

    @property
    def reach(self) -> float:
        """Beyond it [m], similarity is 0."""
        return reach_of(self.metres, self.steepness)


@dataclass(frozen=True)
class Points:
    """Graded 3D labels. `scene` makes the scene when it is needed: fusing depth takes a while."""

    scene: Callable[[Progress | None], Scene]
    occlusion: Occlusion = "none"
    device: str = "cpu"


Rule = Sectors | Within | SoftDistance | Points


@dataclass(frozen=True)
class LabelTask:
    """Label `queries` against `places` by `rule`; `name` is its folder under the output."""

    name: str
    queries: Places
    places: Places
    rule: Rule


@dataclass(frozen=True)
class Labelled:
    """The outcome of a task."""

    task: LabelTask
    labels: PairLabels
    seconds: float  # of the labelling alone: tables read, scene made and kernels loaded before
    scene: Scene | None = None  # of 3D labels: what figures of it need
    scene_seconds: float = 0.0  # to read or fuse its cloud

    def summary(self) -> dict[str, Any]:
        """Counts by class, share of non-zero, time and speed, as plain json."""
        counts, seconds = self.labels.counts(), max(self.seconds, 1e-9)
        return {
            "name": self.task.name,
            "queries": self.labels.shape[0],
            "map images": self.labels.shape[1],
            **counts,
            # a table against itself: its pairs of an image with itself are in the counts, too
            "self pairs": self.labels.shape[0] if self.labels.meta.get("same_table") else 0,
            "nonzero share": counts["nonzero"] / max(counts["pairs"], 1),
            "seconds": round(self.seconds, 3),
            "scene seconds": round(self.scene_seconds, 3),
            "pairs per second": round(counts["pairs"] / seconds),
            "nonzero pairs per second": round(counts["nonzero"] / seconds),
            "dropped": self.labels.meta.get("dropped", {}),
            "labels": {k: v for k, v in self.labels.meta.items() if k != "dropped"},
        }


def run_task(task: LabelTask, out: str | Path | None = None, progress: Progress | None = None) -> Labelled:
    """Do it. Labels go to the folder `out`, or stay in memory."""
    if out is not None:
        LabelWriter(out, (len(task.queries), len(task.places)), {})  # refuses other folders before any work
    if isinstance(task.rule, Points):
        return _label_by_points(task, task.rule, out, progress)
    _load_kernels(sectors=isinstance(task.rule, Sectors))
    start = time.perf_counter()
    labels = _label_on_the_ground(task.queries, task.places, task.rule, out, progress)
    return Labelled(task, labels, time.perf_counter() - start)


def _label_on_the_ground(
    queries: Places,
    places: Places,
    rule: Sectors | Within | SoftDistance,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> PairLabels:
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress("labelling", done, len(queries))

    if isinstance(rule, Within):
        return label_within(queries, places, rule.metres, rule.degrees, out=out, progress=advance)
    if isinstance(rule, SoftDistance):
        return label_by_distance(queries, places, rule.metres, rule.steepness, out=out, progress=advance)
    return label_pairs(
        queries,
        places,
        rule.theta,
        rule.radius,
        rule.measure,
        unknown_heading=rule.unknown_heading,
        panoramas=rule.panoramas,
        out=out,
        progress=advance,
    )


@cache
def _load_kernels(sectors: bool) -> None:
    """Label two cameras, so that compiling or loading the kernels is not counted as labelling."""
    two = {"image": ["a", "b"], "easting": [0.0, 1.0], "northing": [0.0, 0.0], "heading": [0.0, 0.0]}
    cameras = Places.build(".", two, missing_images="ignore")
    _label_on_the_ground(cameras, cameras, Sectors() if sectors else Within())


def _label_by_points(
    task: LabelTask, rule: Points, out: str | Path | None, progress: Progress | None
) -> Labelled:
    from samespot.overlap.scene import label_scene

    start = time.perf_counter()
    scene = rule.scene(progress)
    scene_seconds = time.perf_counter() - start
    label = partial(label_scene, scene=scene, occlusion=rule.occlusion, device=rule.device)
    if len(task.places):  # one image first: kernels are loaded, and a GPU woken, outside the time
        one = task.places.select([0])
        label(one, one)
    start = time.perf_counter()
    labels = label(task.queries, task.places, out=out, progress=progress)
    return Labelled(task, labels, time.perf_counter() - start, scene, scene_seconds)


def _msls(root: Path, missing_images: MissingImages) -> Iterator[LabelTask]:
    """Query × map of each city, θ = 90°, r = 50 m; panoramas as sectors, like every other image."""
    kind = data_set("msls")
    cities = sorted({p.rsplit("/", 1)[0] for p in kind.parts(root) if p.startswith("train_val/")})
    for city in cities:
        queries = kind.read(root, f"{city}/query", missing_images=missing_images)
        places = kind.read(root, f"{city}/database", missing_images=missing_images)
        yield LabelTask(city.split("/")[1], queries, places, Sectors(90.0, 50.0, panoramas="sector"))


def _tb_places(root: Path, missing_images: MissingImages) -> Iterator[LabelTask]:
    """All pairs of W17, the training set, θ = 90°, r = 3.5 m."""
    garden = data_set("tb-places").read(root, "W17", missing_images=missing_images)
    yield LabelTask("W17", garden, garden, Sectors(90.0, 3.5))


def _seven_scenes(root: Path, missing_images: MissingImages) -> Iterator[LabelTask]:
    """All pairs of each scene's training set, and test × train for evaluation, by points seen."""
    from samespot.overlap.scene import depth_scene, seven_scenes_camera

    kind = data_set("7scenes")
    parts = kind.parts(root)
    for part in parts:
        scene, _, split = part.partition("/")
        if split not in ("train", ""):
            continue
        train = kind.read(root, part, missing_images=missing_images)
        camera = seven_scenes_camera(root, part)
        kept: list[Scene] = []

        def fused(
            progress: Progress | None,
            train: Places = train,
            camera: Camera = camera,
            kept: list[Scene] = kept,
        ) -> Scene:
            if not kept:  # both tasks of a scene share one cloud
                kept.append(depth_scene(train, camera, progress=progress))
            return kept[0]

        yield LabelTask(f"{scene}-train" if split else scene, train, train, Points(fused))
        if f"{scene}/test" in parts:
            test = kind.read(root, f"{scene}/test", missing_images=missing_images)
            yield LabelTask(f"{scene}-test", test, train, Points(fused))


def _campus(root: Path, missing_images: MissingImages) -> Iterator[LabelTask]:
    """Training pairs of the west and query × map of the east, θ = 90°, r = 30 m."""
    places = open_places(root, missing_images=missing_images)
    split = places.table.get("split")
    if split is None or not {"train", "query", "map"} <= set(split):
        raise InputError(f"{root}: the campus preset needs a column split with train, query and map")
    train, query, map_ = (places.select((split == name).to_numpy()) for name in ("train", "query", "map"))
    yield LabelTask("train", train, train, Sectors(90.0, 30.0))
    yield LabelTask("east", query, map_, Sectors(90.0, 30.0))


PRESETS = {"msls": _msls, "tb-places": _tb_places, "7scenes": _seven_scenes, "campus": _campus}


def preset_tasks(
    preset: str, root: str | Path, missing_images: MissingImages = "warn"
) -> Iterator[LabelTask]:
    """The labellings that the paper did on a data set (campus: ours), one after the other."""
    if preset not in PRESETS:
        raise InputError(f"preset {preset!r} is unknown; choose one of {', '.join(PRESETS)}")
    root = Path(root)
    if preset != "campus" and not data_set(preset).parts(root):
        known = data_set(preset)
        raise InputError(f"{root}: no {known.title} here; ask for it at {known.ask}")
    return PRESETS[preset](root, missing_images)
