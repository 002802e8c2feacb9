"""What a run learns from and is validated on, opened and checked before torch is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.model.naming import named_model, refuse_no_weights
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import SoftDistance, Within
from samespot.overlap.task import LabelTask, preset_named, preset_tasks, run_task
from samespot.places.catalogue import as_places
from samespot.places.options import two_tables
from samespot.places.table import Places
from samespot.places.wording import told_of
from samespot.progress import Progress
from samespot.training.options import TrainingData, TrainingOptions, asked_for
from samespot.training.run_folder import Say, refuse_another_run, said_once
from samespot.training.sets import LabelledSet
from samespot.training.strategies import strategy_named
from samespot.training.validation_sets import Validation, preset_validation


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that a run begins with, but a network."""

    data: TrainingData
    options: TrainingOptions
    typed: frozenset[str]  # names of what was given
    sets: list[LabelledSet]
    validation: Validation | None


def prepared(typed: Mapping[str, Any], progress: Progress | None = None, say: Say | None = None) -> Prepared:
    """What was given, by name, and what it names; one line for what cannot be learned from, or not here."""
    data, options = asked_for(typed)
    if options.model is not None:
        named_model(options.model, options.weights)
    elif options.weights is not None:
        refuse_no_weights(Path(options.weights))
    options.objective.require_package()
    known = options.to_dict()
    refuse_another_run(data.run, data.resume, {name: known[name] for name in typed if name in known})
    sets, validation = training_data(data, options, progress, said_once(say))
    return Prepared(data, options, frozenset(typed), sets, validation)


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
