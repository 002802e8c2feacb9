"""The losses by name; those of whole batches inside a training, and what a model says of them."""

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.images.sources import FileImages, Loaded
from samespot.model.network import PlaceNet
from samespot.training import losses as registry
from samespot.training.batches import batches_of
from samespot.training.gradient import Learner
from samespot.training.loop import train_network
from samespot.training.losses import Loss, loss_names, losses
from samespot.training.network import build_net
from samespot.training.options import TrainingOptions

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


@pytest.mark.parametrize("loss", loss_names("batch"))
def test_micro_batches_have_the_gradient_of_plain_autograd(net, tiny, photo_set, loss):
    needed(loss)
    options = tiny.with_changes(loss=loss)
    batch, loaded = batch_and_images(options, photo_set, net)
    descriptors = net(net.preprocessing(loaded.values))
    plain = batch_loss(options, batch, descriptors)
    plain.loss.backward()
    expected = gradient(net)
    assert expected.abs().max() > 1e-4
    for micro in (None, 4):  # 4 does not divide 6
        parts = options.with_changes(micro_pairs=micro)
        stats = Learner(net, parts, CPU).backward(batch, loaded)
        assert stats.loss.item() == pytest.approx(plain.loss.item(), rel=1e-4)
        assert stats.zero.item() == pytest.approx(plain.zero_share.item(), abs=1e-6)
        torch.testing.assert_close(
            gradient(net), expected, rtol=1e-2, atol=1e-3 * float(expected.abs().max())
        )


@pytest.mark.parametrize("loss", loss_names("batch"))
def test_unreadable_images_weigh_nothing(net, tiny, photo_set, loss):
    needed(loss)
    options = tiny.with_changes(loss=loss)
    batch, loaded = batch_and_images(options, photo_set, net)
    good = np.ones(12, dtype=bool)
    good[[1, 10]] = False
    spoilt = loaded.values.clone()
    spoilt[[1, 10]] = 77
    losses = [
        Learner(net, options, CPU).backward(batch, Loaded(values, good)).loss.item()
        for values in (loaded.values, spoilt)
    ]
    net.zero_grad()
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("loss", loss_names("batch"))
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
    train_network(options, [photo_set], tmp_path / "whole")
    torch.manual_seed(options.seed)
    start, end = build_net(options).eval(), PlaceNet.load(tmp_path / "whole" / "last")
    batch, loaded = batch_and_images(options, photo_set, end)
    before, after = (loss_of(options, batch, net(net.preprocessing(loaded.values))) for net in (start, end))
    assert after < before
    for steps in (4, 8):
        part = options.with_changes(steps=steps)
        train_network(part, [photo_set], tmp_path / "parts", resume=steps > 4)
    parts = PlaceNet.load(tmp_path / "parts" / "last").state_dict()
    assert all(torch.equal(parts[name], value) for name, value in end.state_dict().items())
    assert any(f"trained with the loss {loss}" in note for note in end.notes)


def batch_loss(options, batch, descriptors):
    loss = options.objective
    own = {name: getattr(options, name) for name in loss.options}
    return loss.batch(descriptors, torch.from_numpy(batch.in_batch), **own)


def loss_of(options, batch, descriptors) -> float:
    with torch.no_grad():
        return batch_loss(options, batch, descriptors).loss.item()


def test_each_loss_says_what_it_wants():
    assert loss_names() == [
        *(
            "contrastive",
            "ap",
            "graded-multi-similarity",
            "log-ratio",
            "multi-similarity",
            "soft-contrastive",
        ),
        *("sare-ind", "sare-joint", "triplet"),
    ]
    for one in losses().values():
        functions = sum(f is not None for f in (one.pairs, one.batch, one.tuples))
        assert functions == (2 if one.name == "contrastive" else 1)  # each pair for itself, or all of a batch
        assert one.source
        options = TrainingOptions(loss=one.name)
        assert options.kind == one.kind
        assert set(one.options) <= set(options.to_dict())
        assert options.first_rate == (one.rate or 0.1)
    assert TrainingOptions(batches="all").kind == "batch"


NEW_LOSS = """
from samespot.training.losses import Loss

def losses_of(x, y, similarity, margin):
    return (x - y).square().sum(dim=1) * similarity / margin

MINE = Loss("mine", "me", pairs=losses_of, rate=0.003, batches="C", options=("margin",))
"""


def test_a_new_loss_is_one_new_file(tiny, photo_set, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(NEW_LOSS)
    with monkeypatch.context() as patched:
        patched.setattr(registry, "__path__", [*registry.__path__, str(tmp_path)])
        losses.cache_clear()
        options = tiny.with_changes(loss="mine", steps=1, margin=2.0)
        assert (options.batches, options.first_rate, options.kind) == ("C", 0.003, "pairs")
        result = train_network(options, [photo_set], tmp_path / "run")
        assert result.loss > 0
        assert PlaceNet.load(result.model).notes[-1].startswith("trained with the loss mine (me)")
        with pytest.raises(InputError, match="`ap_bins` has no effect with `loss=mine`, only with ap"):
            TrainingOptions.of({"loss": "mine", "ap_bins": 3})
    losses.cache_clear()
    with pytest.raises(InputError, match="`loss` 'mine' is unknown"):
        TrainingOptions(loss="mine")


def test_a_model_says_what_its_distances_mean():
    ap = losses()["ap"].notes(("of a file",))
    assert ap[0] == "of a file"
    assert ap[1].startswith(
        "trained with the loss ap (Revaud et al. 2019): 1 − d/τ does not predict the overlap"
    )
    assert losses()["ap"].notes(ap) == ap
    assert losses()["contrastive"].notes(ap) == ("of a file",)  # trained again, with a margin


def test_a_loss_whose_package_is_absent_is_refused():
    absent = Loss("mine", "me", batch=lambda x, psi: None, package="not_there_at_all")
    with pytest.raises(
        InputError, match=r"`loss=mine` needs not-there-at-all; install it with .*\[comparators\]"
    ):
        absent.require_package()
    assert losses()["multi-similarity"].package == "pytorch_metric_learning"
