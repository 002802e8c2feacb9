"""What a user asks `samespot train` for, turned into labelled sets and a validation."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samespot.commands.words import flag_of, parse_size, refuse_absent_gpu, refuse_ineffective
from samespot.errors import InputError
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import SoftDistance, Within, parse_within
from samespot.overlap.task import LabelTask, preset_named, preset_tasks, run_task
from samespot.places.catalogue import open_places
from samespot.progress import Progress
from samespot.training.loss import parse_class_weights
from samespot.training.objectives import objective_of
from samespot.training.options import TUPLE_LOSSES, TrainingOptions
from samespot.training.presets import preset_options
from samespot.training.sets import LabelledSet
from samespot.training.strategies import strategy_named
from samespot.training.validation import Validation
from samespot.training.validation_sets import preset_validation

WITHIN = "25m"


@dataclass(frozen=True)
class TrainRequest:
    """Where the photos and their labels are. Options of the training itself are `TrainingOptions`."""

    places: Path
    map: Path | None = None
    labels: Path | None = None  # a label folder; with a preset, the folder of all its label folders
    preset: str | None = None
    only: str | None = None  # of a preset: these sets, e.g. "london,paris" or "heads"
    validate: Path | None = None  # queries
    validate_map: Path | None = None
    within: str | None = None  # what counts as found there; WITHIN where nothing was typed

    def __post_init__(self) -> None:
        """Whatever can be known to be wrong before a file is read."""
        if self.preset is None:
            refuse_ineffective(self, ("only",), "without --preset")
        else:
            refuse_ineffective(self, ("map",), f"with --preset {self.preset}")
        if self.validate is None:
            refuse_ineffective(self, ("validate_map", "within"), "without --validate")
        elif self.validate_map is None:
            raise InputError("--validate needs --validate-map, the images to find its queries among")
        parse_within(self.within or WITHIN)


def training_options(asked: TrainRequest, changes: dict[str, Any]) -> TrainingOptions:
    """The preset's options, or the defaults, with what the user changed."""
    start = TrainingOptions() if asked.preset is None else preset_options(asked.preset)
    options = start.with_changes(**_make_way(changes), **changes)
    _refuse_ineffective(options, changes)
    objective_of(options)  # a package that the loss needs is missed before any work is done
    refuse_absent_gpu(options.device)
    return options


def _make_way(changes: dict[str, Any]) -> dict[str, Any]:
    """What a preset or a default says the other way round gives way to what was typed."""
    rivals = {"epochs": "steps", "drop_pairs": "drop_epochs", "drop_epochs": "drop_pairs"}
    return {rivals[name]: None for name in changes if name in rivals and rivals[name] not in changes}


def _refuse_ineffective(options: TrainingOptions, changes: dict[str, Any]) -> None:
    """Raise for what was typed and would do nothing; values of a preset or default may lie idle."""
    typed = SimpleNamespace(**{field.name: field.name in changes for field in fields(options)})
    if typed.steps:
        refuse_ineffective(typed, ("epochs",), "with --steps")
    if options.schedule != "step":
        drops = ("drop_pairs", "drop_epochs", "drop_factor")
        refuse_ineffective(typed, drops, f"with --schedule {options.schedule}")
    if typed.drop_epochs:
        refuse_ineffective(typed, ("drop_pairs",), "with --drop-epochs")
    if options.optimiser != "sgd":
        refuse_ineffective(typed, ("momentum",), f"with --optimiser {options.optimiser}")
    if not strategy_named(options.batches).all_pairs:
        refuse_ineffective(typed, ("class_weights",), f"with --batches {options.batches}, only with all")
    _refuse_of_other_losses(options, typed)
    if options.order != "refill":
        refuse_ineffective(typed, ("refill",), f"with --order {options.order}")
    if options.model is not None:
        network = ("backbone", "pool", "weights", "pretrained")
        refuse_ineffective(typed, network, "with --model, whose folder holds a whole network")


def _refuse_of_other_losses(options: TrainingOptions, typed: SimpleNamespace) -> None:
    with_loss = f"with --loss {options.loss}"
    if options.loss in TUPLE_LOSSES:
        refuse_ineffective(typed, ("batches", "order", "refill"), f"{with_loss}, whose tuples are mined")
    else:
        tuples = ("negatives", "mining", "mine_every", "mine_pool")
        refuse_ineffective(typed, tuples, f"{with_loss}, only with {', '.join(TUPLE_LOSSES)}")
    if options.loss != "contrastive":
        refuse_ineffective(typed, ("margin", "class_weights"), f"{with_loss}, only with contrastive")
    if options.loss != "ap":
        refuse_ineffective(typed, ("ap_bins",), f"{with_loss}, only with ap")
    if options.loss != "triplet":
        refuse_ineffective(typed, ("triplet_margin",), f"{with_loss}, only with triplet")


def option_changes(given: dict[str, Any]) -> dict[str, Any]:
    """The training options among what was given on the command line, its words turned into values."""
    parsers: dict[str, Callable[[str], Any]] = {
        "image_size": parse_size,
        "class_weights": parse_class_weights,
        "train_blocks": lambda words: words if words == "all" else int(words),
        "pretrained": lambda words: {"yes": True, "no": False}.get(words, words),
    }
    names = {field.name for field in fields(TrainingOptions)}
    changes = {name: value for name, value in given.items() if name in names}
    for name, parse in parsers.items():
        if name in changes:
            try:
                changes[name] = parse(changes[name])
            except InputError:
                raise
            except ValueError:
                raise InputError(
                    f"{flag_of(name)} {changes[name]!r} is not understood; see samespot train --help"
                ) from None
    return changes


def training_data(
    asked: TrainRequest, options: TrainingOptions, progress: Progress | None = None
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
            f"{asked.places}: nothing to train on for --preset {asked.preset} --only {asked.only}"
        )
    return sets, validation or preset_validation(asked.preset, others)


def _one_set(asked: TrainRequest) -> LabelledSet:
    if asked.labels is None:
        raise InputError("--labels is missing: the folder that `samespot label` wrote for these places")
    queries = open_places(asked.places)
    places = queries if asked.map is None else open_places(asked.map, onto=queries.projection)
    return LabelledSet(queries, places, PairLabels.open(asked.labels))


def _chosen(name: str, only: str) -> bool:
    return any(name == word.strip() or name.startswith(f"{word.strip()}-") for word in only.split(","))


def _labelled(
    asked: TrainRequest, task: LabelTask, options: TrainingOptions, progress: Progress | None
) -> LabelledSet:
    """Open the labels of a task, or make them. Outdoors, binary batches learn from the preset's binary rule, and the
    loss of Thoma et al. from their soft labels by distance."""
    assert asked.preset is not None
    limits, kind = preset_named(asked.preset).binary, "labels"
    if limits is not None and strategy_named(options.batches).binary:
        task, kind = replace(task, rule=Within(*limits)), "binary"
    elif limits is not None and options.loss == "soft-contrastive":
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


def _validation(asked: TrainRequest) -> Validation | None:
    if asked.validate is None or asked.validate_map is None:
        return None
    queries = open_places(asked.validate)
    places = open_places(asked.validate_map, onto=queries.projection)
    limits = parse_within(asked.within or WITHIN)
    return Validation.within(queries, places, limits.metres, limits.degrees)
