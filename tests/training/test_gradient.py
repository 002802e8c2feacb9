"""The gradient of a batch: whole, in parts, or through plain autograd, it is one and the same."""

import numpy as np
import pytest
import torch

from samespot.images.preprocess import Preprocessing
from samespot.images.sources import FileImages, Loaded
from samespot.model.network import PlaceNet
from samespot.training.batches import Batches
from samespot.training.gradient import Learner
from samespot.training.loss import GeneralizedContrastiveLoss
from samespot.training.losses.contrastive import all_pairs_loss
from samespot.training.losses.sare import sare_joint_losses
from samespot.training.losses.triplet import triplet_losses
from samespot.training.mining import Tuples

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def net() -> PlaceNet:
    torch.manual_seed(0)
    net = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(64, 64)).train()
    for module in net.modules():  # statistics that are not 0 and 1, so that folding and freezing them show
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    return net


def learner(net, options, **changes):
    return Learner(net, options.with_changes(**changes), CPU)


def gradient(net) -> torch.Tensor:
    found = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])
    net.zero_grad()
    return found


def batch_and_images(photo_set, strategy, step=0):
    batches = Batches([photo_set], strategy, 6, seed=2)
    batch = batches(step)
    return batch, FileImages(batches.images, PREPROCESSING, CPU).load(batch.images)


def tuples_and_images(photo_set):
    """Six tuples of random photos, three negatives each, of which some are missing."""
    tuples = Tuples([photo_set], 6, seed=2, negatives=3, hard=False, pool=12)
    tuples.mine(0, lambda numbers: None)
    batch = tuples(0)
    assert 0 < (batch.negatives < 0).sum() < 10
    return batch, FileImages(tuples.images, PREPROCESSING, CPU).load(batch.images)


PREPROCESSING = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(64, 64)).preprocessing


def test_pairs_against_plain_autograd(net, tiny, photo_set):
    batch, loaded = batch_and_images(photo_set, "A")
    stats = learner(net, tiny).backward(batch, loaded)
    ours = gradient(net)
    x, y = net(net.preprocessing(loaded.values)).chunk(2)
    loss = GeneralizedContrastiveLoss(0.5)(x, y, torch.from_numpy(batch.similarity))
    loss.backward()
    assert stats.loss.item() == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(ours, gradient(net), rtol=1e-3, atol=1e-6)


