"""Principal axes of a set of descriptors: read twice block by block, summed in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import as_array
from samespot.errors import InputError
from samespot.progress import Progress
from samespot.whitening.products import NumpyProducts, Products, products_on

Floats = NDArray[np.float64]
Vectors = NDArray[
    Any
]  # (n, d) float16, float32 or float64, possibly memory-mapped; an all-zero row is no image
_BLOCK_BYTES = 64 << 20  # float64 copies held at a time
# with more images and more dims than this, so many images are drawn to fit on: as Patch-NetVLAD does, and the
# products of 32,768 dims would take 8.6 GB
MOST_IMAGES = 10_000
_Found = tuple[Floats, Floats, float]  # variances descending, axes as rows, sum of the variances of all axes


@dataclass(frozen=True)
class PrincipalAxes:
    """Orthonormal axes, strongest first: those that stand out of the rounding."""

    mean: Floats  # (d,)
    axes: Floats  # (rank, d); the coordinate of largest magnitude of each is positive
    variances: Floats  # (rank,) descending; the sum is divided by images - 1
    mean_variance: float  # over all axes that so many images can span, kept or not
    images: int
    left_out: int  # rows that are all zero


def principal_axes(
    descriptors: Vectors, name: str, most: int | None, progress: Progress | None, device: str
) -> PrincipalAxes:
    """Of the rows of (n, d) that are not all zero; all axes, or the `most` strongest. name: of the set."""
    descriptors = as_array(descriptors, name)
    if descriptors.ndim != 2 or descriptors.dtype.kind != "f" or descriptors.shape[1] == 0:
        raise InputError(
            f"{name}: descriptors are {descriptors.dtype} {descriptors.shape}; expected floats (images, dims)"
        )
    if most is not None and most < 1:
        raise InputError(f"whitening to {most} dims: give at least 1")
    descriptors = _at_most(descriptors, MOST_IMAGES)
    mean, images = _mean(descriptors, name, progress)
    if images < 2:
        raise InputError(
            f"{name}: whitening needs 2 images or more, {images} of {len(descriptors)} have a descriptor"
        )
    # the smaller of the two products tells the same axes
    find = _axes_by_covariance if images > len(mean) else _axes_by_images
    where = products_on(device)
    try:
        variances, axes, total = find(descriptors, mean, images, most, progress, where)
    except where.failures:  # no room on the GPU, or no end of its iterations
        variances, axes, total = find(descriptors, mean, images, most, progress, NumpyProducts())
    rank = _rank(variances, images, mean)
    if rank == 0:
        raise InputError(f"{name}: all {images} descriptors are the same; there is nothing to whiten")
    largest = np.abs(axes[:rank]).argmax(axis=1)
    signs = np.sign(axes[np.arange(rank), largest])
    return PrincipalAxes(
        mean,
        axes[:rank] * signs[:, None],
        variances[:rank].copy(),
        total / min(images - 1, len(mean)),
        images,
        len(descriptors) - images,
    )


def _at_most(descriptors: Vectors, most: int) -> Vectors:
    """All rows, or `most` of them where neither way to the axes would be short."""
    if min(descriptors.shape) <= most:
        return descriptors
    chosen = np.random.default_rng(0).choice(len(descriptors), most, replace=False)
    return descriptors[np.sort(chosen)]


def _mean(descriptors: Vectors, name: str, progress: Progress | None) -> tuple[Floats, int]:
    """Mean of the rows that are not all zero, and how many they are."""
    total, images = np.zeros(descriptors.shape[1]), 0
    for part in parts(*descriptors.shape):
        block, there = read_rows(descriptors, part)
        total += block.sum(axis=0)
        images += int(there.sum())
        if not np.isfinite(total).all():
            rows = part.start + np.flatnonzero(~np.isfinite(block).all(axis=1))
            raise InputError(
                f"{name}: the descriptor in row {rows[0]} is not finite; describe that image again"
            )
        _tell(progress, part.stop, len(descriptors), 0)
    return total / max(images, 1), images


def _axes_by_covariance(
    descriptors: Vectors,
    mean: Floats,
    images: int,
    most: int | None,
    progress: Progress | None,
    products: Products,
) -> _Found:
    """From the covariance of the dims."""

    def blocks() -> Iterator[Floats]:
        for part in parts(*descriptors.shape):
            block, there = read_rows(descriptors, part)
            block -= mean
            block[~there] = 0
            yield block
            _tell(progress, part.stop, len(descriptors), 1)

    covariance = products.squared(blocks(), len(mean)) / (images - 1)
    total = float(covariance.trace())  # before the matrix is overwritten
    return *products.strongest(covariance, most), total


def _axes_by_images(
    descriptors: Vectors,
    mean: Floats,
    images: int,
    most: int | None,
    progress: Progress | None,
    products: Products,
) -> _Found:
    """The same from the products of the images: with fewer images than dims a smaller matrix, (images, images)."""
    rows = np.flatnonzero([bool(np.any(row)) for row in descriptors])
    runs = list(parts(len(mean), images))

    def columns() -> Iterator[Floats]:
        for run in runs:
            yield (descriptors[:, run][rows] - mean[run]).T
            _tell(progress, run.stop, len(mean), 1)

    squares = products.squared(columns(), images)
    total = float(squares.trace()) / (images - 1)
    shares = products.strongest(squares, most)[1]  # of each image in an axis
    axes, times = np.empty((len(shares), len(mean))), products.times(shares.T)
    for run in runs:
        axes[:, run] = times((descriptors[:, run][rows] - mean[run]).T).T
    lengths = np.linalg.norm(axes, axis=1)
    axes /= np.where(lengths > 0, lengths, 1)[:, None]
    order = np.argsort(-lengths, kind="stable")  # equal ones may have changed places by rounding
    return lengths[order] ** 2 / (images - 1), axes[order], total


def _rank(variances: Floats, images: int, mean: Floats) -> int:
    """How many axes stand out of the rounding, of the sums and of the mean; n images span n - 1 at most."""
    relative = max(images, len(mean)) * np.finfo(np.float64).eps
    tolerance = max(variances[0] * relative, float(mean @ mean) * relative**2)
    lost = np.flatnonzero(~(variances > tolerance))
    return min(int(lost[0]) if len(lost) else len(variances), images - 1)


def read_rows(vectors: Vectors, part: slice) -> tuple[Floats, NDArray[np.bool_]]:
    """A float64 copy of some rows, and which of them are not all zero."""
    block = np.array(vectors[part], dtype=np.float64)
    there: NDArray[np.bool_] = np.any(block != 0, axis=1)
    return block, there


def parts(rows: int, width: int) -> Iterator[slice]:
    """Runs of rows that take at most `_BLOCK_BYTES` each as float64."""
    step = max(1, _BLOCK_BYTES // (8 * max(width, 1)))
    return (slice(i, min(i + step, rows)) for i in range(0, rows, step))


def _tell(progress: Progress | None, done: int, total: int, half: int) -> None:
    """Two passes as one bar."""
    if progress is not None:
        progress("fitting the whitening", math.floor(50 * (half + done / max(total, 1))), 100)
