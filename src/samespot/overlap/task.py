"""One labelling to be done: which pairs, by which rule. A preset makes a list of them for a whole data set."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samespot.errors import InputError
from samespot.options import check_choice
from samespot.overlap.labels import LabelWriter, PairLabels
from samespot.overlap.rules import Points, Rule, rule_of
from samespot.places.catalogue import DataSet, MissingImages, data_set, preset_names
from samespot.places.photo_sets import PhotoSet
from samespot.places.table import Places
from samespot.progress import Progress

if TYPE_CHECKING:
    from samespot.overlap.scene import Scene


@dataclass(frozen=True)
class LabelTask:
    """Label `queries` against `places` by `rule`; `name` is its folder under the output."""

    name: str
    queries: Places
    places: Places
    rule: Rule
    held_out: bool = False  # for evaluation, not to learn from


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


def run_task(
    task: LabelTask, out: str | Path | None = None, progress: Progress | None = None, ray: str | None = None
) -> Labelled:
    """Do it. Labels go to the folder `out`, or stay in memory. ray: the address of a cluster that shares the work."""
    rule, scene, scene_seconds = task.rule, None, 0.0
    if out is not None:
        LabelWriter(out, (len(task.queries), len(task.places)), {})  # refuses other folders before any work
    if isinstance(rule, Points):
        start = time.perf_counter()
        scene = rule.scene(progress)
        scene_seconds = time.perf_counter() - start
    if ray is None:
        _load_kernels(rule, task.places)
    start = time.perf_counter()
    how: dict[str, Any] = {} if ray is None else {"ray": ray}
    labels = rule.label(task.queries, task.places, out=out, progress=progress, **how)
    return Labelled(task, labels, time.perf_counter() - start, scene, scene_seconds)


def _load_kernels(rule: Rule, places: Places) -> None:
    """Label one image first, so that compiling or loading kernels, or waking a GPU, is not counted as labelling."""
    if len(places):
        one = places.select([0])
        with suppress(InputError):  # said of the whole table, when that is labelled
            rule.label(one, one)


def preset_tasks(
    preset: str, root: str | Path, missing_images: MissingImages = "warn"
) -> Iterator[LabelTask]:
    """The labellings of a data set as its record says (the paper's; campus: ours), one after the other."""
    known = preset_named(preset)
    root = Path(root)
    known.refuse_absent(root)
    kept: dict[str, Points] = {}
    for one in known.photo_sets(root, missing_images=missing_images):
        if known.labels is not None:
            rule = rule_of({"measure": "overlap", **known.labels})
            assert rule is not None
            yield LabelTask(one.name, one.queries, one.places, rule, one.held_out)
        else:
            scene = one.places.digest()  # all sets that look into one map share its cloud
            if scene not in kept:
                kept[scene] = Points(partial(_fused, one))
            yield LabelTask(one.name, one.queries, one.places, kept[scene], one.held_out)


def _fused(one: PhotoSet, progress: Progress | None) -> Scene:
    from samespot.overlap.scene import depth_scene

    assert one.camera is not None
    return depth_scene(one.places, one.camera, progress=progress)


def preset_named(name: str) -> DataSet:
    """The record of a data set that says how its photos are labelled and learned from."""
    check_choice("preset", name, preset_names())
    return data_set(name)
