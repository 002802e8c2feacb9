"""One labelling to be done: which pairs, by which rule. Presets make a list of them for a whole data set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.overlap.annotate import Panoramas, UnknownHeading, label_pairs, label_within
from samespot.overlap.labels import PairLabels
from samespot.overlap.sector import Measure
from samespot.places.catalogue import data_set, open_places
from samespot.places.table import MissingImages, Places

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


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
class Points:
    """Graded 3D labels. `scene` makes the scene when it is needed: fusing depth takes a while."""

    scene: Callable[[Progress | None], Any]
    occlusion: str = "none"
    device: str = "cpu"


@dataclass(frozen=True)
class LabelTask:
    """Label `queries` against `places` by `rule`; `name` is its folder under the output."""

    name: str
    queries: Places
    places: Places
    rule: Sectors | Within | Points


@dataclass(frozen=True)
class Labelled:
    """The outcome of a task."""

    task: LabelTask
    labels: PairLabels
    seconds: float
    scene: Any = None  # of 3D labels: what figures of it need

    def summary(self) -> dict[str, Any]:
        """Counts by class, share of non-zero, time and speed, as plain json."""
        counts = self.labels.counts()
        return {
            "name": self.task.name,
            "queries": self.labels.shape[0],
            "map images": self.labels.shape[1],
            **counts,
            "nonzero share": counts["nonzero"] / max(counts["pairs"], 1),
            "seconds": round(self.seconds, 3),
            "pairs per second": round(counts["pairs"] / max(self.seconds, 1e-9)),
            "dropped": self.labels.meta.get("dropped", {}),
            "labels": {k: v for k, v in self.labels.meta.items() if k != "dropped"},
        }


def run_task(task: LabelTask, out: str | Path | None = None, progress: Progress | None = None) -> Labelled:
    """Do it. The time is that of the labelling alone, reading the tables not included."""
    start, scene = time.perf_counter(), None
    advance = None
    if progress is not None:
        done = [0]

        def advance(queries: int) -> None:
            done[0] += queries
            progress("labelling", done[0], len(task.queries))

    rule = task.rule
    if isinstance(rule, Sectors):
        labels = label_pairs(
            task.queries,
            task.places,
            rule.theta,
            rule.radius,
            rule.measure,
            unknown_heading=rule.unknown_heading,
            panoramas=rule.panoramas,
            out=out,
            progress=advance,
        )
    elif isinstance(rule, Within):
        labels = label_within(task.queries, task.places, rule.metres, rule.degrees, out=out, progress=advance)
    else:
        from samespot.overlap.scene import label_scene

        scene = rule.scene(progress)
        labels = label_scene(
            task.queries,
            task.places,
            scene,
            occlusion=rule.occlusion,  # type: ignore[arg-type]
            device=rule.device,
            out=out,
            progress=progress,
        )
    return Labelled(task, labels, time.perf_counter() - start, scene)


def parse_within(words: str) -> Within:
    """Limits from "25m,40deg" or "25m"."""
    metres: float | None = None
    degrees: float | None = None
    for word in words.replace(" ", "").split(","):
        try:
            if word.endswith("deg"):
                degrees = float(word.removesuffix("deg"))
            elif word.endswith("m"):
                metres = float(word.removesuffix("m"))
            else:
                raise ValueError
        except ValueError:
            raise InputError(
                f"--within {words!r}: {word!r} is neither metres (25m) nor degrees (40deg)"
            ) from None
    if metres is None:
        raise InputError(f"--within {words!r} names no distance; write for example 25m,40deg")
    return Within(metres, degrees)


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
        kept: list[Any] = []

        def fused(
            progress: Progress | None, train: Places = train, camera: Any = camera, kept: Any = kept
        ) -> Any:
            if not kept:  # both tasks of a scene share one cloud
                kept.append(depth_scene(train, camera, every=max(1, len(train) // 250), progress=progress))
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
