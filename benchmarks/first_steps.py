"""How long is the first step of each loss, for a rate of 1? The first rates of `--loss` come from it.

    python benchmarks/first_steps.py CAMPUS --weights vgg16.safetensors        ten minutes on two cores

VGG16-GeM on 400 neighbouring campus photos at 224 pixels: one step of plain SGD with each loss and the batches that
fit it, 64 pairs or ten mined tuples. The length is that of the change of all weights, over the rate.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from samespot.images.sources import Source
from samespot.model.network import PlaceNet
from samespot.overlap.rules import label_by_distance, label_pairs
from samespot.overlap.task import preset_tasks
from samespot.training.loop import train_network
from samespot.training.losses import losses
from samespot.training.network import build_net
from samespot.training.options import GRADED_RATE, preset_options
from samespot.training.sets import LabelledSet

PHOTOS, TUPLES, RATE = 400, 10, 1e-3


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("campus", type=Path)
    arguments.add_argument("--weights", type=Path, required=True)
    given = arguments.parse_args()
    every = next(
        task for task in preset_tasks("campus", given.campus, "error") if task.name == "train"
    ).queries
    photos = every.select(np.argsort(every.positions[:, 0])[:PHOTOS])
    labels = {
        "graded": label_pairs(photos, photos, 90.0, 30.0),
        "distance": label_by_distance(photos, photos),
    }
    sets = {kind: [LabelledSet(photos, photos, one)] for kind, one in labels.items()}
    base = preset_options("campus", weights=str(given.weights), device="cpu", learning_rate=RATE, steps=1)
    base = base.with_changes(images_in_memory="no", cache_frozen="memory", tensorboard=False)
    shared: dict[str, Source] = {}
    print("| loss | first step / rate | first rate | step at it |\n|---|---:|---:|---:|")
    for loss, record in losses().items():
        few = {"batch_pairs": TUPLES, "mine_every": 40, "mine_pool": 300} if record.kind == "tuples" else {}
        options = base.with_changes(loss=loss, batches="auto", **few)
        kind = "distance" if loss == "soft-contrastive" else "graded"
        with tempfile.TemporaryDirectory() as run:
            done = train_network(options, sets[kind], run, shared=shared)
            assert done.model is not None
            before, after = build_net(options).state_dict(), PlaceNet.load(done.model).state_dict()
        changes = [(after[name] - before[name]).double().square().sum().item() for name in before]
        length, rate = sum(changes) ** 0.5 / RATE, record.rate or GRADED_RATE
        print(f"| {loss} | {length:.2f} | {rate:g} | {rate * length:.3f} |", flush=True)


if __name__ == "__main__":
    main()
