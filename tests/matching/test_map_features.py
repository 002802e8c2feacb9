"""Rows are the same whether the device keeps them or not, and what is kept goes with its array."""

import numpy as np
import pytest
import torch

from samespot.matching import map_features
from samespot.matching.map_features import SHARE, MapFeatures, fits

CPU = torch.device("cpu")


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(size=(20, 6)).astype(np.float16)


@pytest.fixture(params=[True, False])
def kept(request, monkeypatch):
    monkeypatch.setattr(map_features, "fits", lambda size, device: request.param)
    return request.param


def test_rows_are_those_of_the_array(features, kept):
    gathered = MapFeatures(CPU)
    for rows in ([3, 1, 3, 19], [1, 0], [], [3, 7, 0]):
        given = gathered.rows(features, np.array(rows, dtype=np.int64))
        assert given.dtype == torch.float16
        np.testing.assert_array_equal(given.numpy(), features[rows])


def test_a_row_is_copied_once_where_it_is_kept(features, kept):
    """Which shows when the array changes, as no array of a map does."""
    gathered, before = MapFeatures(CPU), features.copy()
    gathered.rows(features, np.array([2, 3]))
    features[:] = 0
    after = gathered.rows(features, np.array([3, 4])).numpy()
    np.testing.assert_array_equal(after, [before[3] if kept else features[3], features[4]])


def test_another_array_takes_the_place_of_the_last(features, kept):
    gathered, other = MapFeatures(CPU), features[::-1].copy()
    for array in (features, other, features):
        np.testing.assert_array_equal(gathered.rows(array, np.array([0, 5])).numpy(), array[[0, 5]])


def test_what_is_kept_goes_when_the_array_does(features, kept):
    gathered, array = MapFeatures(CPU), features.copy()
    gathered.rows(array, np.array([0]))
    assert len(gathered._kept) == kept
    del array
    assert not gathered._kept


def test_the_rows_of_a_file_can_be_gathered(features, kept, tmp_path):
    np.save(tmp_path / "map.npy", features)
    mapped = np.load(tmp_path / "map.npy", mmap_mode="r")
    np.testing.assert_array_equal(MapFeatures(CPU).rows(mapped, np.array([4, 2])).numpy(), features[[4, 2]])


def test_too_little_memory_in_one_piece_is_no_failure(features, monkeypatch):
    def full(*_):
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(map_features, "fits", lambda size, device: True)
    monkeypatch.setattr(map_features, "_Kept", full)
    np.testing.assert_array_equal(MapFeatures(CPU).rows(features, np.array([4])).numpy(), features[[4]])


def test_what_fits_is_a_share_of_what_is_free_on_a_gpu(monkeypatch):
    """1000 bytes free, and 200 that torch holds without using them."""
    free = {"mem_get_info": (1000, 5000), "memory_reserved": 700, "memory_allocated": 500}
    for name, value in free.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    limit = int(SHARE * 1200)
    assert fits(limit, torch.device("cuda"))
    assert not fits(limit + 1, torch.device("cuda"))
    assert not fits(1, CPU)
