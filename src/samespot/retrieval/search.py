"""The k nearest map images of each query, exactly: the same rows in the same order on any device.

An engine (matrix products in numpy or torch) shortlists each block of the map by float32 scores; on the
processor, a few queries scan it as it lies in memory. The shortlist is re-ranked by float64 distances, always summed in
the same order. One that may have been cut where float32 cannot tell (many duplicates) is made longer until it holds all
that could be among the first k.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numba import njit
from numpy.typing import NDArray

from samespot.arrays import as_array, read_only
from samespot.errors import InputError
from samespot.gpus import driver_there
from samespot.options import check_choice
from samespot.progress import Progress
from samespot.retrieval.exclusion import Exclusion

if TYPE_CHECKING:
    from samespot.retrieval.engines.scan import Scan

Vectors = NDArray[
    Any
]  # (n, d) float16, float32 or float64, possibly memory-mapped; an all-zero row is no image
EngineName = Literal["auto", "numpy", "torch"]
BLOCK_BYTES = 64 << 20  # float32 descriptors of the map looked at in one go, and twice that of the queries
_SCANNED = 64  # times as many are scanned in one go, since nothing is copied
_SPARE = 16  # shortlisted beyond k, so that float32's mistakes stay inside the list
_WIDER = 8  # times as long is the next shortlist where the first may have been cut through a tie
_WIDEST = 4096  # beyond this, float64 distances to the whole block are no slower
_EXCLUDED_PAIRS = 1 << 24  # asked about in one go: an exclusion may compare float64 times of all of them
_HALF_ULP = 2.0**-24  # largest relative error of one float32 operation
_UNDERFLOW = 2.0**-120  # what is lost per dimension where float32 runs out of small numbers


@dataclass(frozen=True)
class Found:
    """The nearest map images of each query, nearest first; of equally near ones the lower map row first."""

    rows: NDArray[np.int64]  # (q, k) map rows; -1: nothing left to return
    distances: NDArray[np.float64]  # (q, k) Euclidean; inf where the row is -1


Searching = Callable[..., Found]  # `search`, or what takes its place: queries, map, k and `excluded`


class Engine(Protocol):
    """Shortlists by float32 scores: squared distances with errors of at most `score_error`."""

    def hold(self, block: NDArray[np.float32], squares: NDArray[np.float32]) -> None:
        """Take a block of map rows (n, d) and their squared lengths (n,)."""

    def at_once(self) -> int:
        """How many queries it can score against the held block within its memory."""

    def nearest(
        self,
        queries: NDArray[np.float32],
        count: int,
        out: NDArray[np.bool_] | None,
        limits: NDArray[np.float64],
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """(q, count) smallest scores, ascending, and their rows of the block. Where `out` (q, n) is True: inf. What
        scores above its query's limit (q,) is of no use, and may be left out."""


def search(
    queries: Vectors,
    places: Vectors,
    k: int,
    *,
    excluded: Exclusion | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    engine: EngineName = "auto",
    block_bytes: int = BLOCK_BYTES,
) -> Found:
    """The k map rows (m, d) nearest to each query (q, d) by Euclidean distance, whatever the size of the map.

    Takes numpy arrays, or torch tensors on the CPU.
    All-zero map rows (unreadable images) are never returned, and an all-zero query finds nothing. `excluded` keeps
    pairs out (see `exclusion`). device: "auto" (a GPU if there is one), "cpu", "cuda". Memory beyond the arrays
    themselves stays within a few hundred megabytes; memory-mapped arrays are read block by block. Neither the device,
    the engine nor the block size changes the result.
    """
    queries, places = as_array(queries, "queries"), as_array(places, "map")
    k = check_search(queries, places, k, block_bytes)
    squares, rows = best_of(queries, places, k, excluded, device, progress, engine, block_bytes)
    return Found(rows, np.sqrt(squares))


