"""Exact search against float64 brute force, on every engine: random vectors, ties, near-ties and bad rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samespot import InputError
from samespot.retrieval import search as search_module
from samespot.retrieval.exclusion import any_of, pairs, panoramas, same_name
from samespot.retrieval.search import Found, search

ENGINES = ("numpy", "torch")


def unit(n, d=32, seed=0, dtype=np.float32):
    vectors = np.random.default_rng(seed).standard_normal((n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(dtype)


def brute_force(queries, places, k, out=None):
    """Every distance in float64, sorted by (distance, row); zero rows are no images."""
    a, b = queries.astype(np.float64), places.astype(np.float64)
    squares = np.array([((row - b) ** 2).sum(axis=1) for row in a]).reshape(len(a), len(b))
    squares[:, ~b.any(axis=1)] = np.inf
    squares[~a.any(axis=1)] = np.inf
    if out is not None:
        squares[out] = np.inf
    rows = np.full((len(a), k), -1)
    distances = np.full((len(a), k), np.inf)
    for i, row in enumerate(squares):
        order = np.lexsort((np.arange(len(row)), row))[:k]
        order = order[np.isfinite(row[order])]
        rows[i, : len(order)] = order
        distances[i, : len(order)] = np.sqrt(row[order])
    return Found(rows, distances)


def assert_same(found, expected, exactly=False):
    np.testing.assert_array_equal(found.rows, expected.rows)
    if exactly:
        np.testing.assert_array_equal(found.distances, expected.distances)
    else:
        np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-12, atol=1e-12)
    assert found.rows.dtype == np.int64
    assert found.distances.dtype == np.float64


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("block_bytes", [1, 5_000, 1 << 26])
def test_random_unit_vectors_by_brute_force(engine, dtype, block_bytes):
    n = 60 if block_bytes == 1 else 700
    queries, places = unit(23, dtype=dtype), unit(n, seed=1, dtype=dtype)
    found = search(queries, places, 10, device="cpu", engine=engine, block_bytes=block_bytes)
    assert_same(found, brute_force(queries, places, 10))


@pytest.mark.parametrize("dims", [1, 3, 31, 257])
def test_the_engines_agree_bit_for_bit(dims):
    queries, places = unit(40, dims, 2), unit(3000, dims, 3)
    numpy, torch = (search(queries, places, 25, device="cpu", engine=e) for e in ENGINES)
    assert_same(torch, numpy, exactly=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("count", [1, 3, 5])  # the last is too many for a scan
@pytest.mark.parametrize("block_rows", [1, 37, 10_000])
def test_a_few_queries_find_what_many_find(dtype, count, block_rows):
    """Among duplicates, near-duplicates and rows that are no image; with numbers that float16 has few bits for."""
    rng = np.random.default_rng(16)
    places = unit(90 if block_rows == 1 else 900, 33, 17, dtype)
    places[::7] = places[3]
    places[1::7] = places[3] + (1e-3 * rng.standard_normal((len(places[1::7]), 33))).astype(dtype)
    places[5::70] = 0
    places[6::70] *= dtype(2.0**-16)
    queries = np.concatenate([places[[3, 4, 6]], unit(9, 33, 18, dtype)])
    all_of_them = search(queries, places, 20, device="cpu")
    few = search(queries[:count], places, 20, device="cpu", block_bytes=33 * 4 * block_rows)
    assert_same(few, Found(all_of_them.rows[:count], all_of_them.distances[:count]), exactly=True)
    assert_same(few, brute_force(queries[:count], places, 20))


@pytest.mark.parametrize("engine", ENGINES)
def test_vectors_need_not_be_unit(engine):
    rng = np.random.default_rng(4)
    queries = (rng.standard_normal((30, 16)) * 10.0 ** rng.uniform(-3, 3, (30, 1))).astype(np.float32)
    places = (rng.standard_normal((900, 16)) * 10.0 ** rng.uniform(-3, 3, (900, 1))).astype(np.float32)
    assert_same(search(queries, places, 7, device="cpu", engine=engine), brute_force(queries, places, 7))


@pytest.mark.parametrize("engine", ENGINES)
def test_of_thousands_of_duplicates_the_lowest_rows_come_first(engine):
    place, other = unit(2, 64, 5)
    places = np.tile(place, (6000, 1))
    places[[0, 17, 4000]] = other
    found = search(place[None], places, 30, device="cpu", engine=engine, block_bytes=64 * 4 * 2500)
    expected = [row for row in range(60) if row not in (0, 17)][:30]
    assert found.rows.tolist() == [expected]
    assert (found.distances == 0).all()
    assert search(other[None], places, 4, device="cpu", engine=engine).rows.tolist() == [[0, 17, 4000, 1]]


@pytest.mark.parametrize("engine", ENGINES)
def test_duplicates_that_straddle_k(engine):
    """Rank 3 to 200 is one image many times: the lowest of its rows fill the list."""
    query, far = unit(2, 48, 6)
    close, tied = query + 0.01 * far, query + 0.1 * far
    places = unit(500, 48, 7)
    places[[400, 30]] = close / np.linalg.norm(close)
    places[100:298] = tied / np.linalg.norm(tied)
    found = search(query[None], places, 10, device="cpu", engine=engine)
    assert found.rows.tolist() == [[30, 400, *range(100, 108)]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("block_rows", [400, 5000])
def test_near_ties_that_float32_cannot_tell(engine, block_rows):
    """Map vectors differ from one another in the last bit of a coordinate: scores by float32 are noise.

    The coordinates are small multiples of a power of two, so that float64 distances are exact in any order.
    """
    rng = np.random.default_rng(8)
    places = (
        np.full((5000, 64), 0.125, dtype=np.float32)
        + rng.integers(0, 3, (5000, 64)).astype(np.float32) * 2.0**-26
    )
    places = places.astype(np.float32)
    queries = np.full((5, 64), 0.125, dtype=np.float32)
    queries[:, :5] += np.eye(5, dtype=np.float32) * np.float32(0.25)
    found = search(queries, places, 12, device="cpu", engine=engine, block_bytes=block_rows * 64 * 4)
    assert_same(found, brute_force(queries, places, 12), exactly=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cluster_in_each_block(engine):
    """Near-duplicates spread over the whole map, far more of them than are shortlisted at first."""
    rng = np.random.default_rng(9)
    centres = unit(3, 40, 10)
    places = (centres[rng.integers(0, 3, 4000)] + 1e-7 * rng.standard_normal((4000, 40))).astype(np.float32)
    queries = np.concatenate([centres, places[:5]])
    found = search(queries, places, 20, device="cpu", engine=engine, block_bytes=40 * 4 * 900)
    assert_same(found, brute_force(queries, places, 20))


@settings(max_examples=40)
@given(st.data())
def test_small_integer_vectors_are_full_of_ties(data):
    dims, m, q = (data.draw(st.integers(1, n)) for n in (4, 80, 8))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    places = rng.integers(-1, 2, (m, dims)).astype(np.float32)
    queries = rng.integers(-1, 2, (q, dims)).astype(np.float32)
    out = rng.random((q, m)) < data.draw(st.sampled_from([0.0, 0.3, 1.0]))
    k = data.draw(st.integers(1, 100))
    engine = data.draw(st.sampled_from(["numpy", "torch"]))
    block_bytes = data.draw(st.integers(1, 2000))
    found = search(
        queries,
        places,
        k,
        excluded=lambda a, b: out[a, b],
        device="cpu",
        engine=engine,
        block_bytes=block_bytes,
    )
    assert_same(found, brute_force(queries, places, k, out), exactly=True)
    plain = search(queries, places, k, device="cpu", engine=engine, block_bytes=block_bytes)
    assert_same(plain, brute_force(queries, places, k), exactly=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_more_asked_for_than_there_is(engine):
    queries, places = unit(3), unit(5, seed=1)
    found = search(queries, places, 9, device="cpu", engine=engine)
    assert (np.sort(found.rows[:, :5]) == np.arange(5)).all()
    assert (found.rows[:, 5:] == -1).all()
    assert np.isinf(found.distances[:, 5:]).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_unreadable_images_are_never_found_and_find_nothing(engine):
    queries, places = unit(6), unit(50, seed=1)
    queries[[0, 3]] = 0
    places[[0, 20, 21, 49]] = 0
    found = search(queries, places, 50, device="cpu", engine=engine, block_bytes=32 * 4 * 7)
    assert_same(found, brute_force(queries, places, 50))
    assert (found.rows[[0, 3]] == -1).all()
    assert np.isinf(found.distances[[0, 3]]).all()
    assert not np.isin([0, 20, 21, 49], found.rows).any()


@pytest.mark.parametrize("engine", ENGINES)
def test_maps_of_one_row_and_of_none(engine):
    query = unit(2)
    assert search(query, query[1:], 3, device="cpu", engine=engine).rows.tolist() == [[0, -1, -1]] * 2
    assert search(query, query[:0], 3, device="cpu", engine=engine).rows.tolist() == [[-1, -1, -1]] * 2
    assert search(query[:0], query, 3, device="cpu", engine=engine).rows.shape == (0, 3)
    assert search(query, np.zeros_like(query), 3, device="cpu", engine=engine).rows.max() == -1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.filterwarnings("error")
def test_memory_mapped_files(tmp_path, engine, dtype):
    queries, places = unit(8, dtype=dtype), unit(400, seed=1, dtype=dtype)
    for name, vectors in (("q", queries), ("p", places)):
        np.save(tmp_path / f"{name}.npy", vectors)
    q, p = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "qp")
    found = search(q, p, 5, device="cpu", engine=engine, block_bytes=32 * 4 * 64)
    assert_same(found, search(queries, places, 5, device="cpu", engine=engine), exactly=True)
    assert_same(found, brute_force(queries, places, 5))


def test_tiny_vectors_are_not_zero_rows():
    places = np.eye(4, dtype=np.float64) * 1e-25  # squares vanish in float32
    assert search(places[:2], places, 2, device="cpu").rows[:, 0].tolist() == [0, 1]


def test_a_table_that_is_no_contiguous_block():
    places = unit(300, 64, 1)
    found = search(places[::3, ::2], places[:, ::2], 1, device="cpu")
    assert found.rows[:, 0].tolist() == list(range(0, 300, 3))


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_exclusions_by_brute_force(engine):
    queries, places = unit(30), unit(200, seed=1)
    queries[[4, 29]], places[[0, 77]] = 0, 0
    rng = np.random.default_rng(11)
    out = rng.random((30, 200)) < 0.5
    out[7] = True  # nothing is left
    out[8, 3:] = True
    found = search(
        queries,
        places,
        20,
        excluded=lambda q, m: out[q, m],
        device="cpu",
        engine=engine,
        block_bytes=32 * 4 * 33,
    )
    assert_same(found, brute_force(queries, places, 20, out))
    assert (found.rows[7] == -1).all()
    assert (found.rows[8] >= 0).sum() == 2  # of rows 0 to 2, row 0 is no image


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_exclusions_among_duplicates(engine):
    """The first 5,000 of 6,000 equal map images are out: the lowest of the others are found."""
    query = unit(1, 16)
    places = np.tile(query, (6000, 1))
    out = pairs([0, 5000], np.arange(5000), (1, 6000))
    found = search(query, places, 5, excluded=out, device="cpu", engine=engine)
    assert found.rows.tolist() == [[5000, 5001, 5002, 5003, 5004]]


def test_the_query_itself_and_panoramas_stay_out():
    vectors = unit(40)
    names = np.array([f"{i}.jpg" for i in range(40)])
    mask = np.arange(40) % 4 == 0
    found = search(
        vectors, vectors, 3, excluded=any_of(same_name(names, names), panoramas(mask)), device="cpu"
    )
    own = np.eye(40, dtype=bool) | mask
    assert_same(found, brute_force(vectors, vectors, 3, own))


def test_shortened_products_of_training_do_not_reach_the_search():
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        queries, places = unit(20, 256), unit(2000, 256, 1)
        found = search(queries, places, 10, device="cpu", engine="torch")
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert_same(found, brute_force(queries, places, 10))


def test_scores_are_within_their_bound():
    """The bound that decides whether a shortlist can be trusted holds for float32 products, and is not idle."""
    for dims, scale in ((8, 1.0), (512, 1.0), (2048, 1e4)):
        x, y = unit(50, dims, 12) * np.float32(scale), unit(400, dims, 13)
        a, b = (search_module.read_block(v, slice(0, len(v)), np.float32, "map") for v in (x, y))
        scores = (a.squares[:, None] + b.squares) - 2 * (x @ y.T)
        true = ((x[:, None].astype(np.float64) - y[None]) ** 2).sum(axis=2)
        bound = search_module.score_error(a, b)
        assert (np.abs(scores - true).max(axis=1) <= bound).all()
        assert (bound < 1e-3 * (1 + scale) ** 2).all()


def test_progress_rises_to_the_number_of_queries():
    calls = []
    search(
        unit(20),
        unit(200, seed=1),
        3,
        device="cpu",
        progress=lambda *a: calls.append(a),
        block_bytes=32 * 4 * 6,
    )
    done = [call[1] for call in calls]
    assert {(call[0], call[2]) for call in calls} == {("searching", 20)}
    assert done == sorted(done)
    assert done[-1] == 20
    assert len(done) > 10


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"k": 0}, "at least 1"),
        ({"k": 2.5}, "whole number"),
        ({"queries": unit(2, 16)}, "16 dims, the map has 32"),
        ({"queries": unit(2)[0]}, "expected floats"),
        ({"places": np.ones((3, 32), dtype=int)}, "expected floats"),
        ({"device": "tpu"}, "`device` 'tpu' is unknown"),
        ({"engine": "annoy"}, "`engine` 'annoy' is unknown"),
        ({"excluded": lambda q, m: np.zeros((1, 1), dtype=bool)}, "as long as the descriptors"),
        ({"excluded": lambda q, m: np.zeros((2, 9))}, "float64"),
        ({"block_bytes": 0}, "at least 1"),
    ],
)
def test_bad_input_is_refused(change, says):
    asked = {"queries": unit(2), "places": unit(9), "k": 3, "device": "cpu"} | change
    with pytest.raises(InputError, match=says):
        search(asked.pop("queries"), asked.pop("places"), asked.pop("k"), **asked)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_broken_descriptor_is_named(value):
    places = unit(9)
    places[5, 3] = value
    with pytest.raises(InputError, match="map row 5 is not finite"):
        search(unit(2), places, 3, device="cpu", block_bytes=32 * 4 * 2)
    with pytest.raises(InputError, match="query row 5 is not finite"):
        search(places, unit(2), 3, device="cpu")
    with pytest.raises(InputError, match="map row 5 is not finite"):
        search(unit(12), places, 3, device="cpu")


def test_a_gpu_that_is_not_there_is_refused():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match="`device=cuda`: torch sees no GPU"):
        search(unit(2), unit(3), 1, device="cuda")
