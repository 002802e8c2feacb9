"""Files in the layouts of the published VGG16-NetVLAD: converted, they describe as numpy does from their arrays."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from samespot import Places
from samespot.cli.models import convert as convert_command
from samespot.errors import InputError
from samespot.evaluation.results import Evaluation
from samespot.images.preprocess import Preprocessing
from samespot.model.convert import convert
from samespot.model.network import PlaceNet

# VGG16: channels, and where the map is halved
PLAN = [64, 64, "half", 128, 128, "half", 256, 256, 256, "half", 512, 512, 512, "half", 512, 512, 512]
MEAN = (123.7, 116.8, 103.9)
DIMS = 6


@pytest.fixture(scope="module")
def convolutions():
    """(kernel (out, in, 3, 3), bias) of each of the 13, of a size that keeps signals alive."""
    dice, channels, found = np.random.default_rng(0), 3, []
    for width in (step for step in PLAN if step != "half"):
        kernel = dice.standard_normal((width, channels, 3, 3), dtype=np.float32) * (2 / 9 / channels) ** 0.5
        found.append((kernel.astype(np.float32), dice.standard_normal(width).astype(np.float32) * 0.1))
        channels = width
    return found


def vlad_arrays(clusters, seed=1):
    """Assignment and centroids, both (k, 512), and a whitening (6, k · 512) with its bias (6,)."""
    dice = np.random.default_rng(seed)
    weight = dice.standard_normal((DIMS, clusters * 512)) * np.geomspace(1, 3, DIMS)[:, None]
    arrays = (
        dice.standard_normal((clusters, 512)) * 3,
        dice.standard_normal((clusters, 512)) * 0.04,
        weight,
        dice.standard_normal(DIMS) * 0.3,
    )
    return tuple(array.astype(np.float32) for array in arrays)


@pytest.fixture(scope="module")
def pixels():
    """uint8 (2, 3, 48, 32)"""
    return np.random.default_rng(2).integers(0, 256, (2, 3, 48, 32), dtype=np.uint8)


def last_map(images, convolutions):
    """(n, 3, h, w) -> (n, 512, h / 16, w / 16) in float64, without the last rectifier and halving."""
    rest, maps = list(convolutions), images.astype(np.float64)
    for at, step in enumerate(PLAN):
        if step == "half":
            n, c, h, w = maps.shape
            maps = maps.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
            continue
        kernel, bias = rest.pop(0)
        around = np.pad(maps, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(2, 3))
        maps = np.einsum("nchwij,ocij->nohw", windows, kernel.astype(np.float64), optimize=True)
        maps += bias[:, None, None]
        if at < len(PLAN) - 1:
            maps = np.maximum(maps, 0)
    return maps


def vlad(maps, assignment, centroids, bias=0.0):
    """(n, k, 512), each cluster of length 1, then all of it; in float64."""
    local = maps.reshape(*maps.shape[:2], -1)
    local = local / np.linalg.norm(local, axis=1, keepdims=True)
    scores = np.einsum("kd,ndm->nkm", assignment.astype(np.float64), local) + np.reshape(bias, (-1, 1))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    residuals = local[:, None] - centroids.astype(np.float64)[None, :, :, None]
    sums = (shares[:, :, None] * residuals).sum(axis=3)
    sums /= np.linalg.norm(sums, axis=2, keepdims=True)
    return sums / np.sqrt(len(assignment))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def maps(convolutions, pixels):
    """The last maps as each layout wants its images."""
    colours = {
        "torch": (pixels / 255 - np.reshape([0.485, 0.456, 0.406], (3, 1, 1)))
        / np.reshape([0.229, 0.224, 0.225], (3, 1, 1)),
        "matlab": pixels - np.reshape(MEAN, (3, 1, 1)),
    }
    return {layout: last_map(images, convolutions) for layout, images in colours.items()}


# ---- PyTorch ----


def checkpoint(convolutions, arrays, *, parallel=False, whitening=True, bias=None):
    """As pytorch-NetVlad saves it, numpy's numbers beside the tensors included."""
    numbers = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]
    inner = "module." if parallel else ""
    assignment, centroids, weight, shift = (torch.from_numpy(array) for array in arrays)
    state = {}
    for number, (kernel, offset) in zip(numbers, convolutions, strict=True):
        state[f"encoder.{inner}{number}.weight"] = torch.from_numpy(kernel)
        state[f"encoder.{inner}{number}.bias"] = torch.from_numpy(offset)
    state[f"pool.{inner}centroids"] = centroids
    state[f"pool.{inner}conv.weight"] = assignment[:, :, None, None]
    if bias is not None:
        state[f"pool.{inner}conv.bias"] = torch.from_numpy(bias)
    if whitening:
        state["WPCA.0.weight"] = weight.double()[:, :, None, None]
        state["WPCA.0.bias"] = shift.double()
    return {"epoch": 3, "state_dict": state, "recalls": {1: np.float64(0.8)}, "best_score": np.float64(0.9)}


