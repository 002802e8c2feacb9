"""A run that is killed without warning and resumed ends with the very weights of one that was not."""

import json
import os
import signal
import time

import pytest
import torch

from samespot.model.checkpoint import read_tensors
from samespot.training.checkpoints import Checkpoints
from samespot.training.gradient import Learner
from samespot.training.logbook import read_metrics
from samespot.training.loop import train_network
from samespot.training.stopping import TrainingStopped
from tests import warm

SLOW_RUN = """
import json, sys, time
import torch
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places
from samespot.training.gradient import Learner
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet
from samespot.training.loop import train_network
given = json.loads(sys.argv[1])
torch.set_num_threads(given["threads"])
table = Places.read(given["places"])
street = LabelledSet(table, table, PairLabels.open(given["labels"]))
quick = Learner.backward
def slow(self, batch, loaded):
    time.sleep(0.15)
    return quick(self, batch, loaded)
Learner.backward = slow
train_network(TrainingOptions.from_dict(given["options"]), [street], given["run"])
"""


def start_run(options, photo_set, folder, run):
    photo_set.labels.save(folder / "labels")
    photo_set.queries.save(photo_set.queries.root / "places.csv")
    given = {
        "options": options.to_dict(),
        "places": str(photo_set.queries.root / "places.csv"),
        "labels": str(folder / "labels"),
        "run": str(run),
    }
    # as many threads as here: the order of a sum, and so its last bit, may depend on their number
    given["threads"] = torch.get_num_threads()
    return warm.Popen(["-c", SLOW_RUN, json.dumps(given)])


def wait_for_step(process, run, step):
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the run ended by itself: {process.stderr.read()}")
        if any(record["step"] >= step for record in read_metrics(run)):
            return
        time.sleep(0.02)
    raise AssertionError("the run did not get so far")


def tensors_of(run):
    return read_tensors(run / "last" / "model.safetensors")[0]


# tuples in stretches of 3 steps: the checkpoint of step 4 is in the midst of one
TUPLES = {"loss": "triplet", "batch_pairs": 4, "negatives": 2, "mine_pool": 8}


@pytest.mark.parametrize("changes", [{"batches": "A"}, TUPLES], ids=["A", "tuples"])
def test_kill_9_and_resume_is_bit_for_bit_the_unbroken_run(tiny, photo_set, tmp_path, changes):
    # momentum, augmentation and a rate that drops midway: all of it must come back
    options = tiny.with_changes(
        **changes,
        steps=12,
        checkpoint_every=4,
        momentum=0.9,
        augment=1.0,
        drop_pairs=40,
        on_bad_image="skip",
    )
    train_network(options, [photo_set], tmp_path / "unbroken")
    run = tmp_path / "killed"
    process = start_run(options, photo_set, tmp_path, run)
    wait_for_step(process, run, 6)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    kept = Checkpoints(run / "checkpoints").steps()
    assert kept
    assert kept[-1] < 12
    assert not (run / "last").exists()

    result = train_network(options, [photo_set], run, resume=True)
    assert result.steps == 12
    unbroken, resumed = tensors_of(tmp_path / "unbroken"), tensors_of(run)
    assert unbroken.keys() == resumed.keys()
    assert all(torch.equal(unbroken[name], resumed[name]) for name in unbroken)

    def facts(folder):
        timed = ("pairs_per_second", "mining_seconds")
        return [{k: v for k, v in m.items() if k not in timed} for m in read_metrics(folder)]

    assert facts(run) == facts(tmp_path / "unbroken")


@pytest.mark.parametrize("changes", [{"batches": "all"}, TUPLES], ids=["all", "tuples"])
def test_any_step_can_be_the_last_one(tiny, photo_set, tmp_path, monkeypatch, changes):
    """The same without a process: the run breaks off at each step in turn, also between two logs."""
    options = tiny.with_changes(steps=7, checkpoint_every=2, log_every=3, images_in_memory="host", **changes)
    train_network(options, [photo_set], tmp_path / "unbroken")
    expected, losses = (
        tensors_of(tmp_path / "unbroken"),
        [m["loss"] for m in read_metrics(tmp_path / "unbroken")],
    )
    quick = Learner.backward
    for broken_at in (1, 4):

        def breaks(self, batch, loaded, at=broken_at):
            if batch.step == at:
                raise KeyboardInterrupt
            return quick(self, batch, loaded)

        run = tmp_path / str(broken_at)
        monkeypatch.setattr(Learner, "backward", breaks)
        with pytest.raises(KeyboardInterrupt):
            train_network(options, [photo_set], run)
        monkeypatch.setattr(Learner, "backward", quick)
        train_network(options, [photo_set], run, resume=True)
        resumed = tensors_of(run)
        assert all(torch.equal(expected[name], resumed[name]) for name in expected)
        assert [m["loss"] for m in read_metrics(run)] == losses


def test_a_polite_stop_keeps_the_step_it_was_at(tiny, photo_set, tmp_path, monkeypatch):
    quick = Learner.backward

    def asked_to_stop(self, batch, loaded):
        if batch.step == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return quick(self, batch, loaded)

    monkeypatch.setattr(Learner, "backward", asked_to_stop)
    with pytest.raises(TrainingStopped, match="stopped at step 2, as asked"):
        train_network(tiny, [photo_set], tmp_path / "run")
    assert Checkpoints(tmp_path / "run" / "checkpoints").steps() == [2]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
