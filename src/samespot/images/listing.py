"""Images by number: `ImageList` those of tables, `PathList` those of a list of files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from samespot.places.table import Places
from samespot.storage import photo_at


class Images(Protocol):
    """Files by number."""

    def __len__(self) -> int: ...

    def path(self, number: int) -> Path: ...


class PathList:
    """Files by their place in a list."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self._paths = [Path(path) for path in paths]

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, number: int) -> Path:
        return self._paths[number]


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
        table = bisect_right(self._starts, number) - 1
        return photo_at(self._roots[table], str(self._names[table][number - self._starts[table]]))
