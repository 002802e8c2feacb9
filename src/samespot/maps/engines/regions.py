"""The regions of a map: boxes of about equally many photos, so that who knows roughly where searches only those.

The map is halved across its longer side, and each half again. Cells of one size would do for a map that is as dense
everywhere; of a city and its villages, one cell would hold nearly all. Nothing is kept of it but how many regions there
are: from the same positions the same ones come out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

PER_REGION = 10_000  # photos, at least: a search passes through every region that it cannot leave out
MOST = 512  # Milvus takes 1,024 partitions in a collection, older ones 4,096
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]


def how_many(photos: int) -> int:
    """Regions for a map of that size: a power of two."""
    return 1 << (max(1, min(photos // PER_REGION, MOST)).bit_length() - 1)


@dataclass(frozen=True, eq=False)
class Regions:
    """Which region each photo of a map is in."""

    of: NDArray[np.int64]  # (n,) from 0

    @classmethod
    def cut(cls, at: NDArray[np.float64], count: int) -> Regions:
        """Regions of photos at (n, 2) easting, northing [m], as many as `count`, or fewer where photos share a spot."""
        of = np.zeros(len(at), dtype=np.int64)
        for number, rows in enumerate(_halved(at, np.arange(len(at)), count)):
            of[rows] = number
        return cls(of)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """(regions,) photos in each."""
        return np.bincount(self.of)

    @cached_property
    def _in_order(self) -> list[Rows]:
        order = np.argsort(self.of, kind="stable")
        return np.split(order, np.cumsum(self.sizes)[:-1])

    def rows(self, region: int) -> Rows:
        """The photos in a region, ascending."""
        return self._in_order[region]

    def touched(self, allowed: Bools) -> Rows:
        """The regions with any of the allowed photos (n,)."""
        return np.flatnonzero(np.bincount(self.of[allowed], minlength=len(self.sizes)))


def _halved(at: NDArray[np.float64], rows: Rows, count: int) -> Iterator[Rows]:
    sides = np.ptp(at[rows], axis=0)
    if count == 1 or not sides.max() > 0:
        yield rows
        return
    along = at[rows, np.argmax(sides)]
    middle = np.median(along)
    upper = along > middle
    if not upper.any():  # more than half of them are at the very end
        upper = along >= middle
    yield from _halved(at, rows[~upper], count // 2)
    yield from _halved(at, rows[upper], count // 2)
