"""Labelling, and labels of others: rules that make no sense, clouds and label files that are broken."""

import json
import shutil

import h5py
import numpy as np
import pytest

from samespot import PairLabels

RULES = {
    "theta 0": (["--theta", "0"], ""),
    "theta 361": (["--theta", "361"], ""),
    "theta nan": (["--theta", "nan"], ""),
    "theta text": (["--theta", "wide"], ""),
    "radius 0": (["--radius", "0"], ""),
    "radius negative": (["--radius", "-5"], ""),
    "radius inf": (["--radius", "inf"], ""),
    "measure dice": (["--measure", "dice"], ""),
    "within nothing": (["--within", ""], ""),
    "within a number": (["--within", "25"], ""),
    "within degrees": (["--within", "40deg"], ""),
    "within nan": (["--within", "nanm"], ""),
    "within negative": (["--within", "-25m"], ""),
    "within turned too far": (["--within", "25m,400deg"], ""),
    "soft distance in words": (["--soft-distance", "near"], ""),
    "soft distance negative": (["--soft-distance", "-1m"], ""),
    "soft distance steep": (["--soft-distance", "15m,0/m"], ""),
    "two rules": (["--within", "25m", "--soft-distance", "15m"], ""),
    "rule and angle": (["--within", "25m", "--theta", "30"], ""),
    "kind 4d": (["--kind", "4d"], ""),
    "cloud on the ground": (["--cloud", "x.ply"], ""),
    "heading unknown maybe": (["--unknown-heading", "maybe"], ""),
    "pair of one": (["--pair", "1"], ""),
    "pair of words": (["--pair", "a,b"], ""),
    "pair beyond": (["--pair", "0,99"], ""),
    "pair negative": (["--pair", "-1,0"], ""),
    "pair without figures": (["--pair", "0,1", "--no-figures"], ""),
    "axes without pose": (["--up", "z"], ""),
    "pose that is not there": (["--from-pose"], ""),
    "axis w": (["--from-pose", "--north", "w"], ""),
    "axes that agree": (["--from-pose", "--north", "z", "--up", "z"], ""),
    "split that is not there": (["--split", "val"], ""),
    "map split that is not there": (["--map-split", "val"], ""),
    "preset kitti": (["--preset", "kitti"], ""),
    "preset with a rule": (["--preset", "campus", "--theta", "30"], ""),
    "preset with a part": (["--preset", "campus", "--part", "map"], ""),
    "device tpu": (["--device", "tpu"], ""),
    "out is a file": (["--out", "PLACES"], ""),
    "out under a file": (["--out", "PLACES/x"], ""),
    "json is a folder": (["--json", "STREET"], ""),
    "three tables": (["PLACES", "PLACES"], ""),
    "map that is not there": (["absent.csv"], ""),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_that_make_no_sense(refused, name):
    words, said = RULES[name]
    refused(["label", "PLACES", *words], said)


def test_unknown_headings_are_not_guessed(refused, done, here):
    (here / "p.csv").write_text("image,easting,northing\na.jpg,1,2\nb.jpg,3,4\n")
    refused(["label", "p.csv"], "2 of 2 query images have no heading", "--unknown-heading disk")
    done(["label", "p.csv", "--unknown-heading", "disk", "--no-figures", "--out", "o"])


def test_labels_do_not_replace_a_folder_of_something_else(refused, here):
    (here / "o" / "labels").mkdir(parents=True)
    (here / "o" / "labels" / "thesis.txt").write_text("ten years of work")
    refused(["label", "PLACES", "--out", "o"], "exists and is not a label folder; choose another folder")
    assert (here / "o" / "labels" / "thesis.txt").is_file()


# ---- 3D ----


def posed(here):
    (here / "p.csv").write_text(
        "image,easting,northing,heading,tx,ty,tz,qw,qx,qy,qz\n"
        "a.jpg,0,0,0,0,0,0,1,0,0,0\nb.jpg,1,0,0,1,0,0,1,0,0,0\n"
    )


PLY = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
CLOUDS = {
    "nothing": (b"", ""),
    "no ply": (b"hello\n", ""),
    "header without end": (b"ply\nformat ascii 1.0\n", ""),
    "unknown format": (PLY.replace("ascii", "morse") + "0 0 5\n", ""),
    "no vertices": (PLY.replace("vertex", "face") + "0 0 5\n", ""),
    "no z": (PLY.replace("property float z\n", "") + "0 0\n", ""),
    "unknown type": (PLY.replace("float z", "quad z") + "0 0 5\n", ""),
    "no number of vertices": (PLY.replace("vertex 1", "vertex many") + "0 0 5\n", ""),
    "negative number of vertices": (PLY.replace("vertex 1", "vertex -1"), ""),
    "huge number of vertices": (PLY.replace("vertex 1", f"vertex {10**15}") + "0 0 5\n", ""),
    "huge binary number": (
        PLY.replace("vertex 1", f"vertex {10**15}").replace("ascii", "binary_little_endian") + "abc",
        "",
    ),
    "beyond all numbers": (
        PLY.replace("vertex 1", f"vertex {10**30}").replace("ascii", "binary_little_endian") + "abc",
        "",
    ),
    "cut off": (PLY.replace("vertex 1", "vertex 3") + "0 0 5\n", ""),
    "words": (PLY + "a b c\n", ""),
    "two numbers": (PLY + "1 2\n", ""),
    "no points": (PLY.replace("vertex 1", "vertex 0"), ""),
    "points of nan": (PLY + "nan nan nan\n", ""),
}


@pytest.mark.parametrize("name", CLOUDS)
def test_a_broken_cloud(refused, here, name):
    content, said = CLOUDS[name]
    posed(here)
    (here / "c.ply").write_bytes(content if isinstance(content, bytes) else content.encode())
    camera = ["--camera", "64,48,50,50,32,24"]
    refused(["label", "p.csv", "--kind", "3d", "--cloud", "c.ply", *camera, "--no-figures"], said)


THREE_D = {
    "no camera": (["--cloud", "c.ply"], ""),
    "camera of words": (["--cloud", "c.ply", "--camera", "wide"], ""),
    "camera of five": (["--cloud", "c.ply", "--camera", "64,48,50,50,32"], ""),
    "camera of zeros": (["--cloud", "c.ply", "--camera", "0,0,0,0,0,0"], ""),
    "camera of nan": (["--cloud", "c.ply", "--camera", "64,48,nan,50,32,24"], ""),
    "absent cloud": (["--cloud", "absent.ply", "--camera", "64,48,50,50,32,24"], ""),
    "cloud is a folder": (["--cloud", ".", "--camera", "64,48,50,50,32,24"], ""),
    "no cloud": ([], ""),
    "depth that is not there": (
        ["--cloud", "c.ply", "--camera", "64,48,50,50,32,24", "--occlusion", "depth"],
        "",
    ),
    "occlusion fog": (["--cloud", "c.ply", "--camera", "64,48,50,50,32,24", "--occlusion", "fog"], ""),
    "angle": (["--theta", "30"], ""),
}


@pytest.mark.parametrize("name", THREE_D)
def test_3d_labels_that_cannot_be_made(refused, here, name):
    words, said = THREE_D[name]
    posed(here)
    (here / "c.ply").write_text(PLY + "0 0 5\n")
    refused(["label", "p.csv", "--kind", "3d", *words, "--no-figures"], said)


# ---- label files of others ----


def h5(path, **sets):
    with h5py.File(path, "w") as file:
        for name, values in sets.items():
            file[name] = values


HALF = np.full((2, 3), 0.5, np.float32)
H5 = {
    "empty": (b"", ""),
    "text": (b"hello", ""),
    "cut off": (None, ""),
    "no fov": ({"gt": HALF}, ""),
    "words": ({"fov": np.array([b"a", b"b"])}, ""),
    "three dimensions": ({"fov": HALF[None]}, ""),
    "a number": ({"fov": 1.0}, ""),
    "a group": ({"fov/x": HALF}, ""),
    "above 1": ({"fov": HALF + 1}, ""),
    "below 0": ({"fov": HALF - 1}, ""),
    "nan": ({"fov": HALF * np.nan}, ""),
    "no triangle": ({"fov": np.zeros(4, np.float32)}, ""),
    "no values": ({"fov": np.zeros(0, np.float32)}, ""),
}


@pytest.mark.parametrize("name", H5)
def test_a_broken_label_file(refused, here, name):
    content, said = H5[name]
    if isinstance(content, bytes):
        (here / "x.h5").write_bytes(content)
    elif content is None:
        h5(here / "x.h5", fov=np.random.default_rng(0).random((50, 50)))
        (here / "x.h5").write_bytes((here / "x.h5").read_bytes()[:3000])
    else:
        h5(here / "x.h5", **content)
    refused(["import-labels", "x.h5", "--out", "o"], "x.h5", said)
    assert not (here / "o").exists()


IMPORTS = {
    "absent": (["absent.h5"], ""),
    "a folder": (["STREET"], ""),
    "key gt": (["x.h5", "--key", "gt"], ""),
    "layout circle": (["x.h5", "--layout", "circle"], ""),
    "layout triangle": (["x.h5", "--layout", "triangle"], ""),
    "no sim": (["x.h5", "--key", "sim"], ""),
    "out is a file": (["x.h5", "--out", "PLACES"], ""),
    "out is something else": (["x.h5", "--out", "STREET"], ""),
    "typo": (["x.h5", "--layuot", "matrix"], ""),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_imports_that_cannot_be_made(refused, here, name):
    words, said = IMPORTS[name]
    h5(here / "x.h5", fov=HALF)
    refused(["import-labels", *words], said)


EXPORTS = {
    "absent": (["absent", "--out", "x.h5"], ""),
    "a table": (["PLACES", "--out", "x.h5"], ""),
    "no out": (["LABELS"], ""),
    "out is a folder": (["LABELS", "--out", "."], ""),
    "out under a file": (["LABELS", "--out", "PLACES/x.h5"], ""),
    "binary that is not there": (["LABELS", "--out", "x.h5", "--binary", "absent"], ""),
    "binary of another size": (["LABELS", "--out", "x.h5", "--binary", "HERE/small"], ""),
    "no triangle": (["HERE/small", "--out", "x.h5", "--condensed"], ""),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_that_cannot_be_made(refused, here, name):
    words, said = EXPORTS[name]
    PairLabels(
        np.array([0, 1, 1]), np.zeros(1, np.int32), np.ones(1, np.float32), (2, 3), {"measure": "x"}
    ).save(here / "small")
    refused(["export-labels", *words], said)
    assert not (here / "x.h5").exists()


def meta(folder, **changes):
    facts = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**facts, **changes}))


