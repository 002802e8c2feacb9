"""A tiny network, local features that are the pixels themselves, and photos that say where they were taken."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

from samespot.maps.asking import model_trust
from samespot.matching.keypoints import Keypoints
from samespot.model.network import PlaceNet
from samespot.model.shipped import DEFAULT_MODEL, SHIPPED

NORTH = 1e-4  # [deg] between two photos: 11 m


class FirstPixels:
    """A `Verifier` whose keypoints are the first pixels of a photo: read back, they tell which photo it was."""

    name = "pixels"

    def __init__(self, keypoints):
        self.count = keypoints

    def facts(self):
        return {"keypoints": self.count}

    def extract(self, image):
        height, width = image.shape[1:]
        values = image.reshape(3, -1)[:, : self.count].T.numpy().astype(np.int16) - 128
        at = np.arange(len(values))
        xy = np.stack([at % width, at // width], axis=1) + 0.25
        return Keypoints(xy.astype(np.float32), values.astype(np.int8), (height, width))


@pytest.fixture(scope="session")
def net():
    torch.manual_seed(1)
    small = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64))
    return small.eval()


@pytest.fixture(scope="session")
def calibration():
    """As a map has it that cannot calibrate itself."""
    return model_trust(PlaceNet.load(SHIPPED[DEFAULT_MODEL].folder), "nobody asked it").to_dict()


@pytest.fixture
def quick(monkeypatch, one_thread, calibration):
    """No XFeat, and no map asks itself: what is stored and what changes is in question here."""
    from samespot.maps import build
    from samespot.matching import verification

    monkeypatch.setattr(verification, "verifier_named", lambda name, count, device: FirstPixels(count))
    monkeypatch.setattr(build._Work, "_calibration", lambda self, generation: calibration)


def _dms(angle):
    whole = int(abs(angle))
    minutes = int((abs(angle) - whole) * 60)
    return float(whole), float(minutes), (abs(angle) - whole - minutes / 60) * 3600


@pytest.fixture(scope="session")
def shoot():
    """Writes a photo of a scene (a number) with its position in the EXIF data."""

    def take(
        path, scene=0, latitude=48.137, longitude=11.575, heading=90.0, size=(64, 48), mode="RGB", turn=None
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        dice = np.random.default_rng(scene)
        colours = Image.fromarray(dice.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        tags = Image.Exif()
        if latitude is not None:
            sides = "N" if latitude >= 0 else "S", "E" if longitude >= 0 else "W"
            tags[0x8825] = {1: sides[0], 2: _dms(latitude), 3: sides[1], 4: _dms(longitude)}
            if heading is not None:
                tags[0x8825] |= {16: "T", 17: float(heading)}
        if turn is not None:
            tags[0x0112] = turn
        colours.resize(size, Image.Resampling.BICUBIC).convert(mode).save(path, exif=tags, quality=92)
        return path

    return take


@pytest.fixture
def street(tmp_path, shoot):
    """A folder of photos, 11 m apart along a street that runs north; given how many there are, and the first scene."""

    def fill(count, name="photos", first=0):
        folder = tmp_path / name
        for i in range(first, first + count):
            shoot(folder / f"{i:03d}.jpg", i, 48.137 + i * NORTH, heading=i % 360)
        return folder

    return fill


@pytest.fixture
def touch():
    """Moves the time of a file, as an editor does."""

    def later(path):
        facts = os.stat(path)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1_000_000_000))

    return later
