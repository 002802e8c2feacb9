"""What is chosen for photos and machine, against sizes worked out by hand and memory that was measured."""

import os

import pytest
import torch
from PIL import Image

from samespot.model.network import PlaceNet
from samespot.training.options import TrainingOptions
from samespot.training.planning import (
    activation_bytes,
    fitting_pairs,
    fitting_size,
    frozen_bytes,
    in_words,
    photo_size,
    what_to_keep,
)


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
    ("free", "pairs"),
    [(10_000_000, 3), (100_000_000, 22), (140_000_000, 32), (1_000_000_000, None), (1000, 1)],
)
def test_pairs_at_once(free, pairs):
    """A megabyte an image, two images a pair, 64 pairs a batch, three fifths of what is free: room for 3, 30, 42 pairs.
    Not 30, 30 and 4, but 22, 22 and 20: a network is compiled for few sizes."""
    assert fitting_pairs(1_000_000, 2, 64, free) == pairs


def test_times_in_words():
    assert [in_words(s) for s in (40, 700, 12_600)] == ["40 s", "12 min", "3.5 h"]


# ---- what is kept in memory ----

GB = 10**9


@pytest.mark.parametrize(
    ("looks", "on_gpu", "host", "changes", "kept", "said"),
    [
        (1_999, 100 * GB, 100 * GB, {}, ("no", "no"), "each time: 1,000 photos, each seen 2.0 times"),
        (2_000, 100 * GB, 100 * GB, {}, ("device", "no"), "kept on the GPU (5 GB for 1,000 photos"),
        (2_000, None, 100 * GB, {}, ("memory", "no"), "kept in memory (5 GB"),
        (2_000, 2 * GB, 100 * GB, {}, ("no", "device"), "since its outputs would take 5 GB"),
        (2_000, 100 * GB, 100 * GB, {"augment": 0.5}, ("no", "device"), "since augmentation changes"),
        (2_000, 0, 2 * GB, {"flip": True}, ("no", "host"), "decoded images are kept in memory (922 MB"),
        (2_000, 0, 0, {}, ("no", "no"), "each time: decoded, 922 MB"),
        (2_000, 100 * GB, 0, {"cache_frozen": "no"}, ("no", "device"), "`images_in_memory=no` overrides it"),
    ],
)
def test_the_frozen_parts_outputs_are_kept_or_photos_or_nothing(looks, on_gpu, host, changes, kept, said):
    chosen = what_to_keep(TrainingOptions(**changes), 1_000, looks, 5_000_000, on_gpu, host)
    assert (chosen.cache_frozen, chosen.images_in_memory) == kept
    assert said in chosen.why


def test_where_nothing_is_frozen_photos_are_kept():
    chosen = what_to_keep(TrainingOptions(train_blocks="all"), 1_000, 9_000, None, 100 * GB, 0)
    assert (chosen.cache_frozen, chosen.images_in_memory) == ("no", "device")
    assert "frozen" not in chosen.why


def test_what_the_frozen_part_makes_of_an_image_is_measured():
    net = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(64, 96))
    made = net.frozen(torch.zeros(1, 3, 64, 96))
    assert (
        frozen_bytes(net, (64, 96), half=True)
        == 2 * made.numel()
        == frozen_bytes(net, (64, 96), half=False) // 2
    )
    net.set_train_blocks("all")
    assert frozen_bytes(net, (64, 96), half=True) is None