def array(name, values):
    return lambda folder: np.save(folder / f"{name}.npy", values)


FOLDERS = {
    "no json": (lambda f: (f / "meta.json").write_text("{"), ""),
    "a list": (lambda f: (f / "meta.json").write_text("[]"), ""),
    "no shape": (lambda f: (f / "meta.json").write_text("{}"), ""),
    "another shape": (lambda f: meta(f, shape=[5, 5]), ""),
    "a shape of words": (lambda f: meta(f, shape=["a", "b"]), ""),
    "a negative shape": (lambda f: meta(f, shape=[12, -1]), ""),
    "another format": (lambda f: meta(f, format=99), ""),
    "no columns": (lambda f: (f / "columns.npy").unlink(), ""),
    "cut off": (lambda f: (f / "similarity.npy").write_bytes((f / "similarity.npy").read_bytes()[:-8]), ""),
    "a pickle": (array("columns", np.array([{"a": 1}], dtype=object)), ""),
    "above 1": (lambda f: np.save(f / "similarity.npy", np.load(f / "similarity.npy") + 1), ""),
    "nan": (lambda f: np.save(f / "similarity.npy", np.load(f / "similarity.npy") * np.float32("nan")), ""),
    "zero": (lambda f: np.save(f / "similarity.npy", np.load(f / "similarity.npy") * 0), ""),
    "columns beyond": (lambda f: np.save(f / "columns.npy", np.load(f / "columns.npy") + 99), ""),
    "negative columns": (lambda f: np.save(f / "columns.npy", np.load(f / "columns.npy") - 99), ""),
    "indptr that falls": (
        lambda f: np.save(f / "indptr.npy", np.load(f / "indptr.npy")[[0, 2, 1, *range(3, 13)]]),
        "",
    ),
    "of another kind": (lambda f: np.save(f / "columns.npy", np.load(f / "columns.npy").astype(float)), ""),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_broken_label_folder(refused, world, here, name):
    change, said = FOLDERS[name]
    shutil.copytree(world.labels, here / "l")
    change(here / "l")
    refused(["export-labels", "l", "--out", "x.h5"], "l: broken label folder", "label it again", said)
