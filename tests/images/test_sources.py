"""Images come in the order asked for, each read once, and bad ones are named."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from samespot.errors import InputError
from samespot.images import sources as images_module
from samespot.images.kept import keep_images
from samespot.images.listing import PathList
from samespot.images.prefetch import Block, Prefetched, read_ahead
from samespot.images.preprocess import Preprocessing
from samespot.images.reading import read_image
from samespot.images.sources import BadImages, FileImages, read_blocks

CPU = torch.device("cpu")
SMALL = Preprocessing(size=(24, 32))


@pytest.fixture
def photos(tmp_path) -> PathList:
    """Twelve small coloured JPEGs."""
    dice = np.random.default_rng(7)
    paths = [tmp_path / f"{i}.jpg" for i in range(12)]
    for path in paths:
        Image.fromarray(dice.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((64, 48)).save(path)
    return PathList(paths)


def three(step: int) -> Block:
    """Some images for each step."""
    return Block(np.arange(3), (step + np.array([0, 5, 0])) % 12)


def test_each_image_is_read_once_and_put_where_asked(photos, monkeypatch):
    read = []
    original = images_module.read_encoded
    monkeypatch.setattr(images_module, "read_encoded", lambda path: read.append(path.name) or original(path))
    wanted = np.array([7, 2, 7, 0, 2])
    loaded = FileImages(photos, SMALL, CPU, workers=2).load(wanted)
    assert sorted(read) == ["0.jpg", "2.jpg", "7.jpg"]
    expected = torch.cat([SMALL.resize(read_image(photos.path(i))[None]) for i in wanted])
    assert torch.equal(loaded.values, expected)
    assert loaded.good.all()


def test_files_of_several_sizes_come_in_blocks_of_one(tmp_path):
    for name, size in (("a", (60, 40)), ("b", (60, 20)), ("c", (10, 10))):
        Image.new("RGB", size, (9, 8, 7)).save(tmp_path / f"{name}.png")
    paths = [tmp_path / f"{name}.png" for name in "abc"]
    blocks = list(read_blocks(paths, SMALL, CPU, at_once=2))
    assert [tuple(block.shape) for block in blocks] == [(2, 3, 24, 32), (1, 3, 24, 32)]
    assert all((block == torch.tensor([9, 8, 7])[:, None, None]).all() for block in blocks)
    with pytest.raises(InputError, match=r"nowhere\.png: cannot read the image .*; check the path$"):
        list(read_blocks([*paths, tmp_path / "nowhere.png"], SMALL, CPU))


@pytest.mark.parametrize("readers", [1, 2, 3])
def test_blocks_are_read_ahead_in_order(photos, readers):
    files = FileImages(photos, SMALL, CPU)
    numbers = np.array([5, 3, 11, 0, 7])
    blocks = [Block(rows, numbers[rows]) for rows in (np.arange(2), np.arange(2, 4), np.arange(4, 5))]
    with read_ahead(files, blocks.__getitem__, range(3), CPU, 2, readers) as ahead:
        found = [(block.part, loaded.values) for block, loaded in ahead]
    assert [part for part, _ in found] == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert torch.equal(torch.cat([values for _, values in found]), files.load(numbers).values)


def test_images_kept_in_memory_are_the_same(photos):
    files = FileImages(photos, SMALL, CPU)
    ticks = []
    kept = keep_images(files, CPU, ticks.append)
    assert sum(ticks) == 12
    wanted = np.array([3, 3, 11])
    assert torch.equal(kept.load(wanted).values, files.load(wanted).values)


def test_batches_come_in_order_with_their_images(photos):
    files = FileImages(photos, SMALL, CPU)
    prefetched = Prefetched(three, files, range(3, 9), 2, CPU)
    seen = 0
    for (batch, loaded), step in zip(prefetched, range(3, 9), strict=True):
        assert batch.images[0] == step
        assert torch.equal(loaded.values, files.load(batch.images).values)
        seen += 1
    assert seen == 6


def test_an_error_while_reading_ahead_reaches_the_loop(photos):
    def draw(step):
        if step == 2:
            raise InputError("no more")
        return three(step)

    prefetched = Prefetched(draw, FileImages(photos, SMALL, CPU), range(10), 2, CPU)
    steps = []
    with pytest.raises(InputError, match="no more"):
        steps.extend(int(batch.images[0]) for batch, _ in prefetched)
    assert steps == [0, 1]
    prefetched.close()
    assert not prefetched._thread.is_alive()


def test_reading_ahead_can_be_given_up(photos):
    prefetched = Prefetched(three, FileImages(photos, SMALL, CPU), range(10**9), 2, CPU)
    assert next(iter(prefetched))[0].images[0] == 0
    prefetched.close()
    assert not prefetched._thread.is_alive()


def test_bad_images_fail_or_are_recorded(photos):
    photos.path(2).write_bytes(b"")
    for bad, advice in ((None, ""), (BadImages("fail"), "; or pass `on_bad_image=skip`")):
        with pytest.raises(InputError, match=rf"2\.jpg: the file is empty.* table{advice}$"):
            FileImages(photos, SMALL, CPU, bad=bad).load(np.arange(4))
    bad = BadImages("skip")
    loaded = FileImages(photos, SMALL, CPU, bad=bad).load(np.array([2, 1, 2]))
    assert loaded.good.tolist() == [False, True, False]
    assert (loaded.values[[0, 2]] == 0).all()
    assert list(bad.reasons) == [2]


def test_turned_jpegs_are_left_to_the_processor(tmp_path):
    """nvJPEG does not look at the orientation, so such files must not reach it."""
    photo = Image.new("RGB", (32, 24), (200, 30, 60))
    upright, turned, marked = Image.Exif(), Image.Exif(), Image.Exif()
    turned[274], marked[274] = 6, 1
    for name, exif in (("upright", upright), ("turned", turned), ("marked", marked)):
        photo.save(tmp_path / f"{name}.jpg", exif=exif)
    photo.save(tmp_path / "a.png")
    taken = {
        n: images_module._upright_jpeg(tmp_path / n) is not None
        for n in ("upright.jpg", "turned.jpg", "marked.jpg", "a.png", "absent.jpg")
    }
    assert taken == {
        "upright.jpg": True,
        "turned.jpg": False,
        "marked.jpg": True,
        "a.png": False,
        "absent.jpg": False,
    }
    raw = io.BytesIO()
    photo.save(raw, "JPEG")
    assert images_module._orientation(raw.getvalue()) == 1
