"""Models and files of others: pickles with code in them, cut-off and foreign weights, wrong settings."""

import json
import os
import pickle
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file


class Harmful:
    """Writes a file when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("harmed",)


def saved(content, **how):
    def write(path):
        torch.save(content, path, **how)

    return write


def written(content):
    return lambda path: path.write_bytes(content)


def cut(path):
    torch.save({"a": torch.zeros(100)}, path)
    path.write_bytes(path.read_bytes()[:-60])


PICKLES = {
    "code in a checkpoint": (
        saved({"a": Harmful()}),
        "holds more than plain tensors (posix.mkdir), which could run code and",
    ),
    "code in an old checkpoint": (
        saved({"a": Harmful()}, _use_new_zipfile_serialization=False),
        "holds more than plain tensors (posix.mkdir), which could run code and",
    ),
    "code in a pickle": (
        written(pickle.dumps({"state_dict": Harmful()})),
        "cannot be read as a torch checkpoint; it is damaged or of another kind,",
    ),
    "code in an old pickle": (
        written(pickle.dumps(Harmful(), protocol=0)),
        "holds more than plain tensors (posix.mkdir), which could run code and",
    ),
    "a whole network": (
        saved(torch.nn.Linear(2, 2)),
        "holds more than plain tensors (torch.nn.modules.linear.Linear), which",
    ),
    "nothing": (written(b""), "cannot be read as a torch checkpoint; it is damaged or of another kind,"),
    "text": (written(b"weights"), "cannot be read as a torch checkpoint; it is damaged or of another kind,"),
    "zeros": (
        written(b"\0" * 100),
        "cannot be read as a torch checkpoint; it is damaged or of another kind,",
    ),
    "an unknown protocol": (
        written(b"\x80\x09abc"),
        "cannot be read as a torch checkpoint; it is damaged or of another kind,",
    ),
    "cut off": (cut, "cannot be read as a torch checkpoint; it is damaged or of another kind,"),
    "a list": (saved([torch.zeros(2)]), "no named tensors in it; expected a state dict"),
    "a tensor": (saved(torch.zeros(2)), "no named tensors in it; expected a state dict"),
    "numbers": (saved({"a": 1.0}), "these entries are not named tensors: a; expected a state dict"),
    "names of numbers": (
        saved({1: torch.zeros(2)}),
        "these entries are not named tensors: 1; expected a state dict",
    ),
    "an empty dictionary": (saved({}), "no named tensors in it; expected a state dict"),
    "another network": (
        saved({"fc.weight": torch.zeros(2, 2)}),
        "not a reference checkpoint; not expected: fc.weight; expected",
    ),
    "half a network": (
        saved({"backbone.0.weight": torch.zeros(64, 3, 7, 7)}),
        "x.pth does not fit resnet18.tv_in1k; missing: bn1.bias,",
    ),
    "wrong shapes": (
        saved({"backbone.0.weight": torch.zeros(1), "pool.p": torch.ones(1)}),
        "x.pth does not fit vgg16.tv_in1k; missing: features.0.bias,",
    ),
    "nan exponent": (
        saved({"backbone.0.weight": torch.zeros(1), "pool.p": torch.tensor([float("nan")])}),
        "pool.p is nan, expected a number above 0; the file is damaged",
    ),
    "two exponents": (
        saved({"backbone.0.weight": torch.zeros(1), "pool.p": torch.ones(2)}),
        "pool.p has 2 values, expected one",
    ),
    "half a NetVLAD": (
        saved({"encoder.0.weight": torch.zeros(1), "pool.centroids": torch.zeros(2, 2)}),
        "not a VGG16-NetVLAD checkpoint; missing: pool.conv.weight",
    ),
    "Matlab of nothing": (written(b"MATLAB 5.0 MAT-file" + b"\0" * 109), "cannot be read as a Matlab file"),
    "Matlab junk": (written(b"MATLAB" + bytes(range(250))), "cannot be read as a Matlab file"),
}


@pytest.mark.parametrize("name", PICKLES)
def test_a_file_that_is_no_published_network(refused, here, name):
    write, said = PICKLES[name]
    write(here / "x.pth")
    line = refused(["convert", "x.pth", "--out", "m"], "x.pth", said)
    assert not (here / "harmed").exists()
    assert "weights_only" not in line
    assert "trust" not in line
    assert not (here / "m" / "model.safetensors").exists()


CONVERT = {
    "absent": (["absent.pth"], "no such weights file; check the path"),
    "a folder": (["STREET"], "no such weights file; check the path"),
    "unknown backbone": (
        ["x.pth", "--backbone", "alexnet"],
        "backbone 'alexnet' has no reference checkpoint; choose one of vgg16,",
    ),
    "unknown pool": (["x.pth", "--pool", "mean"], "pool 'mean' is not known; choose one of gap, gem, max"),
    "out is a file": (["x.pth", "--out", "PLACES"], "is a file; give the name of a folder"),
    "out under a file": (["x.pth", "--out", "PLACES/m"], "is a file)"),
    "typo": (["x.pth", "--bakbone", "vgg16"], "No such option: --bakbone (Possible options: --backbone)"),
    "no file": ([], "Missing argument"),
}


@pytest.mark.parametrize("name", CONVERT)
def test_conversions_that_cannot_be_made(refused, here, name):
    words, said = CONVERT[name]
    torch.save({"backbone.0.weight": torch.zeros(1)}, here / "x.pth")
    refused(["convert", *words], said)


def config(**changes):
    def change(folder):
        settings = json.loads((folder / "config.json").read_text())
        settings = {**settings, **changes}
        (folder / "config.json").write_text(json.dumps({k: v for k, v in settings.items() if v != "gone"}))

    return change


def preprocessing(**changes):
    def change(folder):
        settings = json.loads((folder / "config.json").read_text())["preprocessing"]
        config(preprocessing={**settings, **changes})(folder)

    return change


def weights(change):
    def rewrite(folder):
        tensors = load_file(folder / "model.safetensors")
        from safetensors import safe_open

        with safe_open(folder / "model.safetensors", "pt") as file:
            told = file.metadata()
        save_file(change(tensors), folder / "model.safetensors", told)

    return rewrite


def first(tensors, value):
    name = next(name for name in tensors if name.endswith("weight"))
    return {**tensors, name: value(tensors[name])}


MODELS = {
    "config no json": (lambda f: (f / "config.json").write_text("{"), "line 1: not valid JSON"),
    "config a list": (
        lambda f: (f / "config.json").write_text("[]"),
        "expected a JSON object with the model's settings; copy the folder again",
    ),
    "config binary": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\0\1"), "cannot be read"),
    "config a folder": (
        lambda f: ((f / "config.json").unlink(), (f / "config.json").mkdir()),
        "cannot be read",
    ),
    "no backbone": (config(backbone="gone"), "config.json lacks backbone; save the model again"),
    "no preprocessing": (
        config(preprocessing="gone"),
        "config.json lacks preprocessing; save the model again",
    ),
    "another format": (config(format=99), "model format 99, this version reads 1; update samespot"),
    "unknown network": (
        config(timm="alexnet9000"),
        "backbone 'alexnet9000' is neither vgg16, resnet18, resnet34, resnet50,",
    ),
    "network of a number": (
        config(timm=7),
        "config.json: timm is 7, which is not valid; copy the folder again",
    ),
    "unknown pooling": (
        config(pool="mean"),
        "pool 'mean' is not known; choose one of gap, gem, max, multi, netvlad64,",
    ),
    "pooling of a list": (
        config(pool=["gem"]),
        "config.json: pool is ['gem'], which is not valid; copy the folder again",
    ),
    "margin of words": (
        config(margin="wide"),
        "config.json: margin is 'wide', which is not valid; copy the folder again",
    ),
    "margin of nothing": (
        config(margin=None),
        "config.json: margin is None, which is not valid; copy the folder again",
    ),
    "negative margin": (
        config(margin=-1),
        "config.json: margin is -1, which is not valid; copy the folder again",
    ),
    "too many blocks": (
        config(train_blocks=99),
        "train_blocks=99 does not fit test_resnet.r160_in1k, which has 5 stages",
    ),
    "blocks of words": (
        config(train_blocks="most"),
        "train_blocks='most' does not fit test_resnet.r160_in1k, which has 5",
    ),
    "size of words": (
        preprocessing(size="large"),
        "config.json: preprocessing: expected 2 numbers, got ['l', 'a', 'r',",
    ),
    "size of one": (preprocessing(size=[32]), "config.json: preprocessing: expected 2 numbers, got [32]"),
    "mean of nan": (
        preprocessing(mean=[float("nan")] * 3),
        "config.json: mean (nan, nan, nan) and std (0.5, 0.5, 0.5) must be three",
    ),
    "channels of letters": (
        preprocessing(channels="XYZ"),
        "config.json: channel order 'XYZ' is not known; choose RGB or BGR",
    ),
    "another field": (
        preprocessing(gamma=2),
        "config.json: preprocessing has the fields ['channels', 'gamma', 'mean',",
    ),
    "preprocessing of a list": (
        config(preprocessing=[1]),
        "config.json: preprocessing is [1], which is not valid; copy the folder",
    ),
    "size of gigapixels": (
        preprocessing(size=[100_000, 100_000]),
        "config.json: image size 100000x100000 is beyond any network; photos are",
    ),
    "notes of a number": (
        config(notes=7),
        "config.json: notes is 7, which is not valid; copy the folder again",
    ),
    "training of a list": (
        config(training=[1]),
        "config.json: training is [1], which is not valid; copy the folder again",
    ),
    "no weights": (
        lambda f: (f / "model.safetensors").unlink(),
        "no model here; give a model or run folder, such as `samespot train`",
    ),
    "weights cut off": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]),
        "not a complete safetensors file",
    ),
    "weights of text": (
        lambda f: (f / "model.safetensors").write_bytes(b"weights"),
        "not a complete safetensors file",
    ),
    "weights empty": (
        lambda f: (f / "model.safetensors").write_bytes(b""),
        "not a complete safetensors file",
    ),
    "header beyond the file": (
        lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 8 + b"{}"),
        "not a complete safetensors file",
    ),
    "weights a folder": (
        lambda f: ((f / "model.safetensors").unlink(), (f / "model.safetensors").mkdir()),
        "no model here; give a model or run folder, such as `samespot train`",
    ),
    "weights nan": (
        weights(lambda t: first(t, lambda v: v * float("nan"))),
        "weights that are not finite numbers (stages.layer1.0.bn1.weight); train",
    ),
    "weights infinite": (
        weights(lambda t: first(t, lambda v: v + float("inf"))),
        "weights that are not finite numbers (stages.layer1.0.bn1.weight); train",
    ),
    "weights of another shape": (
        weights(lambda t: first(t, lambda v: v.flatten()[:3].clone())),
        "the weights do not fit test_resnet.r160_in1k; of another shape:",
    ),
    "weights missing": (
        weights(lambda t: dict(list(t.items())[1:])),
        "the weights do not fit test_resnet.r160_in1k; missing:",
    ),
    "weights too many": (
        weights(lambda t: {**t, "head.weight": torch.zeros(3)}),
        "the weights do not fit test_resnet.r160_in1k; not expected:",
    ),
    "embedded config no json": (weights(lambda t: t), "line 1: not valid JSON"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_broken_model_folder(refused, world, here, name):
    change, said = MODELS[name]
    shutil.copytree(world.model, here / "m")
    change(here / "m")
    if name == "embedded config no json":
        save_file(
            load_file(here / "m" / "model.safetensors"), here / "m" / "model.safetensors", {"config": "{"}
        )
    refused(["describe", "m", "PLACES", "--out", "d"], said)


EXPORTS = {
    "no name": (["export", "@224x224"], "'@224x224' names no model; `samespot models` lists"),
    "no model": (["export", "absent"], "no such folder, and no network of that name; give a model or run"),
    "a table": (["export", "PLACES"], "no model here; give a model or run folder, such as `samespot train`"),
    "out is a folder": (["export", "MODEL", "--out", "STREET"], "is a folder; give the name of a file"),
    "out under a file": (["export", "MODEL", "--out", "PLACES/x.onnx"], "is a file)"),
    "unknown network": (
        ["export", "resnet9000-gem"],
        "backbone 'resnet9000' is neither vgg16, resnet18, resnet34, resnet50,",
    ),
    "typo": (["export", "MODEL", "--uot", "x.onnx"], "No such option: --uot (Possible options: --out)"),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_that_cannot_be_made(refused, name, monkeypatch):
    words, said = EXPORTS[name]
    monkeypatch.setattr("samespot.model.weights.hub_is_reachable", lambda: False)
    refused(words, said)


def test_a_word_that_no_model_has_gives_an_empty_list(done):
    assert (
        done(["models", "alexnet"], "no model has 'alexnet' in its name; `samespot models` lists all") == []
    )
