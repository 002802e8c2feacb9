"""What experiments are run on: photos, labels of each kind, a protocol and a budget that is the same for all of them.

campus      real phone photos with GPS and compass: weak 2D labels
redkitchen  a film of one room with depth: 3D labels
town        the built-in town, built on the fly: weak 2D, strong 2D (exact poses) and 3D labels
msls        Mapillary's cities, where a folder is given for it
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samespot.errors import InputError
from samespot.overlap.labels import PairLabels
from samespot.overlap.task import preset_named, preset_tasks
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.training.options import TrainingOptions, preset_options

if TYPE_CHECKING:
    from samespot.evaluation.cases import Case
    from samespot.training.sets import LabelledSet

TRAINING = "training photos"
NAMES = ("campus", "town", "redkitchen", "msls")
Label = Callable[[Places, Path], PairLabels]  # photos against themselves, and a folder for the labels


class DataSet(ABC):
    """One data set, opened when it is first needed. `work` is a folder for what is built from it."""

    name: str
    title: str
    protocol: str
    protocol_options: Mapping[str, Any] = {}
    kinds: tuple[str, ...]  # of labels
    fits_in_memory = True  # all of its photos to learn from, decoded or as frozen features

    def __init__(self, root: Path, work: Path, progress: Progress | None = None) -> None:
        self.root, self.work, self.progress = root, work, progress
        self._labelled: dict[str, list[LabelledSet]] = {}

    @property
    @abstractmethod
    def options(self) -> TrainingOptions:
        """How every experiment on it is trained, but for what the experiment changes: the budget."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What photos, labels and questions depend on; known without building or labelling anything."""

    @property
    @abstractmethod
    def training_photos(self) -> Places: ...

    @abstractmethod
    def _label(self, kind: str) -> list[LabelledSet]: ...

    @cached_property
    def cases(self) -> list[Case]:
        from samespot.evaluation.protocols import protocol_named

        return protocol_named(self.protocol).cases(self.root, **self.protocol_options)

    @property
    def questions(self) -> list[Any]:
        """Who is asked, of which map, and by which rules; for `facts`."""
        asked = [[case.name, case.queries.digest(), case.places.digest()] for case in self.cases]
        return [self.protocol, dict(self.protocol_options), asked]

    def labelled(self, kind: str) -> list[LabelledSet]:
        """The photos to learn from with labels of a kind; labelled once."""
        if kind not in self.kinds:
            raise InputError(f"{self.name} has no labels {kind!r}; it has {', '.join(self.kinds)}")
        if kind not in self._labelled:
            self._labelled[kind] = self._label(kind)
        return self._labelled[kind]

    def _against_themselves(self, photos: Places, label: Callable[[Places, Places], PairLabels]) -> list[Any]:
        from samespot.training.sets import LabelledSet

        return [LabelledSet(photos, photos, label(photos, photos))]


class Campus(DataSet):
    name, title, protocol = "campus", "campus: real photos, weak 2D labels", "campus-east"
    kinds = ("graded", "binary", "distance")

    @property
    def options(self) -> TrainingOptions:
        return preset_options("campus")

    @cached_property
    def training_photos(self) -> Places:
        task = next(task for task in preset_tasks("campus", self.root, "error") if task.name == "train")
        return task.queries

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "photos": self.training_photos.digest(),
            **_preset_facts("campus"),
            "questions": self.questions,
        }

    def _label(self, kind: str) -> list[LabelledSet]:
        said = preset_named("campus")
        assert said.labels is not None
        assert said.binary is not None
        sectors = said.labels["theta"], said.labels["radius"]
        return self._against_themselves(self.training_photos, _on_the_ground(kind, sectors, said.binary))


def _preset_facts(name: str) -> dict[str, Any]:
    """How a preset labels its photos."""
    said = preset_named(name)
    assert said.labels is not None
    return {"sectors": [said.labels["theta"], said.labels["radius"]], "within": said.binary}


def _on_the_ground(
    kind: str, sectors: tuple[float, float], within: tuple[float, float]
) -> Callable[[Places, Places], PairLabels]:
    from samespot.overlap.rules import label_by_distance, label_pairs, label_within

    rules: dict[str, Callable[[Places, Places], PairLabels]] = {
        "graded": lambda a, b: label_pairs(a, b, *sectors),
        "binary": lambda a, b: label_within(a, b, *within),
        "distance": lambda a, b: label_by_distance(a, b),
    }
    return rules[kind]


