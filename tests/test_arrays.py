"""Search, whitening and metrics take what people have: numpy arrays, lists, tensors of torch."""

from pathlib import Path

import numpy as np
import pytest
import torch

from samespot import InputError, Whitening, recall_at_k, search
from samespot.arrays import as_array, save_array

RNG = np.random.default_rng(0)
PLACES = RNG.normal(size=(20, 6)).astype(np.float32)
QUERIES = PLACES[:5] + 0.01


def tensor(array):
    return torch.from_numpy(array).requires_grad_(array.dtype.kind == "f")


@pytest.mark.parametrize("kind", [tensor, np.ndarray.tolist, lambda a: torch.from_numpy(a).half()])
def test_a_search_finds_the_same_in_tensors_and_lists(kind):
    found = search(kind(QUERIES), kind(PLACES), 3, device="cpu")
    np.testing.assert_array_equal(found.rows[:, 0], range(5))
    np.testing.assert_array_equal(found.rows, search(QUERIES, PLACES, 3, device="cpu").rows)


def test_a_tensor_is_whitened_as_its_array_is():
    whitening = Whitening.fit(tensor(PLACES), "the map")
    expected = Whitening.fit(PLACES, "the map")(QUERIES, 4)
    np.testing.assert_array_equal(whitening(tensor(QUERIES), 4), expected)
    np.testing.assert_array_equal(whitening.sweep(QUERIES.tolist(), [4])[4], expected)


def test_recall_takes_tensors_of_ids():
    retrieved = torch.tensor([[3, 1], [0, 2]])
    assert recall_at_k(retrieved, [torch.tensor([1]), [0]], ks=(1, 2)) == {1: 0.5, 2: 1.0}


def test_an_array_and_a_memory_map_stay_what_they_are(tmp_path):
    np.save(tmp_path / "a.npy", PLACES)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert as_array(mapped, "map") is mapped
    assert as_array(PLACES, "map") is PLACES
    assert np.shares_memory(as_array(torch.from_numpy(PLACES), "map"), PLACES)
    assert as_array(torch.ones(2, 3, dtype=torch.bfloat16), "map").dtype == np.float32


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        (torch.zeros(2, 6, device="meta"), "queries: a tensor on meta; pass it as .cpu()"),
        ([[1.0, 2.0], [3.0]], "queries: rows of different lengths; give a numpy array or a tensor of torch"),
        (torch.zeros(2, 6, dtype=torch.int64), "expected floats"),
        ("queries.npy", "expected floats"),
        (None, "expected floats"),
    ],
)
def test_what_is_no_array_is_told(queries, said):
    with pytest.raises(InputError) as error:
        search(queries, PLACES, 1, device="cpu")
    assert said in str(error.value)


@pytest.mark.parametrize("shape", [(7,), (0, 3), (4, 5)])
def test_an_array_is_saved_as_numpy_does_and_a_full_disk_says_so(tmp_path, shape):
    values = np.zeros(shape, [("row", np.int32), ("similarity", np.float32)])
    save_array(tmp_path / "ours.npy", values)
    np.save(tmp_path / "theirs.npy", values)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()
    with pytest.raises(OSError, match="No space left on device"):
        save_array(Path("/dev/full"), RNG.normal(size=10_000))
