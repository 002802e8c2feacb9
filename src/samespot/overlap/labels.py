"""`PairLabels`: how similar each pair is. Sparse and memory-mapped; what is not stored has similarity 0."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.table import Places

POSITIVE = 0.5  # similarity from which on two photos show the same place
HARD_POSITIVE = 0.75
FORMAT = 1
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
        found = np.zeros(i.size, dtype=np.float32)
        for n, (query, place) in enumerate(zip(i.ravel().tolist(), j.ravel().tolist(), strict=True)):
            columns, similarity = self.row(query)
            at = int(np.searchsorted(columns, place))
            if at < len(columns) and columns[at] == place:
                found[n] = similarity[at]
        return found.reshape(i.shape)

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
        """Memory-map a label folder."""
        folder = Path(folder)
        if not (folder / "meta.json").is_file():
            raise InputError(f"{folder}: not a label folder (no meta.json); `samespot label` writes one")
        try:
            meta = json.loads((folder / "meta.json").read_text())
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
            shape = (int(meta["shape"][0]), int(meta["shape"][1]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{folder}: broken label folder ({error}); label it again") from error
        indptr, columns, similarity = arrays["indptr"], arrays["columns"], arrays["similarity"]
        if len(indptr) != shape[0] + 1 or len(columns) != len(similarity) or int(indptr[-1]) != len(columns):
            raise InputError(f"{folder}: broken label folder (its arrays disagree in length); label it again")
        return cls(indptr, columns, similarity, shape, meta)

    @classmethod
    def from_blocks(
        cls, blocks: Iterator[Block], shape: tuple[int, int], meta: dict[str, Any], out: str | Path | None
    ) -> PairLabels:
        """Gather blocks of rows, on disk under `out` (bounded memory) or in memory."""
        if out is not None:
            with LabelWriter(out, shape, meta) as writer:
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


Block = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]  # pairs a row, columns, similarities


def _blocks(values: NDArray[Any], size: int = 1 << 22) -> Iterator[NDArray[Any]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


class LabelWriter:
    """Streams rows into a label folder. The folder appears only when every row has been written.

    Use as a context manager; an error or a kill leaves what was there before.
    """

    def __init__(self, folder: str | Path, shape: tuple[int, int], meta: dict[str, Any]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not (self.folder / "meta.json").is_file() and any(self.folder.iterdir()):
            raise InputError(f"{self.folder}: exists and is not a label folder; choose another --out")
        self.shape, self.meta = shape, meta
        self.rows = self.pairs = 0

    def __enter__(self) -> LabelWriter:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._scratch = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}.part-", dir=self.folder.parent))
        self._files = {
            name: _GrowingArray(self._scratch / f"{name}.npy", kind) for name, kind in _ARRAYS.items()
        }
        self._files["indptr"].append(np.zeros(1, np.int64))
        return self

    def append(self, counts: NDArray[Any], columns: NDArray[Any], similarity: NDArray[Any]) -> None:
        """The next rows: (rows,) pairs a row, and their (pairs,) columns and similarities."""
        if int(counts.sum()) != len(columns) or len(columns) != len(similarity):
            raise ValueError("counts, columns and similarity disagree")
        self._files["indptr"].append(self.pairs + np.cumsum(counts))
        self._files["columns"].append(columns)
        self._files["similarity"].append(similarity)
        self.rows += len(counts)
        self.pairs += len(columns)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for array in self._files.values():
            array.close()
        if kind is not None or self.rows != self.shape[0]:
            shutil.rmtree(self._scratch)
            if kind is None:
                raise ValueError(f"{self.rows} rows written, {self.shape[0]} announced")
            return
        meta = {**self.meta, "format": FORMAT, "shape": list(self.shape), "nonzero": self.pairs}
        (self._scratch / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
        replace_folder(self._scratch, self.folder)


def replace_folder(scratch: Path, folder: Path) -> None:
    """Put a finished scratch folder in the place of `folder`."""
    os.chmod(scratch, 0o755)  # mkdtemp makes it private
    if folder.exists():
        old = scratch.with_name(scratch.name + ".old")
        os.rename(folder, old)
        os.rename(scratch, folder)
        shutil.rmtree(old)
    else:
        os.rename(scratch, folder)


class _GrowingArray:
    """A one-dimensional .npy file that grows: numpy's header leaves room to correct the length at the end."""

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
        np.ascontiguousarray(values, dtype=self._dtype).tofile(self._file)
        self._length += len(values)

    def close(self) -> None:
        self._file.seek(0)
        if self._write_header() != self._header_size:
            raise ValueError("the .npy header has outgrown its place")
        self._file.close()