def best_of(
    queries: Vectors,
    places: Vectors,
    k: int,
    excluded: Exclusion | None,
    device: str = "auto",
    progress: Progress | None = None,
    engine: EngineName = "auto",
    block_bytes: int = BLOCK_BYTES,
    firsts: tuple[int, int] = (0, 0),
    threads: int | None = None,
) -> Best:
    """The same by squared distances, by which lists of several maps can be merged: their roots may be equal where they
    are not. firsts: numbers of the first query and the first map row, where they are runs of longer tables; rows,
    exclusions and errors are by the numbers of these. threads: of the processor; by default as many as cores."""
    shortlister = _pick_engine(engine, resolve_device(device), threads)
    exact = np.float64 if np.float64 in (queries.dtype, places.dtype) else np.float32
    squares = np.full((len(queries), k), np.inf)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    scan = _scan_for(queries, places, exact, shortlister, excluded, threads)
    for part in _parts(queries, 2 * block_bytes):
        asked = read_block(queries, part, exact, "query", firsts[0])
        mine = asked.numbers - firsts[0]
        best = Best(squares[mine], rows[mine])  # copies: of the queries that are not zero
        for held in _parts(places, block_bytes if scan is None else _SCANNED * block_bytes):
            if scan is None or not _scan_block(scan, asked, places, held, firsts[1], best):
                for some in _parts(places, block_bytes, held):
                    block = read_block(places, some, exact, "map", firsts[1])
                    if len(block.numbers) and len(asked.numbers):
                        _search_block(asked, block, best, shortlister, excluded)
            if progress is not None:
                done = part.start + (part.stop - part.start) * held.stop // len(places)
                progress("searching", done, len(queries))
        squares[mine], rows[mine] = best
    return Best(squares, rows)


def check_search(queries: Vectors, places: Vectors, k: int, block_bytes: int) -> int:
    for role, vectors in (("queries", queries), ("map", places)):
        if vectors.ndim != 2 or vectors.dtype.kind != "f":
            raise InputError(
                f"the descriptors of the {role} are {vectors.dtype} {vectors.shape}; expected floats (images, dims)"
            )
    if queries.shape[1] != places.shape[1]:
        raise InputError(
            f"the queries have {queries.shape[1]} dims, the map has {places.shape[1]}; "
            "describe and whiten both in the same way"
        )
    try:
        k = operator.index(k)
    except TypeError:
        raise InputError(f"k = {k!r} is not a whole number") from None
    if k < 1:
        raise InputError(f"k = {k}: ask for at least 1 map image")
    if block_bytes < 1:
        raise InputError(f"block_bytes = {block_bytes}: give at least 1")
    return k


def resolve_device(device: str) -> str:
    """`device_named` as a word, and without importing torch where there can be no GPU."""
    if device == "cpu" or (device == "auto" and "torch" not in sys.modules and not driver_there()):
        return "cpu"
    from samespot.devices import device_named

    return str(device_named(device))


def _pick_engine(name: EngineName, device: str, threads: int | None) -> Engine:
    check_choice("engine", name, get_args(EngineName))
    if name == "auto":
        name = "numpy" if device == "cpu" else "torch"
    if name != "torch" and device != "cpu":
        raise InputError(f"`engine={name}` works on the CPU, not on {device}; use `engine=auto`")
    from samespot.retrieval.engines.matrix import NumpyEngine, TorchEngine

    return NumpyEngine(threads) if name == "numpy" else TorchEngine(device)


def _scan_for(
    queries: Vectors,
    places: Vectors,
    exact: Any,
    engine: Engine,
    excluded: Exclusion | None,
    threads: int | None,
) -> Scan | None:
    """What looks for a few queries in one pass over the map, where that will do."""
    from samespot.retrieval.engines.matrix import NumpyEngine
    from samespot.retrieval.engines.scan import FEW, Scan

    plain = excluded is None and exact is np.float32 and isinstance(engine, NumpyEngine)
    as_it_lies = places.dtype in (np.float16, np.float32) and places.flags.c_contiguous
    return Scan(threads) if plain and as_it_lies and len(queries) <= FEW else None


def _scan_block(scan: Scan, asked: Block, places: Vectors, held: slice, first: int, best: Best) -> bool:
    """Let a few queries look at one block of the map. False where that does not settle it: a list may have been cut
    through a tie, or the block is broken, and it is to be looked at as usual."""
    raw = places[held]
    count = min(best.rows.shape[1] + _SPARE, len(raw))
    lists = scan.nearest(asked.single, raw, count)
    if lists is None:
        return False
    which, settled = np.arange(len(asked.numbers)), True
    for scores, rows, size, largest in lists:
        listed = read_only(raw[rows.ravel()].astype(np.float32))
        squares = np.full(1, largest, dtype=np.float32)
        block = Block(held, first + held.start + rows.ravel(), listed, listed, squares)
        places_listed = np.arange(rows.size).reshape(rows.shape)
        slack = score_error(asked, block)
        tables = (asked.values, block.values, block.numbers)
        unsure = offer(which, *tables, scores, places_listed, slack, best.squares, best.rows)
        settled &= count >= size or not unsure.any()
    return settled


