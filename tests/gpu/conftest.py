"""What a GPU computes, against the processor. `make test-gpu` runs it on the Python of the machine: torch, torchvision,
timm, pandas, numba and pytest suffice, and what needs more is skipped with its name. Without a GPU all is skipped.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from samespot.model.network import PlaceNet
from samespot.places.table import Places

COUNT, SIZE = 24, (64, 96)


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="no GPU"))


@pytest.fixture
def gpu() -> torch.device:
    return torch.device("cuda", 0)


@pytest.fixture
def places(tmp_path) -> Places:
    """Scenes of coloured blobs along a street, as JPEG files of photo-like smoothness."""
    return photos_in(tmp_path / "photos", COUNT)


def photos_in(root: Path, count: int, size: tuple[int, int] = SIZE) -> Places:
    root.mkdir()
    dice = np.random.default_rng(7)
    for i in range(count):
        scene = Image.fromarray(dice.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        scene.resize((size[1], size[0]), Image.Resampling.BICUBIC).save(root / f"{i}.jpg", quality=92)
    names = [f"{i}.jpg" for i in range(count)]
    columns = {"image": names, "easting": 0.0, "northing": np.arange(count) * 12.0, "heading": 90.0}
    return Places.build(root, columns)


@pytest.fixture
def net() -> PlaceNet:
    """Batch norms as after some learning, so that folding them is no matter of course."""
    torch.manual_seed(1)
    small = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=SIZE)
    for norm in small.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.running_mean.uniform_(-0.1, 0.1)
            norm.running_var.uniform_(0.5, 2.0)
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    return small.eval()
