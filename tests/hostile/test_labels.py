"""Labelling, and labels of others: rules that make no sense, clouds and label files that are broken."""

import json
import shutil

import h5py
import numpy as np
import pytest

from samespot import PairLabels

RULES = {
    "theta 0": (["--theta", "0"], "--theta 0 is not in (0, 360] degrees"),
    "theta 361": (["--theta", "361"], "--theta 361 is not in (0, 360] degrees"),
    "theta nan": (["--theta", "nan"], "--theta nan is not a finite number"),
    "theta text": (["--theta", "wide"], "Invalid value for '--theta'"),
    "radius 0": (["--radius", "0"], "--radius 0 is not a positive number of metres"),
    "radius negative": (["--radius", "-5"], "--radius -5 is not a positive number of metres"),
    "radius inf": (["--radius", "inf"], "--radius inf is not a finite number"),
    "measure dice": (["--measure", "dice"], "--measure 'dice' is unknown; choose one of overlap, iou"),
    "within nothing": (["--within", ""], "--within '': '' is neither metres (25m) nor degrees (40deg)"),
    "within a number": (
        ["--within", "25"],
        "--within '25': '25' is neither metres (25m) nor degrees (40deg)",
    ),
    "within degrees": (
        ["--within", "40deg"],
        "--within '40deg': names no distance; write for example 25m,40deg",
    ),
    "within nan": (["--within", "nanm"], "--within 'nanm': a distance of nan m is not positive"),
    "within negative": (["--within", "-25m"], "--within '-25m': a distance of -25 m is not positive"),
    "within turned too far": (
        ["--within", "25m,400deg"],
        "--within '25m,400deg': an angle of 400° is not in [0, 180]",
    ),
    "soft distance in words": (
        ["--soft-distance", "near"],
        "--soft-distance 'near': write metres, e.g. 15m, and with a steepness",
    ),
    "soft distance negative": (
        ["--soft-distance", "-1m"],
        "--soft-distance '-1m': a distance of -1 is not positive; the authors of",
    ),
    "soft distance steep": (
        ["--soft-distance", "15m,0/m"],
        "--soft-distance '15m,0/m': a steepness of 0 is not positive; the",
    ),
    "two rules": (
        ["--within", "25m", "--soft-distance", "15m"],
        "--soft-distance has no effect with --within",
    ),
    "rule and angle": (["--within", "25m", "--theta", "30"], "--theta has no effect with --within"),
    "kind 4d": (["--kind", "4d"], "--kind '4d' is unknown; choose one of 2d, 3d"),
    "cloud on the ground": (["--cloud", "x.ply"], "--cloud has no effect without --kind 3d"),
    "heading unknown maybe": (
        ["--unknown-heading", "maybe"],
        "--unknown-heading 'maybe' is unknown; choose one of error, disk",
    ),
    "pair of one": (["--pair", "1"], "--pair '1' is not understood: Draw this pair, e.g. 12,340: rows of"),
    "pair of words": (
        ["--pair", "a,b"],
        "--pair 'a,b' is not understood: Draw this pair, e.g. 12,340: rows of",
    ),
    "pair beyond": (["--pair", "0,99"], "--pair 0,99: there are 12 queries and 12 map images"),
    "pair negative": (["--pair", "-1,0"], "--pair -1,0: there are 12 queries and 12 map images"),
    "pair without figures": (["--pair", "0,1", "--no-figures"], "--pair has no effect with --no-figures"),
    "axes without pose": (["--up", "z"], "--up has no effect without --from-pose"),
    "pose that is not there": (
        ["--from-pose"],
        "no 6DOF pose in this table: it lacks the columns qw, qx, qy, qz, tx,",
    ),
    "axis w": (
        ["--from-pose", "--north", "w"],
        "north axis 'w' is unknown; choose one of x, y, z, -x, -y, -z",
    ),
    "axes that agree": (
        ["--from-pose", "--north", "z", "--up", "z"],
        "--up z and --north z are not at right angles; choose two different axes",
    ),
    "split that is not there": (["--split", "val"], "no image with split 'val'; there are map, query, train"),
    "map split that is not there": (
        ["--map-split", "val"],
        "no image with split 'val'; there are map, query, train",
    ),
    "preset kitti": (
        ["--preset", "kitti"],
        "--preset 'kitti' is unknown; choose one of msls, tb-places, 7scenes,",
    ),
    "preset with a rule": (
        ["--preset", "campus", "--theta", "30"],
        "--theta has no effect with --preset campus",
    ),
    "preset with a part": (
        ["--preset", "campus", "--part", "map"],
        "--part has no effect with --preset campus",
    ),
    "device tpu": (["--device", "tpu"], "--device 'tpu' is unknown; choose one of cpu, cuda, cuda:N"),
    "out is a file": (["--out", "PLACES"], "is a file; give the name of a folder"),
    "out under a file": (["--out", "PLACES/x"], "is a file)"),
    "json is a folder": (["--json", "STREET"], "is a folder; give the name of a file"),
    "three tables": (["PLACES", "PLACES"], "Got unexpected extra argument(s)"),
    "map that is not there": (
        ["absent.csv"],
        "no such file; a table of places is a .csv or .parquet with the columns",
    ),
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
    "nothing": (b"", "not a PLY file (its first line is not 'ply')"),
    "no ply": (b"hello\n", "not a PLY file (its first line is not 'ply')"),
    "header without end": (
        b"ply\nformat ascii 1.0\n",
        "the header has no end_header line; the file is cut off",
    ),
    "unknown format": (
        PLY.replace("ascii", "morse") + "0 0 5\n",
        "format 'morse'; known are ascii, binary_little_endian, binary_big_endian",
    ),
    "no vertices": (
        PLY.replace("vertex", "face") + "0 0 5\n",
        "no vertex element, so no points (elements: face)",
    ),
    "no z": (
        PLY.replace("property float z\n", "") + "0 0\n",
        "the vertices lack z; a point needs the properties x, y and z",
    ),
    "unknown type": (
        PLY.replace("float z", "quad z") + "0 0 5\n",
        "line 6: cannot make sense of the header line 'property quad z'",
    ),
    "no number of vertices": (
        PLY.replace("vertex 1", "vertex many") + "0 0 5\n",
        "line 3: cannot make sense of the header line 'element vertex many'",
    ),
    "negative number of vertices": (
        PLY.replace("vertex 1", "vertex -1"),
        "line 3: cannot make sense of the header line 'element vertex -1'",
    ),
    "huge number of vertices": (
        PLY.replace("vertex 1", f"vertex {10**15}") + "0 0 5\n",
        "cut off after 1 of 1000000000000000 rows of element 'vertex'; fetch or",
    ),
    "huge binary number": (
        PLY.replace("vertex 1", f"vertex {10**15}").replace("ascii", "binary_little_endian") + "abc",
        "cut off after 0 of 1000000000000000 rows of element 'vertex'; fetch or",
    ),
    "beyond all numbers": (
        PLY.replace("vertex 1", f"vertex {10**30}").replace("ascii", "binary_little_endian") + "abc",
        "cut off after 0 of 1000000000000000000000000000000 rows of element",
    ),
    "cut off": (
        PLY.replace("vertex 1", "vertex 3") + "0 0 5\n",
        "cut off after 1 of 3 rows of element 'vertex'; fetch or export the file",
    ),
    "words": (PLY + "a b c\n", "line 8: 'a b c' is not a vertex of 3 numbers"),
    "two numbers": (PLY + "1 2\n", "line 8: '1 2' is not a vertex of 3 numbers"),
    "no points": (
        PLY.replace("vertex 1", "vertex 0"),
        "no points in the cloud, so no image sees any; give another cloud",
    ),
    "points of nan": (
        PLY + "nan nan nan\n",
        "no points in the cloud, so no image sees any; give another cloud",
    ),
}


