"""What is trained, where the network can be cut, and that images only come in through the preprocessing."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model.network import PlaceNet

FAMILIES = [
    "resnet18",
    "vgg11",
    "densenet121",
    "efficientnet_lite0",
    "convnext_atto",
    "regnetx_002",
    "vit_tiny_patch16_224",
]


def small(backbone: str = "resnet18", **options) -> PlaceNet:
    torch.manual_seed(0)
    return PlaceNet(backbone, pretrained=False, image_size=(48, 64), **options)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5))


def trained_names(net: PlaceNet) -> list[str]:
    return [block.name for block in net.blocks() if block.trained]


@pytest.mark.parametrize("backbone", FAMILIES)
def test_the_two_halves_are_the_whole(backbone):
    net = small(backbone).eval()
    images = noise(2, 3, 48, 64)
    whole = net(images)
    for train_blocks in (0, 1, 2, 3, "all"):
        net.set_train_blocks(train_blocks)
        features = net.frozen(images)
        assert isinstance(features, torch.Tensor)
        assert not features.requires_grad
        torch.testing.assert_close(net.trained(features), whole, rtol=1e-5, atol=1e-6)
    assert whole.shape == (2, net.descriptor_size)
    torch.testing.assert_close(whole.norm(dim=1), torch.ones(2))


@pytest.mark.parametrize(
    ("backbone", "last_two"),
    [
        ("resnet18", ["layer3", "layer4"]),
        ("vgg16", ["block4", "block5"]),
        ("densenet121", ["block3", "block4"]),
        ("efficientnet_lite0", ["stage4", "stage5"]),
        ("vit_tiny_patch16_224", ["group5", "group6"]),
    ],
)
def test_two_blocks_are_trained_unless_told_otherwise(backbone, last_two):
    assert trained_names(small(backbone)) == [*last_two, "gem"]


def test_the_trained_layers_are_those_of_the_paper():
    vgg = {name for name, p in small("vgg16").named_parameters() if p.requires_grad}
    assert {int(name.split(".")[2]) for name in vgg if name != "pool.p"} == {17, 19, 21, 24, 26, 28}
    dense = {
        name for name, p in small("densenet121").named_parameters() if p.requires_grad and name != "pool.p"
    }
    assert {name.split(".")[2] for name in dense} == {"denseblock3", "transition3", "denseblock4", "norm5"}


@pytest.mark.parametrize(("train_blocks", "trained"), [(0, 0), (1, 1), (3, 3), ("all", 5)])
def test_other_numbers_of_blocks(train_blocks, trained):
    assert len(trained_names(small(train_blocks=train_blocks))) == trained + 1  # and the p of GeM


@pytest.mark.parametrize("train_blocks", [-1, 6, "two", True, 1.5])
def test_an_impossible_number_of_blocks_lists_them(train_blocks):
    with pytest.raises(InputError, match="stem, layer1, layer2, layer3, layer4"):
        small(train_blocks=train_blocks)


def test_unknown_families_are_trained_whole_or_not_at_all():
    with pytest.raises(InputError, match=r"use 'all' or 0"):
        small("eva02_tiny_patch14_224", train_blocks=1)
    assert trained_names(small("eva02_tiny_patch14_224", train_blocks="all")) == ["network", "gem"]


@pytest.mark.parametrize("update_statistics", [False, True])
def test_frozen_batch_norms_never_move(update_statistics):
    net = small(update_statistics=update_statistics).train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net(noise(4, 3, 48, 64)).square().sum().backward()
    moved = {
        name.split(".")[1]
        for name, tensor in net.state_dict().items()
        if not torch.equal(tensor, before[name])
    }
    assert moved == ({"layer3", "layer4"} if update_statistics else set())
    assert {name.split(".")[1] for name, p in net.named_parameters() if p.grad is not None} == {
        "layer3",
        "layer4",
        "p",
    }


def test_a_batch_in_parts_has_the_gradient_of_the_whole():
    net, images, target = small().train(), noise(4, 3, 48, 64), noise(4, 512)
    (net(images) * target).sum().backward()
    whole = net.stages["layer3"][0].conv1.weight.grad.clone()
    net.zero_grad()
    for part in (slice(0, 1), slice(1, 4)):
        (net(images[part]) * target[part]).sum().backward()
    torch.testing.assert_close(net.stages["layer3"][0].conv1.weight.grad, whole, rtol=1e-4, atol=1e-6)


def test_descriptors_are_float32_under_mixed_precision():
    net = small().eval()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        found = net(noise(2, 3, 48, 64))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.norm(dim=1), torch.ones(2))


def test_the_table_of_what_is_trained_adds_up():
    net = small()
    assert sum(p.numel() for p in net.parameters() if p.requires_grad) == 10_493_441
    text = net.describe_training()
    assert "10,493,441 of 11,176,513 parameters are trained (93.9 %)" in text
    assert [line.split()[0] for line in text.splitlines()[1:-1]] == [
        "stem",
        "layer1",
        "layer2",
        "layer3",
        "layer4",
        "gem",
    ]


@pytest.mark.parametrize("pool", ["gap", "max"])
def test_other_poolings_have_nothing_to_learn(pool):
    net = small(pool=pool)
    assert trained_names(net) == ["layer3", "layer4"]
    assert "no parameters" in net.describe_training()


def test_images_are_described_through_the_preprocessing(tmp_path):
    net = small().train()
    net.preprocessing = Preprocessing(
        size=(48, 64), mean=(10.0, 20.0, 30.0), std=(50.0, 60.0, 70.0), channels="BGR", value_range=255.0
    )
    pixels = np.random.default_rng(0).integers(0, 256, (5, 48, 64, 3), dtype=np.uint8)
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for path, image in zip(paths, pixels, strict=True):
        Image.fromarray(image).save(path)
    by_hand = (pixels[..., ::-1].astype(np.float32) - (10, 20, 30)) / (50, 60, 70)
    with torch.no_grad():
        expected = net.eval()(torch.from_numpy(by_hand.transpose(0, 3, 1, 2)).float())
    net.train()
    torch.testing.assert_close(net.describe_images(paths, batch_size=2), expected, rtol=1e-4, atol=1e-5)
    decoded = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    torch.testing.assert_close(net.describe_images(decoded, batch_size=3), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(net.describe_images(paths[0]), expected[:1], rtol=1e-4, atol=1e-5)
    assert net.describe_images([]).shape == (0, 512)
    assert net.training  # as it was


def test_already_normalised_images_are_refused():
    with pytest.raises(InputError, match="uint8"):
        small().describe_images(torch.rand(1, 3, 48, 64))


def test_channels_last_gives_the_same(tmp_path):
    net, images = small().eval(), noise(2, 3, 48, 64)
    expected = net(images)
    net.to(memory_format=torch.channels_last)
    found = net(images.to(memory_format=torch.channels_last))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    net.save(tmp_path / "model")
    torch.testing.assert_close(PlaceNet.load(tmp_path / "model")(images), expected, rtol=1e-5, atol=1e-6)


def test_the_frozen_copy_has_no_dropout_or_gradients():
    copy = small().frozen_trunk(fold=False)
    assert not copy.training
    assert not any(p.requires_grad for p in copy.parameters())
    assert isinstance(small(train_blocks="all").frozen_trunk(), nn.Identity)