def _parts(vectors: Vectors, size: int, within: slice | None = None) -> Iterator[slice]:
    """Runs of all rows, or of those within some, that take at most `size` bytes each as float32."""
    step = max(1, size // max(4 * vectors.shape[1], 1))
    first, last = (0, len(vectors)) if within is None else (within.start, within.stop)
    return (slice(i, min(i + step, last)) for i in range(first, last, step))


@dataclass(frozen=True)
class Block:
    """Some rows of a table of descriptors; its all-zero rows are left out."""

    part: slice  # of the table
    numbers: NDArray[np.int64]  # (n,) row in the table of each
    values: Vectors  # (n, d) float32 or float64: what distances are computed from
    single: NDArray[np.float32]  # (n, d) the same or rounded: what scores are computed from
    squares: NDArray[np.float32]  # (n,) squared lengths, about


def read_block(
    vectors: Vectors, part: slice, exact: type[np.floating[Any]], role: str, first: int = 0
) -> Block:
    """Read a run of rows; no copy where they are contiguous and of the wanted type already. first: the number of the
    first row in the table."""
    values: Vectors = np.ascontiguousarray(vectors[part], dtype=exact)
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32, copy=False)
        squares = _squared_lengths(read_only(single))
    part = slice(first + part.start, first + part.stop)
    bad = np.flatnonzero(~np.isfinite(squares))
    if len(bad):
        raise InputError(
            f"the descriptor in {role} row {part.start + bad[0]} is not finite, or too long for float32; "
            "describe that image again"
        )
    numbers = np.arange(part.start, part.stop)
    small = np.flatnonzero(squares < 1e-30)  # zero, or so short that its square is lost
    zero = small[~values[small].any(axis=1)]
    if len(zero):
        kept = np.ones(len(values), dtype=bool)
        kept[zero] = False
        numbers, values, squares = numbers[kept], values[kept], squares[kept]
        single = values.astype(np.float32, copy=False)
    return Block(part, numbers, read_only(values), single, squares)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _squared_lengths(vectors: Any) -> Any:  # pragma: no cover - compiled
    """(n,) in float32, summed in any order, which `score_error` allows for."""
    squares = np.empty(len(vectors), dtype=np.float32)
    for i in range(len(vectors)):
        total = np.float32(0.0)
        for j in range(vectors.shape[1]):
            total += vectors[i, j] * vectors[i, j]
        squares[i] = total
    return squares


class Best(NamedTuple):
    """The best so far of each query, ascending by (squared distance, row). Changed in place."""

    squares: NDArray[np.float64]  # (q, k) squared distances, inf where there is none yet
    rows: NDArray[np.int64]  # (q, k)


def score_error(asked: Block, block: Block) -> NDArray[np.float64]:
    """(q,) how far a float32 score |x|² + |y|² − 2xy can be from the squared distance.

    Sums of d products in any order are off by at most d half ulps of the sum of their magnitudes, which is at most
    (|x| + |y|)² in all; some more for rounding the inputs and adding up.
    """
    dims = asked.values.shape[1]
    reach = np.sqrt(asked.squares.astype(np.float64)) + np.sqrt(float(block.squares.max()))
    error: NDArray[np.float64] = 1.01 * (dims + 16) * (_HALF_ULP * reach**2 + _UNDERFLOW)
    return error


