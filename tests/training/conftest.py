"""Small labelled sets that tests of training share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from samespot.overlap.rules import label_pairs, label_within
from samespot.places.table import Places
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are slower on several threads, and far slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _places(n: int, seed: int, name: str = "q", side: float = 150.0, panoramas: float = 0.0) -> Places:
    dice = np.random.default_rng(seed)
    return Places.build(
        "nowhere",
        {
            "image": [f"{name}{i}.jpg" for i in range(n)],
            "easting": dice.random(n) * side,
            "northing": dice.random(n) * side,
            "heading": dice.random(n) * 360,
            "pano": dice.random(n) < panoramas,
        },
        missing_images="ignore",
    )


@pytest.fixture
def some_places() -> Callable[..., Places]:
    return _places


@pytest.fixture
def graded_set() -> LabelledSet:
    queries, places = _places(120, 1), _places(150, 2, "m")
    return LabelledSet(queries, places, label_pairs(queries, places))


@pytest.fixture
def self_set() -> LabelledSet:
    table = _places(90, 3)
    return LabelledSet(table, table, label_pairs(table, table))


@pytest.fixture
def binary_set() -> LabelledSet:
    queries, places = _places(120, 1), _places(150, 2, "m")
    return LabelledSet(queries, places, label_within(queries, places, 25.0, 40.0))


@pytest.fixture(scope="session")
def photo_set(tmp_path_factory: pytest.TempPathFactory) -> LabelledSet:
    """Twelve small coloured JPEGs along a street, labelled against themselves."""
    return _street(tmp_path_factory.mktemp("street"), 12)


@pytest.fixture
def street_of_photos() -> Callable[..., LabelledSet]:
    return _street


def _street(root: Path, n: int, size: tuple[int, int] = (48, 64)) -> LabelledSet:
    from PIL import Image

    dice = np.random.default_rng(7)
    coarse = dice.integers(0, 256, (n, 6, 8, 3), dtype=np.uint8)
    for i in range(n):
        Image.fromarray(coarse[i]).resize((size[1], size[0]), Image.Resampling.BILINEAR).save(
            root / f"{i}.jpg"
        )
    table = Places.build(
        root,
        {
            "image": [f"{i}.jpg" for i in range(n)],
            "easting": np.zeros(n),
            "northing": np.arange(n) * 12.0,
            "heading": np.full(n, 90.0),
        },
    )
    return LabelledSet(table, table, label_pairs(table, table))


@pytest.fixture(scope="session")
def tiny() -> TrainingOptions:
    """A network of 370,000 weights on 64 pixels, on the CPU."""
    return TrainingOptions(
        backbone="test_resnet.r160_in1k",
        pretrained=False,
        image_size=(64, 64),
        batch_pairs=6,
        steps=6,
        log_every=1,
        checkpoint_every=3,
        device="cpu",
        tensorboard=False,
        workers=2,
        cache_frozen="no",
        images_in_memory="no",
        compile=False,
    )
