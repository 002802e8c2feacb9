"""`Descriptors`: one descriptor per image, on disk or in memory, tied to the model and the places that they are of.

folder/descriptors.npy   (n, d) unit rows; all zero where the image could not be read
folder/places.parquet    the table that the rows are of
folder/states.npy        (n,) uint64: the state of each photo when its row was begun; older folders have none, and
                         get it when they are used again
folder/meta.json         what made them; put in place last, so a folder without it is not finished

While it is being filled, `begun.json` says what it is being filled with, and `done-*.jsonl` which rows are safe.

When a folder is used again, the rows of photos that changed since are not done any more, and the others stay. A photo
changed if its storage tells another size, time or content of it than before (`storage.state_of`), as in a map. One that
is not there says nothing, so that a folder can be used without its photos.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import mapped_npy, save_array
from samespot.errors import InputError
from samespot.files import (
    RUN_AGAIN,
    UNREAD,
    disk_errors,
    files_in,
    is_there,
    read_json,
    require_disk,
    whole_file,
    write_json,
    write_whole,
)
from samespot.places.table import Places
from samespot.storage import StorageError, states_of

FORMAT = 1
VECTORS, PLACES, STATES, META = "descriptors.npy", "places.parquet", "states.npy", "meta.json"
BEGUN, DONE = "begun.json", "done-"
SETTLE_SECONDS = 5.0  # how much work a kill may cost; rows count as done once they are safely on the disk
States = NDArray[np.uint64]
_NOT_THERE = 0
_WORDS = {"places": "table of places", "images": "number of images", "dims": "number of dimensions"}


@dataclass(frozen=True, eq=False)
class Descriptors:
    """(n, d) float32 or float16 `vectors`, a memory map where there is a folder.

    `meta` says what made them: `model` (digest of its weights), `backbone`, `pool`, `preprocessing`, `margin`,
    `places` (digest of the table), `images`, `dims`, `dtype`, `precision`, `runtime` (torch or onnxruntime, and in
    `runtime_note` why not onnxruntime on a CPU), `whitening` if they are whitened by the model's own, and
    under `bad` why the images of the all-zero rows could not be read: {row as text: reason}.
    """

    folder: Path | None
    vectors: NDArray[Any]
    meta: dict[str, Any]

    def __len__(self) -> int:
        return len(self.vectors)

    @cached_property
    def good(self) -> NDArray[np.bool_]:
        """(n,) False where the image could not be read."""
        good = np.ones(len(self), dtype=bool)
        good[[int(row) for row in self.meta["bad"]]] = False
        return good

    @classmethod
    def open(cls, folder: str | Path) -> Descriptors:
        """A finished folder, memory-mapped."""
        folder = Path(folder)
        if not (folder / META).is_file():
            if (folder / BEGUN).is_file():
                fault = (
                    "these descriptors are not finished; the same `describe` again resumes where it left off"
                )
            else:
                fault = f"no descriptors here ({META} is missing); give the folder that `describe` wrote"
            raise InputError(f"{folder}: {fault}")
        meta = _read_json(folder / META)
        shape, dtype = (meta.get("images"), meta.get("dims")), meta.get("dtype")
        if meta.get("format") != FORMAT or "bad" not in meta:
            raise InputError(
                f"{folder / META}: not the format {FORMAT} that this version reads; describe the places again"
            )
        _bad_rows(folder, meta)
        with disk_errors(folder / VECTORS, RUN_AGAIN, UNREAD):
            vectors = _vectors_in(folder)
        if vectors is None or (vectors.shape, str(vectors.dtype)) != (shape, dtype):
            raise InputError(
                f"{folder / VECTORS}: not the whole array of {shape[0]} × {shape[1]} {dtype} that {META} tells of;"
                " copy the folder again"
            )
        return cls(folder, vectors, meta)

    def check(self, places: Places) -> None:
        """Raise unless these are the descriptors of exactly this table."""
        named = self.folder or "these descriptors"
        if len(places) != len(self):
            raise InputError(
                f"{named}: holds descriptors of {len(self)} images, the table {places.root} has {len(places)};"
                " describe that table into a folder of its own"
            )
        if places.digest() != self.meta["places"]:
            raise InputError(
                f"{named}: holds descriptors of other places than {places.root} (digest {self.meta['places'][:8]},"
                f" not {places.digest()[:8]}); describe that table into a folder of its own"
            )


@dataclass(frozen=True)
class Begun:
    """How far a folder is: which runs of rows [start, stop) are safe, and the unreadable images among them."""

    finished: bool = False
    done: list[tuple[int, int]] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)
    changed: int = 0  # photos that were described and have changed since
    gone: tuple[int, ...] = ()  # rows that are done and whose photos are not there any more


class DescriptorWriter:
    """A descriptor folder in the making, by one process or several; a kill at any moment costs a few seconds.

    Process 0 calls `begin`; then each calls `open`, `write` for its rows in any order, and `close`; when all have,
    `finish`. `facts` are what must be equal for a folder to be resumed.
    """

    def __init__(self, folder: str | Path, facts: dict[str, Any], process: int = 0) -> None:
        self.folder, self.facts, self.process = Path(folder), facts, process
        self.shape, self.dtype = (int(facts["images"]), int(facts["dims"])), np.dtype(facts["dtype"])
        self._unsafe: list[str] = []  # lines about rows that may not have reached the disk yet
        self._files: tuple[int, int] | None = None  # open: the vectors, and the record of this process

    def begin(self, places: Places) -> Begun:
        """Make the folder, or look how far it is. Refuses one that holds anything else."""
        folder = self.folder
        if (folder / META).is_file():
            meta = _read_json(folder / META)
            refuse_other(folder, meta, self.facts)
            self._sweep()  # a kill may have come just before it
            return self._of_today(Begun(True, [(0, self.shape[0])], _bad_rows(folder, meta)), places)
        if (folder / BEGUN).is_file():
            refuse_other(folder, _read_json(folder / BEGUN), self.facts)
        else:
            _make_folder(folder, self.facts)
        with disk_errors(folder, fault=UNREAD):
            whole = self._whole()
        if not whole:
            self._start_anew(places)
            return Begun()
        with disk_errors(folder, fault=UNREAD):
            begun = _progress_of(folder)
        return self._of_today(begun, places)

    def _of_today(self, begun: Begun, places: Places) -> Begun:
        """Less the rows of photos that changed since."""
        before = _states_in(self.folder, self.shape[0])
        try:
            now = _states_now(places)
        except StorageError:  # may be whoever has the descriptors alone
            if begun.finished:
                return begun
            raise
        if before is None:
            if (now != _NOT_THERE).any():
                with suppress(OSError):  # a folder that nobody may write to is of use, too
                    _write_states(self.folder, now)
            return begun
        changed = (now != _NOT_THERE) & (now != before)
        kept = np.zeros(len(changed), dtype=bool)
        for start, stop in begun.done:
            kept[start:stop] = True
        gone = tuple(np.flatnonzero(kept & (now == _NOT_THERE)).tolist())
        if not changed.any():
            return replace(begun, gone=gone)
        count = int((kept & changed).sum())
        kept &= ~changed
        done = stretches_of(kept)
        bad = {row: why for row, why in begun.bad.items() if kept[row]}
        # the states come last: whenever a kill comes, these rows count as changed, or as not done
        if begun.finished:
            _write_json(self.folder / BEGUN, {**self.facts, **about()})
        self._keep_only(done, bad)
        with disk_errors(self.folder):
            (self.folder / META).unlink(missing_ok=True)
            _write_states(self.folder, np.where(changed, now, before))
        return Begun(False, done, bad, count, gone)

    def _keep_only(self, done: list[tuple[int, int]], bad: dict[int, str]) -> None:
        """One record in the place of all."""
        # the bad ones at the end: of rows done twice, the last word counts
        lines = [*({"rows": rows, "bad": {}} for rows in done), {"rows": [0, 0], "bad": bad}]
        with disk_errors(self.folder):
            written = self.folder / f"{DONE}kept.jsonl"
            write_whole(written, "".join(json.dumps(line) + "\n" for line in lines).encode())
            for record in files_in(self.folder, f"{DONE}*.jsonl"):
                if record != written:
                    record.unlink()

    def open(self) -> None:
        record = self.folder / f"{DONE}{self.process:05d}.jsonl"
        with disk_errors(self.folder):
            self._files = (
                os.open(self.folder / VECTORS, os.O_WRONLY),
                os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644),
            )
            mapped = mapped_npy(self.folder / VECTORS)
        self._unsafe.append("\n")  # a line that a kill cut off must not run into the next one
        assert mapped is not None
        self._offset, self._settled = int(mapped.offset), time.monotonic()

    def write(self, start: int, vectors: NDArray[Any], bad: dict[int, str]) -> None:
        """Rows from `start` on, and why those of them that are zero are."""
        assert self._files is not None
        rows = np.ascontiguousarray(vectors, dtype=self.dtype)
        # not through the memory map: a full disk would end the process there, without a word
        with disk_errors(self.folder):
            at = self._offset + start * self.shape[1] * self.dtype.itemsize
            _write_at(self._files[0], at, rows.data.cast("B"))
        self._unsafe.append(json.dumps({"rows": [start, start + len(rows)], "bad": bad}) + "\n")
        if time.monotonic() - self._settled >= SETTLE_SECONDS:
            self._settle()

    def _settle(self) -> None:
        """First the vectors onto the disk, then the word that they are there."""
        assert self._files is not None
        vectors, record = self._files
        with disk_errors(self.folder):
            os.fsync(vectors)
            os.write(record, "".join(self._unsafe).encode())
            os.fsync(record)
        self._unsafe.clear()
        self._settled = time.monotonic()

    def close(self) -> None:
        """Every row written so far is kept."""
        if self._files is None:
            return
        try:
            self._settle()
        finally:
            for file in self._files:
                os.close(file)
            self._files = None

    def finish(self, bad: dict[int, str]) -> None:
        """Every row is there: the folder is whole from here on. One process says so."""
        if self.process != 0:
            return
        meta = {**self.facts, **about(), "bad": {str(row): bad[row] for row in sorted(bad)}}
        _write_json(self.folder / META, meta)
        self._sweep()

    def result(self) -> Descriptors:
        return Descriptors.open(self.folder)

    def _whole(self) -> bool:
        """Whether the array and its table are there, as far as the disk tells: hours of work may depend on it."""
        vectors = _vectors_in(self.folder)
        if vectors is None or not is_there(self.folder / PLACES):
            return False
        return bool(vectors.shape == self.shape and vectors.dtype == self.dtype)

    def _start_anew(self, places: Places) -> None:
        with disk_errors(self.folder):
            for record in files_in(self.folder, f"{DONE}*.jsonl"):  # they speak of another file
                record.unlink()
            places.save(self.folder / PLACES)
            _write_states(self.folder, _states_now(places))  # before any of them is read
        size = self.shape[0] * self.shape[1] * self.dtype.itemsize
        require_disk(size, self.folder, "the descriptors", "choose another folder, or `dtype=float16`")
        with disk_errors(self.folder):
            np.lib.format.open_memmap(self.folder / VECTORS, "w+", self.dtype, self.shape)

    def _sweep(self) -> None:
        for pattern in (BEGUN, f"{DONE}*.jsonl", f".{BEGUN}.*.partial", f".{META}.*.partial"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)


def _states_now(places: Places) -> States:
    """(n,) digests of what the storage says of each photo at present; 0 where there is none."""
    states = states_of(places.images)
    return np.array([_NOT_THERE if state is None else _digest(state) for state in states], dtype=np.uint64)


def _digest(state: str) -> int:
    return int.from_bytes(hashlib.blake2b(state.encode(), digest_size=8).digest(), "little")


def _states_in(folder: Path, count: int) -> States | None:
    """Those that a folder tells of; None where it tells of none."""
    path = folder / STATES
    with disk_errors(path, RUN_AGAIN, UNREAD):
        if not is_there(path):
            return None
        states = mapped_npy(path)
    if states is None or (states.shape, states.dtype) != ((count,), np.uint64):
        raise InputError(
            f"{path}: is damaged; delete its folder and describe again, or this file alone if the photos are as they"
            " were"
        )
    return states


def _write_states(folder: Path, states: States) -> None:
    with whole_file(folder / STATES) as partial:
        save_array(partial, states)


def stretches_of(chosen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First row and end of each stretch of chosen rows."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    return [(int(start), int(stop)) for start, stop in edges]


def facts_in(folder: str | Path) -> dict[str, Any]:
    """What a folder was filled with, or is being; nothing where there is none."""
    for name in (META, BEGUN):
        if (Path(folder) / name).is_file():
            return _read_json(Path(folder) / name)
    return {}


def _bad_rows(folder: Path, meta: dict[str, Any]) -> dict[int, str]:
    """The images that could not be read, as a finished folder tells them."""
    try:
        bad = {int(row): str(why) for row, why in meta.get("bad", {}).items()}
        if all(0 <= row < int(meta["images"]) for row in bad):
            return bad
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise InputError(f"{folder / META}: its list of images that could not be read is broken; describe again")


def refuse_other(folder: Path, there: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise unless the folder is filled with what is asked for."""
    if "model" not in there:
        raise InputError(f"{folder}: exists and is not a descriptor folder; choose another")
    # a folder without a whitening says nothing of one
    changed = [key for key in {"whitening": None, **asked} if there.get(key) != asked.get(key)]
    if not changed:
        return
    found = ", ".join(_difference(key, there.get(key), asked.get(key)) for key in changed)
    state = "holds descriptors made" if (folder / META).is_file() else "was begun"
    raise InputError(f"{folder}: {state} with another {found}; choose another folder, or delete this one")


