"""The label files that the paper's authors distribute (`<city>_gt.h5`: `fov` graded, `sim` binary), both ways.

Two layouts exist: a (queries, map) matrix for query-against-map sets (MSLS), and the condensed upper triangle
of a square matrix for all pairs of one set (TB-Places, 7Scenes). Both are streamed by blocks of rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from samespot.errors import InputError
from samespot.overlap.labels import POSITIVE, Block, PairLabels

BLOCK_VALUES = 1 << 24  # similarities held in memory at a time


def import_h5(path: str | Path, key: str = "fov", *, out: str | Path | None = None) -> PairLabels:
    """Read a reference label file. key: "fov" for graded, "sim" for binary labels."""
    import h5py

    path = Path(path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path}: cannot be read as HDF5 ({error})") from error
    with file:
        if key not in file:
            raise InputError(f"{path}: no data set {key!r}; it has {', '.join(sorted(file)) or 'none'}")
        values = file[key]
        meta = {
            "measure": "reference",
            "kind": "binary" if key == "sim" else "2D field of view",
            "source": path.name,
        }
        if values.ndim == 2 and 1 not in values.shape:
            return PairLabels.from_blocks(_matrix_rows(values, path), values.shape, meta, out)
        n = _side_of_triangle(values.size, path)
        labels = _from_triangle(values, n, path, {**meta, "same_table": True})
        return labels if out is None else labels.save(out)


def export_h5(
    labels: PairLabels, path: str | Path, *, binary: PairLabels | None = None, condensed: bool = False
) -> Path:
    """Write a reference label file: `fov` from `labels`; `sim` from `binary` labels, or by default ψ ≥ 0.5.

    condensed: only the upper triangle, as the reference stores all pairs of one set.
    """
    import h5py

    path = Path(path)
    rows, columns = labels.shape
    if condensed and rows != columns:
        raise InputError(f"a {rows} × {columns} label set has no upper triangle; export it as a matrix")
    if binary is not None and binary.shape != labels.shape:
        raise InputError(f"graded labels are {labels.shape}, binary ones {binary.shape}: not the same pairs")
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.part")
    with h5py.File(scratch, "w") as file:
        shape = (1, rows * (rows - 1) // 2) if condensed else (rows, columns)
        # the reference reads one row at a time, so a row (or a good part of a long one) is a chunk
        chunk = (1, max(1, min(shape[1], 1 << 16)))
        fov = file.create_dataset(
            "fov", shape, np.float32, chunks=chunk, compression="gzip", compression_opts=1
        )
        sim = file.create_dataset(
            "sim", shape, np.uint8, chunks=chunk, compression="gzip", compression_opts=1
        )
        step = max(1, BLOCK_VALUES // max(columns, 1))
        for start in range(0, rows, step):
            graded = labels[start : start + step].dense()
            positive = (graded >= POSITIVE) if binary is None else binary[start : start + step].dense() > 0
            _write_rows(fov, graded, start, condensed, rows)
            _write_rows(sim, positive.astype(np.uint8), start, condensed, rows)
    os.replace(scratch, path)
    return path


def _write_rows(target: Any, block: Any, start: int, condensed: bool, n: int) -> None:
    if not condensed:
        target[start : start + len(block)] = block
        return
    triangle = np.concatenate([row[i + 1 :] for i, row in enumerate(block, start)])
    first = _triangle_start(start, n)
    target[0, first : first + len(triangle)] = triangle


def _triangle_start(row: int, n: int) -> int:
    """Place of row's first pair (row, row + 1) in the condensed triangle of n images."""
    return row * n - row * (row + 1) // 2


def _side_of_triangle(size: int, path: Path) -> int:
    n = (1 + math.isqrt(1 + 8 * size)) // 2
    if n * (n - 1) // 2 != size:
        raise InputError(f"{path}: {size} values are neither a matrix nor the upper triangle of a square one")
    return n


def _checked(block: Any, path: Path, row: int) -> Any:
    block = np.asarray(block, dtype=np.float32)
    bad = ~((block >= 0) & (block <= 1))
    if bad.any():
        raise InputError(f"{path}: similarity {block[bad].flat[0]:g} near row {row} is not in [0, 1]")
    return block


def _matrix_rows(values: Any, path: Path) -> Iterator[Block]:
    step = max(1, BLOCK_VALUES // values.shape[1])
    for start in range(0, values.shape[0], step):
        block = _checked(values[start : start + step], path, start)
        rows, columns = np.nonzero(block)
        yield np.bincount(rows, minlength=len(block)), columns.astype(np.int32), block[rows, columns]


def _from_triangle(values: Any, n: int, path: Path, meta: dict[str, Any]) -> PairLabels:
    """The full symmetric labels of a condensed triangle (its diagonal is not stored, so it stays 0)."""
    from scipy.sparse import coo_array

    first, second, found = [], [], []
    row = 0
    while row < n - 1:
        stop = row + 1
        while stop < n - 1 and _triangle_start(stop + 1, n) - _triangle_start(row, n) <= BLOCK_VALUES:
            stop += 1
        begin, end = _triangle_start(row, n), _triangle_start(stop, n)
        flat = (
            values[begin:end]
            if values.ndim == 1
            else values[0, begin:end]
            if values.shape[0] == 1
            else values[begin:end, 0]
        )
        flat = _checked(flat, path, row)
        at = np.flatnonzero(flat)
        starts = np.array([_triangle_start(i, n) - begin for i in range(row, stop)])
        i = np.searchsorted(starts, at, side="right") - 1
        first.append((i + row).astype(np.int32))
        second.append((at - starts[i] + i + row + 1).astype(np.int32))
        found.append(flat[at])
        row = stop
    rows, columns = _joined(first, np.int32), _joined(second, np.int32)
    psi = _joined(found, np.float32)
    matrix = coo_array(
        (np.tile(psi, 2), (np.concatenate([rows, columns]), np.concatenate([columns, rows]))), shape=(n, n)
    ).tocsr()
    matrix.sort_indices()
    return PairLabels(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.float32),
        (n, n),
        meta,
    )


def _joined(pieces: list[Any], dtype: type) -> Any:
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype)
