"""The file of frozen features, on a disk that is filling up."""

import errno
import os

import pytest
import torch
from PIL import Image

from samespot.errors import InputError
from samespot.images.listing import PathList
from samespot.images.preprocess import Preprocessing
from samespot.images.sources import FileImages
from samespot.training.cache import _create_file, keep_features


def test_the_disk_keeps_room_for_all_features(tmp_path):
    """Without it a disk that others fill meanwhile would end the process: the file is written through memory."""
    values, good = _create_file(tmp_path, (50, 3, 1000), torch.bfloat16)
    assert (values.shape, values.dtype, good.all()) == ((50, 3, 1000), torch.bfloat16, True)
    assert (tmp_path / "features.raw").stat().st_blocks * 512 >= 50 * 3 * 1000 * 2


def test_a_disk_that_is_full_by_now_is_one_line(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    refused = r"cannot write \(No space left on device\); give another `cache_dir`, or leave out"
    with pytest.raises(InputError, match=refused):
        _create_file(tmp_path, (5, 10), torch.float32)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["features.raw", "good.raw", "bad.json"])
def test_a_file_that_lost_its_end_is_made_again(tmp_path, name):
    """Mapped into memory, features that are missing would be zeros, without a word."""
    paths = [tmp_path / f"{red}.png" for red in (40, 80, 120)]
    for path in paths:
        Image.new("RGB", (4, 4), (int(path.stem), 0, 0)).save(path)
    files = FileImages(PathList(paths), Preprocessing(size=(4, 4)), torch.device("cpu"))

    def reds():
        kept = keep_features(
            files, lambda images: images[:, 0].float(), "file", fingerprint="a", folder=tmp_path / "kept"
        )
        assert kept.good.all()
        return kept.values.amax(dim=(1, 2)).tolist()

    assert reds() == [40, 80, 120]
    os.truncate(tmp_path / "kept" / name, 0)
    assert reds() == [40, 80, 120]
