"""Model folders come back bit for bit, survive a cut-off save, and never run code from a file."""

import json
import os

import pytest
import torch
from safetensors.torch import save_file

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model import checkpoint
from samespot.model.checkpoint import read_folder, read_tensors, write_folder
from samespot.model.network import PlaceNet


@pytest.fixture
def net():
    return PlaceNet(
        "mobilenetv3_small_050", pretrained=False, train_blocks=1, image_size=(48, 64), margin=0.7
    )


def test_a_model_comes_back_bit_for_bit(net, tmp_path):
    net.pool.p.data.fill_(2.7)
    net.facts = {"pairs": 64000, "labels": "abc"}
    net.preprocessing = Preprocessing(size=(48, 64), channels="BGR", mean=(1.5, 2.0, 3.0), value_range=255.0)
    net.save(tmp_path / "deep" / "model")
    back = PlaceNet.load(tmp_path / "deep" / "model")
    assert back.digest() == net.digest()
    assert back.config() == net.config()
    assert not back.training
    images = torch.rand((2, 3, 48, 64))
    assert torch.equal(back(images), net.eval()(images))


def test_the_digest_sees_one_bit(net):
    before = net.digest()
    net.stages["stem"].conv_stem.weight.data[0, 0, 0, 0] += 1e-3
    assert net.digest() != before


def test_the_config_says_how_to_feed_images(net, tmp_path):
    net.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["preprocessing"] == {
        "size": [48, 64],
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "channels": "RGB",
        "value_range": 1.0,
    }
    assert (config["backbone"], config["pool"], config["margin"]) == ("mobilenetv3_small_050", "gem", 0.7)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors"]


def test_a_save_cut_off_between_its_files_is_still_one_model(net, tmp_path, monkeypatch):
    net.save(tmp_path)
    old = json.loads((tmp_path / "config.json").read_text())
    net.pool.p.data.fill_(2.5)
    net.margin = 0.9
    replaced = []

    def die_after_the_weights(path, content, write=checkpoint.write_whole):
        if replaced:
            raise KeyboardInterrupt
        replaced.append(path)
        write(path, content)

    monkeypatch.setattr(checkpoint, "write_whole", die_after_the_weights)
    with pytest.raises(KeyboardInterrupt):
        net.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text()) == old
    back = PlaceNet.load(tmp_path)
    assert (back.margin, back.pool.p.item()) == (0.9, 2.5)


def test_a_failed_write_leaves_the_old_model(net, tmp_path, monkeypatch):
    net.save(tmp_path)
    before = net.digest()
    net.pool.p.data.fill_(2.5)

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(InputError, match="No space left"):
        net.save(tmp_path)
    assert PlaceNet.load(tmp_path).digest() == before
    assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors"]


def test_an_edited_config_counts(net, tmp_path):
    net.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["preprocessing"]["size"] = [96, 128]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert PlaceNet.load(tmp_path).preprocessing.size == (96, 128)


def test_missing_and_unexpected_tensors_are_listed(net, tmp_path):
    tensors = net.state_dict()
    tensors["extra.weight"] = tensors.pop("pool.p")
    write_folder(tmp_path, tensors, net.config())
    with pytest.raises(InputError, match=r"missing: pool\.p; not expected: extra\.weight"):
        PlaceNet.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"format": 2}, "update samespot"),
        ({"timm": "resnet999"}, "resnet999"),
        ({"preprocessing": {}}, "config.json"),
    ],
)
def test_configs_that_cannot_be_read_say_so(net, tmp_path, change, match):
    write_folder(tmp_path, net.state_dict(), {**net.config(), **change})
    with pytest.raises(InputError, match=match):
        PlaceNet.load(tmp_path)


def test_broken_folders_say_what_is_wrong(net, tmp_path):
    with pytest.raises(InputError, match="no model here"):
        PlaceNet.load(tmp_path)
    net.save(tmp_path)
    (tmp_path / "config.json").write_text('{\n "backbone": \n')
    with pytest.raises(InputError, match=r"config.json line 3: not valid JSON"):
        read_folder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes()[:-10])
    with pytest.raises(InputError, match="not a complete safetensors file"):
        read_folder(tmp_path)


class Payload:
    def __reduce__(self):
        return os.mkdir, ("payload-ran",)


def test_code_in_a_checkpoint_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {"a": torch.zeros(1)}, "extra": Payload()}, tmp_path / "bad.pth")
    with pytest.raises(InputError, match="more than plain tensors") as caught:
        read_tensors(tmp_path / "bad.pth")
    assert not (tmp_path / "payload-ran").exists()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrapper", ["model_state_dict", "state_dict", "model", None])
@pytest.mark.parametrize("prefix", ["module.", ""])
def test_wrapped_and_parallel_checkpoints_are_unwrapped(tmp_path, wrapper, prefix):
    state = {f"{prefix}a.weight": torch.arange(3.0)}
    torch.save(state if wrapper is None else {wrapper: state, "step": 3}, tmp_path / "x.pth")
    tensors, _ = read_tensors(tmp_path / "x.pth")
    assert list(tensors) == ["a.weight"]
    assert tensors["a.weight"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"a": torch.zeros(1), "b": "text"}, "not named tensors: b"),
        ([1, 2], "no named tensors"),
        ({}, "no named tensors"),
    ],
)
def test_files_without_tensors_are_refused(tmp_path, content, match):
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(InputError, match=match):
        read_tensors(tmp_path / "x.pth")


def test_damaged_or_absent_files_are_named(tmp_path):
    (tmp_path / "x.pth").write_bytes(b"garbage")
    save_file({"a": torch.zeros(4)}, tmp_path / "x.safetensors")
    (tmp_path / "x.safetensors").write_bytes((tmp_path / "x.safetensors").read_bytes()[:20])
    for name in ("x.pth", "x.safetensors", "absent.pth"):
        with pytest.raises(InputError, match=name) as caught:
            read_tensors(tmp_path / name)
        assert "\n" not in str(caught.value)
