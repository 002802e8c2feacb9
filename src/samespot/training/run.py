"""The front door: `samespot.train`, from places and labels in whatever form to a run folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from samespot.devices import device_named
from samespot.errors import InputError
from samespot.files import read_json
from samespot.images.options import IMAGE_SIZE
from samespot.options import ineffective
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import SoftDistance, Within
from samespot.overlap.task import LabelTask, preset_named, preset_tasks, run_task
from samespot.places.catalogue import as_places
from samespot.places.options import two_tables
from samespot.places.table import Places
from samespot.places.wording import told_of
from samespot.progress import Progress
from samespot.training.drawn import PAIRS, save_counts
from samespot.training.loop import train_network
from samespot.training.options import TrainingData, TrainingOptions, asked_for
from samespot.training.planning import LEAST_STEPS, fitting_size, photo_size
from samespot.training.run_folder import Say, TrainingResult
from samespot.training.sets import LabelledSet
from samespot.training.strategies import strategy_named
from samespot.training.validation import Validation
from samespot.training.validation_sets import preset_validation


def train(
    places: Places | str | Path,
    labels: PairLabels | str | Path | None = None,
    run: str | Path = "run",
    *,
    resume: bool = False,
    validation: Validation | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    **options: Any,
) -> TrainingResult:
    """Train a network on labelled photos. Everything about the run is in its folder, and in what is returned.

    places: a table, or what `open_places` reads; with `preset` the folder of that data set
    labels: of these places, as `label_pairs` gives them, or the folder that `samespot label` wrote; with `preset` the
        folder of all label folders; missing labels are made
    resume: resume from the newest complete checkpoint of the run folder
    validation: what to measure recall on; or give `validate` and `validate_map`
    progress, say: told how far training has got, and lines for the reader (settings, notes of the readers, warnings)
    options: fields of `TrainingOptions` (steps=2000, batches="A", ...) and of `TrainingData` (map, preset, ...)
    """
    if validation is not None:
        ineffective(set(options), ("validate",), "with `validation`")
    data, asked = asked_for({"places": places, "labels": labels, "run": run, "resume": resume, **options})
    # missed before any work is done
    asked.objective.require_package()
    device_named(asked.device, asked.decode)
    tell = say if say is not None and os.environ.get("RANK", "0") == "0" else (lambda line: None)
    sets, found = training_data(data, asked, progress, tell)
    asked = suited(asked, data, set(options), sets, tell)
    result = train_network(
        asked, sets, data.run, resume=resume, validation=validation or found, progress=progress, say=say
    )
    # tuples depend on the weights: there is nothing to draw again
    if asked.kind != "tuples" and os.environ.get("RANK", "0") == "0":
        shown = min(PAIRS, result.pairs)
        save_counts(sets, data.run / "batches.json", [asked.batches], shown, options=asked)
    return result


def suited(
    options: TrainingOptions, data: TrainingData, typed: set[str], sets: list[LabelledSet], say: Say
) -> TrainingOptions:
    """The options with an image size and a length that suit the photos, where neither a user nor a preset chose them.

    A run that is resumed keeps what was chosen when it began.
    """
    begun = data.run / "config.json"
    if data.resume and begun.is_file():
        earlier = read_json(begun, "delete the run folder and start again").get("options", {})
        names = {"image_size", "steps", "epochs"} - typed
        if typed & {"steps", "epochs"}:
            names -= {"steps", "epochs"}
        kept = {name: earlier[name] for name in names if name in earlier}
        return options.with_changes(**{k: tuple(v) if isinstance(v, list) else v for k, v in kept.items()})
    if data.preset is not None:
        return options
    if "image_size" not in typed and options.model is None:
        own = photo_size([path for one in sets for path in one.queries.images])
        size = IMAGE_SIZE if own is None else fitting_size(own)
        if size != options.image_size:
            options = options.with_changes(image_size=size)
            say(
                f"images are resized to {size[0]}x{size[1]}, as the photos suggest; `image_size` overrides it"
            )
    epoch = -(-sum(len(one.queries) for one in sets) // options.batch_pairs)
    if not typed & {"steps", "epochs"} and epoch < LEAST_STEPS:
        options = options.with_changes(steps=LEAST_STEPS)
        say(f"{LEAST_STEPS} steps: one epoch of so few photos is {epoch}; `steps` or `epochs` overrides it")
    return options


def training_data(
    data: TrainingData, options: TrainingOptions, progress: Progress | None, say: Say
) -> tuple[list[LabelledSet], Validation | None]:
    """The sets to learn from, labelled now where a preset says how, and what to validate on."""
    validation = _validation(data)  # a mistake in it is said before hours of labelling
    if validation is not None:
        tell_notes(say, [validation.queries, validation.places])
    if data.preset is None:
        one = _own_set(data)
        tell_notes(say, [one.queries, one.places])
        return [one], validation
    if isinstance(data.places, Places) or isinstance(data.labels, PairLabels):
        raise InputError("`preset` reads a whole data set: give folders for `places` and `labels`")
    sets, others = [], []
    for task in preset_tasks(data.preset, data.places):
        if task.held_out:
            others.append(task)
        elif data.only is None or _chosen(task.name, data.only):
            tell_notes(say, [task.queries, task.places])
            sets.append(_labelled(data, task, options, progress))
    if not sets:
        raise InputError(
            f"{data.places}: nothing to train on for `preset={data.preset}` and `only={data.only}`"
        )
    return sets, validation or preset_validation(data.preset, others)


def tell_notes(say: Say, tables: Iterable[Places]) -> None:
    """What the readers had to say about these tables, each line once."""
    for kind, line in told_of(tables):
        say(f"{kind}: {line}")


def _own_set(data: TrainingData) -> LabelledSet:
    assert data.labels is not None  # `asked_for` has seen to it
    queries, places = two_tables(data.places, data.map, data, data)
    return LabelledSet(queries, places, _labels(data.labels))


def _labels(labels: PairLabels | str | Path) -> PairLabels:
    """A label folder, or the folder around it that `samespot label` writes."""
    if isinstance(labels, PairLabels):
        return labels
    inside = Path(labels) / "labels"
    return PairLabels.open(inside if (inside / "meta.json").is_file() else labels)


def _chosen(name: str, only: str) -> bool:
    return any(name == word.strip() or name.startswith(f"{word.strip()}-") for word in only.split(","))


def _labelled(
    data: TrainingData, task: LabelTask, options: TrainingOptions, progress: Progress | None
) -> LabelledSet:
    """Open the labels of a task, or make them. Outdoors, binary batches learn from the preset's binary rule, and the
    loss of Thoma et al. from their soft labels by distance."""
    assert data.preset is not None
    limits, kind = preset_named(data.preset).binary, "labels"
    if limits is not None and strategy_named(options.batches).binary:
        task, kind = replace(task, rule=Within(*limits)), "binary"
    elif limits is not None and options.objective.soft_labels:
        task, kind = replace(task, rule=SoftDistance()), "soft"
    folder = (data.labels or Path("labels")) / task.name / kind
    if not (folder / "meta.json").is_file():
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # processes would write it all at once
            once = (
                f"`samespot label --preset {data.preset}`"
                if kind == "labels"
                else "this training once on one process"
            )
            raise InputError(f"{folder}: no labels yet; make them first with {once}")
        run_task(task, folder, progress)
    return LabelledSet(task.queries, task.places, PairLabels.open(folder))


def _validation(data: TrainingData) -> Validation | None:
    if data.validate is None or data.validate_map is None:
        return None
    how = {name: getattr(data, name) for name in ("projection", "wrap_headings", "missing_images", "frame")}
    queries = as_places(data.validate, **how)
    places = as_places(data.validate_map, **how, onto=queries.projection)
    return Validation.within(queries, places, data.within.metres, data.within.degrees)
