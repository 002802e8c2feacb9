"""Axes learned from graded labels: the discriminative projection of Mikolajczyk and Matas (ICCV 2007).

With C the covariance of all descriptors and S that of the differences of matching ones, the axes are the
eigenvectors of C v = λ S v: along each, matching images differ by 1 and all images by √λ; the largest λ come first.
Each pair counts as much as its images are similar (ψ), where the original has pairs that match or do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from samespot.errors import InputError
from samespot.whitening.axes import Floats, PrincipalAxes, Vectors

if TYPE_CHECKING:  # arrays in, arrays out: whitening must not wait for pandas
    from samespot.overlap.labels import PairLabels

MOST_DIMS = 8192  # a matrix of so many squared, in float64, takes half a gigabyte


def discriminative_axes(
    vectors: Vectors, labels: PairLabels, principal: PrincipalAxes, damping: float, name: str
) -> tuple[Floats, Floats]:
    """(rank, d) axes of length 1, most telling first, and the variances (rank,) that make them the projection.

    vectors: (n, d), labels: (n, n) of the same images, principal: all axes of these vectors. damping: share of the
    mean of S along the principal axes that is added to it along all of them.
    """
    from scipy.linalg import LinAlgError, eigh

    if labels.shape != (len(vectors), len(vectors)):
        raise InputError(
            f"{name}: labels of {labels.shape[0]} × {labels.shape[1]} images for {len(vectors)} descriptors; "
            "label these images with one another"
        )
    rank = len(principal.variances)
    if rank > MOST_DIMS:
        raise InputError(
            f"{name}: {rank} dims are too many to learn a whitening of; whiten to {MOST_DIMS} at most first"
        )
    within = _within(vectors, labels, principal, name)
    within[np.diag_indices(rank)] += damping * within.trace() / rank
    try:
        _, found = eigh(np.diag(principal.variances), within, check_finite=False)
    except LinAlgError:
        raise InputError(
            f"{name}: matching images do not differ along every direction, so there is nothing to divide by; "
            "give `damping` above 0, or more pairs"
        ) from None
    projection = found.T[::-1] @ principal.axes
    lengths = np.linalg.norm(projection, axis=1)
    axes = projection / lengths[:, None]
    signs = np.sign(axes[np.arange(rank), np.abs(axes).argmax(axis=1)])
    return axes * signs[:, None], 1 / lengths**2


def _within(vectors: Vectors, labels: PairLabels, principal: PrincipalAxes, name: str) -> Floats:
    """(rank, rank) half the mean of ψ (a − b)(a − b)ᵀ over the pairs, in coordinates of the principal axes.

    Half, since two images differ by the variances of both. The sum over pairs is that of a Laplacian: one product
    with the sparse labels, however many pairs there are.
    """
    from scipy.sparse import csr_array

    there = np.array([bool(np.any(row)) for row in vectors])
    weights = csr_array((labels.similarity, labels.columns, labels.indptr - labels.indptr[0]), labels.shape)
    weights = weights.astype(np.float64).multiply(there[:, None]).multiply(there[None, :])
    weights = (weights + weights.T) / 2
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    themselves = weights.diagonal()
    if not degrees.sum() > themselves.sum():
        raise InputError(f"{name}: no two of the images match, so there is nothing to learn from")
    coordinates = (np.asarray(vectors, dtype=np.float64) - principal.mean) @ principal.axes.T
    differences = coordinates.T @ (degrees[:, None] * coordinates - weights @ coordinates)
    # an image is no pair with itself
    within: Floats = (differences + differences.T) / 2 / (degrees.sum() - themselves.sum())
    return within