class Town(DataSet):
    name, title, protocol = "town", "town: rendered photos, weak 2D, strong 2D and 3D labels", "town"
    kinds = ("graded", "binary", "strong", "3d")
    seed, visits = 7, 4
    photos_per_visit, size = 750, (120, 160)

    @property
    def options(self) -> TrainingOptions:
        """As the demo trains, but twice the blocks and pairs, and longer."""
        from samespot.demo import demo_options

        return demo_options("graded").with_changes(
            train_blocks=2, batch_pairs=64, steps=300, cache_frozen="no", image_size=self.size
        )

    @property
    def facts(self) -> dict[str, Any]:
        from samespot.demo import NEAR, RADIUS, THETA, TURNED
        from samespot.town.build import FORMAT

        asked = [FORMAT, self.seed, self.visits, self.photos_per_visit, list(self.size)]
        return {"town": asked, "sectors": [THETA, RADIUS], "within": [NEAR, TURNED]}

    @cached_property
    def photos(self) -> Places:
        from samespot.town.build import build_town

        return build_town(
            self.root,
            self.seed,
            self.visits,
            size=self.size,
            photos_per_visit=self.photos_per_visit,
            progress=self.progress,
        )

    @cached_property
    def training_photos(self) -> Places:
        from samespot.demo import training_photos

        return training_photos(self.photos)

    @cached_property
    def cases(self) -> list[Case]:
        assert self.photos is not None  # built, before it is opened
        from samespot.evaluation.protocols import protocol_named

        return protocol_named(self.protocol).cases(self.root)

    def _label(self, kind: str) -> list[LabelledSet]:
        from samespot.demo import NEAR, RADIUS, THETA, TURNED
        from samespot.overlap.rules import label_scene
        from samespot.town.truth import exact_places, town_scene

        photos = self.training_photos
        if kind == "3d":
            scene = town_scene(photos, progress=self.progress)
            return self._against_themselves(
                photos, lambda a, b: label_scene(a, b, scene, occlusion="depth", progress=self.progress)
            )
        if kind == "strong":
            photos, kind = exact_places(photos), "graded"
        return self._against_themselves(photos, _on_the_ground(kind, (THETA, RADIUS), (NEAR, TURNED)))


class RedKitchen(DataSet):
    """Trained on the map, as the paper trains on 7Scenes: the queries are other frames of the same room."""

    name, title, protocol = "redkitchen", "redkitchen: a film of one room, 3D labels", "7scenes-sequence"
    protocol_options: Mapping[str, Any] = {"every": 5, "gap": 100}
    kinds = ("graded",)  # binary batches round them

    @property
    def options(self) -> TrainingOptions:
        return TrainingOptions(
            backbone="vgg16",
            pool="gap",  # as the paper's networks for 7Scenes
            image_size=(240, 320),
            batch_pairs=32,
            schedule="constant",
            steps=200,
            images_in_memory="host",
        )

    @property
    def training_photos(self) -> Places:
        return self.cases[0].places

    @property
    def facts(self) -> dict[str, Any]:
        return {"questions": self.questions}

    def _label(self, kind: str) -> list[LabelledSet]:
        from samespot.overlap.rules import label_scene
        from samespot.overlap.scene import depth_scene
        from samespot.places import seven_scenes

        camera = seven_scenes.camera(self.root, seven_scenes.BARE)
        scene = depth_scene(self.training_photos, camera, progress=self.progress)
        return self._against_themselves(
            self.training_photos, lambda a, b: label_scene(a, b, scene, progress=self.progress)
        )


class Msls(DataSet):
    name, title, protocol = "msls", "MSLS: street photos of many cities, weak 2D labels", "msls-val"
    kinds = ("graded", "binary")
    fits_in_memory = False

    @property
    def options(self) -> TrainingOptions:
        return preset_options("msls", backbone="vgg16", steps=2_000, schedule="constant", validate_every=0)

    @cached_property
    def _tasks(self) -> list[Any]:
        return [task for task in preset_tasks("msls", self.root) if not task.held_out]

    @property
    def training_photos(self) -> Places:
        """Of the smallest city: whitening and calibration need no more."""
        return min((task.places for task in self._tasks), key=len)  # type: ignore[no-any-return]

    @property
    def facts(self) -> dict[str, Any]:
        photos = [[task.name, task.queries.digest(), task.places.digest()] for task in self._tasks]
        return {"photos": photos, **_preset_facts("msls"), "questions": self.questions}

    def _label(self, kind: str) -> list[LabelledSet]:
        from samespot.overlap.rules import label_pairs, label_within
        from samespot.training.sets import LabelledSet

        said = preset_named("msls")
        assert said.binary is not None
        sets = []
        for task in self._tasks:
            to = self.work / "labels" / "msls" / kind / task.name
            if (to / "meta.json").is_file():
                labels = PairLabels.open(to)
            elif kind == "binary":
                labels = label_within(task.queries, task.places, *said.binary, out=to)
            else:
                rule = task.rule
                labels = label_pairs(
                    task.queries, task.places, rule.theta, rule.radius, panoramas=rule.panoramas, out=to
                )
            sets.append(LabelledSet(task.queries, task.places, labels))
        return sets


KINDS: dict[str, type[DataSet]] = {one.name: one for one in (Campus, Town, RedKitchen, Msls)}


def data_sets(
    data: Path | None, roots: Mapping[str, Path], work: Path, progress: Progress | None = None
) -> dict[str, DataSet]:
    """Those at hand: below `data` the folders campus and redkitchen, others by their root; the town always is."""
    unknown = sorted(set(roots) - set(KINDS))
    if unknown:
        raise InputError(f"`root={unknown[0]}=…`: no such data set here; choose one of {', '.join(KINDS)}")
    for name, folder in roots.items():
        if name != "town" and not folder.is_dir():
            raise InputError(f"`root={name}={folder}`: no such folder")
    if data is not None and not data.is_dir():
        raise InputError(f"`data={data}`: no such folder; give the one with campus/ and redkitchen/ in it")
    folders = {"town": work / "town", **roots}
    for name in ("campus", "redkitchen"):
        if name not in folders and data is not None and (data / name).is_dir():
            folders[name] = data / name
    return {name: KINDS[name](folders[name], work, progress) for name in NAMES if name in folders}
