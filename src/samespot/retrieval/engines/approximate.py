"""Approximate search for large maps, through faiss: a graph of neighbours (HNSW) or compressed cells (IVF-PQ).

Both are faster than exact search and may miss; `recall_against_exact` says how often, and is to be shown with them.
HNSW keeps the descriptors in memory and links between them: fast and accurate. IVF-PQ keeps some bytes an image:
for maps that memory cannot hold; give `search_index` the descriptor file to re-rank what it finds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.files import whole_file
from samespot.options import check_choice
from samespot.progress import Progress
from samespot.retrieval.search import BLOCK_BYTES, Block, Found, Vectors, offer, read_block, search

Kind = Literal["hnsw", "ivfpq"]
IndexKind = Literal["auto", "hnsw", "ivfpq"]
GRAPH_ROWS = 2_000_000  # map rows up to which "auto" takes the graph: building one takes long
_ADDED_AT_ONCE = 16_384  # rows between two reports of progress
_CENTRES = 256  # of each part of a product quantiser: one byte
_TRAINED_ON = 64  # rows for each cell, at most `_TRAIN_BYTES` in all
_TRAIN_BYTES = 512 << 20
_ROUNDS = 10  # of k-means: more move recall by less than noise


@dataclass(frozen=True)
class ApproximateIndex:
    """A faiss index over the map rows that are not all zero, which it knows by their row numbers."""

    kind: Kind
    index: Any  # faiss.IndexIDMap of an HNSW graph, or faiss.IndexIVFPQ

    def __len__(self) -> int:
        """Map images in it."""
        return int(self.index.ntotal)

    @property
    def dims(self) -> int:
        return int(self.index.d)

    @property
    def settings(self) -> dict[str, int]:
        """What it was built with and how hard it looks, as plain numbers."""
        if self.kind == "hnsw":
            graph = _graph(self.index).hnsw
            links = int(graph.nb_neighbors(1))
            return {
                "links": links,
                "ef_construction": int(graph.efConstruction),
                "ef_search": int(graph.efSearch),
            }
        cells = self.index
        return {"lists": int(cells.nlist), "code_bytes": int(cells.pq.M), "probes": int(cells.nprobe)}

    def save(self, path: str | Path) -> Path:
        """Write faiss's own format, at once: a reader sees the old one or the new one."""
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as partial:
                _faiss().write_index(self.index, str(partial))
        except (OSError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise InputError(f"{path}: cannot write the index ({reason}); is the disk full?") from None
        return path

    @classmethod
    def load(cls, path: str | Path) -> ApproximateIndex:
        """Read what `save` wrote."""
        faiss = _faiss()
        if not Path(path).is_file():
            raise InputError(f"{path}: no such index; check the path")
        try:
            index = faiss.read_index(str(path))
        except (RuntimeError, MemoryError) as error:
            reason = (str(error).strip().splitlines() or ["no reason given"])[-1]
            raise InputError(f"{path}: faiss cannot read it ({reason}); build the index again") from None
        if isinstance(index, faiss.IndexIVFPQ):
            return cls("ivfpq", index)
        if isinstance(index, faiss.IndexIDMap) and isinstance(_graph(index), faiss.IndexHNSWFlat):
            return cls("hnsw", index)
        raise InputError(
            f"{path}: a faiss index of another kind ({type(index).__name__}); build it with samespot"
        )


def build_index(
    places: Vectors, kind: IndexKind = "auto", *, progress: Progress | None = None
) -> ApproximateIndex:
    """An index of the map (m, d) with the defaults for its size; "auto": the graph up to `GRAPH_ROWS` rows."""
    check_choice("kind", kind, get_args(IndexKind))
    if kind == "hnsw" or (kind == "auto" and len(places) <= GRAPH_ROWS):
        return build_hnsw(places, progress=progress)
    return build_ivfpq(places, progress=progress)


def build_hnsw(
    places: Vectors,
    *,
    links: int = 16,
    ef_construction: int = 64,
    ef_search: int = 64,
    progress: Progress | None = None,
) -> ApproximateIndex:
    """A graph in which each image knows `links` near ones. Larger `ef_…` look at more images, and find more.

    Takes the descriptors as float32 and about 8 · links bytes an image. With several threads, no two builds are
    quite the same.
    """
    for name, value in (("ef_construction", ef_construction), ("ef_search", ef_search)):
        _at_least(name, value, 1)
    _at_least("links", links, 2)
    faiss = _faiss()
    _check_places(places)
    index = faiss.index_factory(places.shape[1], f"IDMap,HNSW{links}")
    graph = _graph(index).hnsw
    graph.efConstruction, graph.efSearch = ef_construction, ef_search
    _add(index, places, progress)
    return ApproximateIndex("hnsw", index)


def build_ivfpq(
    places: Vectors,
    *,
    lists: int | None = None,
    code_bytes: int | None = None,
    probes: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ApproximateIndex:
    """Cells of near images, `lists` of them, each image as `code_bytes` bytes; a search looks into `probes` cells.

    Defaults: about √m cells, a byte for every four dims but at most 64, and a 32nd of the cells, at least 8.
    """
    faiss = _faiss()
    _check_places(places)
    sample = _training_sample(places, lists or _default_lists(len(places)), seed)
    if len(sample) < _CENTRES:
        raise InputError(
            f"IVF-PQ learns from {_CENTRES} map images or more, there are {len(sample)}; search such a map exactly"
        )
    lists = _default_lists(len(places)) if lists is None else lists
    code_bytes = _default_code_bytes(places.shape[1]) if code_bytes is None else code_bytes
    probes = max(8, lists // 32) if probes is None else probes
    _check_cells(lists, code_bytes, probes, len(sample), places.shape[1])
    index = faiss.index_factory(places.shape[1], f"IVF{lists},PQ{code_bytes}")
    index.cp.niter = index.pq.cp.niter = _ROUNDS
    index.do_polysemous_training = False  # takes a minute and serves searches by Hamming distance only
    index.cp.min_points_per_centroid = 1  # small maps are the caller's choice, not worth faiss's warning
    index.cp.max_points_per_centroid = len(sample)
    index.train(sample)
    index.nprobe = min(probes, lists)
    _add(index, places, progress)
    return ApproximateIndex("ivfpq", index)


def _default_lists(rows: int) -> int:
    """A power of two near the root: as much work to find the cells as to look through them."""
    return int(2 ** round(math.log2(max(math.sqrt(rows), 1.0))))


def _default_code_bytes(dims: int) -> int:
    """The most parts of equal width, of at least four dims each, that are at most 64."""
    return max(parts for parts in range(1, 65) if dims % parts == 0 and (dims >= 4 * parts or parts == 1))


def _check_cells(lists: int, code_bytes: int, probes: int, sample: int, dims: int) -> None:
    _at_least("lists", lists, 1)
    _at_least("probes", probes, 1)
    if lists > sample:
        raise InputError(f"lists = {lists}: {sample} map images cannot be the centres of so many cells")
    if code_bytes < 1 or dims % code_bytes:
        raise InputError(f"code_bytes = {code_bytes}: {dims} dims cannot be cut into so many equal parts")


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{name} = {value}: give at least {least}")


def _training_sample(places: Vectors, lists: int, seed: int) -> NDArray[np.float32]:
    """Random map rows, ascending, that are images: enough for the cells and the codes, but bounded."""
    wanted = max(_TRAINED_ON * lists, _CENTRES * _CENTRES)
    wanted = min(wanted, max(_TRAIN_BYTES // (4 * places.shape[1]), _CENTRES), len(places))
    rows = np.sort(np.random.default_rng(seed).choice(len(places), wanted, replace=False))
    sample = np.ascontiguousarray(places[rows], dtype=np.float32)
    return sample[sample.any(axis=1)]


def _add(index: Any, places: Vectors, progress: Progress | None) -> None:
    for start in range(0, len(places), _ADDED_AT_ONCE):
        part = slice(start, min(start + _ADDED_AT_ONCE, len(places)))
        block = read_block(places, part, np.float32, "map")
        if len(block.numbers):
            index.add_with_ids(block.single, block.numbers)
        if progress is not None:
            progress("indexing", part.stop, len(places))


def search_index(
    index: ApproximateIndex,
    queries: Vectors,
    k: int,
    *,
    places: Vectors | None = None,
    shortlist: int | None = None,
    progress: Progress | None = None,
) -> Found:
    """The map rows that the index takes for the k nearest of each query (q, d); -1 where it finds no more.

    With `places`, the descriptors that the index was built from, a shortlist is re-ranked by exact distances; it
    holds k + 16 of a graph, which is only rounded, and 4 k but at least 100 of IVF-PQ. Without `places`, IVF-PQ's
    order and distances are those of its codes, off by some percent.
    """
    _at_least("k", k, 1)
    if queries.ndim != 2 or queries.shape[1] != index.dims:
        raise InputError(f"queries {queries.shape} do not fit an index of {index.dims} dims")
    if places is not None and (places.ndim != 2 or places.shape[1] != index.dims or len(places) < len(index)):
        raise InputError(
            f"descriptors {places.shape} are not those of an index of {len(index)} × {index.dims}"
        )
    usual = k + 16 if index.kind == "hnsw" else max(4 * k, 100)
    count = k if places is None else max(k, usual if shortlist is None else shortlist)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    squares = np.full((len(queries), k), np.inf)
    for part in _query_parts(queries, count):
        asked = read_block(queries, part, np.float32, "query")
        if len(asked.numbers):
            scores, listed = _ask(index, asked.single, count)
            if places is not None:
                scores, listed = _rerank(asked, places, listed, k)
            squares[asked.numbers], rows[asked.numbers] = np.maximum(scores, 0), listed
        if progress is not None:
            progress("searching", part.stop, len(queries))
    squares[rows < 0] = np.inf
    return Found(rows, np.sqrt(squares))


def _query_parts(queries: Vectors, count: int) -> Iterator[slice]:
    """Runs of queries whose shortlisted descriptors fit a block."""
    step = max(1, BLOCK_BYTES // (4 * queries.shape[1] * count))
    return (slice(i, min(i + step, len(queries))) for i in range(0, len(queries), step))


def _ask(index: ApproximateIndex, queries: NDArray[np.float32], count: int) -> tuple[Any, NDArray[np.int64]]:
    if index.kind == "ivfpq":
        scores, rows = index.index.search(queries, count)
        return scores, rows
    graph = _graph(index.index).hnsw
    before = graph.efSearch
    graph.efSearch = max(before, count)  # a search that keeps fewer than it returns, returns little
    try:
        scores, rows = index.index.search(queries, count)
    finally:
        graph.efSearch = before
    return scores, rows


def _rerank(
    asked: Block, places: Vectors, listed: NDArray[np.int64], k: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The k best of the listed map rows (q, count) by exact distances; -1 ends a list."""
    numbers = np.unique(listed[listed >= 0])
    values = np.asarray(places[numbers], dtype=np.float32)
    squares = np.full((len(listed), k), np.inf)
    rows = np.full((len(listed), k), -1, dtype=np.int64)
    unscored = np.where(listed < 0, np.float32(np.inf), np.float32(0))
    positions = np.searchsorted(numbers, listed)
    which, slack = np.arange(len(listed)), np.zeros(len(listed))
    offer(which, asked.values, values, numbers, unscored, positions, slack, squares, rows)
    return squares, rows


def recall_against_exact(approximate: Found, exact: Found, k: int) -> float:
    """Share of the exact k nearest that are among the approximate k nearest, over all queries."""
    for name, found in (("approximate", approximate), ("exact", exact)):
        if not 1 <= k <= found.rows.shape[1]:
            raise InputError(f"recall at {k}: the {name} lists hold {found.rows.shape[1]}")
    if len(approximate.rows) != len(exact.rows):
        raise InputError(f"{len(approximate.rows)} approximate lists for {len(exact.rows)} exact ones")
    hits = total = 0
    for ours, true in zip(approximate.rows[:, :k], exact.rows[:, :k], strict=True):
        true = true[true >= 0]
        total += len(true)
        hits += int(np.isin(true, ours).sum())
    return hits / total if total else 1.0


def sampled_recall(
    index: ApproximateIndex,
    queries: Vectors,
    places: Vectors,
    k: int,
    *,
    rerank: bool = True,
    sample: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
) -> float:
    """Recall against exact search of some of the queries: what to print beside approximate results."""
    wanted = min(sample, len(queries))
    rows = np.sort(np.random.default_rng(seed).choice(len(queries), wanted, replace=False))
    some = np.asarray(queries[rows])
    approximate = search_index(index, some, k, places=places if rerank else None)
    return recall_against_exact(approximate, search(some, places, k, progress=progress), k)


def _graph(index: Any) -> Any:
    """The HNSW index inside an IndexIDMap."""
    return _faiss().downcast_index(index.index)


def _check_places(places: Vectors) -> None:
    if places.ndim != 2 or places.dtype.kind != "f":
        raise InputError(
            f"the map's descriptors are {places.dtype} {places.shape}; expected floats (images, dims)"
        )


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise InputError(
            "approximate search needs faiss, which is not installed; `pip install faiss-cpu`, or search exactly"
        ) from None
    return faiss
