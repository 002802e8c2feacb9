"""A small network, and photos for it."""

import numpy as np
import pytest
import torch
from PIL import Image

from samespot.images import sources as images_module
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.retrieval.describe import describe

BATCH = 4
COUNT = 14  # three blocks and a half


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(1)
    small = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64))
    for (
        norm
    ) in small.modules():  # not the numbers they start with, so that folding them is no matter of course
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.uniform_(-0.1, 0.1)
            norm.running_var.uniform_(0.5, 2.0)
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    return small.eval()


def take_photos(root, count, views=1, size=(48, 64)):
    """`count` scenes of coloured blobs, each seen in `views` photos that differ in noise and light."""
    dice = np.random.default_rng(7)
    names = []
    for i in range(count):
        scene = Image.fromarray(dice.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        plain = np.asarray(scene.resize((size[1], size[0]), Image.Resampling.BICUBIC), dtype=np.float64)
        for view in range(views):
            seen = plain * (1 - 0.15 * view) + dice.normal(0, 2, plain.shape) * (view > 0)
            names.append(f"{i}-{view}.jpg")
            Image.fromarray(seen.clip(0, 255).astype(np.uint8)).save(root / names[-1], quality=92)
    columns = {"image": names, "easting": 0.0, "northing": np.arange(len(names)) * 9.0, "heading": 0.0}
    return Places.build(root, columns)


@pytest.fixture
def places(tmp_path):
    (tmp_path / "photos").mkdir()
    return take_photos(tmp_path / "photos", COUNT)


@pytest.fixture
def read(monkeypatch):
    """Names of the images that have been read."""
    names, original = [], images_module.read_encoded
    monkeypatch.setattr(images_module, "read_encoded", lambda path: names.append(path.name) or original(path))
    return names


def on_cpu(net, places, out=None, **options):
    return describe(net, places, out, **{"batch_size": BATCH, "device": "cpu", "workers": 2, **options})


def bits(descriptors):
    return np.asarray(descriptors.vectors).tobytes()
