"""Images come in the order asked for, each read once, and bad ones are named."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from samespot.errors import InputError
from samespot.images import sources as images_module
from samespot.images.prefetch import Prefetched
from samespot.images.preprocess import Preprocessing
from samespot.images.sources import BadImages, FileImages, keep_images, require_room
from samespot.training.batches import Batches
from samespot.training.sets import images_of
from samespot.training.trainer import train

CPU = torch.device("cpu")
SMALL = Preprocessing(size=(24, 32))


def test_each_image_is_read_once_and_put_where_asked(photo_set, monkeypatch):
    images = images_of([photo_set])
    read = []
    original = images_module.read_image
    monkeypatch.setattr(images_module, "read_image", lambda path: read.append(path.name) or original(path))
    wanted = np.array([7, 2, 7, 0, 2])
    loaded = FileImages(images, SMALL, CPU, workers=2).load(wanted)
    assert sorted(read) == ["0.jpg", "2.jpg", "7.jpg"]
    expected = SMALL.read([photo_set.queries.images[i] for i in wanted])
    assert torch.equal(loaded.values, expected)
    assert loaded.good.all()


def test_images_kept_in_memory_are_the_same(photo_set):
    files = FileImages(images_of([photo_set]), SMALL, CPU)
    ticks = []
    kept = keep_images(files, CPU, ticks.append)
    assert sum(ticks) == 12
    wanted = np.array([3, 3, 11])
    assert torch.equal(kept.load(wanted).values, files.load(wanted).values)


def test_batches_come_in_order_with_their_images(photo_set):
    batches = Batches([photo_set], "A", 4)
    files = FileImages(batches.images, SMALL, CPU)
    prefetched = Prefetched(batches, files, range(3, 9), 2, CPU)
    seen = 0
    for (batch, loaded), step in zip(prefetched, range(3, 9), strict=True):
        assert batch.step == step
        assert torch.equal(loaded.values, files.load(batch.images).values)
        seen += 1
    assert seen == 6


def test_an_error_while_reading_ahead_reaches_the_loop(photo_set):
    def draw(step):
        if step == 2:
            raise InputError("no more")
        return Batches([photo_set], "A", 4)(step)

    files = FileImages(images_of([photo_set]), SMALL, CPU)
    prefetched = Prefetched(draw, files, range(10), 2, CPU)
    steps = []
    with pytest.raises(InputError, match="no more"):
        steps.extend(batch.step for batch, _ in prefetched)
    assert steps == [0, 1]
    prefetched.close()
    assert not prefetched._thread.is_alive()


def test_reading_ahead_can_be_given_up(photo_set):
    files = FileImages(images_of([photo_set]), SMALL, CPU)
    prefetched = Prefetched(Batches([photo_set], "A", 4), files, range(10**9), 2, CPU)
    assert next(iter(prefetched))[0].step == 0
    prefetched.close()
    assert not prefetched._thread.is_alive()


def test_bad_images_fail_or_are_recorded(street_of_photos, tmp_path):
    street = street_of_photos(tmp_path, 4)
    (tmp_path / "2.jpg").write_bytes(b"")
    with pytest.raises(InputError, match=r"2\.jpg: the file is empty"):
        FileImages(images_of([street]), SMALL, CPU).load(np.arange(4))
    bad = BadImages("skip")
    loaded = FileImages(images_of([street]), SMALL, CPU, bad=bad).load(np.array([2, 1, 2]))
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


def test_decoding_on_a_gpu_needs_one(photo_set, tiny, tmp_path):
    with pytest.raises(InputError, match="`decode=gpu` needs a CUDA device"):
        train(tiny.with_changes(decode="gpu"), [photo_set], tmp_path / "run")


def test_what_would_not_fit_is_refused_first():
    with pytest.raises(InputError, match=r"all images in memory need 1000000\.0 GB"):
        require_room(10**15, CPU, "all images in memory", "leave it out")
