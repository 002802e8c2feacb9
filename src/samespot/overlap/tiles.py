"""Labels by many machines: tiles of the ground, each with a halo as wide as a pair can be apart.

A tile's queries are similar to nothing outside its halo, so tiles are labelled one by one, anywhere, in any order.
Each finished tile is a file; an interrupted labelling goes on with the tiles that are missing. At the end their rows
are put into the order of the queries, and the label folder is the same, to the last bit, as one process writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.alike import source_digest
from samespot.arrays import read_npy, save_array
from samespot.cluster import joined_cluster
from samespot.errors import InputError
from samespot.files import RUN_AGAIN, UNREAD, disk_errors, files_in, is_there, locked, whole_file, write_json
from samespot.overlap import ground
from samespot.overlap.labels import Block, parts_folder
from samespot.overlap.rules import Occlusion, Points
from samespot.overlap.scene import Scene, line_of, refuse_missing_depth, visible_sets
from samespot.overlap.visibility import Line, PackedSets, similarity_rows
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.storage import states_of

TILE = (
    5_000  # queries of a tile, at most. Always the same, so that another cluster goes on with the same tiles
)
RUN = 250  # queries of a part of a scene's labels
OPEN = 64  # files of parts that are open at a time
ROWS = 65_536  # label rows put in order at a time
PAIR = np.dtype([("column", np.int32), ("similarity", np.float32)])
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
    east = places[0, by_east]

    def job(rows: Rows) -> tuple[Floats, Floats, Rows]:
        near = halo(queries[:2, rows], places[:2], by_east, east, rule.metres)
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
    parts = [np.arange(start, min(start + RUN, len(queries))) for start in range(0, len(queries), RUN)]
    queries, places = (replace(table, root=Path(os.path.abspath(table.root))) for table in (queries, places))
    depth = list[Path]()
    if rule.occlusion == "depth":
        for table in (queries, places):
            refuse_missing_depth(table)
            depth += [table.root / str(name) for name in table.table["depth"]]
    states = states_of(depth)  # before any of them is read
    scene = rule.scene(progress)
    line = line_of(scene, rule.occlusion)
    seen = visible_sets(scene, places, rule.occlusion, line=line, progress=progress)
    shared = line, seen, scene, rule.occlusion
    told = {**meta, "scene": _fingerprint(scene, queries, places, states)}
    return _in_order(ray, parts, queries.select, _label_run, shared, depth, told, out, progress)


def _fingerprint(scene: Scene, queries: Places, places: Places, states: Sequence[str | None]) -> str:
    """Of all that labels of a scene depend on, and their meta.json does not tell. states: of the depth images."""
    digest = hashlib.sha256(np.ascontiguousarray(scene.cloud.xyz).tobytes())
    digest.update(repr((scene.cameras, scene.far, scene.tolerance, scene.unknown_depth)).encode())
    digest.update(repr(states).encode())
    for table in (queries, places):
        known = [name for name in ("camera_id", "depth") if name in table.table]
        digest.update(table.table[known].to_csv().encode())
    return digest.hexdigest()


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


def halo(queries: Floats, places: Floats, by_east: Rows, east: Floats, reach: float) -> Rows:
    """Numbers of places (2, n) within reach of the box around some queries, ascending. by_east: all in order of their
    eastings, which are `east`."""
    wide = reach * (1.0 + 1e-9) + 1e-6
    low, high = queries.min(axis=1) - wide, queries.max(axis=1) + wide
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


def _label_run(queries: Places, line: Line, seen: PackedSets, scene: Scene, occlusion: Occlusion) -> _Made:
    with ground.kernel_threads(1):  # a worker of a cluster has one core, and may see them all
        sets = visible_sets(scene, queries, occlusion, line=line)
        rows = list(similarity_rows(sets, seen, device="cpu"))
    counts, columns, similarity = (np.concatenate([row[i] for row in rows]) for i in (1, 2, 3))
    return counts.astype(np.int64), _pairs(columns, similarity)


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
            cluster = stack.enter_context(joined_cluster(ray, progress))
            if files:  # joining has compared the nodes
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


def _rows_in_order(parts: Sequence[Rows], kept: _InMemory | _OnDisk) -> Iterator[Block]:
    total = sum(map(len, parts))
    part_of, start_of, count_of = (np.empty(total, np.int64) for _ in range(3))
    pairs = lru_cache(OPEN)(kept.pairs)
    for number, rows in enumerate(parts):
        counts = kept.counts(number)
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
            gathered[np.repeat((ends - counts)[mine], counts[mine]) + within] = pairs(int(number))[there]
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

    def counts(self, number: int) -> NDArray[np.int64]:
        return self._made[number][0]

    def pairs(self, number: int) -> NDArray[Any]:
        return self._made[number][1]

    def keep(self, number: int, counts: NDArray[np.int64], pairs: NDArray[Any]) -> None:
        self._made[number] = counts, pairs


class _OnDisk:
    """A hidden folder beside the label folder: `<part>.npy` with its pairs, `<part>.counts.npy` put in place first."""

    def __init__(self, folder: Path, sizes: Sequence[int]) -> None:
        self.folder = folder
        with disk_errors(folder, fault=UNREAD):
            self._there = {number for number, size in enumerate(sizes) if self._whole(number, size)}

    def _path(self, number: int, kind: str = "") -> Path:
        return self.folder / f"{number:06d}{kind}.npy"

    def _whole(self, number: int, size: int) -> bool:
        """Files appear whole, so a part is there with its second file; unless a disk lost something."""
        try:
            counts, pairs = self.counts(number), self.pairs(number)
        except (FileNotFoundError, InputError):
            return False
        return len(counts) == size and int(counts.sum()) == len(pairs) and pairs.dtype == PAIR

    def __contains__(self, number: int) -> bool:
        return number in self._there

    def counts(self, number: int) -> NDArray[np.int64]:
        return np.array(read_npy(self._path(number, ".counts"), RUN_AGAIN))

    def pairs(self, number: int) -> NDArray[Any]:
        return read_npy(self._path(number), RUN_AGAIN)

    def keep(self, number: int, counts: NDArray[np.int64], pairs: NDArray[Any]) -> None:
        with disk_errors(self.folder):
            for path, array in ((self._path(number, ".counts"), counts), (self._path(number), pairs)):
                with whole_file(path) as partial:
                    save_array(partial, array)
        self._there.add(number)


@contextmanager
def _on_disk(out: Path, parts: Sequence[Rows], meta: dict[str, Any]) -> Iterator[_OnDisk]:
    """Parts of these labels that are there already, made by this samespot. Others are removed."""
    folder, told = parts_folder(out), json.dumps(meta, sort_keys=True)
    about = {"of": hashlib.sha256(told.encode()).hexdigest(), "sizes": [TILE, RUN], "by": source_digest()}
    with ExitStack() as stack:
        with disk_errors(folder):
            stack.enter_context(locked(folder, "labels"))
            stack.callback(_remove_empty, folder)
            known = folder / "about.json"
            if not is_there(known) or known.read_text() != json.dumps(about, indent=1) + "\n":
                for path in folder.glob("*.npy"):
                    path.unlink()
                write_json(known, about)
        yield _OnDisk(folder, [len(rows) for rows in parts])


def _remove_empty(folder: Path) -> None:
    """If there is no whole part in it to go on with."""
    with suppress(OSError):
        if not files_in(folder, "*[0-9].npy"):
            shutil.rmtree(folder)
