"""A training starts from any model that `load_model` knows, and from a ViT whose class token is pooled, too."""

import pytest
import torch

from samespot.errors import InputError
from samespot.model.loading import load_model
from samespot.model.published import published_models
from samespot.model.published.loading import empty_network
from samespot.training.run import train

pytestmark = pytest.mark.usefixtures("one_thread")
NAME = "cosplace-resnet18-32"


@pytest.fixture(scope="module")
def short(tiny):
    names = ("batch_pairs", "device", "tensorboard", "workers")
    return {**{name: getattr(tiny, name) for name in names}, "steps": 2, "log_every": 1}


def test_the_last_blocks_of_a_vit_learn_from_kept_tokens(short, photo_set, tmp_path):
    """The frozen part ends between two groups of blocks: what is kept are tokens, the class token among them."""
    vit = {"backbone": "test_vit.r160_in1k", "pool": "salad8x4", "pretrained": False, "image_size": (64, 64)}
    runs = {
        kept: train(
            photo_set.queries,
            photo_set.labels,
            tmp_path / kept,
            train_blocks=1,
            cache_frozen=kept,
            **vit,
            **short,
        )
        for kept in ("no", "memory")
    }
    assert runs["memory"].loss == pytest.approx(runs["no"].loss, rel=1e-4)
    learned = load_model(runs["memory"])
    assert learned.train_blocks == 1
    trained = {block.name for block in learned.blocks() if block.trained}
    assert trained == {"group6", "salad8x4"}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file as the authors publish it."""
    torch.manual_seed(0)
    model = published_models()[NAME]
    net, places = empty_network(model, (64, 64))
    back = {"trunk.conv1.": "backbone.0.", "trunk.bn1.": "backbone.1.", "pool.gem.p": "aggregation.1.p",
            "pool.linear.": "aggregation.3."}  # fmt: skip
    back |= {f"trunk.layer{n}.": f"backbone.{n + 3}." for n in range(1, 5)}
    state, tensors = net.state_dict(), {}
    for place, ours in places.items():
        start = next(one for one in back if place.startswith(one))
        tensors[back[start] + place.removeprefix(start)] = state[ours].clone()
    path = tmp_path_factory.mktemp("published") / "theirs.pth"
    torch.save(tensors, path)
    return path


def test_a_published_model_is_trained_further(short, photo_set, weights, tmp_path):
    before = load_model(f"{NAME}@64x64", weights=weights)
    given = {"model": f"{NAME}@64x64", "weights": str(weights), "train_blocks": 1}
    result = train(photo_set.queries, photo_set.labels, tmp_path / "run", **given, **short)
    after = load_model(result)
    assert after.preprocessing.size == (64, 64)
    assert after.pool_name == "cosplace32"
    assert after.source == f"published {NAME}"
    assert torch.equal(after.stages["layer3"][0].conv1.weight, before.stages["layer3"][0].conv1.weight)
    assert not torch.equal(after.stages["layer4"][0].conv1.weight, before.stages["layer4"][0].conv1.weight)
    assert not torch.equal(after.pool.linear.weight, before.pool.linear.weight)


def test_what_a_model_brings_is_not_asked_for_again(short, photo_set, weights, tmp_path):
    run = photo_set.queries, photo_set.labels, tmp_path / "run"
    with pytest.raises(InputError, match="`pool` has no effect with `model`, which is a whole network"):
        train(*run, model=NAME, pool="gem", **short)
    folder = load_model(NAME, weights=weights).save(tmp_path / "model")
    with pytest.raises(InputError, match=r"`weights` has no effect on .*, a folder"):
        train(*run, model=str(folder), weights=str(weights), **short)
