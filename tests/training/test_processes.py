"""Two processes that share each batch learn what one process learns from it."""

import json

import numpy as np
import pytest
import torch

from samespot.model.checkpoint import read_tensors
from samespot.training.checkpoints import Checkpoints
from samespot.training.logbook import read_metrics
from samespot.training.loop import train_network
from samespot.training.validation_sets import Validation
from tests import warm

BOTH = """
import json, sys
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet
from samespot.training.loop import train_network
from samespot.training.validation_sets import Validation
given = json.loads(sys.argv[1])
table = Places.read(given["places"])
street = LabelledSet(table, table, PairLabels.open(given["labels"]))
found = Validation.within(table.select([0, 4, 8]), table.select([1, 2, 3, 5, 6, 7, 9, 10, 11]), 13.0, ks=(1, 5))
for name, options in given["options"].items():
    run = given["folder"] + "/" + name
    train_network(TrainingOptions.from_dict(options), [street], run, validation=found)
"""


ONE_IS_ASKED = """
import json, os, signal, sys
from pathlib import Path
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places
from samespot.training.stopping import TrainingStopped
from samespot.training.gradient import Learner
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet
from samespot.training.loop import train_network
given = json.loads(sys.argv[1])
table = Places.read(given["places"])
street = LabelledSet(table, table, PairLabels.open(given["labels"]))
rank = os.environ["RANK"]
quick = Learner.backward
def asked(self, batch, loaded):
    if rank == "1" and batch.step == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    return quick(self, batch, loaded)
Learner.backward = asked
try:
    train_network(TrainingOptions.from_dict(given["options"]), [street], given["folder"] + "/run")
except TrainingStopped as error:
    Path(given["folder"], "said-" + rank).write_text(str(error))
"""


def run_twice(script, given, folder):
    """Let two processes run a script."""
    (folder / "both.py").write_text(script)
    done = warm.twice(folder / "both.py", json.dumps(given))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def two_processes(tiny, photo_set, tmp_path_factory):
    """Runs by name: options, and the folder where two processes have run them."""
    folder = tmp_path_factory.mktemp("two")
    photo_set.labels.save(folder / "labels")
    photo_set.queries.save(photo_set.queries.root / "places.csv")
    short = tiny.with_changes(steps=4, validate_every=2)
    options = {
        "pairs": short,
        "all": short.with_changes(batches="all", micro_pairs=2, augment=1.0),
        "tuples": short.with_changes(
            loss="triplet", batch_pairs=4, negatives=2, mine_pool=8, micro_pairs=1, augment=1.0
        ),
        "cached": short.with_changes(cache_frozen="file"),
        "ap": short.with_changes(loss="ap", micro_pairs=2),
        "netvlad": short.with_changes(pool="netvlad4", learning_rate=0.01),
    }
    given = {
        "options": {name: one.to_dict() for name, one in options.items()},
        "places": str(photo_set.queries.root / "places.csv"),
        "labels": str(folder / "labels"),
        "folder": str(folder),
    }
    run_twice(BOTH, given, folder)
    return options, folder


@pytest.mark.parametrize("name", ["pairs", "all", "tuples", "cached", "ap", "netvlad"])
def test_the_same_losses_and_weights_as_one_process(two_processes, photo_set, tmp_path, name):
    options, folder = two_processes
    table = photo_set.queries
    places = table.select([1, 2, 3, 5, 6, 7, 9, 10, 11])
    found = Validation.within(table.select([0, 4, 8]), places, 13.0, ks=(1, 5))
    train_network(options[name], [photo_set], tmp_path / "one", validation=found)
    one, two = read_metrics(tmp_path / "one"), read_metrics(folder / name)
    assert [m["step"] for m in one] == [m["step"] for m in two]  # one process writes, not both
    for key in ("loss", "zero_losses", "learning_images", "mining_images", "recall@1", "recall@5"):
        np.testing.assert_allclose(
            [m[key] for m in two if key in m], [m[key] for m in one if key in m], rtol=2e-5
        )
    ours, theirs = (
        read_tensors(f / "last" / "model.safetensors")[0] for f in (tmp_path / "one", folder / name)
    )
    for key, tensor in ours.items():
        torch.testing.assert_close(theirs[key], tensor, rtol=1e-4, atol=1e-6)


def test_the_run_says_how_many_processes_it_had(two_processes):
    _, folder = two_processes
    assert json.loads((folder / "pairs" / "config.json").read_text())["resolved"]["processes"] == 2


def test_all_processes_stop_where_one_is_asked_to(tiny, photo_set, tmp_path):
    photo_set.labels.save(tmp_path / "labels")
    photo_set.queries.save(photo_set.queries.root / "places.csv")
    given = {
        "options": tiny.with_changes(steps=9, log_every=3, checkpoint_every=100).to_dict(),
        "places": str(photo_set.queries.root / "places.csv"),
        "labels": str(tmp_path / "labels"),
        "folder": str(tmp_path),
    }
    run_twice(ONE_IS_ASKED, given, tmp_path)
    for rank in (0, 1):  # asked in step 2, agreed at the next logged one
        assert "stopped at step 3, as asked" in (tmp_path / f"said-{rank}").read_text()
    assert Checkpoints(tmp_path / "run" / "checkpoints").steps() == [3]
