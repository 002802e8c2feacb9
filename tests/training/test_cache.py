"""The file of frozen features, on a disk that is filling up."""

import errno
import os

import pytest
import torch

from samespot.errors import InputError
from samespot.training.cache import _create_file


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
