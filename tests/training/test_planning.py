"""What is chosen for photos and machine, against sizes worked out by hand and memory that was measured."""

import os

import pytest
import torch
from PIL import Image

from samespot.model.network import PlaceNet
from samespot.training.planning import activation_bytes, fitting_pairs, fitting_size, in_words, photo_size


@pytest.mark.parametrize(
    ("photos", "chosen"),
    [
        ((480, 640), (480, 640)),
        ((3000, 4000), (480, 640)),
        ((4000, 3000), (640, 480)),  # upright photos
        ((144, 144), (144, 144)),  # never enlarged
        ((120, 160), (128, 160)),  # to the next multiple of 16
        ((240, 4000), (240, 640)),  # a strip
    ],
)
def test_image_sizes(photos, chosen):
    assert fitting_size(photos) == chosen


def test_the_size_of_photos_is_that_of_most_upright(tmp_path):
    for i in range(5):
        image = Image.new("RGB", (60, 40))
        exif = image.getexif()
        if i:
            exif[274] = 6  # stored on its side
        image.save(tmp_path / f"{i}.jpg", exif=exif)
    (tmp_path / "5.jpg").write_text("no image")
    assert photo_size([tmp_path / f"{i}.jpg" for i in range(6)]) == (60, 40)
    assert photo_size([tmp_path / "5.jpg"]) is None
    os.mkfifo(tmp_path / "pipe.jpg")  # nobody writes to it: whoever reads it waits
    assert photo_size([tmp_path / "pipe.jpg"]) is None


def test_memory_grows_with_the_pixels_and_with_what_is_trained():
    nets = [
        PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(96, 96), train_blocks=blocks)
        for blocks in (1, "all")
    ]
    few, most = (activation_bytes(net, (96, 96)) for net in nets)
    assert most > 2 * few
    assert activation_bytes(nets[1], (192, 192)) == pytest.approx(4 * most, rel=0.05)


def test_what_a_convolution_keeps_is_counted_by_hand():
    """One trained stage of a 1x1 convolution: its output, the pooled vector and the image."""
    net = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(32, 32), train_blocks=0)
    torch.manual_seed(0)
    frozen_only = activation_bytes(net, (32, 32))
    assert 4 * 3 * 32 * 32 < frozen_only < 4e6  # the image, and no more than its largest layer


@pytest.mark.parametrize(
    ("free", "pairs"), [(10_000_000, 1), (100_000_000, 30), (1_000_000_000, None), (1000, 1)]
)
def test_pairs_at_once(free, pairs):
    """A megabyte an image, two images a pair, 64 pairs a batch, three fifths of what is free."""
    expected = 3 if free == 10_000_000 else pairs
    assert fitting_pairs(1_000_000, 2, 64, free) == expected


def test_times_in_words():
    assert [in_words(s) for s in (40, 700, 12_600)] == ["40 s", "12 min", "3.5 h"]
