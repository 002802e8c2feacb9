"""What a run may learn from: labelled sets (cities, scenes), and every image of them by one number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.images.listing import ImageList
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places


@dataclass(frozen=True)
class LabelledSet:
    """The photos of one area and how similar they are. Photos of different sets are taken to share nothing."""

    queries: Places
    places: Places
    labels: PairLabels  # memory-mapped, as `PairLabels.open` gives them

    def __post_init__(self) -> None:
        self.labels.check(self.queries, self.places)
        if not len(self.queries) or not len(self.places):
            raise InputError(
                f"{self.queries.root}: a set without queries or without map images; leave it out"
            )

    @cached_property
    def same_table(self) -> bool:
        """Whether queries and map are one table, where no photo is paired with itself."""
        return bool(self.labels.meta.get("same_table", self.queries.digest() == self.places.digest()))

    def seconds(self, apart: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """When the queries and the map photos were taken, NaN where that is unknown; nothing where `apart` is 0."""
        if not apart:
            return np.zeros(0), np.zeros(0)
        return self.queries.seconds(), self.places.seconds()

    @cached_property
    def digests(self) -> tuple[str, str]:
        return self.queries.digest(), self.places.digest()


def images_of(sets: list[LabelledSet]) -> ImageList:
    """The images of all sets. `first[2 * s]` and `first[2 * s + 1]` begin the queries and the map of set s."""
    return ImageList([table for one in sets for table in (one.queries, one.places)])
