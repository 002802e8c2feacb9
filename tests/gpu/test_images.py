"""Pixels on the GPU are those of the files, whoever decodes them, and broken files are named."""

import numpy as np
import pytest
import torch
from PIL import Image

from samespot.errors import InputError
from samespot.images.kept import keep_images
from samespot.images.listing import ImageList
from samespot.images.prefetch import blocks_ahead
from samespot.images.preprocess import Preprocessing
from samespot.images.sources import BadImages, FileImages

CPU = torch.device("cpu")
SMALL = Preprocessing(size=(48, 64))
SAME = Preprocessing(size=(64, 96))  # as the files are


def load(places, device, how=SMALL, numbers=None, **options):
    files = FileImages(ImageList([places]), how, device, **options)
    try:
        return files.load(np.arange(len(places)) if numbers is None else numbers)
    finally:
        files.close()


@pytest.mark.parametrize("how", [SMALL, SAME])
def test_decoded_by_the_processor_the_gpu_gets_the_same_pixels(places, gpu, how):
    numbers = np.array([5, 0, 5, 23, 1])
    expected = load(places, CPU, how, numbers).values
    assert torch.equal(load(places, gpu, how, numbers, decode="cpu").values.cpu(), expected)


@pytest.mark.parametrize(("how", "near"), [(SMALL, 2), (SAME, 6)])
def test_decoded_by_the_gpu_they_are_nearly_the_same(places, gpu, how, near):
    """Near edges of strong colours they differ, since colours are stored at half the size and nvJPEG repeats them where
    libjpeg interpolates; less so in photos that are made smaller."""
    expected = load(places, CPU, how).values.float()
    found = load(places, gpu, how, decode="gpu").values
    assert found.dtype == torch.uint8
    assert (found.cpu().float() - expected).abs().mean() < near  # of 255
    other = (found.cpu().float() - expected.roll(1, 0)).abs().mean()
    assert other > 20  # and not of another photo


def test_where_colours_are_stored_in_full_the_gpu_decodes_to_the_same(places, gpu):
    for path in places.images:
        with Image.open(path) as image:
            image.load()
        image.save(path, quality=92, subsampling=0)
    expected, found = load(places, CPU, SAME).values, load(places, gpu, SAME, decode="gpu").values
    assert (found.cpu().float() - expected.float()).abs().max() <= 3


def broken(places):
    """A file that ends too early, an empty one, one of no image; and good ones that nvJPEG does not take."""
    whole = (places.root / "3.jpg").read_bytes()
    (places.root / "3.jpg").write_bytes(whole[: len(whole) // 3])
    (places.root / "7.jpg").write_bytes(b"")
    (places.root / "8.jpg").write_bytes(b"no image at all")
    with Image.open(places.root / "10.jpg") as image:
        image.load()
    image.save(places.root / "10.jpg", "PNG")
    turned = Image.Exif()
    turned[274] = 3
    with Image.open(places.root / "11.jpg") as image:
        image.load()
    image.save(places.root / "11.jpg", exif=turned, quality=92)
    return {3, 7, 8}


def test_truncated_files_are_named_and_the_others_still_read(places, gpu):
    expected_bad = broken(places)
    on_cpu, on_gpu = BadImages("skip"), BadImages("skip")
    expected = load(places, CPU, bad=on_cpu)
    found = load(places, gpu, decode="gpu", bad=on_gpu)
    assert set(on_cpu.reasons) == set(on_gpu.reasons) == expected_bad
    assert on_gpu.reasons == on_cpu.reasons
    assert (
        found.good.tolist() == expected.good.tolist() == [i not in expected_bad for i in range(len(places))]
    )
    assert (found.values[~torch.from_numpy(found.good).to(gpu)] == 0).all()
    assert (found.values.cpu().float() - expected.values.float()).abs().mean() < 2
    with pytest.raises(InputError, match=r"3\.jpg: cannot decode the image"):
        load(places, gpu, decode="gpu", numbers=np.arange(5))


@pytest.mark.parametrize("decode", ["cpu", "gpu"])
def test_read_ahead_while_the_gpu_is_busy_nothing_is_mixed_up(places, gpu, decode):
    """Copies run beside the network, on streams of their own: each block must be whole when it is used."""
    expected = load(places, gpu, SAME, decode=decode).values.long().sum(dim=(1, 2, 3)).cpu()
    dice = np.random.default_rng(0)
    rows = [np.sort(dice.choice(len(places), 8, replace=False)) for _ in range(60)]
    files = FileImages(ImageList([places]), SAME, gpu, decode=decode)
    busy, sums = torch.rand(2048, 2048, device=gpu), []
    with blocks_ahead(files, rows, gpu) as ahead:
        for _, loaded in ahead:
            busy = busy @ busy / 2048
            sums.append(loaded.values.long().sum(dim=(1, 2, 3)))
    files.close()
    for numbers, found in zip(rows, sums, strict=True):
        assert torch.equal(found.cpu(), expected[numbers])


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_images_kept_in_memory_are_the_same(places, gpu, where):
    files = FileImages(ImageList([places]), SAME, torch.device(where), decode="cpu")
    kept = keep_images(files, gpu, lambda count: None)
    numbers = np.array([9, 2, 9])
    found = kept.load(numbers).values
    assert found.device == gpu
    assert torch.equal(found.cpu(), load(places, CPU, SAME, numbers).values)
    files.close()
