"""What every engine must do, whoever it is: held against all distances in float64."""

import numpy as np

from samespot.maps.filters import FilterOptions
from samespot.maps.limits import Columns, limits_of
from tests.maps.test_limits import CASES


def all_cases(there):
    """No filter, each kind of them, some at once, and one that leaves nothing."""
    given = [{}, *(words for words, _ in CASES), {"condition": "fog"}]
    return [limits_of(FilterOptions(**words), there, Columns(there), "map") for words in given]


def by_hand(query, vectors, count, limits):
    apart = np.sqrt(((vectors.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1))
    if limits is not None:
        apart[~limits.allowed] = np.inf
    order = np.lexsort((np.arange(len(apart)), apart))[:count]
    return order[np.isfinite(apart[order])], apart[order][np.isfinite(apart[order])]


def finds_what_exact_search_finds(engine, vectors, queries, there, count=100):
    for limits in all_cases(there):
        for query in queries:
            rows, distances = engine.nearest(query, count, limits)
            expected, apart = by_hand(query, vectors, count, limits)
            np.testing.assert_array_equal(rows, expected)
            np.testing.assert_allclose(distances, apart, atol=1e-7)


def finds_most(engine, vectors, queries, there, least, count=100):
    """Nothing that may not answer, the nearest first, and at least that share of what exact search finds."""
    for limits in all_cases(there):
        shares = []
        for query in queries:
            rows, distances = engine.nearest(query, count, limits)
            expected, _ = by_hand(query, vectors, count, limits)
            assert len(rows) == len(set(rows.tolist())) <= count
            assert limits is None or limits.allowed[rows].all()
            assert (np.diff(distances) >= 0).all()
            true = np.linalg.norm(vectors[rows].astype(np.float64) - query, axis=1)
            np.testing.assert_allclose(distances, true, atol=1e-7)
            shares.append(np.isin(expected, rows).mean() if len(expected) else 1.0)
        assert np.mean(shares) >= least