def _difference(key: str, there: Any, asked: Any) -> str:
    word = _WORDS.get(key, key)
    if isinstance(there, dict) or isinstance(asked, dict):
        return word
    return f"{word} ({_short(there)}, now {_short(asked)})"


def _short(value: Any) -> str:
    return str(value)[:12]  # a digest is told by its beginning


def _make_folder(folder: Path, facts: dict[str, Any]) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give a folder for the descriptors")
    if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{folder}: exists and is not a descriptor folder; choose another")
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(folder / BEGUN, {**facts, **about()})


def _progress_of(folder: Path) -> Begun:
    """The rows that all records together call safe. A line that a kill cut off says nothing."""
    done: list[tuple[int, int]] = []
    bad: dict[int, str] = {}
    for record in files_in(folder, f"{DONE}*.jsonl"):
        for line in record.read_text(errors="replace").splitlines():
            try:
                said = json.loads(line)
                start, stop = int(said["rows"][0]), int(said["rows"][1])
                done.append((start, stop))
                for row in [
                    row for row in bad if start <= row < stop
                ]:  # of rows done twice, the last word counts
                    del bad[row]
                bad.update({int(row): str(reason) for row, reason in said["bad"].items()})
            except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                continue
    return Begun(False, done, bad)


def about() -> dict[str, Any]:
    """What every meta.json says besides."""
    import samespot

    return {"format": FORMAT, "samespot": samespot.__version__}


def _vectors_in(folder: Path) -> np.memmap[Any, Any] | None:
    """The whole array, or None."""
    return mapped_npy(folder / VECTORS) if is_there(folder / VECTORS) else None


def _read_json(path: Path) -> dict[str, Any]:
    return read_json(path, "delete its folder and describe again")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with disk_errors(path):
        write_json(path, content)


def _write_at(file: int, offset: int, content: memoryview) -> None:
    while content:
        written = os.pwrite(file, content, offset)
        content, offset = content[written:], offset + written