@pytest.mark.parametrize(("clusters", "parallel"), [(5, False), (64, True)])
def test_a_pytorch_checkpoint_describes_as_its_arrays_say(
    convolutions, maps, pixels, clusters, parallel, tmp_path
):
    arrays = vlad_arrays(clusters)
    torch.save(checkpoint(convolutions, arrays, parallel=parallel), tmp_path / "best.pth.tar")
    convert(tmp_path / "best.pth.tar", tmp_path / "model")
    net = PlaceNet.load(tmp_path / "model")
    assert (net.backbone, net.pool_name, net.descriptor_size) == (
        "vgg16",
        f"netvlad{clusters}",
        512 * clusters,
    )
    assert net.preprocessing == Preprocessing(size=(480, 640))
    check(net, maps["torch"], pixels, arrays)


def check(net, maps, pixels, arrays):
    """Descriptors cluster by cluster, and whitened, against numpy."""
    assignment, centroids, weight, bias = arrays
    expected = vlad(maps, assignment, centroids).reshape(2, -1)
    net.preprocessing = Preprocessing(**{**vars(net.preprocessing), "size": (48, 32)})
    found = net.describe_images(torch.from_numpy(pixels)).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-5)
    whitening = net.whitening
    assert (whitening.dims, whitening.rank) == (len(expected[0]), DIMS)
    # strongest first: the shortest row of the weight, which is how the arrays were made
    whitened = unit(expected @ weight.T.astype(np.float64) + bias)
    np.testing.assert_allclose(whitening(expected, DIMS), whitened, atol=1e-6)


