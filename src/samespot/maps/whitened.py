"""The descriptors that a map is searched by: whitened on the map itself, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.maps.options import Whiten
from samespot.overlap.rules import Within
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.damping_choice import Known, choose_damping
from samespot.whitening.whitening import Whitening

FEWEST = (
    20  # photos to fit a whitening on; with so many of campus-east it finds more than without, with fewer not
)
SAMPLE = 20_000  # photos that it is fitted on, at most
BLOCK = 4096  # photos that are whitened at once
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """How the descriptors of a map are to be whitened."""

    how: Whiten
    dims: int
    within: float  # [m] two photos this near show the same place
    models: Whitening | None  # the network's own


def whitening_for(
    asked: Asked, places: Places, plain: Callable[[Rows], NDArray[np.float16]], device: str
) -> Whitening | None:
    """The whitening of a map, with as many axes as the map has dims; None: descriptors stay as they are.

    plain: descriptors (k, d) of given rows.
    """
    if asked.how == "none":
        return None
    if asked.how == "model" and asked.models is None:
        raise InputError("`whiten=model`: this model has no whitening of its own; use `whiten=map`")
    if asked.how == "model" or (asked.how == "auto" and len(places) < FEWEST):
        return None if asked.models is None else _cut(asked.models, asked.dims)
    rows = np.arange(len(places))
    if len(rows) > SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
    sample = plain(rows)
    try:
        fitted = Whitening.fit(sample, "the map", most=asked.dims, device=device)
    except InputError:  # all photos are the same, or there is one: nothing to tell apart
        if asked.how == "map":
            raise
        return None if asked.models is None else _cut(asked.models, asked.dims)
    damped = choose_damping(fitted, [Known(sample, places.select(rows))], Within(asked.within), device)
    return damped.rounded()


def _cut(whitening: Whitening, dims: int) -> Whitening:
    """Its strongest axes."""
    return replace(whitening, axes=whitening.axes[:dims], variances=whitening.variances[:dims])


def write_vectors(
    path: Path,
    whitening: Whitening | None,
    count: int,
    plain: Callable[[Rows], NDArray[np.float16]],
    progress: Progress,
) -> None:
    """What is searched, as a .npy file of float16. Not through a memory map: a full disk would end the process."""
    with path.open("wb") as file:
        header_due = True
        for rows in _blocks(count):
            block = plain(rows)
            whitened = block if whitening is None else whitening(block).astype(np.float16)
            if header_due:
                shape = (count, whitened.shape[1])
                about = {"descr": "<f2", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, about)
                header_due = False
            file.write(np.ascontiguousarray(whitened).tobytes())
            progress("whitening", int(rows[-1]) + 1, count)


def _blocks(count: int) -> Iterator[Rows]:
    for start in range(0, count, BLOCK):
        yield np.arange(start, min(start + BLOCK, count))