@pytest.mark.parametrize("name", CLOUDS)
def test_a_broken_cloud(refused, here, name):
    content, said = CLOUDS[name]
    posed(here)
    (here / "c.ply").write_bytes(content if isinstance(content, bytes) else content.encode())
    camera = ["--camera", "64,48,50,50,32,24"]
    refused(["label", "p.csv", "--kind", "3d", "--cloud", "c.ply", *camera, "--no-figures"], said)


THREE_D = {
    "no camera": (["--cloud", "c.ply"], "--cloud also needs --camera width,height,fx,fy,cx,cy [pixels]"),
    "camera of words": (
        ["--cloud", "c.ply", "--camera", "wide"],
        "camera 'wide': give six numbers, width,height,fx,fy,cx,cy [pixels]",
    ),
    "camera of five": (
        ["--cloud", "c.ply", "--camera", "64,48,50,50,32"],
        "camera '64,48,50,50,32': give six numbers, width,height,fx,fy,cx,cy [pixels]",
    ),
    "camera of zeros": (
        ["--cloud", "c.ply", "--camera", "0,0,0,0,0,0"],
        "camera '0,0,0,0,0,0': give six numbers, width,height,fx,fy,cx,cy [pixels]",
    ),
    "camera of nan": (
        ["--cloud", "c.ply", "--camera", "64,48,nan,50,32,24"],
        "camera '64,48,nan,50,32,24': give six numbers, width,height,fx,fy,cx,cy",
    ),
    "absent cloud": (
        ["--cloud", "absent.ply", "--camera", "64,48,50,50,32,24"],
        "no such file; a point cloud is a .ply file",
    ),
    "cloud is a folder": (
        ["--cloud", ".", "--camera", "64,48,50,50,32,24"],
        ".: no such file; a point cloud is a .ply file",
    ),
    "no cloud": ([], "3D labels need a cloud: --cloud FILE.ply, a COLMAP model, or depth"),
    "depth that is not there": (
        ["--cloud", "c.ply", "--camera", "64,48,50,50,32,24", "--occlusion", "depth"],
        ".: not every image has a depth image; use --occlusion none or",
    ),
    "occlusion fog": (
        ["--cloud", "c.ply", "--camera", "64,48,50,50,32,24", "--occlusion", "fog"],
        "--occlusion 'fog' is unknown; choose one of none, depth, cloud",
    ),
    "angle": (["--theta", "30"], "--theta has no effect with --kind 3d"),
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
    "empty": (b"", "cannot be read as HDF5"),
    "text": (b"hello", "cannot be read as HDF5"),
    "cut off": (None, "cannot be read as HDF5"),
    "no fov": ({"gt": HALF}, "no data set 'fov'; it has gt; label files have fov and sim"),
    "words": ({"fov": np.array([b"a", b"b"])}, "'fov' is not a data set of numbers in one or two dimensions"),
    "three dimensions": ({"fov": HALF[None]}, "'fov' is not a data set of numbers in one or two dimensions"),
    "a number": ({"fov": 1.0}, "'fov' is not a data set of numbers in one or two dimensions"),
    "a group": ({"fov/x": HALF}, "'fov' is not a data set of numbers in one or two dimensions"),
    "above 1": ({"fov": HALF + 1}, "similarity 1.5 near row 0 is not in [0, 1]; is it another kind of file?"),
    "below 0": (
        {"fov": HALF - 1},
        "similarity -0.5 near row 0 is not in [0, 1]; is it another kind of file?",
    ),
    "nan": (
        {"fov": HALF * np.nan},
        "similarity nan near row 0 is not in [0, 1]; is it another kind of file?",
    ),
    "no triangle": (
        {"fov": np.zeros(4, np.float32)},
        "4 values are neither a matrix nor the upper triangle of a square one;",
    ),
    "no values": (
        {"fov": np.zeros(0, np.float32)},
        "0 values are neither a matrix nor the upper triangle of a square one;",
    ),
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
    "absent": (["absent.h5"], "no such file; give a label file such as london_gt.h5"),
    "a folder": (["STREET"], "no such file; give a label file such as london_gt.h5"),
    "key gt": (["x.h5", "--key", "gt"], "--key 'gt' is unknown; choose one of fov, sim"),
    "layout circle": (
        ["x.h5", "--layout", "circle"],
        "--layout 'circle' is unknown; choose one of auto, matrix, triangle",
    ),
    "layout triangle": (
        ["x.h5", "--layout", "triangle"],
        "a data set of shape (2, 3) is not a triangle; choose another --layout",
    ),
    "no sim": (["x.h5", "--key", "sim"], "no data set 'sim'; it has fov; label files have fov and sim"),
    "out is a file": (["x.h5", "--out", "PLACES"], "is a file; give the name of a folder"),
    "out is something else": (
        ["x.h5", "--out", "STREET"],
        "exists and is not a label folder; choose another folder",
    ),
    "typo": (["x.h5", "--layuot", "matrix"], "No such option: --layuot (Possible options: --layout, --out)"),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_imports_that_cannot_be_made(refused, here, name):
    words, said = IMPORTS[name]
    h5(here / "x.h5", fov=HALF)
    refused(["import-labels", *words], said)


EXPORTS = {
    "absent": (["absent", "--out", "x.h5"], "not a label folder (no meta.json); `samespot label` writes one"),
    "a table": (
        ["PLACES", "--out", "x.h5"],
        "not a label folder (no meta.json); `samespot label` writes one",
    ),
    "no out": (["LABELS"], "Missing option '--out'."),
    "out is a folder": (["LABELS", "--out", "."], "--out .: is a folder; give the name of a file"),
    "out under a file": (["LABELS", "--out", "PLACES/x.h5"], "is a file)"),
    "binary that is not there": (
        ["LABELS", "--out", "x.h5", "--binary", "absent"],
        "not a label folder (no meta.json); `samespot label` writes one",
    ),
    "binary of another size": (
        ["LABELS", "--out", "x.h5", "--binary", "HERE/small"],
        "graded labels are (12, 12), binary ones (2, 3): not the same pairs",
    ),
    "no triangle": (
        ["HERE/small", "--out", "x.h5", "--condensed"],
        "a 2 × 3 label set has no upper triangle; export it as a matrix",
    ),
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
    "no shape": (
        lambda f: (f / "meta.json").write_text("{}"),
        "broken label folder ('shape'); label it again",
    ),
    "another shape": (
        lambda f: meta(f, shape=[5, 5]),
        "broken label folder (its arrays disagree in length); label it again",
    ),
    "a shape of words": (lambda f: meta(f, shape=["a", "b"]), ""),
    "a negative shape": (
        lambda f: meta(f, shape=[12, -1]),
        "broken label folder (columns name map images that are not among its",
    ),
    "another format": (
        lambda f: meta(f, format=99),
        "broken label folder (format 99, this version reads 1); label it again",
    ),
    "no columns": (lambda f: (f / "columns.npy").unlink(), ""),
    "cut off": (lambda f: (f / "similarity.npy").write_bytes((f / "similarity.npy").read_bytes()[:-8]), ""),
    "a pickle": (array("columns", np.array([{"a": 1}], dtype=object)), ""),
    "above 1": (
        lambda f: np.save(f / "similarity.npy", np.load(f / "similarity.npy") + 1),
        "broken label folder (a similarity is 2, not in (0, 1]); label it again",
    ),
    "nan": (
        lambda f: np.save(f / "similarity.npy", np.load(f / "similarity.npy") * np.float32("nan")),
        "broken label folder (a similarity is nan, not in (0, 1]); label it again",
    ),
    "zero": (
        lambda f: np.save(f / "similarity.npy", np.load(f / "similarity.npy") * 0),
        "broken label folder (a similarity is 0, not in (0, 1]); label it again",
    ),
    "columns beyond": (
        lambda f: np.save(f / "columns.npy", np.load(f / "columns.npy") + 99),
        "broken label folder (columns name map images that are not among its",
    ),
    "negative columns": (
        lambda f: np.save(f / "columns.npy", np.load(f / "columns.npy") - 99),
        "broken label folder (columns name map images that are not among its",
    ),
    "indptr that falls": (
        lambda f: np.save(f / "indptr.npy", np.load(f / "indptr.npy")[[0, 2, 1, *range(3, 13)]]),
        "broken label folder (indptr does not ascend); label it again",
    ),
    "of another kind": (
        lambda f: np.save(f / "columns.npy", np.load(f / "columns.npy").astype(float)),
        "broken label folder (columns is 1-dimensional float64, not a list of",
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_broken_label_folder(refused, world, here, name):
    change, said = FOLDERS[name]
    shutil.copytree(world.labels, here / "l")
    change(here / "l")
    refused(["export-labels", "l", "--out", "x.h5"], "l: broken label folder", "label it again", said)