def test_all_pairs_against_plain_autograd(net, tiny, photo_set):
    batch, loaded = batch_and_images(photo_set, "all")
    stats = learner(net, tiny, batches="all").backward(batch, loaded)
    ours = gradient(net)
    result = all_pairs_loss(net(net.preprocessing(loaded.values)), torch.from_numpy(batch.in_batch))
    result.loss.backward()
    assert stats.loss.item() == pytest.approx(result.loss.item(), rel=1e-5)
    assert stats.zero.item() == pytest.approx(result.zero_share.item(), abs=1e-7)
    torch.testing.assert_close(ours, gradient(net), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("strategy", ["A", "all"])
@pytest.mark.parametrize("augment", [0.0, 1.0])
def test_micro_batches_have_the_gradient_of_the_whole(net, tiny, photo_set, strategy, augment):
    batch, loaded = batch_and_images(photo_set, strategy)
    changes = {"batches": strategy, "augment": augment, "crop": 0.2 * augment}
    whole = learner(net, tiny, **changes).backward(batch, loaded)
    expected = gradient(net)
    assert expected.abs().max() > 1e-3
    for micro in (1, 4):  # 4 does not divide 6
        parts = learner(net, tiny, micro_pairs=micro, **changes).backward(batch, loaded)
        torch.testing.assert_close(parts.loss, whole.loss, rtol=1e-5, atol=1e-8)
        torch.testing.assert_close(gradient(net), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("strategy", ["A", "all"])
def test_unreadable_images_weigh_nothing(net, tiny, photo_set, strategy):
    batch, loaded = batch_and_images(photo_set, strategy)
    good = np.ones(12, dtype=bool)
    good[[1, 10]] = False  # the query of pair 1, the match of pair 4
    spoilt = loaded.values.clone()
    spoilt[[1, 10]] = 77
    stats = learner(net, tiny, batches=strategy).backward(batch, Loaded(loaded.values, good))
    expected = gradient(net)
    again = learner(net, tiny, batches=strategy).backward(batch, Loaded(spoilt, good))
    assert again.loss.item() == pytest.approx(stats.loss.item(), rel=1e-6)
    torch.testing.assert_close(gradient(net), expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("loss", "losses"), [("triplet", triplet_losses), ("sare-joint", sare_joint_losses)])
def test_tuples_against_plain_autograd(net, tiny, photo_set, loss, losses):
    batch, loaded = tuples_and_images(photo_set)
    stats = learner(net, tiny, loss=loss).backward(batch, loaded)
    ours = gradient(net)
    described = net(net.preprocessing(loaded.values))
    q, p, others = described[:6], described[6:12], described[12:].reshape(6, 3, -1)
    plain = losses(q, p, others, torch.from_numpy(batch.negatives >= 0)).mean()
    plain.backward()
    assert stats.loss.item() == pytest.approx(plain.item(), rel=1e-5)
    torch.testing.assert_close(ours, gradient(net), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("augment", [0.0, 1.0])
def test_tuples_in_micro_batches_have_the_gradient_of_the_whole(net, tiny, photo_set, augment):
    batch, loaded = tuples_and_images(photo_set)
    changes = {"loss": "triplet", "augment": augment, "crop": 0.2 * augment}
    whole = learner(net, tiny, **changes).backward(batch, loaded)
    expected = gradient(net)
    assert expected.abs().max() > 1e-3
    in_parts = learner(net, tiny, micro_pairs=4, **changes)  # 4 does not divide 6
    parts = in_parts.backward(batch, loaded)
    torch.testing.assert_close(parts.loss, whole.loss, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(gradient(net), expected, rtol=1e-3, atol=1e-6)
    assert in_parts.passes == 6 * (2 + 3)


def test_unreadable_images_of_tuples_weigh_nothing(net, tiny, photo_set):
    """A tuple without its query or its positive does not count at all; a negative only itself does not."""
    batch, loaded = tuples_and_images(photo_set)
    tuple_of_a_bad_negative = int(np.flatnonzero((batch.negatives >= 0).all(axis=1))[0])
    whole = [row for row in range(6) if row != tuple_of_a_bad_negative][:2]
    bad = [whole[0], 6 + whole[1], 12 + 3 * tuple_of_a_bad_negative]
    good = np.ones(30, dtype=bool)
    good[bad] = False
    spoilt = loaded.values.clone()
    spoilt[bad] = 77
    stats = learner(net, tiny, loss="triplet").backward(batch, Loaded(spoilt, good))
    found = gradient(net)
    described = net(net.preprocessing(loaded.values))
    counted = batch.negatives >= 0
    counted[tuple_of_a_bad_negative, 0] = False
    losses = triplet_losses(
        described[:6], described[6:12], described[12:].reshape(6, 3, -1), torch.from_numpy(counted)
    )
    expected = losses[[row for row in range(6) if row not in whole]].sum() / 6
    expected.backward()
    assert stats.loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(found, gradient(net), rtol=1e-3, atol=1e-6)


def test_every_forward_pass_is_counted(net, tiny, photo_set):
    batch, loaded = batch_and_images(photo_set, "A")
    pairs = learner(net, tiny)
    pairs.backward(batch, loaded)
    assert pairs.passes == 12
    pairs.describe_loaded(loaded)
    assert pairs.passes == 24
    batch, loaded = batch_and_images(photo_set, "all")
    twice = learner(net, tiny, batches="all", micro_pairs=2)
    twice.backward(batch, loaded)
    assert twice.passes == 24  # once to know the loss, once to carry it back
    gradient(net)


def test_the_frozen_part_has_no_graph_and_keeps_its_statistics(net, tiny, photo_set):
    batch, loaded = batch_and_images(photo_set, "A")
    before = {name: value.clone() for name, value in net.state_dict().items()}
    one = learner(net, tiny)
    features = one.frozen(loaded.values)
    assert not features.requires_grad
    one.backward(batch, loaded)
    frozen = [p for name in ("stem", "layer1", "layer2") for p in net.stages[name].parameters()]
    assert all(p.grad is None for p in frozen)
    assert all(p.grad is not None for p in net.stages["layer4"].parameters())
    gradient(net)
    after = net.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    # folded away: no batch norm is left in the part that is run again and again
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in one.trunk.modules())
    torch.testing.assert_close(features, net.frozen(net.preprocessing(loaded.values)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("channels", "value_range"), [("RGB", 1.0), ("BGR", 255.0)])
def test_images_are_normalised_as_the_model_says(net, tiny, photo_set, monkeypatch, channels, value_range):
    _, loaded = batch_and_images(photo_set, "A")
    other = Preprocessing((64, 64), (0.3, 0.5, 0.6), (0.2, 0.25, 0.3), channels, value_range)
    monkeypatch.setattr(net, "preprocessing", other)
    assert torch.equal(learner(net, tiny)._normalise(loaded.values), other.normalise(loaded.values))


def test_bf16_keeps_descriptors_and_gradients_in_float32(net, tiny, photo_set):
    batch, loaded = batch_and_images(photo_set, "A")
    learner(net, tiny).backward(batch, loaded)
    exact = gradient(net)
    half = Learner(net, tiny, CPU, half=torch.bfloat16)
    assert half.frozen(loaded.values).dtype == torch.bfloat16
    assert half.describe(half.frozen(loaded.values)).dtype == torch.float32
    half.backward(batch, loaded)
    rough = gradient(net)
    assert rough.dtype == torch.float32
    assert torch.cosine_similarity(rough, exact, dim=0) > 0.98
