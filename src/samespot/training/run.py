"""The front door: `samespot.train`, from places and labels in whatever form to a run folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from samespot.devices import device_named
from samespot.files import read_json
from samespot.images.options import IMAGE_SIZE
from samespot.options import ineffective
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.training.drawn import PAIRS, save_counts
from samespot.training.loop import train_network
from samespot.training.options import TrainingData, TrainingOptions, asked_for
from samespot.training.planning import LEAST_STEPS, fitting_size, photo_size
from samespot.training.prepared import Prepared, prepared
from samespot.training.run_folder import Say, TrainingResult, said_once
from samespot.training.sets import LabelledSet
from samespot.training.validation_sets import Validation


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
    typed = {"places": places, "labels": labels, "run": run, "resume": resume, **options}
    asked = asked_for(typed)[1]
    device_named(asked.device, asked.decode)  # missed before any work is done
    return train_prepared(prepared(typed, progress, say), validation, progress, say)


def train_prepared(
    begun: Prepared,
    validation: Validation | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
) -> TrainingResult:
    """The same with what was opened and checked."""
    data, asked = begun.data, begun.options
    asked = suited(asked, data, set(begun.typed), begun.sets, said_once(say))
    result = train_network(
        asked,
        begun.sets,
        data.run,
        resume=data.resume,
        validation=validation or begun.validation,
        progress=progress,
        say=say,
    )
    # tuples depend on the weights: there is nothing to draw again
    if asked.kind != "tuples" and os.environ.get("RANK", "0") == "0":
        shown = min(PAIRS, result.pairs)
        save_counts(begun.sets, data.run / "batches.json", [asked.batches], shown, options=asked)
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
