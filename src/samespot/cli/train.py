"""`samespot train`."""

from __future__ import annotations

from typing import Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command, flags_of, with_flags
from samespot.places.catalogue import data_set, refuse_absent
from samespot.training.options import TrainingData, TrainingOptions, asked_for


@command(app, TrainingData, TrainingOptions)
def train(typed: dict[str, Any]) -> Any:
    """Train a network on labelled photos. One run is one folder; --resume continues an interrupted run.

    Many GPUs: torchrun --nproc_per_node=8 -m samespot train ...
    """
    data, options = asked_for(typed)
    console.refuse_absent_device(options.device, options.decode)
    if data.preset is None:
        refuse_absent(data.places)
    else:
        data_set(data.preset).refuse_absent(data.places)
    from samespot.training.prepared import prepared

    flags = flags_of(TrainingData, TrainingOptions)

    def say(line: str) -> None:
        console.say(with_flags(line, flags))

    with console.progress_bar() as progress:
        begun = prepared(typed, progress, say)
        from samespot.training.run import train_prepared  # what was wrong is told: torch may be loaded

        result = train_prepared(begun, progress=progress, say=say)
    result.warnings = [with_flags(line, flags) for line in result.warnings]
    if console.first_process():
        console.training_table(result)
        files = [result.model]
        if (result.run / "batches.json").is_file():
            from samespot.figures.batch_histogram import plot_histograms
            from samespot.training.drawn import read_counts

            drawn = read_counts(result.run / "batches.json")
            files.append(plot_histograms(drawn, result.run / "batches.png"))
        console.files_written([file for file in files if file])
        _hint(data)
    return result.to_dict()


def _hint(data: TrainingData) -> None:
    """To evaluate by the protocol of a preset, on the photos of the validation, or on those that `samespot split` put
    beside the training photos."""
    if data.preset is not None:
        first = data_set(data.preset).protocols[0]
        console.next_step(
            "evaluate", data.run, first, "--root", data.places, "--out", data.run / "evaluation"
        )
        return
    queries, places = data.validate, data.validate_map
    if queries is None or places is None:
        queries, places = data.places.parent / "query.csv", data.places.parent / "map.csv"
        if not (queries.is_file() and places.is_file()):
            return
    tables = "--map", places, "--queries", queries
    console.next_step("evaluate", data.run, *tables, "--out", data.run / "evaluation")
