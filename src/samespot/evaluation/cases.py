"""`Case`: one map, the queries that are looked up in it, and what counts as found. A city, a scene, a slice.

A protocol turns a data set into cases; everything after it (search, metrics, tables) only sees cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import Rule
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.exclusion import Exclusion

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One map and its queries.

    A query is a row of `queries`, or with `query_frames` (n, s) a sequence of s rows of it; likewise the map.
    `positives` are for each query the map items (rows, or sequences) that count as found; None where the truth
    is secret, or is a pose to come close to. A query with an empty list does not count (it is "not in the map").
    `rule` says how similar two photos are, the graded truth; None where that cannot be known. `labels` makes the
    labels of queries × map images where they are not simply the rule's: kept in a folder, or city by city.
    `groups` name for each query what tables are broken down by, e.g. {"condition": ["night", …]}.
    """

    name: str
    queries: Places
    places: Places
    positives: Sequence[Rows] | None = None
    rule: Rule | None = None
    excluded: Exclusion | None = None
    groups: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    query_frames: Rows | None = None
    place_frames: Rows | None = None
    reach: float | None = None  # [m] farther apart than this, two photos share nothing
    labels: Callable[[Progress | None], PairLabels] | None = None
    notes: tuple[str, ...] = ()
    _kept: list[PairLabels] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.positives is not None and len(self.positives) != self.query_count:
            raise InputError(
                f"{self.name}: {len(self.positives)} lists of positives for {self.query_count} queries"
            )
        for column, values in self.groups.items():
            if len(values) != self.query_count:
                raise InputError(
                    f"{self.name}: {len(values)} values of {column} for {self.query_count} queries"
                )

    def overlap(self, progress: Progress | None = None) -> PairLabels | None:
        """The graded truth of queries × map images; None where it cannot be known. Made once, when first asked for."""
        if not self._kept:
            if self.labels is not None:
                self._kept.append(self.labels(progress))
            elif self.rule is not None:
                self._kept.append(self.rule.label(self.queries, self.places, progress=progress))
        return self._kept[0] if self._kept else None

    @property
    def query_count(self) -> int:
        return len(self.queries) if self.query_frames is None else len(self.query_frames)

    @property
    def place_count(self) -> int:
        return len(self.places) if self.place_frames is None else len(self.place_frames)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """(q,) which queries have a positive, and so count; all where the truth is not in positives."""
        if self.positives is None:
            return np.ones(self.query_count, dtype=bool)
        return np.array([len(rows) > 0 for rows in self.positives], dtype=bool)

    @property
    def query_names(self) -> list[str]:
        """Image of each query; of a sequence its images, joined by commas."""
        return _names(self.queries, self.query_frames)

    @property
    def place_names(self) -> list[str]:
        return _names(self.places, self.place_frames)


def _names(table: Places, frames: Rows | None) -> list[str]:
    images = table.table["image"].astype(str).to_numpy(dtype=object)
    if frames is None:
        return list(images)
    return [",".join(row) for row in images[frames]]


def sequence_descriptors(vectors: NDArray[Any], frames: Rows | None) -> NDArray[Any]:
    """(n, d) unit vectors of images -> (sequences, d): the normalised mean of each sequence's frames."""
    if frames is None:
        return vectors
    mean = np.stack([np.asarray(vectors[column], dtype=np.float32) for column in frames.T]).mean(axis=0)
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    unit: NDArray[Any] = mean / np.where(length > 0, length, 1)
    return unit
