"""`PairLabels`: how similar each pair is. Sparse and memory-mapped; what is not stored has similarity 0."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import mapped_npy
from samespot.errors import InputError
from samespot.files import RUN_AGAIN, disk_errors, whole_folder, write_json
from samespot.overlap.classes import HARD_POSITIVE, POSITIVE
from samespot.places.table import Places

FORMAT = 1
# Columns looked at when labels are opened: 200 MB, a fraction of a second. Larger labels open as fast.
CHECKED_PAIRS = 50_000_000
_ARRAYS = {"indptr": np.int64, "columns": np.int32, "similarity": np.float32}


@dataclass(frozen=True)
class PairLabels:
    """Similarity of each query (row) with each map image (column), in CSR form.

    The map rows similar to query i are `columns[indptr[i]:indptr[i + 1]]`, ascending, with the similarities
    at the same places of `similarity`, all > 0. Every other pair has similarity 0.
    """

    indptr: NDArray[np.int64]  # (queries + 1,)
    columns: NDArray[np.int32]  # (pairs,)
    similarity: NDArray[np.float32]  # (pairs,) in (0, 1]
    shape: tuple[int, int]  # queries, map images
    meta: dict[str, Any] = field(default_factory=dict)  # measure, angle, radius, digests of both tables

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"PairLabels({self.shape[0]} × {self.shape[1]}, {self.nonzero} pairs > 0, {self.meta.get('measure')})"

    @property
    def nonzero(self) -> int:
        return int(self.indptr[-1] - self.indptr[0])

    def row(self, query: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Map rows similar to one query, ascending, and their similarities."""
        if not -len(self) <= query < len(self):
            raise IndexError(f"query {query} of {len(self)}")
        query %= len(self)
        part = slice(int(self.indptr[query]), int(self.indptr[query + 1]))
        return self.columns[part], self.similarity[part]

    def __getitem__(self, rows: slice) -> PairLabels:
        """The labels of a run of queries, sharing memory with these."""
        if not isinstance(rows, slice):
            raise TypeError(f"labels[2:5] are those of a run of queries; one query has labels.row({rows!r})")
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise IndexError("labels are sliced with step 1")
        stop = max(start, stop)
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        return PairLabels(
            self.indptr[start : stop + 1] - first,
            self.columns[first:last],
            self.similarity[first:last],
            (stop - start, self.shape[1]),
            {**self.meta, "rows": [start, stop]},
        )

    def lookup(
        self, queries: NDArray[np.integer[Any]], places: NDArray[np.integer[Any]]
    ) -> NDArray[np.float32]:
        """Similarity of the given pairs (broadcast index arrays); 0 where none is stored."""
        i, j = np.broadcast_arrays(np.asarray(queries), np.asarray(places))
        shape, i, j = i.shape, i.ravel(), j.ravel()
        outside = (i < -len(self)) | (i >= len(self))
        if outside.any():
            raise IndexError(f"query {i[outside][0]} of {len(self)}")
        found = np.zeros(i.size, dtype=np.float32)
        if not i.size:
            return found.reshape(shape)
        # a binary search of each pair in the columns of its row, all of them at once
        low, end = self.indptr[i % len(self)], self.indptr[i % len(self) + 1]
        high = end.copy()
        while (searched := np.flatnonzero(low < high)).size:
            middle = (low[searched] + high[searched]) // 2
            before = self.columns[middle] < j[searched]
            low[searched[before]] = middle[before] + 1
            high[searched[~before]] = middle[~before]
        there = np.flatnonzero(low < end)
        there = there[self.columns[low[there]] == j[there]]
        found[there] = self.similarity[low[there]]
        return found.reshape(shape)

    def dense(self) -> NDArray[np.float32]:
        """(queries, map) matrix. For small sets and tests: MSLS would need terabytes."""
        matrix = np.zeros(self.shape, dtype=np.float32)
        rows = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        matrix[rows, self.columns] = self.similarity
        return matrix

    def counts(self) -> dict[str, int]:
        """Number of pairs by class: positive ψ ≥ .5 (of them hard ψ ≥ .75), soft negative, hard negative ψ = 0."""
        hard = positive = 0
        for block in _blocks(self.similarity):
            hard += int(np.count_nonzero(block >= HARD_POSITIVE))
            positive += int(np.count_nonzero(block >= POSITIVE))
        return {
            "pairs": self.shape[0] * self.shape[1],
            "nonzero": self.nonzero,
            "positive": positive,
            "hard positive": hard,
            "soft negative": self.nonzero - positive,
            "hard negative": self.shape[0] * self.shape[1] - self.nonzero,
        }

    def check(self, queries: Places, places: Places) -> None:
        """Raise unless these labels were made from exactly these two tables."""
        for role, table, rows in (("queries", queries, self.shape[0]), ("places", places, self.shape[1])):
            if len(table) != rows:
                raise InputError(
                    f"the labels are for {rows} {role}, the table has {len(table)}; label it again"
                )
            made_from = self.meta.get(f"{role}_digest")
            if made_from is not None and made_from != table.digest():
                raise InputError(
                    f"the labels were made from another table of {role} (digest {made_from[:8]}, "
                    f"not {table.digest()[:8]}): images or positions have changed; label it again"
                )

    def save(self, folder: str | Path) -> PairLabels:
        """Write to a folder, whole or not at all, and return the memory-mapped labels."""
        with LabelWriter(folder, self.shape, self.meta) as writer:
            for start in range(0, len(self), 65536):
                part = self[start : start + 65536]
                writer.append(np.diff(part.indptr), part.columns, part.similarity)
        return PairLabels.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> PairLabels:
        """Memory-map a label folder. Its arrays are checked, of the columns the first `CHECKED_PAIRS`."""
        folder = Path(folder)
        if not (folder / "meta.json").is_file():
            raise InputError(f"{folder}: not a label folder (no meta.json); `samespot label` writes one")
        try:
            meta = json.loads((folder / "meta.json").read_text())
            indptr, columns, similarity = (_array(folder / f"{name}.npy") for name in _ARRAYS)
            labels = cls(indptr, columns, similarity, (int(meta["shape"][0]), int(meta["shape"][1])), meta)
            other = meta.get("format", FORMAT) != FORMAT
            fault = f"format {meta['format']}, this version reads {FORMAT}" if other else labels._fault()
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            fault = str(error)
        if fault is not None:
            raise InputError(f"{folder}: broken label folder ({fault}); label it again")
        return labels

    def _fault(self) -> str | None:
        """What is wrong with these arrays, if anything."""
        for name, dtype in _ARRAYS.items():
            array = getattr(self, name)
            if array.ndim != 1 or array.dtype != dtype:
                return f"{name} is {array.ndim}-dimensional {array.dtype}, not a list of {np.dtype(dtype)}"
        if len(self.indptr) != self.shape[0] + 1 or len(self.columns) != len(self.similarity):
            return "its arrays disagree in length"
        if self.indptr[0] != 0 or self.indptr[-1] != len(self.columns):
            return "its arrays disagree in length"
        if any((block[1:] < block[:-1]).any() for block in _blocks(self.indptr, overlap=1)):
            return "indptr does not ascend"
        for block in _blocks(self.columns[:CHECKED_PAIRS]):
            if block.min() < 0 or block.max() >= self.shape[1]:
                return f"columns name map images that are not among its {self.shape[1]}"
        for block in _blocks(self.similarity[:CHECKED_PAIRS]):
            bad = ~((block > 0) & (block <= 1))
            if bad.any():
                return f"a similarity is {block[bad][0]:g}, not in (0, 1]"
        return None

    @classmethod
    def from_blocks(
        cls, blocks: Iterator[Block], shape: tuple[int, int], meta: dict[str, Any], out: str | Path | None
    ) -> PairLabels:
        """Gather blocks of rows, on disk under `out` (bounded memory) or in memory."""
        if out is not None:
            with _ended(blocks), LabelWriter(out, shape, meta) as writer:
                for counts, columns, similarity in blocks:
                    writer.append(counts, columns, similarity)
            return cls.open(out)
        gathered = list(blocks)
        counts = np.concatenate([b[0] for b in gathered]) if gathered else np.zeros(0, np.int64)
        return cls(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.concatenate([b[1] for b in gathered]) if gathered else np.zeros(0, np.int32),
            np.concatenate([b[2] for b in gathered]) if gathered else np.zeros(0, np.float32),
            shape,
            dict(meta),
        )


