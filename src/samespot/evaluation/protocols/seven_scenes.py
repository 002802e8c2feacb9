"""7Scenes: rooms, where the same place means that more than half of the points seen are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case, Rows
from samespot.evaluation.protocol import AUTHORS_KS, Protocol
from samespot.overlap.classes import POSITIVE
from samespot.overlap.labels import PairLabels
from samespot.places import seven_scenes
from samespot.places.table import Places
from samespot.places.wording import first_few
from samespot.progress import Progress
from samespot.retrieval.exclusion import Exclusion

Labels = Callable[[Progress | None], PairLabels]


class MoreThanHalf(Sequence[Rows]):
    """For each query the map rows of more than half overlap. The labels are made when the first is asked for.

    Fusing a room's depth images takes a while, and only evaluation can show how far it is: it asks for the case's
    `overlap` first, with its progress bar.
    """

    def __init__(self, queries: int, labels: Labels) -> None:
        self._queries, self._labels = queries, labels

    def __len__(self) -> int:
        return self._queries

    @overload
    def __getitem__(self, query: int) -> Rows: ...
    @overload
    def __getitem__(self, query: slice) -> list[Rows]: ...
    def __getitem__(self, query: int | slice) -> Rows | list[Rows]:
        if isinstance(query, slice):
            return [self[row] for row in range(*query.indices(len(self)))]
        columns, overlap = self._labels(None).row(query)
        rows: Rows = columns[overlap > POSITIVE].astype(np.int64)
        return rows


def _rooms(root: Path, *, scenes: str | Iterable[str], labels: str | Path | None) -> list[Case]:
    parts = seven_scenes.parts(root)
    if parts == [seven_scenes.BARE]:
        raise InputError(
            f"{root}: one bare sequence, without TrainSplit.txt and TestSplit.txt; use the protocol 7scenes-sequence"
        )
    there = sorted({part.split("/")[0] for part in parts})
    whole = [scene for scene in there if {f"{scene}/test", f"{scene}/train"} <= set(parts)]
    if not whole:
        raise InputError(
            f"{root}: no scene with TrainSplit.txt and TestSplit.txt;"
            " `samespot datasets --layout 7scenes` shows what is expected"
        )
    return [_room(root, scene, labels) for scene in _chosen(root, scenes, whole)]


def _chosen(root: Path, scenes: str | Iterable[str], there: list[str]) -> list[str]:
    if scenes == "all":
        return there
    names = [word.strip() for word in scenes.split(",")] if isinstance(scenes, str) else list(scenes)
    unknown = [name for name in names if name not in there]
    if unknown:
        raise InputError(f"{root}: no scene {unknown[0]!r} with both splits; there are {first_few(there, 7)}")
    return names


def _room(root: Path, scene: str, labels: str | Path | None) -> Case:
    test, train = (seven_scenes.read(root, f"{scene}/{split}") for split in ("test", "train"))
    folder = None if labels is None else Path(labels) / f"{scene}-test" / "labels"
    if folder is not None:
        opened = _opened(folder, root, test, train)
        return _case(scene, test, train, lambda progress: opened)
    return _case(scene, test, train, lambda progress: _seen(root, f"{scene}/train", test, train, progress))


def _opened(folder: Path, root: Path, test: Places, train: Places) -> PairLabels:
    """Labels of `samespot label ROOT --preset 7scenes --out FOLDER`, if they are of these very images."""
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no labels here; write them with `samespot label {root} --preset 7scenes --out …`,"
            " and give that folder, or leave labels out to have them made"
        )
    labels = PairLabels.open(folder)
    if "3D" not in str(labels.meta.get("kind")):
        raise InputError(f"{folder}: not labels by points seen in 3D; use those of the preset 7scenes")
    try:
        labels.check(test, train)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    return labels


def _seen(root: Path, part: str, queries: Places, places: Places, progress: Progress | None) -> PairLabels:
    """IoU of the points seen, out of the cloud fused from the depth images of the map."""
    from samespot.overlap.rules import label_scene
    from samespot.overlap.scene import depth_scene

    scene = depth_scene(places, seven_scenes.camera(root, part), progress=progress)
    return label_scene(queries, places, scene, progress=progress)


def _case(name: str, queries: Places, places: Places, make: Labels, *notes: str) -> Case:
    kept: list[PairLabels] = []

    def labels(progress: Progress | None) -> PairLabels:
        if not kept:
            kept.append(make(progress))
        return kept[0]

    return Case(name, queries, places, MoreThanHalf(len(queries), labels), labels=labels, notes=notes)


def _sequence(root: Path, *, every: int | str, gap: int | str) -> list[Case]:
    if seven_scenes.parts(root) != [seven_scenes.BARE]:
        raise InputError(
            f"{root}: not a bare sequence (frame-000000.pose.txt …); give one such folder, e.g. heads/seq-01,"
            " or use the protocol 7scenes"
        )
    step, frames_apart = _whole("every", every, 2), _whole("gap", gap, 0)
    frames = seven_scenes.read(root, seven_scenes.BARE)
    asked = np.arange(len(frames)) % step == 0
    if asked.all():
        raise InputError(f"{root}: {len(frames)} frames leave no map when every {step}th is a query")
    queries, places = frames.select(asked), frames.select(~asked)
    query_frame, place_frame = (t.table["frame"].to_numpy(dtype=np.int64) for t in (queries, places))
    near = _near(query_frame, place_frame, frames_apart)

    def make(progress: Progress | None) -> PairLabels:
        return _without(_seen(root, seven_scenes.BARE, queries, places, progress), near)

    said = (
        f"every {step}th frame is a query; map frames within {frames_apart} frame numbers of it are left out"
    )
    return [replace(_case(root.resolve().name, queries, places, make, said), excluded=near)]


def _whole(option: str, value: int | str, least: int) -> int:
    if not str(value).isdigit() or int(value) < least:
        raise InputError(f"{option} {value!r}: give a whole number from {least} on")
    return int(value)


def _near(queries: NDArray[np.int64], places: NDArray[np.int64], gap: int) -> Exclusion:
    """Frames of one film that lie at most `gap` frame numbers apart."""
    return lambda q, m: np.abs(queries[q, None] - places[None, m]) <= gap


def _without(labels: PairLabels, excluded: Exclusion) -> PairLabels:
    """The labels less the pairs that are never returned: they are no truth to be measured by."""
    everything = slice(0, labels.shape[1])
    counts, kept = [], []
    for query in range(len(labels)):
        stays = ~excluded(slice(query, query + 1), everything)[0][labels.row(query)[0]]
        counts.append(np.count_nonzero(stays))
        kept.append(stays)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    stays = np.concatenate(kept)
    return replace(labels, indptr=indptr, columns=labels.columns[stays], similarity=labels.similarity[stays])


_SHOTTON = "J. Shotton et al., Scene Coordinate Regression Forests for Camera Relocalization, CVPR 2013"
_POSITIVE = "intersection over union of the points seen is more than 0.5"

PROTOCOLS = (
    Protocol(
        name="7scenes",
        title="7Scenes, each scene by itself",
        data_set="7scenes",
        queries="all frames of TestSplit.txt that have a positive; the map is TrainSplit.txt",
        positive=_POSITIVE,
        exclusions="none",
        citation=_SHOTTON,
        make=_rooms,
        ks=AUTHORS_KS,
        all_pairs=True,
        options={"scenes": "all", "labels": None},
        defaults={"labels": "made from the depth images"},
        notes=(
            "points: the cloud fused from depth images of the map, 2 cm, without occlusion; labels=FOLDER takes what"
            " `samespot label ROOT --preset 7scenes --out FOLDER` wrote, and saves making it again",
        ),
    ),
    Protocol(
        name="7scenes-sequence",
        title="one sequence of 7Scenes, its own map",
        data_set="7scenes",
        queries="every 10th frame (every=N) that has a positive; the map is the others",
        positive=_POSITIVE,
        exclusions="map frames within 100 frame numbers (gap=N), 3.3 s of film, of the query",
        citation=_SHOTTON,
        make=_sequence,
        ks=AUTHORS_KS,
        all_pairs=True,
        options={"every": 10, "gap": 100},
        notes=(
            "a protocol of samespot, for a sequence without splits; not comparable with published numbers",
        ),
    ),
)
