"""Exact search is exact on a GPU, too."""

import numpy as np
import pytest

from samespot.retrieval.search import search


def unit(n, seed):
    vectors = np.random.default_rng(seed).standard_normal((n, 128))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("some_excluded", [False, True])
def test_on_a_gpu_the_same_to_the_last_bit(some_excluded):
    queries, places = unit(300, 0), unit(20_000, 1)
    places[5000:9000] = places[4999]
    queries[0] = places[4999]
    out = np.random.default_rng(0).random((300, 20_000)) < 0.1
    excluded = (lambda q, m: out[q, m]) if some_excluded else None
    gpu, cpu = (search(queries, places, 25, excluded=excluded, device=d) for d in ("cuda", "cpu"))
    np.testing.assert_array_equal(gpu.rows, cpu.rows)
    np.testing.assert_array_equal(gpu.distances, cpu.distances)
