"""`samespot train`."""

from __future__ import annotations

from typing import Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command
from samespot.options import split
from samespot.training.options import TrainingData, TrainingOptions


@command(app, TrainingData, TrainingOptions)
def train(typed: dict[str, Any]) -> Any:
    """Train a network on labelled photos. One run is one folder; --resume continues an interrupted run.

    Many GPUs: torchrun --nproc_per_node=8 -m samespot train ...
    """
    typed_data, typed_options = split(typed, TrainingData, TrainingOptions)
    asked = TrainingData.of(typed_data)
    from samespot.commands.train import training_data, training_options

    options = training_options(asked, typed_options)
    from samespot.figures.batch_histogram import PAIRS, batch_histogram, save_histograms
    from samespot.training.trainer import train as train_network

    with console.progress_bar() as progress:
        sets, validation = training_data(asked, options, progress)
    run = asked.run
    result = train_network(options, sets, run, resume=asked.resume, validation=validation, say=console.say)
    if console.first_process():
        console.training_table(result)
        drawn = None
        if options.kind != "tuples":  # their tuples depend on the weights: nothing to draw again
            # of these batches only: the labels of a run need not hold what the other strategies draw
            shown = min(PAIRS, result.pairs)
            drawn = batch_histogram(sets, run / "batches.png", [options.batches], shown, options=options)
            save_histograms(sets, run / "batches.json", [options.batches], shown, options=options)
        console.files_written([f for f in (result.model, drawn) if f])
    return result.to_dict()
