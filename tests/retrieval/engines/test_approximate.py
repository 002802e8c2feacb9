"""Approximate indexes against exact search, their files, and what they refuse."""

import sys

import numpy as np
import pytest

from samespot import InputError
from samespot.retrieval.engines.approximate import (
    ApproximateIndex,
    build_hnsw,
    build_index,
    build_ivfpq,
    recall_against_exact,
    sampled_recall,
    search_index,
)
from samespot.retrieval.search import Found, search

faiss = pytest.importorskip("faiss")


def street(n, seed, d=32):
    """Unit vectors in 40 clusters, as photos of 40 places."""
    centres = np.random.default_rng(99).standard_normal((40, d))
    rng = np.random.default_rng(seed)
    vectors = centres[rng.integers(0, 40, n)] + 0.5 * rng.standard_normal((n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def places():
    vectors = street(3000, 1)
    vectors[[0, 1500, 2999]] = 0
    return vectors


@pytest.fixture(scope="module")
def queries():
    return street(60, 2)


@pytest.fixture(scope="module", params=["hnsw", "ivfpq"])
def index(request, places):
    return build_index(places, request.param)


def test_an_index_holds_all_images_but_the_unreadable(index):
    assert len(index) == 2997
    assert index.dims == 32


def test_most_of_the_exact_neighbours_are_found(index, places, queries):
    exact = search(queries, places, 10, device="cpu")
    found = search_index(index, queries, 10, places=places)
    recall = recall_against_exact(found, exact, 10)
    assert recall > (0.97 if index.kind == "hnsw" else 0.9)
    assert sampled_recall(index, queries, places, 10, sample=60) == pytest.approx(recall)
    assert recall_against_exact(search_index(index, queries, 10), exact, 10) <= recall
    # what both found stands in the same order with the same distances
    for ours, true, near, distance in zip(
        found.rows, exact.rows, found.distances, exact.distances, strict=True
    ):
        np.testing.assert_array_equal(near[np.isin(ours, true)], distance[np.isin(true, ours)])
        np.testing.assert_array_equal(ours[np.isin(ours, true)], true[np.isin(true, ours)])


def test_looking_everywhere_is_exact(places, queries):
    """All cells, and a shortlist of the whole map: re-ranking leaves nothing to chance."""
    cells = build_ivfpq(places, lists=16, probes=16)
    found = search_index(cells, queries, 25, places=places, shortlist=3000)
    exact = search(queries, places, 25, device="cpu")
    np.testing.assert_array_equal(found.rows, exact.rows)
    np.testing.assert_array_equal(found.distances, exact.distances)


def test_a_graph_knows_distances_without_the_descriptors(places, queries):
    graph = build_hnsw(places)
    found = search_index(graph, queries, 5)
    true = np.linalg.norm(queries[:, None].astype(float) - places[found.rows], axis=2)
    np.testing.assert_allclose(found.distances, true, atol=1e-5)
    assert (np.diff(found.distances, axis=1) >= 0).all()


def test_unreadable_images_are_never_found_and_find_nothing(index, places, queries):
    asked = queries.copy()
    asked[[0, 7]] = 0
    for given in (None, places):
        found = search_index(index, asked, 20, places=given)
        assert not np.isin([0, 1500, 2999], found.rows).any()
        assert (found.rows[[0, 7]] == -1).all()
        assert np.isinf(found.distances[[0, 7]]).all()
        assert (found.rows[1] >= 0).all()


def test_more_asked_for_than_there_is():
    few = street(5, 3)
    for given in (None, few):
        found = search_index(build_hnsw(few), few, 8, places=given)
        assert found.rows[:, 0].tolist() == list(range(5))
        assert (np.sort(found.rows[:, :5]) == np.arange(5)).all()
        assert (found.rows[:, 5:] == -1).all()
        assert np.isinf(found.distances[:, 5:]).all()


def test_a_file_brings_the_index_back(index, tmp_path, places, queries):
    path = index.save(tmp_path / "deep" / "map.faiss")
    again = ApproximateIndex.load(path)
    assert (again.kind, len(again), again.settings) == (index.kind, len(index), index.settings)
    before, after = (search_index(i, queries, 10, places=places) for i in (index, again))
    np.testing.assert_array_equal(after.rows, before.rows)
    np.testing.assert_array_equal(after.distances, before.distances)
    assert [file.name for file in path.parent.iterdir()] == ["map.faiss"]


def test_memory_mapped_float16_descriptors(tmp_path, queries):
    half = street(2000, 4).astype(np.float16)
    np.save(tmp_path / "map.npy", half)
    mapped = np.load(tmp_path / "map.npy", mmap_mode="r")
    steps = []
    index = build_hnsw(mapped, progress=lambda *a: steps.append(a))
    assert steps[-1] == ("indexing", 2000, 2000)
    assert sampled_recall(index, queries, mapped, 5) > 0.97


def test_settings_are_those_asked_for(places):
    assert build_hnsw(places[:300], links=8, ef_construction=20, ef_search=30).settings == {
        "links": 8,
        "ef_construction": 20,
        "ef_search": 30,
    }
    cells = build_ivfpq(places[:600], lists=4, code_bytes=16, probes=2)
    assert cells.settings == {"lists": 4, "code_bytes": 16, "probes": 2}
    # 3,000 images: 2^round(log2 √3000) = 64 cells; 32 dims: a byte for every four
    assert build_ivfpq(places).settings == {"lists": 64, "code_bytes": 8, "probes": 8}


def test_recall_by_hand():
    exact = Found(np.array([[1, 2, 3], [4, 5, -1]]), np.zeros((2, 3)))
    ours = Found(np.array([[2, 9, 1], [4, -1, -1]]), np.zeros((2, 3)))
    assert recall_against_exact(ours, exact, 1) == 0.5  # of 1 and 4, only 4
    assert recall_against_exact(ours, exact, 2) == 0.5  # 2 and 4 of 1, 2, 4, 5
    assert recall_against_exact(ours, exact, 3) == 0.6  # 1, 2 and 4 of five; -1 is nothing to be found
    assert recall_against_exact(exact, exact, 3) == 1.0


def refuse_file(tmp_path, content):
    path = tmp_path / "index.faiss"
    path.write_bytes(content)
    return lambda: ApproximateIndex.load(path)


def test_files_that_are_no_index_are_refused(tmp_path, places):
    whole = build_hnsw(places[:300]).save(tmp_path / "whole.faiss").read_bytes()
    for content in (b"", b"hello, world, I am no index", whole[: len(whole) // 2]):
        with pytest.raises(InputError, match="faiss cannot read it"):
            refuse_file(tmp_path, content)()
    flat = faiss.IndexFlatL2(4)
    faiss.write_index(flat, str(tmp_path / "flat.faiss"))
    with pytest.raises(InputError, match="another kind"):
        ApproximateIndex.load(tmp_path / "flat.faiss")
    with pytest.raises(InputError, match="no such index"):
        ApproximateIndex.load(tmp_path / "none.faiss")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: build_index(street(9, 0), "tree"), "`kind` 'tree'"),
        (lambda: build_ivfpq(street(200, 0)), "256 map images or more, there are 200"),
        (lambda: build_ivfpq(street(300, 0), lists=400), "so many cells"),
        (lambda: build_ivfpq(street(300, 0), lists=4, code_bytes=5), "32 dims cannot be cut"),
        (lambda: build_hnsw(street(9, 0), links=1), "links = 1"),
        (lambda: build_hnsw(street(9, 0)[0]), "expected floats"),
        (lambda: search_index(build_hnsw(street(9, 0)), street(2, 0, 16), 1), "index of 32 dims"),
        (lambda: search_index(build_hnsw(street(9, 0)), street(2, 0), 0), "k = 0"),
        (lambda: search_index(build_hnsw(street(9, 0)), street(2, 0), 1, places=street(8, 0)), "not those"),
        (lambda: recall_against_exact(*[Found(np.zeros((2, 3)), np.zeros((2, 3)))] * 2, 4), "recall at 4"),
    ],
)
def test_bad_input_is_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_faiss_missing_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "faiss", None)
    for make in (build_hnsw, build_ivfpq, ApproximateIndex.load):
        with pytest.raises(InputError, match="faiss, which is not installed"):
            make(street(300, 0))
