"""A reference checkpoint and its conversion give the same descriptors, for each of the paper's networks."""

import pytest
import torch
import torchvision
from torch import Tensor, nn
from torchvision.models import vgg

from samespot.cli.models import convert as convert_command
from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model.convert import convert
from samespot.model.network import PlaceNet

RESNETS = {
    "resnet18": torchvision.models.resnet18,
    "resnet34": torchvision.models.resnet34,
    "resnet50": torchvision.models.resnet50,
    "resnet152": torchvision.models.resnet152,
    "resnext101": torchvision.models.resnext101_32x8d,
}


class ReferenceGeM(nn.Module):
    def __init__(self, p: float):
        super().__init__()
        self.p = nn.Parameter(torch.tensor([p]))


class Reference(nn.Module):
    """The layout of the authors' network: torchvision's trunk, `pool`, L2."""

    def __init__(self, name: str, pool: str):
        super().__init__()
        if name == "vgg16":
            self.backbone = vgg.make_layers(vgg.cfgs["D"])  # torchvision's `vgg16().features`
        elif name == "densenet161":
            self.backbone = torchvision.models.densenet161().features
        else:
            self.backbone = nn.Sequential(*list(RESNETS[name]().children())[:-2])
        if pool == "gem":
            self.pool = ReferenceGeM(2.6)

    def forward(self, images: Tensor) -> Tensor:
        features = self.backbone(images)
        if hasattr(self, "pool"):
            p = self.pool.p
            pooled = features.clamp(min=1e-6).pow(p).mean((2, 3)).pow(1 / p)
        else:
            pooled = features.mean((2, 3))
        return nn.functional.normalize(pooled)


def reference(name: str, pool: str = "gem") -> Reference:
    """Random weights, with the batch norms' statistics of some images, so that signals keep their size."""
    torch.manual_seed(7)
    net = Reference(name, pool)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        net.train()(torch.randn((2, 3, 96, 96)))
    return net.eval()


def check_conversion(net: Reference, saved: dict, folder, backbone: str) -> None:
    torch.save(saved, folder / "reference.pth")
    converted = convert(folder / "reference.pth", folder / "model")
    assert converted.backbone == backbone
    images = torch.randn((2, 3, 64, 96), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        torch.testing.assert_close(converted(images), net(images), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["vgg16", *RESNETS, "densenet161"])
def test_the_conversion_gives_the_same_descriptors(name, tmp_path):
    net = reference(name)
    check_conversion(net, {"model_state_dict": net.state_dict(), "step": 1}, tmp_path, name)
    for file in (tmp_path / "reference.pth", tmp_path / "model" / "model.safetensors"):
        file.unlink()  # hundreds of megabytes


@pytest.mark.parametrize("name", ["resnet18", "densenet161"])
def test_average_pooling_of_a_parallel_checkpoint(name, tmp_path):
    # DenseNet's features are not rectified in the reference, which an average shows and GeM would not
    net = reference(name, pool="gap")
    parallel = {f"module.{key}": tensor for key, tensor in net.state_dict().items()}
    check_conversion(net, {"state_dict": parallel}, tmp_path, name)


def test_the_folder_carries_the_references_preprocessing(tmp_path):
    net = reference("resnet18")
    torch.save({"state_dict": net.state_dict()}, tmp_path / "reference.pth")
    convert(tmp_path / "reference.pth", tmp_path / "model")
    back = PlaceNet.load(tmp_path / "model")
    assert back.preprocessing == Preprocessing(
        size=(480, 640),
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        channels="RGB",
        value_range=1.0,
    )
    assert back.pool.p.item() == pytest.approx(2.6)
    images = torch.randn((1, 3, 64, 64))
    with torch.no_grad():
        torch.testing.assert_close(back(images), net(images), rtol=0, atol=1e-5)


def test_vgg_as_one_child_of_a_sequential_is_read_too(tmp_path):
    net = reference("vgg16")
    nested = {key.replace("backbone.", "backbone.0."): tensor for key, tensor in net.state_dict().items()}
    check_conversion(net, {"model_state_dict": nested}, tmp_path, "vgg16")


@pytest.fixture(scope="module")
def resnet_state():
    return reference("resnet18").state_dict()


@pytest.mark.parametrize(
    ("remove", "add", "match"),
    [
        ("backbone.7.1.bn2.weight", None, r"missing: layer4\.1\.bn2\.weight"),
        (None, "backbone.9.weight", r"not expected: 9\.weight"),
        (None, "optimizer.lr", r"not expected: optimizer\.lr"),
        ("pool.p", "head.weight", r"not expected: head\.weight"),
        (None, "backbone.fc.weight", r"not expected: fc\.weight"),
        (None, "backbone.head.evil", r"not expected: head\.evil"),
    ],
)
def test_names_that_do_not_fit_are_listed(resnet_state, tmp_path, remove, add, match):
    state = dict(resnet_state)
    if remove:
        del state[remove]
    if add:
        state[add] = torch.zeros(1)
    torch.save({"state_dict": state}, tmp_path / "x.pth")
    with pytest.raises(InputError, match=match):
        convert(tmp_path / "x.pth", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("p", [float("nan"), float("inf"), 0.0, -3.0])
def test_an_exponent_that_pools_nothing_is_refused(resnet_state, tmp_path, p):
    state = {**resnet_state, "pool.p": torch.tensor([p])}
    torch.save({"state_dict": state}, tmp_path / "x.pth")
    with pytest.raises(InputError, match=rf"pool\.p is {p:g}, expected a number above 0"):
        convert(tmp_path / "x.pth", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_tensor_under_two_names_is_refused(resnet_state, tmp_path):
    state = {**resnet_state, "backbone.conv1.weight": torch.zeros((64, 3, 7, 7))}
    torch.save({"state_dict": state}, tmp_path / "x.pth")
    with pytest.raises(InputError, match="1 tensors are there under two names"):
        convert(tmp_path / "x.pth", tmp_path / "model")


def test_the_command_says_what_was_assumed(resnet_state, tmp_path, capsys):
    state = {key: tensor for key, tensor in resnet_state.items() if key != "pool.p"}
    torch.save({"state_dict": state}, tmp_path / "x.pth")
    convert_command({"file": tmp_path / "x.pth", "out": tmp_path / "model"})
    said = capsys.readouterr().err
    assert "converted from the reference checkpoint x.pth" in said
    assert "average pooling was assumed" in said


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pool": "max"}, "trained with GeM"),
        ({"pool": "netvlad"}, "not known"),
        ({"backbone": "alexnet"}, "no reference checkpoint"),
        ({"backbone": "resnet34"}, "does not fit resnet34"),
    ],
)
def test_wishes_that_contradict_the_file_are_refused(resnet_state, tmp_path, options, match):
    torch.save({"state_dict": resnet_state}, tmp_path / "x.pth")
    with pytest.raises(InputError, match=match):
        convert(tmp_path / "x.pth", tmp_path / "model", **options)


def test_pooling_that_the_file_does_not_name_is_noted(resnet_state, tmp_path):
    state = {key: tensor for key, tensor in resnet_state.items() if key != "pool.p"}
    torch.save({"state_dict": state}, tmp_path / "x.pth")
    assumed = convert(tmp_path / "x.pth", tmp_path / "gap")
    assert assumed.pool_name == "gap"
    assert any("average pooling was assumed" in note for note in assumed.notes)
    told = convert(tmp_path / "x.pth", tmp_path / "max", pool="max")
    assert told.pool_name == "max"
    with pytest.raises(InputError, match=r"no pool\.p"):
        convert(tmp_path / "x.pth", tmp_path / "gem", pool="gem")
