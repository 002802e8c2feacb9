"""What a run may learn from: labelled sets (cities, scenes), and every image of them by one number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
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

    @cached_property
    def digests(self) -> tuple[str, str]:
        return self.queries.digest(), self.places.digest()


class ImageList:
    """Every image of some tables by one number, so that one photo has one number wherever it appears."""

    def __init__(self, tables: list[Places]) -> None:
        self._names: list[NDArray[np.object_]] = []
        self._roots: list[Path] = []
        self._starts = [0]
        self.first: list[int] = []  # for each table given: the number of its first image
        known: dict[tuple[str, str], int] = {}
        for table in tables:
            key = (str(table.root), table.digest())
            if key not in known:
                known[key] = self._starts[-1]
                self._names.append(table.table["image"].to_numpy(dtype=object))
                self._roots.append(table.root)
                self._starts.append(self._starts[-1] + len(table))
            self.first.append(known[key])

    def __len__(self) -> int:
        return self._starts[-1]

    def path(self, number: int) -> Path:
        if not 0 <= number < len(self):
            raise IndexError(f"image {number} of {len(self)}")
        table = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self._roots[table] / str(self._names[table][number - self._starts[table]])


def images_of(sets: list[LabelledSet]) -> ImageList:
    """The images of all sets. `first[2 * s]` and `first[2 * s + 1]` begin the queries and the map of set s."""
    return ImageList([table for one in sets for table in (one.queries, one.places)])
