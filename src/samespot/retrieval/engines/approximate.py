"""Approximate search for large maps, through faiss: a graph of neighbours (HNSW) or compressed cells (IVF-PQ).

Both are faster than exact search and may miss. HNSW keeps the descriptors as float16, as maps do, and links between
them: fast and accurate. IVF-PQ keeps some bytes an image: for maps that memory cannot hold; its distances are those of
codes, so what it lists is to be measured again (`samespot.retrieval.shortlist`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.files import whole_file
from samespot.progress import Progress
from samespot.retrieval.search import Vectors, read_block

Kind = Literal["hnsw", "ivfpq"]
_LINKS, _EF_CONSTRUCTION, _EF = (
    16,
    64,
    128,
)  # near images that each knows; images looked at when it is linked; and asked
_ADDED_AT_ONCE = 16_384  # rows between two reports of progress
_CENTRES = 256  # of each part of a product quantiser: one byte
_TRAINED_ON = 64  # rows for each cell, at most `_TRAIN_BYTES` in all
_TRAIN_BYTES = 512 << 20
_ROUNDS = 10  # of k-means: more move recall by less than noise
_PROBED, _FEWEST_PROBED = 32, 8  # a search looks into a 32nd of the cells, and into 8 at least


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
            return {"links": links, "ef_construction": int(graph.efConstruction), "ef_search": _EF}
        cells = self.index
        return {"lists": int(cells.nlist), "code_bytes": int(cells.pq.M), "probes": int(cells.nprobe)}

    def nearest(
        self, queries: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """(q, count) squared distances, ascending, and map rows, of those that are allowed (m,); -1 ends a list."""
        faiss, harder, chosen = _faiss(), 1.0, {}
        if allowed is not None:  # what is not allowed is met on the way, so the way must be longer
            harder = len(allowed) / max(int(allowed.sum()), 1)
            chosen = {"sel": faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))}
        if self.kind == "hnsw":
            # a search that keeps fewer than it returns, returns little
            looked_at = min(math.ceil(harder * max(_EF, count)), len(self))
            how = faiss.SearchParametersHNSW(efSearch=max(looked_at, 1), **chosen)
        else:
            probes = min(math.ceil(harder * self.index.nprobe), self.index.nlist)
            how = faiss.SearchParametersIVF(nprobe=probes, **chosen)
        with _one_thread(faiss) if len(queries) == 1 else nullcontext():
            squares, rows = self.index.search(queries, count, params=how)
        return squares, rows

    def save(self, path: Path) -> Path:
        """Write faiss's own format, at once: a reader sees the old one or the new one."""
        try:
            with whole_file(path) as partial:
                _faiss().write_index(self.index, str(partial))
        except (OSError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise InputError(f"{path}: cannot write the index ({reason}); is the disk full?") from None
        return path

    @classmethod
    def load(cls, path: Path) -> ApproximateIndex:
        """Read what `save` wrote."""
        faiss = _faiss()
        try:
            index = faiss.read_index(str(path))
        except (RuntimeError, MemoryError) as error:
            reason = (str(error).strip().splitlines() or ["no reason given"])[-1]
            raise InputError(f"{path}: faiss cannot read it ({reason}); build the index again") from None
        if isinstance(index, faiss.IndexIVFPQ):
            return cls("ivfpq", index)
        if isinstance(index, faiss.IndexIDMap) and isinstance(_graph(index), faiss.IndexHNSWSQ):
            return cls("hnsw", index)
        raise InputError(
            f"{path}: a faiss index of another kind ({type(index).__name__}); build it with samespot"
        )


def build_index(places: Vectors, kind: Kind, *, progress: Progress | None = None) -> ApproximateIndex:
    """An index of the map (m, d), with settings for its size."""
    if places.ndim != 2 or places.dtype.kind != "f":
        raise InputError(
            f"the map's descriptors are {places.dtype} {places.shape}; expected floats (images, dims)"
        )
    index = _empty_graph(places) if kind == "hnsw" else _trained_cells(places)
    for start in range(0, len(places), _ADDED_AT_ONCE):
        part = slice(start, min(start + _ADDED_AT_ONCE, len(places)))
        block = read_block(places, part, np.float32, "map")
        if len(block.numbers):
            index.add_with_ids(block.single, block.numbers)
        if progress is not None:
            progress("indexing", part.stop, len(places))
    return ApproximateIndex(kind, index)


def _empty_graph(places: Vectors) -> Any:
    """In which each image will know near ones. With several threads, no two are quite the same."""
    index = _faiss().index_factory(places.shape[1], f"IDMap,HNSW{_LINKS}_SQfp16")
    _graph(index).hnsw.efConstruction = _EF_CONSTRUCTION
    return index


def _trained_cells(places: Vectors) -> Any:
    """Cells of near images, about √m of them, each image as a byte for every four dims but at most 64."""
    lists = int(2 ** round(math.log2(max(math.sqrt(len(places)), 1.0))))
    sample = _training_sample(places, lists)
    if len(sample) < _CENTRES:
        raise InputError(
            f"IVF-PQ learns from {_CENTRES} photos or more, there are {len(sample)}; search such a map exactly"
        )
    index = _faiss().index_factory(places.shape[1], f"IVF{lists},PQ{_code_bytes(places.shape[1])}")
    index.cp.niter = index.pq.cp.niter = _ROUNDS
    index.do_polysemous_training = False  # takes a minute and serves searches by Hamming distance only
    for clusters in (index.cp, index.pq.cp):  # small maps are the caller's choice, not worth faiss's warning
        clusters.min_points_per_centroid = 1
    index.cp.max_points_per_centroid = len(sample)
    index.train(sample)
    index.nprobe = min(max(_FEWEST_PROBED, lists // _PROBED), lists)
    return index


def _code_bytes(dims: int) -> int:
    """The most parts of equal width, of at least four dims each, that are at most 64."""
    return max(parts for parts in range(1, 65) if dims % parts == 0 and (dims >= 4 * parts or parts == 1))


def _training_sample(places: Vectors, lists: int) -> NDArray[np.float32]:
    """Random map rows, ascending, that are images: enough for the cells and the codes, but bounded."""
    wanted = max(_TRAINED_ON * lists, _CENTRES * _CENTRES)
    wanted = min(wanted, max(_TRAIN_BYTES // (4 * places.shape[1]), _CENTRES), len(places))
    rows = np.sort(np.random.default_rng(0).choice(len(places), wanted, replace=False))
    sample = np.ascontiguousarray(places[rows], dtype=np.float32)
    return sample[sample.any(axis=1)]


def _graph(index: Any) -> Any:
    """The HNSW index inside an IndexIDMap."""
    return _faiss().downcast_index(index.index)


@contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """Threads share queries, so one query is work for one of them: waking the others takes longer than the search."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # of the calling thread only
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise InputError(
            "approximate search needs faiss, which is not installed; `pip install faiss-cpu`, or search exactly"
        ) from None
    return faiss
