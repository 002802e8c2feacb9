"""Losses of whole batches inside a training: their gradient through the network, and what a model says of them."""

import contextlib

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.images.sources import FileImages, Loaded
from samespot.model.network import PlaceNet
from samespot.training import multi_similarity_loss
from samespot.training.batches import batches_of
from samespot.training.gradient import Learner
from samespot.training.objectives import OBJECTIVES, model_notes, objective_of
from samespot.training.options import BATCH_LOSSES, TrainingOptions
from samespot.training.trainer import build_net, train

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def net() -> PlaceNet:
    torch.manual_seed(0)
    return PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(64, 64)).train()


def needed(loss: str) -> None:
    if loss == "multi-similarity":
        pytest.importorskip("pytorch_metric_learning")


def gradient(net: PlaceNet) -> torch.Tensor:
    found = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])
    net.zero_grad()
    return found


def batch_and_images(options, photo_set, net):
    batches = batches_of(options, [photo_set])
    batch = batches(0)
    return batch, FileImages(batches.images, net.preprocessing, CPU).load(batch.images)


@pytest.mark.parametrize("loss", BATCH_LOSSES)
def test_micro_batches_have_the_gradient_of_plain_autograd(net, tiny, photo_set, loss):
    needed(loss)
    options = tiny.with_changes(loss=loss)
    batch, loaded = batch_and_images(options, photo_set, net)
    descriptors = net(net.preprocessing(loaded.values))
    plain = objective_of(options).batch(descriptors, torch.from_numpy(batch.in_batch), options)
    plain.loss.backward()
    expected = gradient(net)
    assert expected.abs().max() > 1e-4
    for micro in (None, 4):  # 4 does not divide 6
        parts = options.with_changes(micro_pairs=micro)
        stats = Learner(net, parts, CPU, contextlib.nullcontext).backward(batch, loaded)
        assert stats.loss.item() == pytest.approx(plain.loss.item(), rel=1e-4)
        assert stats.zero.item() == pytest.approx(plain.zero_share.item(), abs=1e-6)
        torch.testing.assert_close(
            gradient(net), expected, rtol=1e-2, atol=1e-3 * float(expected.abs().max())
        )


@pytest.mark.parametrize("loss", BATCH_LOSSES)
def test_unreadable_images_weigh_nothing(net, tiny, photo_set, loss):
    needed(loss)
    options = tiny.with_changes(loss=loss)
    batch, loaded = batch_and_images(options, photo_set, net)
    good = np.ones(12, dtype=bool)
    good[[1, 10]] = False
    spoilt = loaded.values.clone()
    spoilt[[1, 10]] = 77
    losses = [
        Learner(net, options, CPU, contextlib.nullcontext).backward(batch, Loaded(values, good)).loss.item()
        for values in (loaded.values, spoilt)
    ]
    net.zero_grad()
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("loss", BATCH_LOSSES)
def test_a_run_lowers_the_loss_and_goes_on_where_it_was(tiny, photo_set, tmp_path, loss):
    needed(loss)
    options = tiny.with_changes(
        loss=loss,
        steps=8,
        checkpoint_every=4,
        batch_pairs=16,  # nearly the whole street, so that batches are alike
        learning_rate=0.02,
        images_in_memory="host",
        train_blocks="all",
    )
    train(options, [photo_set], tmp_path / "whole", progress=False)
    torch.manual_seed(options.seed)
    start, end = build_net(options).eval(), PlaceNet.load(tmp_path / "whole" / "last")
    batch, loaded = batch_and_images(options, photo_set, end)
    before, after = (loss_of(options, batch, net(net.preprocessing(loaded.values))) for net in (start, end))
    assert after < before
    for steps in (4, 8):
        part = options.with_changes(steps=steps)
        train(part, [photo_set], tmp_path / "parts", progress=False, resume=steps > 4)
    parts = PlaceNet.load(tmp_path / "parts" / "last").state_dict()
    assert all(torch.equal(parts[name], value) for name, value in end.state_dict().items())
    assert any(f"trained with the loss {loss}" in note for note in end.notes)


def loss_of(options, batch, descriptors) -> float:
    with torch.no_grad():
        return objective_of(options).batch(descriptors, torch.from_numpy(batch.in_batch), options).loss.item()


def test_each_loss_has_one_function_and_a_source():
    for one in OBJECTIVES.values():
        assert sum(f is not None for f in (one.pairs, one.batch, one.tuples)) == 1
        assert one.source
    for loss in BATCH_LOSSES:
        assert OBJECTIVES[loss].kind == "batch"


def test_a_model_says_what_its_distances_mean():
    ap = model_notes(("of a file",), TrainingOptions(loss="ap"))
    assert ap[0] == "of a file"
    assert ap[1].startswith(
        "trained with the loss ap (Revaud et al. 2019): 1 − d/τ does not predict the overlap"
    )
    assert model_notes(ap, TrainingOptions(loss="ap")) == ap
    assert model_notes(ap, TrainingOptions()) == ("of a file",)  # trained again, with a margin


def test_a_loss_whose_package_is_absent_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(multi_similarity_loss, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs pytorch-metric-learning"):
        objective_of(TrainingOptions(loss="multi-similarity"))
