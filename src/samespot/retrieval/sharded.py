"""Exact search by many machines: each looks through a part of the map, and their lists are merged."""

from __future__ import annotations

import numpy as np

from samespot.arrays import as_array
from samespot.cluster import AHEAD, Cluster
from samespot.progress import Progress
from samespot.retrieval.exclusion import Exclusion
from samespot.retrieval.search import BLOCK_BYTES, Best, Found, Vectors, best_of, check_search

SHARD_BYTES = 64 << 20  # of the map that is sent to a worker in one go
ON_THE_WAY = (
    4 << 30
)  # bytes of the map that are sent at a time, to all workers: they lie in this machine's memory
QUERIES = 65_536  # asked in one go: their lists travel back


def search_sharded(
    cluster: Cluster,
    queries: Vectors,
    places: Vectors,
    k: int,
    *,
    excluded: Exclusion | None = None,
    progress: Progress | None = None,
) -> Found:
    """As `search`: the same rows in the same order, and the same distances to the last bit."""
    queries, places = as_array(queries, "queries"), as_array(places, "map")
    k = check_search(queries, places, k, BLOCK_BYTES)
    bytes_of_row = max(1, places.shape[1] * places.dtype.itemsize)
    largest = min(SHARD_BYTES, ON_THE_WAY // (AHEAD * cluster.cores))
    rows = max(1, min(-(-len(places) // cluster.cores), largest // bytes_of_row))
    squares, found = np.full((len(queries), k), np.inf), np.full((len(queries), k), -1, dtype=np.int64)
    # one part of the map after the other is sent out, so that the cluster need not hold all of it
    jobs = (
        (slice(start, min(start + rows, len(places))), part)
        for start in range(0, len(places), rows)
        for part in (slice(at, min(at + QUERIES, len(queries))) for at in range(0, len(queries), QUERIES))
    )
    total = -(-len(places) // rows) * -(-len(queries) // QUERIES)
    sent = ((held, part, np.ascontiguousarray(places[held])) for held, part in jobs)
    for done, (_, (part, best)) in enumerate(
        cluster.each(_search_shard, sent, queries, k, excluded), start=1
    ):
        merged = merge(Best(squares[part], found[part]), best)
        squares[part], found[part] = merged
        if progress is not None:
            progress("searching", len(queries) * done // total, len(queries))
    return Found(found, np.sqrt(squares))


def merge(one: Best, other: Best) -> Best:
    """The first k of two ascending lists of k, by squared distance and then by row; rows of -1 come last."""
    squares, rows = (np.concatenate(pair, axis=1) for pair in zip(one, other, strict=True))
    order = np.lexsort((rows, squares), axis=1)[:, : one.rows.shape[1]]
    return Best(np.take_along_axis(squares, order, axis=1), np.take_along_axis(rows, order, axis=1))


def _search_shard(
    job: tuple[slice, slice, Vectors], queries: Vectors, k: int, excluded: Exclusion | None
) -> tuple[slice, Best]:
    """The best of a run of map rows for a run of queries; by the numbers of the whole."""
    held, part, places = job
    firsts = part.start, held.start
    return part, best_of(queries[part], places, k, excluded, "cpu", firsts=firsts, threads=1)
