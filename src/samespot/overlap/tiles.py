"""Labels by many machines: tiles of the ground, each with a halo as wide as a pair can be apart.

A tile's queries are similar to nothing outside its halo, so tiles are labelled one by one, anywhere, in any order.
Each finished tile is a file; an interrupted labelling goes on with the tiles that are missing. At the end their rows
are put into the order of the queries, and the label folder is the same, to the last bit, as one process writes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samespot.cluster import joined_cluster
from samespot.files import disk_errors, locked, whole_file, write_json
from samespot.overlap import ground
from samespot.overlap.labels import Block
from samespot.places.table import Places
from samespot.progress import Progress

if TYPE_CHECKING:
    from samespot.overlap.rules import Points

TILE = (
    5_000  # queries of a tile, at most. Always the same, so that another cluster goes on with the same tiles
)
ROWS = 65_536  # label rows put in order at a time
PAIR = np.dtype([("column", np.int32), ("similarity", np.float32)])
_RESUMES = "fix that and run the same command again, it resumes where it left off"
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


def ground_blocks(
    ray: str,
    queries: Floats,
    places: Floats,
    rule: ground.PairRule,
    meta: dict[str, Any],
    out: str | Path | None,
    progress: Progress | None,
) -> Iterator[Block]:
    """Blocks of label rows, in order, as `ground.blocks_of_rows` makes them of the same; by the cluster at `ray`."""
    tiles = tiles_of(queries[:2], TILE)
    by_east = np.argsort(places[0], kind="stable")

    def job(rows: Rows) -> tuple[Floats, Floats, Rows]:
        near = halo(queries[:2, rows], places[:2], by_east, rule.metres)
        return queries[:, rows], places[:, near], near

    return _in_order(ray, tiles, job, _label_tile, (rule,), (), meta, out, progress)


def scene_blocks(
    ray: str,
    queries: Places,
    places: Places,
    rule: Points,
    meta: dict[str, Any],
    out: str | Path | None,
    progress: Progress | None,
) -> Iterator[Block]:
    """The same for labels of a scene. Points are seen from afar, so a part is some queries against the whole map."""
    parts = [np.arange(start, min(start + TILE, len(queries))) for start in range(0, len(queries), TILE)]
    hidden_by = (queries, places) if rule.occlusion == "depth" else ()
    depth = [table.root / str(name) for table in hidden_by for name in table.table["depth"]]
    return _in_order(ray, parts, queries.select, _label_run, (places, rule), depth, meta, out, progress)


def tiles_of(queries: Floats, most: int) -> list[Rows]:
    """Numbers of queries (2, n), ascending, cut in two along the longer side until no tile has more than `most`."""
    done, left = list[Rows](), [np.arange(queries.shape[1])]
    while left:
        rows = left.pop()
        if len(rows) <= most:
            done.append(np.sort(rows))
            continue
        at = queries[:, rows]
        side = int(np.argmax(np.ptp(at, axis=1)))
        order = rows[np.argsort(at[side], kind="stable")]
        left += [order[len(order) // 2 :], order[: len(order) // 2]]
    return done


def halo(queries: Floats, places: Floats, by_east: Rows, reach: float) -> Rows:
    """Numbers of places (2, n) within reach of the box around some queries, ascending. by_east: all, by easting."""
    wide = reach * (1.0 + 1e-9) + 1e-6
    low, high = queries.min(axis=1) - wide, queries.max(axis=1) + wide
    east = places[0, by_east]
    strip = by_east[np.searchsorted(east, low[0]) : np.searchsorted(east, high[0], side="right")]
    inside = (places[1, strip] >= low[1]) & (places[1, strip] <= high[1])
    return np.sort(strip[inside])


_Made = tuple[NDArray[np.int64], NDArray[Any]]  # pairs a row, and the pairs


def _label_tile(job: tuple[Floats, Floats, Rows], rule: ground.PairRule) -> _Made:
    queries, places, near = job
    if not len(near):
        return np.zeros(queries.shape[1], np.int64), np.zeros(0, PAIR)
    blocks = list(ground.blocks_of_rows(queries, places, rule, ground.BLOCK_PAIRS, 1, None))
    counts, columns, similarity = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return counts, _pairs(near[columns], similarity)


def _label_run(queries: Places, places: Places, rule: Points) -> _Made:
    labels = rule.label(queries, places)
    return np.diff(labels.indptr), _pairs(labels.columns, labels.similarity)


def _pairs(columns: NDArray[Any], similarity: NDArray[np.float32]) -> NDArray[Any]:
    pairs = np.empty(len(columns), PAIR)
    pairs["column"], pairs["similarity"] = columns, similarity
    return pairs


def _in_order(
    ray: str,
    parts: Sequence[Rows],
    job: Callable[[Rows], Any],
    work: Callable[..., _Made],
    shared: tuple[Any, ...],
    files: Sequence[Path],
    meta: dict[str, Any],
    out: str | Path | None,
    progress: Progress | None,
) -> Iterator[Block]:
    """`work` of every part that is not there yet, by the cluster; then all rows in order."""
    with ExitStack() as stack:
        kept = _InMemory() if out is None else stack.enter_context(_on_disk(Path(out), parts, meta))
        missing = [number for number in range(len(parts)) if number not in kept]
        if missing:
            cluster = stack.enter_context(joined_cluster(ray))
            cluster.check(files)
            total = sum(map(len, parts))
            done = total - sum(len(parts[number]) for number in missing)
            jobs = (job(parts[number]) for number in missing)
            for at, (counts, pairs) in cluster.each(work, jobs, *shared):
                kept.keep(missing[at], counts, pairs)
                done += len(counts)
                if progress is not None:
                    progress("labelling", done, total)
        yield from _rows_in_order(parts, kept)
        kept.remove()


def _rows_in_order(parts: Sequence[Rows], kept: _InMemory | _OnDisk) -> Iterator[Block]:
    total = sum(map(len, parts))
    part_of, start_of, count_of = (np.empty(total, np.int64) for _ in range(3))
    pairs = []
    for number, rows in enumerate(parts):
        counts, some = kept[number]
        pairs.append(some)
        part_of[rows], count_of[rows], start_of[rows] = number, counts, np.cumsum(counts) - counts
    for first in range(0, total, ROWS):
        here = slice(first, min(first + ROWS, total))
        counts = count_of[here]
        ends = np.cumsum(counts)
        gathered = np.empty(int(ends[-1]) if len(ends) else 0, PAIR)
        for number in np.unique(part_of[here]):
            mine: Rows = np.flatnonzero(part_of[here] == number)
            within = _ramps(counts[mine])
            there = np.repeat(start_of[here][mine], counts[mine]) + within
            gathered[np.repeat((ends - counts)[mine], counts[mine]) + within] = pairs[number][there]
        yield counts, np.ascontiguousarray(gathered["column"]), np.ascontiguousarray(gathered["similarity"])


def _ramps(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, … up to each count, one after the other."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


# ---- where finished parts are kept ----


class _InMemory:
    def __init__(self) -> None:
        self._made: dict[int, _Made] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._made

    def __getitem__(self, number: int) -> _Made:
        return self._made[number]

    def keep(self, number: int, counts: NDArray[np.int64], pairs: NDArray[Any]) -> None:
        self._made[number] = counts, pairs

    def remove(self) -> None: ...


class _OnDisk:
    """A hidden folder beside the label folder: `<part>.npy` with its pairs, `<part>.counts.npy` put in place first."""

    def __init__(self, folder: Path, sizes: Sequence[int]) -> None:
        self.folder = folder
        self._there = {number for number, size in enumerate(sizes) if self._whole(number, size)}

    def _path(self, number: int, kind: str = "") -> Path:
        return self.folder / f"{number:06d}{kind}.npy"

    def _whole(self, number: int, size: int) -> bool:
        """Files appear whole, so a part is there with its second file; unless a disk lost something."""
        try:
            counts, pairs = self[number]
        except (OSError, ValueError, EOFError):
            return False
        return len(counts) == size and int(counts.sum()) == len(pairs) and pairs.dtype == PAIR

    def __contains__(self, number: int) -> bool:
        return number in self._there

    def __getitem__(self, number: int) -> _Made:
        counts = np.load(self._path(number, ".counts"), allow_pickle=False)
        pairs = np.load(self._path(number), allow_pickle=False, mmap_mode="r" if counts.any() else None)
        return counts, pairs

    def keep(self, number: int, counts: NDArray[np.int64], pairs: NDArray[Any]) -> None:
        with disk_errors(self.folder, _RESUMES):
            for path, array in ((self._path(number, ".counts"), counts), (self._path(number), pairs)):
                with whole_file(path) as partial, partial.open("wb") as file:
                    np.save(file, array, allow_pickle=False)
        self._there.add(number)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def _on_disk(out: Path, parts: Sequence[Rows], meta: dict[str, Any]) -> Iterator[_OnDisk]:
    """Parts of these labels that are there already. Those of other labels are removed."""
    folder = out.parent / f".{out.name}.tiles"
    about = {"of": hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest(), "tile": TILE}
    with disk_errors(folder, _RESUMES), locked(folder, "labels"):
        told = folder / "about.json"
        if not told.is_file() or told.read_text() != json.dumps(about, indent=1) + "\n":
            for path in folder.glob("*.npy"):
                path.unlink()
            write_json(told, about)
    with locked(folder, "labels"):
        yield _OnDisk(folder, [len(rows) for rows in parts])
