"""Pooling `multi`: maps before the last one join it, through every way that a network goes."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from samespot.errors import InputError
from samespot.model.network import PlaceNet
from samespot.retrieval.describe import Describer

SIZE = (64, 96)


def nets(backbone: str) -> tuple[PlaceNet, PlaceNet]:
    torch.manual_seed(0)
    gem = PlaceNet(backbone, "gem", False, image_size=SIZE).eval()
    multi = PlaceNet(backbone, "multi", False, image_size=SIZE).eval()
    multi.load_state_dict(gem.state_dict())  # its weights have the same names
    return gem, multi


@pytest.mark.parametrize(
    ("backbone", "groups"),
    [("efficientnet_lite0", (1280, 224, 384)), ("resnet18", (512, 256)), ("vgg16", (512, 512))],
)
def test_the_last_map_is_pooled_as_ever_and_the_others_by_their_mean(backbone, groups):
    gem, multi = nets(backbone)
    images = torch.randn(2, 3, *SIZE, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        plain, joined = gem(images), multi(images)
        entering = images
        for stage in list(gem.stages.values())[:-1]:
            entering = stage(entering)
    assert multi.pool.groups == groups
    assert joined.shape[1] == multi.descriptor_size == sum(groups)
    parts = [part * len(groups) ** 0.5 for part in joined.split(groups, dim=1)]
    assert torch.allclose(parts[0], plain, atol=1e-6)
    halves = [entering.relu(), (-entering).relu()] if backbone.startswith("eff") else [entering]
    mean = functional.normalize(torch.cat([half.mean(dim=(2, 3)) for half in halves], dim=1), dim=1)
    assert torch.allclose(parts[1], mean, atol=1e-5)


def test_a_describer_a_cut_and_a_folder_give_the_same(tmp_path):
    _, multi = nets("efficientnet_lite0")
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, *SIZE), dtype=np.uint8))
    expected = multi.describe_images(pixels)
    assert torch.allclose(Describer(multi, torch.device("cpu"), "32")(pixels), expected, atol=1e-5)
    with torch.no_grad():
        for blocks in (0, 1, 2, "all"):
            multi.set_train_blocks(blocks)
            assert torch.allclose(multi(multi.preprocessing(pixels)), expected, atol=1e-6)
    again = PlaceNet.load(multi.save(tmp_path / "model"))
    assert torch.equal(again.describe_images(pixels), expected)


def test_a_transformer_has_no_maps_to_join():
    with pytest.raises(InputError, match="`pool=multi` joins maps of a convolutional trunk"):
        PlaceNet("vit_tiny_patch16_224", "multi", False, image_size=(64, 64))
