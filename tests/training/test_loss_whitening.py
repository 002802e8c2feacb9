"""The space that a loss compares in: fitted once, kept over a restart, and the same in parts as at once."""

import pytest
import torch

from samespot.errors import InputError
from samespot.model.network import PlaceNet
from samespot.training.checkpoints import Checkpoints
from samespot.training.loop import train_network
from samespot.training.loss_whitening import LossWhitening
from samespot.training.options import TrainingOptions
from samespot.whitening.whitening import Whitening

WHITE = {"loss": "graded-multi-similarity", "loss_dims": 8, "optimiser": "adamw", "batches": "all:A"}


def weights(folder) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in PlaceNet.load(folder).parameters()])


def test_without_damping_it_is_the_whitening_of_retrieval(monkeypatch):
    monkeypatch.setattr("samespot.training.loss_whitening.DAMPING", 0.0)
    x = torch.nn.functional.normalize(torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), dim=1)
    ours = LossWhitening.fit(x, 4)(x)
    theirs = torch.from_numpy(Whitening.fit(x.numpy(), "test")(x.numpy(), 4)).float()
    assert torch.allclose((ours @ ours.T), (theirs @ theirs.T), atol=1e-4)


def test_damping_holds_weak_directions_back():
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 0.1, 0.001])
    stretch = LossWhitening.fit(x, 3).projection.norm(dim=0)
    assert stretch[2] / stretch[0] < 5  # undamped it would be a thousand


@pytest.mark.parametrize("photos", [torch.zeros(5, 3), torch.ones(1, 3)])
def test_what_cannot_be_whitened_is_one_line(photos):
    with pytest.raises(InputError, match="`loss_dims`"):
        LossWhitening.fit(photos, 2)


def test_a_run_that_is_resumed_compares_in_the_same_space(tiny, photo_set, tmp_path):
    options = tiny.with_changes(**WHITE, schedule="constant")
    whole = train_network(options, [photo_set], tmp_path / "whole")
    train_network(options.with_changes(steps=3), [photo_set], tmp_path / "parts")
    resumed = train_network(options, [photo_set], tmp_path / "parts", resume=True)
    assert torch.equal(weights(whole.model), weights(resumed.model))
    kept = [
        Checkpoints(tmp_path / name / "checkpoints").newest()[0]["loss_whitening"]
        for name in ("whole", "parts")
    ]
    assert torch.equal(kept[0]["projection"], kept[1]["projection"])
    assert kept[0]["projection"].shape[1] == 8


def test_in_parts_as_at_once(tiny, photo_set, tmp_path):
    options = tiny.with_changes(**WHITE, steps=2)
    whole = train_network(options, [photo_set], tmp_path / "whole")
    parts = train_network(options.with_changes(micro_pairs=2), [photo_set], tmp_path / "parts")
    assert torch.allclose(weights(whole.model), weights(parts.model), atol=1e-5)


def test_without_batches_of_all_pairs_it_is_refused():
    with pytest.raises(InputError, match="`loss_dims` has no effect with `batches=A`"):
        TrainingOptions.of({"loss_dims": 64})


def test_adamw_has_a_rate_of_its_own():
    assert TrainingOptions(optimiser="adamw").first_rate == 1e-4
    assert TrainingOptions(optimiser="adamw", learning_rate=3e-4).first_rate == 3e-4