def _array(path: Path) -> NDArray[Any]:
    array = mapped_npy(path)
    if array is None:
        raise ValueError(f"{path.name} is damaged")
    return array


Block = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]  # pairs a row, columns, similarities


@contextmanager
def _ended(blocks: Iterator[Block]) -> Iterator[None]:
    """Whatever happens, what makes the blocks lets go of its files and locks."""
    try:
        yield
    finally:
        if isinstance(blocks, Generator):
            blocks.close()


def _blocks(values: NDArray[Any], size: int = 1 << 22, overlap: int = 0) -> Iterator[NDArray[Any]]:
    """Runs of an array in order; each begins with the last `overlap` values of the one before."""
    for start in range(0, len(values), size):
        yield values[max(start - overlap, 0) : start + size]


def tables_meta(queries: Places, places: Places) -> dict[str, Any]:
    """What the labels' meta.json says about the two tables they were made from."""
    queries_digest = queries.digest()
    places_digest = queries_digest if places is queries else places.digest()
    return {
        "queries_digest": queries_digest,
        "places_digest": places_digest,
        "same_table": queries_digest == places_digest,
        "dropped": {"queries": queries.dropped, "places": places.dropped},
    }


def refuse_empty_tables(queries: Places, places: Places) -> None:
    for role, table in (("query", queries), ("map", places)):
        if not len(table):
            raise InputError(f"{table.root}: no {role} images in the table, so there are no pairs to label")


