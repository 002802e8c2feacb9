"""A published model from its authors' file: every tensor finds its place, or one line says what does not fit."""

import hashlib
from dataclasses import replace

import pytest
import torch
from huggingface_hub import constants

import samespot
from samespot.errors import InputError
from samespot.model.loading import load_model
from samespot.model.network import PlaceNet
from samespot.model.published import published_models
from samespot.model.published.loading import empty_network
from tests.model import seeded

NAME = "cosplace-resnet18-32"  # small


@pytest.fixture(scope="module")
def authors_tensors():
    """As in the authors' file: numbers for the names of layers."""
    children = {"conv1": "0", "bn1": "1", "layer1": "4", "layer2": "5", "layer3": "6", "layer4": "7"}
    net, places = empty_network(published_models()[NAME], (64, 64))
    state, tensors = net.state_dict(), {}
    pool = {"pool.gem.p": "aggregation.1.p", "pool.linear.weight": "aggregation.3.weight",
            "pool.linear.bias": "aggregation.3.bias"}  # fmt: skip
    for place, ours in places.items():
        first, _, rest = place.removeprefix("trunk.").partition(".")
        tensors[pool.get(place) or f"backbone.{children[first]}.{rest}"] = state[ours].clone()
    return tensors


@pytest.fixture
def file(tmp_path, authors_tensors):
    torch.save(authors_tensors, tmp_path / "theirs.pth")
    return tmp_path / "theirs.pth"


def test_the_authors_file_becomes_a_network(file, authors_tensors, tmp_path):
    net = load_model(f"{NAME}@64x96", weights=file)
    assert not net.training
    assert net.preprocessing.size == (64, 96)
    assert torch.equal(net.stages["stem"].conv1.weight, authors_tensors["backbone.0.weight"])
    assert torch.equal(net.pool.linear.bias, authors_tensors["aggregation.3.bias"])
    assert net.source == f"published {NAME}"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert any(digest in note for note in net.config()["notes"])  # to be pinned by whoever wants to
    images = (seeded.values("images", (2, 3, 64, 96)) * 50 + 128).clamp(0, 255).to(torch.uint8)
    described = net.describe_images(images)
    torch.testing.assert_close(described.norm(dim=1), torch.ones(2))
    again = load_model(net.save(tmp_path / "model"))
    torch.testing.assert_close(again.describe_images(images), described)


def test_the_size_of_photos_is_the_authors(file):
    assert load_model(NAME, weights=file).preprocessing.size == (480, 640)


def without(name):
    return lambda tensors: {key: value for key, value in tensors.items() if key != name}


BROKEN = {
    "missing": (without("aggregation.3.bias"), "missing: pool.linear.bias"),
    "a stranger": (lambda t: {**t, "extra.weight": torch.zeros(1)}, "not expected: extra.weight"),
    "another length": (
        lambda t: {**t, "aggregation.3.weight": torch.zeros(64, 512), "aggregation.3.bias": torch.zeros(64)},
        r"of another shape: pool.linear.bias \(64,\) instead of \(32,\), pool.linear.weight \(64, 512\) instead of",
    ),
    "not finite": (lambda t: {**t, "aggregation.1.p": torch.tensor([torch.nan])}, "not finite: pool.gem.p"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_does_not_fit_is_one_line(what, authors_tensors, tmp_path):
    change, said = BROKEN[what]
    torch.save(change(authors_tensors), tmp_path / "broken.pth")
    with pytest.raises(InputError, match=said) as caught:
        load_model(NAME, weights=tmp_path / "broken.pth")
    assert "\n" not in str(caught.value)


def test_the_weights_of_another_model_do_not_fit(file):
    with pytest.raises(InputError, match="does not fit cosplace-resnet18-64"):
        load_model("cosplace-resnet18-64", weights=file)


def test_absent_files_and_code_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such weights file"):
        load_model(NAME, weights=tmp_path / "absent.pth")
    torch.save({"backbone": torch.nn.Identity()}, tmp_path / "code.pth")
    with pytest.raises(InputError, match="holds more than plain tensors"):
        load_model(NAME, weights=tmp_path / "code.pth")


REFUSED = {
    "cricavpr": "mixes the images of a batch, so that a descriptor depends on the photos beside it",
    "megaloc@480x640": "not a multiple of that; write megaloc@476x644",
    "mixvpr@480x640": "takes images of 320x320 only, not 480x640",
    "salad@big": "'big' is not an image size; write for example salad@224x224",
    "megalok": "did you mean megaloc",
    "eigenplaces-resnet50-77": "did you mean eigenplaces-resnet50-",
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_cannot_be_had(name):
    with pytest.raises(InputError, match=REFUSED[name]):
        load_model(name)


def test_a_cross_image_encoder_is_refused(tmp_path):
    torch.save({"encoder.layers.0.norm1.weight": torch.ones(768)}, tmp_path / "crossing.pth")
    with pytest.raises(InputError, match="cross-image encoder, which mixes the images of a batch"):
        load_model("supervlad", weights=tmp_path / "crossing.pth")


def test_weights_go_with_a_name_only(file, tmp_path):
    torch.manual_seed(0)
    net = PlaceNet("resnet18", pretrained=False, image_size=(64, 64))
    folder = net.save(tmp_path / "model")
    for model in (net, folder):
        with pytest.raises(InputError, match="`weights` has no effect on"):
            load_model(model, weights=file)


def test_advice_names_only_what_the_command_has(samespot, monkeypatch, tmp_path):
    """`describe` has no --backbone and no --pretrained."""
    monkeypatch.setattr("samespot.model.weights.hub_is_reachable", lambda: False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    code, _, said = samespot("export", "resnet18-gem", "--out", tmp_path / "net.onnx")
    line = " ".join(said.split())
    assert code == 2
    assert "use --weights FILE (.safetensors or .pth" in line
    assert "or the model efficientnet_lite0-gem" in line
    assert "backbone=" not in line
    assert "pretrained=" not in line


def test_off_the_shelf_networks_take_a_file_of_the_trunk(tmp_path):
    torch.manual_seed(0)
    net = PlaceNet("resnet18", pretrained=False, image_size=(64, 64))
    trunk = {}
    for name, tensor in net.stages.state_dict().items():
        stage, _, rest = name.partition(".")
        trunk[rest if stage == "stem" else name] = tensor
    torch.save(trunk, tmp_path / "trunk.pth")
    loaded = samespot.load_model("resnet18-gap@64x64", weights=tmp_path / "trunk.pth")
    assert torch.equal(loaded.stages["stem"].conv1.weight, net.stages["stem"].conv1.weight)


def test_a_cached_file_that_is_not_the_pinned_one_is_refused(file, monkeypatch, tmp_path):
    monkeypatch.setenv("SAMESPOT_CACHE", str(tmp_path / "cache"))
    known = published_models()[NAME]
    pinned = replace(known, weights=replace(known.weights, sha256="0" * 64))
    path = tmp_path / "cache" / "weights" / known.weights.name
    path.parent.mkdir(parents=True)
    path.write_bytes(file.read_bytes())
    monkeypatch.setattr("samespot.model.loading.published_models", lambda: {NAME: pinned})
    with pytest.raises(
        InputError, match=r"not the file that .* was published with .*; delete it to fetch it again"
    ):
        load_model(NAME)
    assert load_model(NAME, weights=file).descriptor_size == 32  # one's own file is one's own choice
