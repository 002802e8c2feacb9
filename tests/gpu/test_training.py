"""A training step on the GPU has the processor's gradient, compiled or not, from whatever its images come."""

import json

import numpy as np
import pytest
import torch

from samespot.devices import pays_to_compile
from samespot.images.sources import FileImages
from samespot.overlap.rules import label_pairs
from samespot.training.batches import Batches
from samespot.training.gradient import Learner
from samespot.training.logbook import read_metrics
from samespot.training.loop import train_network
from samespot.training.network import build_net
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet

CPU = torch.device("cpu")


@pytest.fixture
def street(places) -> LabelledSet:
    return LabelledSet(places, places, label_pairs(places, places))


@pytest.fixture
def options() -> TrainingOptions:
    return TrainingOptions(
        backbone="test_resnet.r160_in1k",
        pretrained=False,
        image_size=(64, 96),
        batch_pairs=8,
        steps=6,
        learning_rate=0.01,
        log_every=1,
        checkpoint_every=3,
        precision="32",
        decode="cpu",
        cache_frozen="no",
        images_in_memory="no",
        compile=False,
        tensorboard=False,
    )


def gradient(options, street, device, half=None):
    """Of one batch, flattened, on the processor."""
    torch.manual_seed(0)
    net = build_net(options).train()
    learner = Learner(net, options, device, half=half)
    batches = Batches([street], options.batches, options.batch_pairs)
    batch = batches(0)
    files = FileImages(batches.images, net.preprocessing, device, decode="cpu")
    stats = learner.backward(batch, files.load(batch.images))
    files.close()
    parts = [p.grad.float().cpu().flatten() for p in net.parameters() if p.grad is not None]
    return torch.cat(parts), float(stats.loss)


def alike(a, b):
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0))


@pytest.mark.parametrize(
    "changes", [{}, {"micro_pairs": 3}, {"batches": "all"}, {"augment": 0.5, "crop": 0.2}]
)
def test_a_step_has_the_processors_gradient(options, street, gpu, changes):
    options = options.with_changes(**changes)
    if options.augment:  # noise is drawn where it is needed, by other generators
        once, again = (gradient(options, street, gpu) for _ in range(2))
        assert alike(once[0], again[0]) > 0.9999
        assert once[1] == pytest.approx(again[1], rel=1e-4)
        return
    expected, loss = gradient(options, street, CPU)
    found, on_gpu = gradient(options, street, gpu)
    assert on_gpu == pytest.approx(loss, rel=1e-3)
    assert alike(found, expected) > 0.999
    assert float(found.norm()) == pytest.approx(float(expected.norm()), rel=0.02)


def test_in_half_precision_it_points_the_same_way(options, street, gpu):
    expected, loss = gradient(options, street, CPU)
    found, on_gpu = gradient(options, street, gpu, torch.bfloat16)
    assert on_gpu == pytest.approx(loss, rel=0.1)
    assert 0.9 < alike(found, expected) < 0.999999  # it did compute in half precision


def test_compiled_it_is_the_same_step(options, street, gpu):
    expected, loss = gradient(options, street, gpu)
    found, compiled = gradient(options.with_changes(compile=True), street, gpu)
    assert compiled == pytest.approx(loss, rel=1e-3)
    assert alike(found, expected) > 0.999


KEPT = [
    {"decode": "gpu"},
    {"images_in_memory": "host"},
    {"images_in_memory": "device"},
    {"cache_frozen": "device"},
    {"cache_frozen": "memory"},
    {"cache_frozen": "file"},
]


def test_wherever_the_images_come_from_the_run_is_the_same(options, street, tmp_path):
    losses = {}
    for changes in ({}, *KEPT):
        run = tmp_path / "-".join(["run", *changes, *changes.values()])
        train_network(options.with_changes(**changes), [street], run)
        losses[run.name] = [record["loss"] for record in read_metrics(run)]
    for name, found in losses.items():
        near = 0.05 if name == "run-decode-gpu" else 1e-3  # nvJPEG rounds in another way
        np.testing.assert_allclose(found, losses["run"], rtol=near, err_msg=name)
    assert len(set(losses["run"])) == 6


def test_what_fits_is_kept_on_the_gpu_and_said(options, street, tmp_path):
    said = []
    free = options.with_changes(cache_frozen="auto", images_in_memory="auto", compile=None)
    train_network(free, [street], tmp_path / "run", say=said.append)
    chosen = json.loads((tmp_path / "run" / "config.json").read_text())["options"]
    assert (chosen["cache_frozen"], chosen["images_in_memory"], chosen["compile"]) == ("device", "no", False)
    assert any("its outputs are kept on the GPU" in line for line in said)
    longer = train_network(free.with_changes(steps=8), [street], tmp_path / "run", resume=True)
    assert longer.steps == 8


def test_a_long_run_pays_for_compiling_where_torch_can(gpu):
    assert not pays_to_compile(None, gpu, 1_000, (480, 640))
    assert pays_to_compile(None, gpu, 10_000_000, (480, 640))
    assert not pays_to_compile(False, gpu, 10_000_000, (480, 640))
    assert not pays_to_compile(None, CPU, 10_000_000, (480, 640))
