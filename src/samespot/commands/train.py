"""What a user asks `samespot train` for, turned into labelled sets and a validation."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from samespot.cli.console import refuse_absent_gpu
from samespot.errors import InputError
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import SoftDistance, Within
from samespot.overlap.task import LabelTask, preset_named, preset_tasks, run_task
from samespot.places.catalogue import open_places
from samespot.progress import Progress
from samespot.training.options import TrainingData, TrainingOptions
from samespot.training.presets import preset_options
from samespot.training.sets import LabelledSet
from samespot.training.strategies import strategy_named
from samespot.training.validation import Validation
from samespot.training.validation_sets import preset_validation


def training_options(asked: TrainingData, typed: dict[str, Any]) -> TrainingOptions:
    """The preset's options, or the defaults, with what the user changed."""
    start = None if asked.preset is None else preset_options(asked.preset)
    options = TrainingOptions.of(typed, start)
    options.objective.require_package()  # missed before any work is done
    refuse_absent_gpu(options.device)
    return options


def training_data(
    asked: TrainingData, options: TrainingOptions, progress: Progress | None = None
) -> tuple[list[LabelledSet], Validation | None]:
    """The sets to learn from, labelled now where they are not yet, and what to validate on."""
    if asked.preset is None:
        return [_one_set(asked)], _validation(asked)
    validation = _validation(asked)  # a mistake in it is said before hours of labelling
    sets, others = [], []
    for task in preset_tasks(asked.preset, asked.places):
        if task.held_out:
            others.append(task)
        elif asked.only is None or _chosen(task.name, asked.only):
            sets.append(_labelled(asked, task, options, progress))
    if not sets:
        raise InputError(
            f"{asked.places}: nothing to train on for `preset={asked.preset}` and `only={asked.only}`"
        )
    return sets, validation or preset_validation(asked.preset, others)


def _one_set(asked: TrainingData) -> LabelledSet:
    if asked.labels is None:
        raise InputError("`labels` is missing: the folder that `samespot label` wrote for these places")
    queries = open_places(asked.places)
    places = queries if asked.map is None else open_places(asked.map, onto=queries.projection)
    return LabelledSet(queries, places, PairLabels.open(asked.labels))


def _chosen(name: str, only: str) -> bool:
    return any(name == word.strip() or name.startswith(f"{word.strip()}-") for word in only.split(","))


def _labelled(
    asked: TrainingData, task: LabelTask, options: TrainingOptions, progress: Progress | None
) -> LabelledSet:
    """Open the labels of a task, or make them. Outdoors, binary batches learn from the preset's binary rule, and the
    loss of Thoma et al. from their soft labels by distance."""
    assert asked.preset is not None
    limits, kind = preset_named(asked.preset).binary, "labels"
    if limits is not None and strategy_named(options.batches).binary:
        task, kind = replace(task, rule=Within(*limits)), "binary"
    elif limits is not None and options.objective.soft_labels:
        task, kind = replace(task, rule=SoftDistance()), "soft"
    folder = (asked.labels or Path("labels")) / task.name / kind
    if not (folder / "meta.json").is_file():
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # processes would write it all at once
            once = (
                f"`samespot label --preset {asked.preset}`"
                if kind == "labels"
                else "this training once on one process"
            )
            raise InputError(f"{folder}: no labels yet; make them first with {once}")
        run_task(task, folder, progress)
    return LabelledSet(task.queries, task.places, PairLabels.open(folder))


def _validation(asked: TrainingData) -> Validation | None:
    if asked.validate is None or asked.validate_map is None:
        return None
    queries = open_places(asked.validate)
    places = open_places(asked.validate_map, onto=queries.projection)
    return Validation.within(queries, places, asked.within.metres, asked.within.degrees)
