"""The label files that the paper's authors distribute (`<city>_gt.h5`: `fov` graded, `sim` binary), both ways.

Two layouts exist: a (queries, map) matrix for query-against-map sets (MSLS), and the condensed upper triangle
of a square matrix for all pairs of one set (TB-Places, 7Scenes). Both are read and written by blocks of rows, so
memory does not grow with the number of pairs; only reading a triangle holds its non-zero pairs at once, since each
stands in two rows of the labels. A file does not always show which layout it has: six values in a row are one query
against six images, or all pairs of four. Ours say it in the attributes `layout` and `shape` of each data set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from samespot.errors import InputError
from samespot.files import whole_file
from samespot.options import check_choice
from samespot.overlap.classes import POSITIVE
from samespot.overlap.labels import Block, PairLabels

Layout = Literal["auto", "matrix", "triangle"]
BLOCK_VALUES = 1 << 24  # similarities held in memory at a time


def import_h5(
    path: str | Path, key: str = "fov", *, layout: Layout = "auto", out: str | Path | None = None
) -> PairLabels:
    """Read a reference label file. key: "fov" for graded, "sim" for binary labels.

    layout: "matrix" or "triangle" (see above); "auto" goes by what the file says, else by its shape: a matrix if it
    has several rows and columns, a triangle if the number of values fits one.
    """
    import h5py

    check_choice("layout", layout, get_args(Layout))
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a label file such as london_gt.h5")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path}: cannot be read as HDF5 ({error}); copy it again") from error
    with file:
        if key not in file:
            raise InputError(
                f"{path}: no data set {key!r}; it has {', '.join(sorted(file)) or 'none'}; label files have fov and sim"
            )
        values = file[key]
        if (
            not isinstance(values, h5py.Dataset)
            or values.ndim not in (1, 2)
            or values.dtype.kind not in "fiub"
        ):
            raise InputError(f"{path}: {key!r} is not a data set of numbers in one or two dimensions")
        meta = {
            "measure": "reference",
            "kind": "binary" if key == "sim" else "graded (reference)",
            "source": path.name,
        }
        if _layout(values, layout, path) == "matrix":
            return PairLabels.from_blocks(_matrix_rows(values, path), values.shape, meta, out)
        labels = _from_triangle(values, _side_of_triangle(values, path), path, {**meta, "same_table": True})
        return labels if out is None else labels.save(out)


def _layout(values: Any, asked: Layout, path: Path) -> str:
    """Whether a data set is a matrix or a triangle: as asked for, as it says itself, or as its shape tells."""
    said = values.attrs.get("layout") if asked == "auto" else asked
    said = said if isinstance(said, str) and said in ("matrix", "triangle") else None
    flat = values.ndim == 1 or min(values.shape) <= 1
    if said == "matrix" and values.ndim == 2:
        return "matrix"
    if said == "triangle" and flat:
        return "triangle"
    if said is not None:
        raise InputError(
            f"{path}: a data set of shape {values.shape} is not a {said}; choose another `layout`"
        )
    if not flat:
        return "matrix"
    if values.size and _triangle_size(_side(values.size)) == values.size:
        return "triangle"
    raise InputError(
        f"{path}: {values.size} values are neither a matrix nor the upper triangle of a square one; if the shape "
        f"{values.shape} is a matrix with one row or column or none, choose `layout=matrix`"
    )


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
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, h5py.File(partial, "w") as file:
        _write(file, labels, binary, condensed)
    return path


def _write(file: Any, labels: PairLabels, binary: PairLabels | None, condensed: bool) -> None:
    rows, columns = labels.shape
    shape = (1, _triangle_size(rows)) if condensed else (rows, columns)
    # the reference reads one row at a time, so a row (or a good part of a long one) is a chunk
    chunks = {"chunks": (1, min(shape[1], 1 << 16)), "compression": "gzip", "compression_opts": 1}
    packed = chunks if shape[0] and shape[1] else {}  # HDF5 has no chunks of nothing
    fov = file.create_dataset("fov", shape, np.float32, **packed)
    sim = file.create_dataset("sim", shape, np.uint8, **packed)
    for values in (fov, sim):
        values.attrs["layout"] = "triangle" if condensed else "matrix"
        values.attrs["shape"] = labels.shape
    step = max(1, BLOCK_VALUES // max(columns, 1))
    for start in range(0, rows, step):
        graded = labels[start : start + step].dense()
        positive = (graded >= POSITIVE) if binary is None else binary[start : start + step].dense() > 0
        _write_rows(fov, graded, start, condensed, rows)
        _write_rows(sim, positive.astype(np.uint8), start, condensed, rows)


def _write_rows(target: Any, block: Any, start: int, condensed: bool, n: int) -> None:
    if not target.size:
        return
    if not condensed:
        target[start : start + len(block)] = block
        return
    triangle = np.concatenate([row[i + 1 :] for i, row in enumerate(block, start)])
    first = _triangle_start(start, n)
    target[0, first : first + len(triangle)] = triangle


def _triangle_start(row: int, n: int) -> int:
    """Place of row's first pair (row, row + 1) in the condensed triangle of n images."""
    return row * n - row * (row + 1) // 2


def _triangle_size(n: int) -> int:
    return n * (n - 1) // 2


def _side(size: int) -> int:
    """Number of images whose pairs are `size`, or the next smaller number of pairs."""
    return (1 + math.isqrt(1 + 8 * size)) // 2


def _side_of_triangle(values: Any, path: Path) -> int:
    n = _side(values.size)
    if not values.size and "shape" in values.attrs:  # no pairs: of one image, or of none at all
        n = int(np.ravel(values.attrs["shape"])[0])
    if _triangle_size(n) != values.size:
        raise InputError(f"{path}: {values.size} values are not the upper triangle of a square matrix")
    return n


def _checked(values: Any, part: Any, path: Path, row: int) -> Any:
    """A part of a data set as float32, all of it in [0, 1]."""
    try:
        block = np.asarray(values[part], dtype=np.float32)
    except OSError as error:
        raise InputError(f"{path}: cannot be read near row {row} ({error}); copy it again") from error
    bad = ~((block >= 0) & (block <= 1))
    if bad.any():
        raise InputError(
            f"{path}: similarity {block[bad].flat[0]:g} near row {row} is not in [0, 1]; is it another kind of file?"
        )
    return block


def _matrix_rows(values: Any, path: Path) -> Iterator[Block]:
    step = max(1, BLOCK_VALUES // max(values.shape[1], 1))
    for start in range(0, values.shape[0], step):
        block = _checked(values, slice(start, start + step), path, start)
        rows, columns = np.nonzero(block)
        yield np.bincount(rows, minlength=len(block)), columns.astype(np.int32), block[rows, columns]


def _from_triangle(values: Any, n: int, path: Path, meta: dict[str, Any]) -> PairLabels:
    """The full symmetric labels of a condensed triangle (its diagonal is not stored, so it stays 0).

    Memory: a block of values, and some 60 bytes for each pair > 0.
    """
    from scipy.sparse import coo_array

    first, second, found = [], [], []
    row = 0
    while row < n - 1:
        stop = row + 1
        while stop < n - 1 and _triangle_start(stop + 1, n) - _triangle_start(row, n) <= BLOCK_VALUES:
            stop += 1
        begin, end = _triangle_start(row, n), _triangle_start(stop, n)
        run = slice(begin, end)
        part = run if values.ndim == 1 else (0, run) if values.shape[0] == 1 else (run, 0)
        flat = _checked(values, part, path, row)
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
