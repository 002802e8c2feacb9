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
    "code in a checkpoint": (saved({"a": Harmful()}), ""),
    "code in an old checkpoint": (saved({"a": Harmful()}, _use_new_zipfile_serialization=False), ""),
    "code in a pickle": (written(pickle.dumps({"state_dict": Harmful()})), ""),
    "code in an old pickle": (written(pickle.dumps(Harmful(), protocol=0)), ""),
    "a whole network": (saved(torch.nn.Linear(2, 2)), ""),
    "nothing": (written(b""), ""),
    "text": (written(b"weights"), ""),
    "zeros": (written(b"\0" * 100), ""),
    "an unknown protocol": (written(b"\x80\x09abc"), ""),
    "cut off": (cut, ""),
    "a list": (saved([torch.zeros(2)]), ""),
    "a tensor": (saved(torch.zeros(2)), ""),
    "numbers": (saved({"a": 1.0}), ""),
    "names of numbers": (saved({1: torch.zeros(2)}), ""),
    "an empty dictionary": (saved({}), ""),
    "another network": (saved({"fc.weight": torch.zeros(2, 2)}), ""),
    "half a network": (saved({"backbone.0.weight": torch.zeros(64, 3, 7, 7)}), ""),
    "wrong shapes": (saved({"backbone.0.weight": torch.zeros(1), "pool.p": torch.ones(1)}), ""),
    "nan exponent": (
        saved({"backbone.0.weight": torch.zeros(1), "pool.p": torch.tensor([float("nan")])}),
        "",
    ),
    "two exponents": (saved({"backbone.0.weight": torch.zeros(1), "pool.p": torch.ones(2)}), ""),
    "half a NetVLAD": (saved({"encoder.0.weight": torch.zeros(1), "pool.centroids": torch.zeros(2, 2)}), ""),
    "Matlab of nothing": (written(b"MATLAB 5.0 MAT-file" + b"\0" * 109), ""),
    "Matlab junk": (written(b"MATLAB" + bytes(range(250))), ""),
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
    "absent": (["absent.pth"], ""),
    "a folder": (["STREET"], ""),
    "unknown backbone": (["x.pth", "--backbone", "alexnet"], ""),
    "unknown pool": (["x.pth", "--pool", "mean"], ""),
    "out is a file": (["x.pth", "--out", "PLACES"], ""),
    "out under a file": (["x.pth", "--out", "PLACES/m"], ""),
    "typo": (["x.pth", "--bakbone", "vgg16"], ""),
    "no file": ([], ""),
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


def weights(change):
    def rewrite(folder):
        tensors = load_file(folder / "model.safetensors")
        from safetensors import safe_open

        with safe_open(folder / "model.safetensors", "pt") as file:
            told = file.metadata()
        save_file(change(tensors), folder / "model.safetensors", told)

    return rewrite


def first(tensors, value):
    name = next(iter(tensors))
    return {**tensors, name: value(tensors[name])}


MODELS = {
    "config no json": (lambda f: (f / "config.json").write_text("{"), ""),
    "config a list": (lambda f: (f / "config.json").write_text("[]"), ""),
    "config binary": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\0\1"), ""),
    "config a folder": (lambda f: ((f / "config.json").unlink(), (f / "config.json").mkdir()), ""),
    "no backbone": (config(backbone="gone"), ""),
    "no preprocessing": (config(preprocessing="gone"), ""),
    "another format": (config(format=99), ""),
    "unknown network": (config(timm="alexnet9000"), ""),
    "network of a number": (config(timm=7), ""),
    "unknown pooling": (config(pool="mean"), ""),
    "pooling of a list": (config(pool=["gem"]), ""),
    "margin of words": (config(margin="wide"), ""),
    "margin of nothing": (config(margin=None), ""),
    "negative margin": (config(margin=-1), ""),
    "too many blocks": (config(train_blocks=99), ""),
    "blocks of words": (config(train_blocks="most"), ""),
    "size of words": (config(preprocessing={"size": "large"}), ""),
    "preprocessing of a list": (config(preprocessing=[1]), ""),
    "size of gigapixels": (config(preprocessing={"size": [100_000, 100_000]}), ""),
    "notes of a number": (config(notes=7), ""),
    "training of a list": (config(training=[1]), ""),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), ""),
    "weights cut off": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]),
        "",
    ),
    "weights of text": (lambda f: (f / "model.safetensors").write_bytes(b"weights"), ""),
    "weights empty": (lambda f: (f / "model.safetensors").write_bytes(b""), ""),
    "header beyond the file": (lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 8 + b"{}"), ""),
    "weights a folder": (
        lambda f: ((f / "model.safetensors").unlink(), (f / "model.safetensors").mkdir()),
        "",
    ),
    "weights nan": (weights(lambda t: first(t, lambda v: v * float("nan"))), ""),
    "weights infinite": (weights(lambda t: first(t, lambda v: v + float("inf"))), ""),
    "weights of another shape": (weights(lambda t: first(t, lambda v: v.flatten()[:3].clone())), ""),
    "weights missing": (weights(lambda t: dict(list(t.items())[1:])), ""),
    "weights too many": (weights(lambda t: {**t, "head.weight": torch.zeros(3)}), ""),
    "embedded config no json": (weights(lambda t: t), ""),
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
    "no model": (["export", "absent"], ""),
    "a table": (["export", "PLACES"], ""),
    "out is a folder": (["export", "MODEL", "--out", "STREET"], ""),
    "out under a file": (["export", "MODEL", "--out", "PLACES/x.onnx"], ""),
    "unknown network": (["export", "resnet9000-gem"], ""),
    "typo": (["export", "MODEL", "--uot", "x.onnx"], ""),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_that_cannot_be_made(refused, name, monkeypatch):
    words, said = EXPORTS[name]
    monkeypatch.setattr("samespot.model.weights.hub_is_reachable", lambda: False)
    refused(words, said)


def test_a_word_that_no_model_has_gives_an_empty_list(done):
    assert done(["models", "alexnet"]) in ([], None)