def parts_folder(out: Path) -> Path:
    """Where labels that a cluster makes wait until all are there: a hidden folder beside theirs."""
    return out.parent / f".{out.name}.tiles"


def forget_parts(out: str | Path | None) -> None:
    """Once the labels are in place."""
    if out is not None:
        shutil.rmtree(parts_folder(Path(out)), ignore_errors=True)


class LabelWriter:
    """Streams rows into a label folder. The folder appears only when every row has been written.

    Use as a context manager. An error leaves what was there before; so does a kill, which also leaves a hidden
    scratch folder beside it, and the next writer to the same folder removes that.
    """

    def __init__(self, folder: str | Path, shape: tuple[int, int], meta: dict[str, Any]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not _may_be_replaced(self.folder):
            raise InputError(f"{self.folder}: exists and is not a label folder; choose another folder")
        self.shape, self.meta = shape, meta
        self.rows = self.pairs = 0

    def __enter__(self) -> LabelWriter:
        with self._disk_errors(), ExitStack() as stack:
            self._scratch = stack.enter_context(whole_folder(self.folder))
            self._files = {
                name: stack.enter_context(_GrowingArray(self._scratch / f"{name}.npy", kind))
                for name, kind in _ARRAYS.items()
            }
            self._files["indptr"].append(np.zeros(1, np.int64))
            self._whole = stack.pop_all()
        return self

    def _disk_errors(self) -> AbstractContextManager[None]:
        return disk_errors(self.folder, RUN_AGAIN)

    def append(self, counts: NDArray[Any], columns: NDArray[Any], similarity: NDArray[Any]) -> None:
        """The next rows: (rows,) pairs a row, and their (pairs,) columns and similarities."""
        if int(counts.sum()) != len(columns) or len(columns) != len(similarity):
            raise ValueError("counts, columns and similarity disagree")
        with self._disk_errors():
            self._files["indptr"].append(self.pairs + np.cumsum(counts))
            self._files["columns"].append(columns)
            self._files["similarity"].append(similarity)
        self.rows += len(counts)
        self.pairs += len(columns)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._whole.__exit__(kind, error, trace)
            return
        with self._disk_errors(), self._whole:
            for array in self._files.values():
                array.finish()
            if self.rows != self.shape[0]:
                raise ValueError(f"{self.rows} rows written, {self.shape[0]} announced")
            meta = {**self.meta, "format": FORMAT, "shape": list(self.shape), "nonzero": self.pairs}
            write_json(self._scratch / "meta.json", meta)


def _may_be_replaced(folder: Path) -> bool:
    return folder.is_dir() and ((folder / "meta.json").is_file() or not any(folder.iterdir()))


class _GrowingArray:
    """A one-dimensional .npy file that grows: numpy's header leaves room to correct the length at the end.

    Use as a context manager, which closes the file, finished or not.
    """

    def __init__(self, path: Path, dtype: type) -> None:
        self._dtype = np.dtype(dtype)
        self._file: IO[bytes] = path.open("wb")
        self._length = 0
        self._header_size = self._write_header()

    def _write_header(self) -> int:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self._length,),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()

    def append(self, values: NDArray[Any]) -> None:
        # not by `tofile`, whose error on a full disk does not say what is wrong
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self._length += len(values)

    def finish(self) -> None:
        self._file.seek(0)
        if self._write_header() != self._header_size:
            raise ValueError("the .npy header has outgrown its place")
        self._file.close()

    def __enter__(self) -> _GrowingArray:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what was not written goes anyway
            self._file.close()