def _search_block(asked: Block, block: Block, best: Best, engine: Engine, excluded: Exclusion | None) -> None:
    """Let every query look at one block of the map; `best` is complete for all blocks up to it."""
    engine.hold(block.single, block.squares)
    slack = score_error(asked, block)
    step = engine.at_once()
    if excluded is not None:
        step = min(step, max(1, _EXCLUDED_PAIRS // (block.part.stop - block.part.start)))
    for start in range(0, len(asked.numbers), step):
        which = np.arange(start, min(start + step, len(asked.numbers)))
        out = None if excluded is None else _kept_out(excluded, asked, which, block)
        _settle(which, asked, block, best, slack, engine, out)


def _kept_out(
    excluded: Exclusion, asked: Block, which: NDArray[np.int64], block: Block
) -> NDArray[np.bool_] | None:
    """(q, n) exclusions of these queries and this block; None where nothing is kept out."""
    numbers = asked.numbers[which]
    run = slice(int(numbers[0]), int(numbers[-1]) + 1)
    out = excluded(run, block.part)
    shape = (run.stop - run.start, block.part.stop - block.part.start)
    if out.shape != shape or out.dtype != np.bool_:
        raise InputError(
            f"an exclusion gave {out.dtype} {out.shape} for {shape} queries and map rows; "
            "make it from tables as long as the descriptors"
        )
    if not out.any():
        return None
    if len(numbers) < shape[0]:
        out = out[numbers - run.start]
    if len(block.numbers) < shape[1]:
        out = out[:, block.numbers - block.part.start]
    return np.ascontiguousarray(out)


def _settle(
    which: NDArray[np.int64],
    asked: Block,
    block: Block,
    best: Best,
    slack: NDArray[np.float64],
    engine: Engine,
    out: NDArray[np.bool_] | None,
) -> None:
    """Offer a block's shortlist to these queries; a longer one to those whose list was cut through a tie."""
    size = len(block.numbers)
    count = min(best.rows.shape[1] + _SPARE, size)
    tables = (asked.values, block.values, block.numbers)
    while True:
        limits = best.squares[which, -1] + slack[which]
        scores, rows = engine.nearest(asked.single[which], count, out, limits)
        unsure = offer(which, *tables, scores, rows, slack, best.squares, best.rows)
        if count == size or not unsure.any():
            return
        which, out = which[unsure], None if out is None else out[unsure]
        count = min(_WIDER * count, size)
        if count > _WIDEST:
            nothing = np.zeros((0, 0), dtype=np.bool_)
            _offer_all(which, *tables, nothing if out is None else out, best.squares, best.rows)
            return


@njit(cache=True, nogil=True)
def offer(
    which: Any,
    queries: Any,
    block: Any,
    numbers: Any,
    scores: Any,
    rows: Any,
    slack: Any,
    squares: Any,
    found: Any,
) -> Any:  # pragma: no cover - compiled
    """Re-rank shortlists (ascending scores) into the best; True where something unlisted could still belong there."""
    unsure = np.zeros(len(which), dtype=np.bool_)
    k, last = squares.shape[1], scores.shape[1] - 1
    for i in range(len(which)):
        q = which[i]
        for j in range(last + 1):
            score = np.float64(scores[i, j])
            if score == np.inf or score - slack[q] > squares[q, k - 1]:
                break
            r = rows[i, j]
            insert(squares[q], found[q], squared_distance(queries[q], block[r]), numbers[r])
        final = np.float64(scores[i, last])
        unsure[i] = final != np.inf and final - slack[q] <= squares[q, k - 1]
    return unsure


@njit(cache=True, nogil=True)
def _offer_all(
    which: Any, queries: Any, block: Any, numbers: Any, out: Any, squares: Any, found: Any
) -> None:  # pragma: no cover - compiled
    for i in range(len(which)):
        q = which[i]
        for r in range(len(numbers)):
            if out.size == 0 or not out[i, r]:
                insert(squares[q], found[q], squared_distance(queries[q], block[r]), numbers[r])


@njit(cache=True, nogil=True)
def insert(squares: Any, rows: Any, square: float, row: int) -> None:  # pragma: no cover - compiled
    """Put a map row where it belongs in one query's ascending list, unless it is too far or there already."""
    k = len(rows)
    place = k
    while place > 0 and (
        squares[place - 1] > square or (squares[place - 1] == square and rows[place - 1] > row)
    ):
        place -= 1
    if place == k or (place > 0 and rows[place - 1] == row):
        return
    for i in range(k - 1, place, -1):
        squares[i], rows[i] = squares[i - 1], rows[i - 1]
    squares[place], rows[place] = square, row


@njit(cache=True, nogil=True)
def squared_distance(a: Any, b: Any) -> float:  # pragma: no cover - compiled
    """In float64, four sums added up at the end: the order never changes, so neither does the last bit."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    fours = len(a) - len(a) % 4
    for i in range(0, fours, 4):
        d0 = np.float64(a[i]) - np.float64(b[i])
        d1 = np.float64(a[i + 1]) - np.float64(b[i + 1])
        d2 = np.float64(a[i + 2]) - np.float64(b[i + 2])
        d3 = np.float64(a[i + 3]) - np.float64(b[i + 3])
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
    for i in range(fours, len(a)):
        d0 = np.float64(a[i]) - np.float64(b[i])
        s0 += d0 * d0
    return (s0 + s1) + (s2 + s3)
