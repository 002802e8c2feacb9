"""Search, whitening and metrics take what people have: numpy arrays, lists, tensors of torch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

import samespot
from samespot import InputError, Whitening, recall_at_k, search
from samespot.arrays import as_array, as_safetensors, read_only, save_array
from samespot.overlap import sector
from samespot.retrieval import search as searching
from tests import warm

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


def test_kernels_are_compiled_once_for_arrays_that_can_be_written_and_those_that_cannot(tmp_path):
    np.save(tmp_path / "map.npy", PLACES)
    on_disk = np.load(tmp_path / "map.npy", mmap_mode="r")
    assert np.shares_memory(read_only(on_disk), on_disk)
    before = {kernel: len(kernel.signatures) for kernel in (searching.offer, searching._squared_lengths)}
    for places in (PLACES, on_disk):
        for queries in (QUERIES, on_disk[:5]):
            search(queries, places, 3, device="cpu", engine="numpy")
    assert all(len(kernel.signatures) <= before[kernel] + 1 for kernel in before)
    for poses in (np.zeros(3), np.zeros((4, 3)), on_disk[:, :3].astype(float)):
        samespot.sector_overlap(poses, np.zeros(3), theta=np.array([90.0]))
    assert len(sector._pairs_kernel.signatures) == 1


WRITTEN = """
import sys
import numpy as np
from samespot.arrays import as_safetensors
arrays = {"b": np.arange(3, dtype=np.uint8), "a": np.ones((2, 2))}
sys.stdout.write(as_safetensors(arrays, {word: f'"{word}" ÿ' for word in "whitening"}).hex())
"""


def test_files_of_safetensors_are_the_same_in_every_byte(tmp_path):
    first, second = (warm.run(["-c", WRITTEN]).stdout for _ in range(2))
    assert first == second
    (tmp_path / "a.safetensors").write_bytes(bytes.fromhex(first))
    with safe_open(tmp_path / "a.safetensors", "numpy") as file:
        assert file.metadata() == {word: f'"{word}" ÿ' for word in "whitening"}
        np.testing.assert_array_equal(file.get_tensor("a"), np.ones((2, 2)))
        np.testing.assert_array_equal(file.get_tensor("b"), [0, 1, 2])
    assert as_safetensors({"a": PLACES}) == as_safetensors({"a": PLACES})


@pytest.mark.parametrize("shape", [(7,), (0, 3), (4, 5)])
def test_an_array_is_saved_as_numpy_does_and_a_full_disk_says_so(tmp_path, shape):
    values = np.zeros(shape, [("row", np.int32), ("similarity", np.float32)])
    save_array(tmp_path / "ours.npy", values)
    np.save(tmp_path / "theirs.npy", values)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()
    with pytest.raises(OSError, match="No space left on device"):
        save_array(Path("/dev/full"), RNG.normal(size=10_000))