def test_a_bias_of_the_assignment_is_kept(convolutions, maps, pixels, tmp_path):
    arrays, bias = vlad_arrays(4), np.array([0.5, -1.0, 0.0, 2.0], np.float32)
    torch.save(checkpoint(convolutions, arrays, whitening=False, bias=bias), tmp_path / "v2.pth.tar")
    net = convert(tmp_path / "v2.pth.tar", tmp_path / "model", image_size=(48, 32))
    assert net.whitening is None
    assert net.pool_name == "netvlad4v2"
    expected = vlad(maps["torch"], *arrays[:2], bias=bias).reshape(2, -1)
    found = PlaceNet.load(tmp_path / "model").describe_images(torch.from_numpy(pixels)).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_numbers_of_an_older_numpy_beside_the_tensors_do_no_harm(convolutions, tmp_path):
    path = tmp_path / "old.pth.tar"
    content = checkpoint(convolutions, vlad_arrays(2), whitening=False)
    torch.save(content, path, _use_new_zipfile_serialization=False)
    saved = path.read_bytes()
    assert b"numpy._core.multiarray\nscalar" in saved  # the name since numpy 2
    path.write_bytes(saved.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    net = convert(path, tmp_path / "model")
    np.testing.assert_array_equal(net.pool.centroids.detach(), vlad_arrays(2)[1])


# ---- Matlab ----


def cell(*arrays):
    held = np.empty((1, len(arrays)), dtype=object)
    for at, array in enumerate(arrays):
        held[0, at] = array
    return held


def matlab_layers(convolutions, arrays):
    """The layers as the authors' toolbox lists them, each with a name and a type."""
    rest, layers = list(convolutions), []
    for step in PLAN:
        if step == "half":
            layers.append({"type": "pool", "name": "pool"})
            continue
        kernel, bias = rest.pop(0)
        weights = cell(kernel.transpose(2, 3, 1, 0), bias[:, None])
        layers += [{"type": "conv", "name": "conv", "weights": weights}, {"type": "relu", "name": "relu"}]
    layers[-1] = {"type": "custom", "name": "preL2"}  # in the place of the last rectifier
    assignment, centroids, weight, bias = arrays
    clusters = len(assignment)
    by_channel = weight.reshape(DIMS, clusters, 512).transpose(2, 1, 0).reshape(1, 1, -1, DIMS)
    return [
        *layers,
        {"type": "custom", "name": "vlad:core", "weights": cell(assignment.T, -centroids.T)},
        {"type": "custom", "name": "vlad:intranorm"},
        {"type": "custom", "name": "postL2"},
        {"type": "conv", "name": "WPCA", "weights": cell(by_channel, bias[:, None])},
        {"type": "custom", "name": "WPCA:L2"},
    ]


def write_matlab(path, layers, mean=MEAN):
    listed = np.empty((1, len(layers)), dtype=object)
    for at, layer in enumerate(layers):
        listed[0, at] = layer
    picture = np.broadcast_to(np.asarray(mean, np.float32), (4, 4, len(mean)))
    meta = {"normalization": {"averageImage": picture}}
    savemat(path, {"net": {"layers": listed, "meta": meta}})


def test_the_layers_lie_where_other_readers_look_for_them(convolutions):
    names = [layer["name"] for layer in matlab_layers(convolutions, vlad_arrays(2))]
    assert (names[28], names[30], names[33]) == ("conv", "vlad:core", "WPCA")


@pytest.mark.parametrize("clusters", [5, 64])
def test_a_matlab_file_describes_as_its_arrays_say(convolutions, maps, pixels, clusters, tmp_path):
    arrays = vlad_arrays(clusters)
    write_matlab(tmp_path / "net_struct.mat", matlab_layers(convolutions, arrays))
    convert(tmp_path / "net_struct.mat", tmp_path / "model")
    net = PlaceNet.load(tmp_path / "model")
    assert (net.pool_name, net.descriptor_size) == (f"netvlad{clusters}", 512 * clusters)
    assert net.preprocessing.channels == "RGB"
    assert net.preprocessing.value_range == 255
    np.testing.assert_allclose(net.preprocessing.mean, MEAN, rtol=1e-6)
    assert net.preprocessing.std == (1, 1, 1)
    check(net, maps["matlab"], pixels, arrays)


def test_the_whitening_is_that_of_the_order_in_the_file(convolutions, maps, tmp_path):
    """Straight from the layer: component d of cluster k at d · clusters + k."""
    arrays = vlad_arrays(3)
    layers = matlab_layers(convolutions, arrays)
    write_matlab(tmp_path / "x.mat", layers)
    net = convert(tmp_path / "x.mat", tmp_path / "model")
    theirs, bias = (np.asarray(a, np.float64) for a in layers[33]["weights"][0])
    found = vlad(maps["matlab"], *arrays[:2])
    by_channel = found.transpose(0, 2, 1).reshape(2, -1)
    expected = unit(by_channel @ theirs[0, 0] + bias[:, 0])
    np.testing.assert_allclose(net.whitening(found.reshape(2, -1), DIMS), expected, atol=1e-6)


# ---- what does not fit ----


@pytest.mark.parametrize(
    ("remove", "add", "match"),
    [
        ("encoder.28.bias", None, r"missing: features\.28\.bias"),
        (None, ("encoder.30.weight", torch.zeros(1)), r"not expected: features\.30\.weight"),
        ("pool.conv.weight", None, r"missing: pool\.conv\.weight"),
        ("WPCA.0.bias", None, r"missing: WPCA\.0\.bias"),
        (None, ("head.weight", torch.zeros(1)), r"not expected: head\.weight"),
        (None, ("pool.centroids", torch.zeros(3, 512)), r"assignment is \(2, 512\), expected \(3, 512\)"),
        (None, ("pool.centroids", torch.zeros(2, 256)), r"centroids is \(2, 256\), expected \(2, 512\)"),
        (None, ("pool.centroids", torch.full((2, 512), torch.nan)), "centroids is not finite"),
        (None, ("WPCA.0.bias", torch.zeros(3)), r"whitening is \(6, 1024\), expected \(3, 1024\)"),
    ],
)
def test_parts_that_do_not_fit_are_named(convolutions, tmp_path, remove, add, match):
    content = checkpoint(convolutions, vlad_arrays(2))
    if remove:
        del content["state_dict"][remove]
    if add:
        content["state_dict"][add[0]] = add[1]
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(InputError, match=match):
        convert(tmp_path / "x.pth", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("options", "held"), [({"pool": "gem"}, "vgg16-netvlad2"), ({"backbone": "resnet18"}, "vgg16-netvlad2")]
)
def test_wishes_that_contradict_the_file_are_refused(convolutions, tmp_path, options, held):
    torch.save(checkpoint(convolutions, vlad_arrays(2)), tmp_path / "x.pth")
    with pytest.raises(InputError, match=f"the file holds {held}"):
        convert(tmp_path / "x.pth", tmp_path / "model", **options)


def test_matlab_files_of_other_things_are_refused(convolutions, tmp_path):
    savemat(tmp_path / "a.mat", {"x": np.ones(3)})
    with pytest.raises(InputError, match="no network in it"):
        convert(tmp_path / "a.mat", tmp_path / "model")
    write_matlab(tmp_path / "b.mat", matlab_layers(convolutions, vlad_arrays(2))[:30])
    with pytest.raises(InputError, match="13 layers of filters and 0 VLAD layers"):
        convert(tmp_path / "b.mat", tmp_path / "model")
    write_matlab(tmp_path / "c.mat", matlab_layers(convolutions, vlad_arrays(2)), mean=[1.0, 2.0])
    with pytest.raises(InputError, match="mean colour"):
        convert(tmp_path / "c.mat", tmp_path / "model")
    (tmp_path / "d.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(InputError, match=r"d\.mat"):
        convert(tmp_path / "d.mat", tmp_path / "model")


def test_the_command_says_what_it_has_written(convolutions, tmp_path, capsys):
    torch.save(checkpoint(convolutions, vlad_arrays(2)), tmp_path / "x.pth")
    convert_command({"file": tmp_path / "x.pth", "out": tmp_path / "model"})
    said = capsys.readouterr()
    assert "converted from the VGG16-NetVLAD weights x.pth" in said.err
    assert "it brings a whitening to 6 dims: `samespot evaluate --whiten model`" in said.out + said.err
    assert (tmp_path / "model" / "whitening.safetensors").is_file()


# ---- from the published file to a recall ----


def write_street(folder, dice):
    """A map of 6 photos, 100 m apart, and queries beside the first 4, each a map photo with noise of its own."""
    shown = {"map": dice.integers(0, 256, (6, 48, 32, 3))}
    noise = dice.integers(-110, 111, (4, 48, 32, 3))
    shown["queries"] = np.clip(shown["map"][:4] + noise, 0, 255)
    for name, photos in shown.items():
        (folder / name).mkdir()
        files = [f"{name}/{i}.png" for i in range(len(photos))]
        for file, photo in zip(files, photos, strict=True):
            Image.fromarray(photo.astype(np.uint8)).save(folder / file)
        columns = {"easting": 100.0 * np.arange(len(files)), "northing": 0.0, "heading": 0.0}
        Places.build(folder, {"image": files, **columns}).save(folder / f"{name}.csv")
    return {name: photos.transpose(0, 3, 1, 2) for name, photos in shown.items()}


@pytest.mark.parametrize("layout", ["torch", "matlab"])
def test_a_published_file_is_evaluated_with_its_own_whitening(samespot, convolutions, layout, tmp_path):
    """`convert`, then `evaluate`: the nearest photos are those that numpy finds from the arrays."""
    arrays, file = vlad_arrays(3), tmp_path / ("x.pth.tar" if layout == "torch" else "x_struct.mat")
    if layout == "torch":
        torch.save(checkpoint(convolutions, arrays), file)
    else:
        write_matlab(file, matlab_layers(convolutions, arrays))
    code, _, err = samespot("convert", file, "--out", tmp_path / "netvlad")
    assert code == 0, err
    config = tmp_path / "netvlad" / "config.json"
    told = json.loads(config.read_text())
    told["preprocessing"]["size"] = [48, 32]  # of 480 x 640, for the sake of time
    config.write_text(json.dumps(told))
    photos = write_street(tmp_path, np.random.default_rng(3))
    words = ("--map", tmp_path / "map.csv", "--queries", tmp_path / "queries.csv", "--gallery", 0)
    words += ("--out", tmp_path / "e")
    code, out, err = samespot("evaluate", tmp_path / "netvlad", *words)
    assert code == 0, err
    result = Evaluation.load(tmp_path / "e")
    plain, white = result.variants
    assert (plain.dims, white.name) == (3 * 512, f"{DIMS} whitened with the model's whitening")
    assert white.whitened_on == f"what {file.name} was fitted on"
    assert "whitening" in out
    assert white.whitened_on in " ".join(err.split())
    described = {
        name: described_by_hand(images, convolutions, arrays, layout) for name, images in photos.items()
    }
    apart = np.linalg.norm(described["queries"][:, None] - described["map"][None], axis=2)
    assert white.outcomes["top"].tolist() == [f"map/{i}.png" for i in apart.argmin(axis=1)]
    np.testing.assert_allclose(white.outcomes["distance"], apart.min(axis=1), atol=1e-4)
    assert white.metrics["R@1"].value == (apart.argmin(axis=1) == np.arange(4)).mean()
    assert white.metrics["R@1"].low < white.metrics["R@1"].high


def described_by_hand(images, convolutions, arrays, layout):
    """(n, 3, h, w) of 0..255 -> (n, 6) whitened, in float64."""
    assignment, centroids, weight, bias = arrays
    if layout == "torch":
        mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
        images = (images / 255 - mean[:, None, None]) / deviation[:, None, None]
    else:
        images = images - np.reshape(np.float32(MEAN), (3, 1, 1))
    found = vlad(last_map(images, convolutions), assignment, centroids).reshape(len(images), -1)
    return unit(found @ weight.T.astype(np.float64) + bias)
