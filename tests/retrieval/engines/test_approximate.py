"""Approximate indexes against exact search, their files, and what they refuse."""

import sys

import numpy as np
import pytest

from samespot import InputError
from samespot.retrieval.engines.approximate import ApproximateIndex, build_index
from samespot.retrieval.search import search

faiss = pytest.importorskip("faiss")


def street(n, seed, d=32):
    """Unit vectors in 40 clusters, as photos of 40 places, as a map keeps them."""
    centres = np.random.default_rng(99).standard_normal((40, d))
    rng = np.random.default_rng(seed)
    vectors = centres[rng.integers(0, 40, n)] + 0.5 * rng.standard_normal((n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


@pytest.fixture(scope="module")
def places():
    vectors = street(3000, 1)
    vectors[[0, 1500, 2999]] = 0
    return vectors


@pytest.fixture(scope="module")
def queries():
    return street(60, 2).astype(np.float32)


@pytest.fixture(scope="module", params=["hnsw", "ivfpq"])
def index(request, places):
    return build_index(places, request.param)


def recall(rows, exact):
    return np.mean([np.isin(true, found).mean() for found, true in zip(rows, exact, strict=True)])


def test_an_index_holds_all_images_but_the_unreadable(index, queries):
    assert len(index) == 2997
    assert index.dims == 32
    assert not np.isin([0, 1500, 2999], index.nearest(queries, 200)[1]).any()


def test_most_of_the_exact_neighbours_are_found(index, places, queries):
    exact = search(queries, places, 10, device="cpu")
    squares, rows = index.nearest(queries, 100)
    assert recall(rows, exact.rows) > 0.97
    assert (np.diff(squares, axis=1) >= 0).all()


def test_a_graph_knows_the_distances(places, queries):
    squares, rows = build_index(places, "hnsw").nearest(queries, 5)
    true = ((queries[:, None].astype(float) - places[rows]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squares, true, atol=1e-5)


def test_only_what_is_allowed_is_found(index, places, queries):
    allowed = np.random.default_rng(5).random(len(places)) < 0.4
    _, rows = index.nearest(queries, 50, allowed)
    assert allowed[rows[rows >= 0]].all()
    chosen = np.flatnonzero(allowed)
    exact = search(queries, places[chosen], 10, device="cpu")
    assert recall(rows, chosen[exact.rows]) > 0.9


def test_more_asked_for_than_there_is():
    few = street(5, 3)
    _, rows = build_index(few, "hnsw").nearest(few.astype(np.float32), 8)
    assert rows[:, 0].tolist() == list(range(5))
    assert (np.sort(rows[:, :5]) == np.arange(5)).all()
    assert (rows[:, 5:] == -1).all()


def test_a_file_brings_the_index_back(index, tmp_path, queries):
    path = index.save(tmp_path / "map.faiss")
    again = ApproximateIndex.load(path)
    assert (again.kind, len(again), again.settings) == (index.kind, len(index), index.settings)
    for before, after in zip(index.nearest(queries, 10), again.nearest(queries, 10), strict=True):
        np.testing.assert_array_equal(after, before)
    assert [file.name for file in path.parent.iterdir()] == ["map.faiss"]


def test_memory_mapped_descriptors(tmp_path):
    np.save(tmp_path / "map.npy", street(2000, 4))
    mapped, steps = np.load(tmp_path / "map.npy", mmap_mode="r"), []
    assert len(build_index(mapped, "hnsw", progress=lambda *a: steps.append(a))) == 2000
    assert steps[-1] == ("indexing", 2000, 2000)


def test_settings_are_those_of_the_size(index):
    # 3,000 images: 2^round(log2 √3000) = 64 cells; 32 dims: a byte for every four
    cells = {"lists": 64, "code_bytes": 8, "probes": 8}
    graph = {"links": 16, "ef_construction": 64, "ef_search": 128}
    assert index.settings == (graph if index.kind == "hnsw" else cells)


def test_files_that_are_no_index_are_refused(tmp_path, places):
    whole = build_index(places[:300], "hnsw").save(tmp_path / "whole.faiss").read_bytes()
    path = tmp_path / "index.faiss"
    for content in (b"", b"hello, world, I am no index", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="faiss cannot read it"):
            ApproximateIndex.load(path)
    faiss.write_index(faiss.IndexFlatL2(4), str(path))
    with pytest.raises(InputError, match="another kind"):
        ApproximateIndex.load(path)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: build_index(street(200, 0), "ivfpq"), "256 photos or more, there are 200"),
        (lambda: build_index(street(9, 0)[0], "hnsw"), "expected floats"),
    ],
)
def test_bad_input_is_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_faiss_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match="faiss, which is not installed"):
        build_index(street(300, 0), "hnsw")
    with pytest.raises(InputError, match="faiss, which is not installed"):
        ApproximateIndex.load(tmp_path / "map.faiss")
