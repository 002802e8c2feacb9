"""The descriptors that are measured: as the network gives them, and whitened on the map, on other places, by a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.results import Variant
from samespot.places.table import Places
from samespot.retrieval.search import resolve_device
from samespot.retrieval.whitening import MOST_IMAGES, Whitening

MAP = "the map"
LONG = 8192  # dims
Vectors = NDArray[Any]


@dataclass(frozen=True)
class Other:
    """A set apart from the evaluated one, training places as a rule: whitening and calibration are fitted on it."""

    name: str
    places: Places


@dataclass(frozen=True)
class GivenWhitening:
    """A whitening that was fitted before, on whatever its file says: used as it is, not fitted here."""

    file: Path
    whitening: Whitening

    @classmethod
    def load(cls, file: Path) -> GivenWhitening:
        return cls(file, Whitening.load(file))

    @property
    def fitted_on(self) -> str:
        return self.whitening.fitted_on or "not known"

    def sizes(self, asked: Sequence[int]) -> list[int]:
        """Those asked for that it has more of, then all that it has."""
        return [*(dims for dims in asked if dims < self.whitening.rank), self.whitening.rank]

    def refuse_other_size(self, dims: int) -> None:
        """dims: of the descriptors as the network gives them."""
        if dims != self.whitening.dims:
            raise InputError(
                f"{self.file}: whitens descriptors of {self.whitening.dims} dims, but this network gives {dims};"
                " give the whitening that was fitted with this network"
            )

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": str(self.file),
            "fitted on": self.fitted_on,
            "images": self.whitening.images or None,  # nobody publishes how many they were
            "dims": self.whitening.rank,
        }


@dataclass(frozen=True)
class Described:
    """Vectors of one kind of descriptor: queries and map of each case, and of the other set."""

    queries: list[Vectors]
    places: list[Vectors]
    other: Vectors | None = None
    whitened_on: str | None = None
    whitened_with: str | None = None

    @property
    def dims(self) -> int:
        return int(self.places[0].shape[1])

    def variant(self, columns: dict[str, NDArray[Any]], curves: dict[str, Any]) -> Variant:
        """What a result says of it; its metrics follow."""
        return Variant(self.dims, self.whitened_on, {}, {}, columns, curves, whitened_with=self.whitened_with)

    @property
    def name(self) -> str:
        return self.variant({}, {}).name


@dataclass
class Kinds:
    """Every kind of descriptor that is asked for, one at a time: all at once would take several times the memory."""

    base: Described
    options: EvaluateOptions
    other: Other | None = None
    given: GivenWhitening | None = None
    to_span: bool = False  # sizes beyond what the images span become that; else they are left out, or refused
    device: str = "auto"

    def __post_init__(self) -> None:
        self.fitted: list[Whitening] = []  # here, in the order they were
        self.notes: list[str] = []
        if self.given is not None:
            self.given.refuse_other_size(self.base.dims)

    def names(self) -> list[str]:
        """Of all that there may be; known before the work is done."""
        asked = self.options.whiten
        named: list[tuple[int, str | None, str | None]] = [(self.base.dims, None, None)]
        named += [(dims, on, None) for on in self._sets() for dims in asked]
        if self.given is not None:
            file, on = self.given.file.name, self.given.fitted_on
            named += [(dims, on, file) for dims in self.given.sizes(asked)]
        return [Variant(dims, on, {}, {}, {}, whitened_with=file).name for dims, on, file in named]

    def _sets(self) -> list[str]:
        """What whitening is fitted on."""
        if not self.options.whiten:
            return []
        sets = [MAP] if self.options.whiten_on in (None, "map", "both") else []
        if self.options.whiten_on in (None, "train", "both") and self.other is not None:
            sets.append(self.other.name)
        return sets

    def __iter__(self) -> Iterator[Described]:
        """As they are, then whitened on the map, on the other set, and as given, in each size."""
        yield self.base
        for name in self._sets():
            vectors = self._vectors_of(name)
            # all axes of long descriptors, as NetVLAD's, would take gigabytes
            most = max(self.options.whiten) if vectors.shape[1] > LONG else None
            whitening = Whitening.fit(vectors, name, most=most, device=resolve_device(self.device))
            self.fitted.append(whitening)
            if whitening.images + whitening.left_out < len(vectors):
                self.notes.append(
                    f"whitening on {name}: fitted on {MOST_IMAGES:,} of its {len(vectors):,} images"
                )
            for dims in self._sizes_within(whitening):
                yield self._whitened(whitening, dims, name)
        if self.given is not None:
            yield from self._as_given(self.given)

    def _vectors_of(self, name: str) -> Vectors:
        if name != MAP:
            assert self.base.other is not None
            return self.base.other
        maps = self.base.places
        return maps[0] if len(maps) == 1 else np.concatenate(maps)

    def _as_given(self, given: GivenWhitening) -> Iterator[Described]:
        self.notes.append(
            f"whitening {given.file} was not fitted here: by its own record on {given.fitted_on}"
        )
        rank = given.whitening.rank
        self.notes += [
            f"not whitened with {given.file.name} to {dims} dims: it has {rank}"
            for dims in sorted(self.options.whiten)
            if dims > rank
        ]
        there = replace(given.whitening, device=resolve_device(self.device))
        for dims in given.sizes(self.options.whiten):
            yield self._whitened(there, dims, given.fitted_on, given.file.name)

    def _whitened(self, whitening: Whitening, dims: int, on: str, with_file: str | None = None) -> Described:
        return Described(
            [whitening(x, dims) for x in self.base.queries],
            [whitening(x, dims) for x in self.base.places],
            None if self.base.other is None else whitening(self.base.other, dims),
            on,
            with_file,
        )

    def _sizes_within(self, whitening: Whitening) -> list[int]:
        """The sizes that the whitening can give; a note on the others."""
        asked = self.options.whiten
        sizes = [dims for dims in asked if dims <= whitening.rank]
        if len(sizes) < len(asked) and self.to_span:
            self.notes.append(
                f"whitened on {whitening.fitted_on} to at most {whitening.rank} dims: its images span no more"
            )
            return list(dict.fromkeys([*sizes, whitening.rank]))
        if not sizes:
            raise InputError(
                f"whitening on {whitening.fitted_on}: {whitening.images} images span {whitening.rank} dims, "
                f"too few for {min(asked)}; ask for less"
            )
        self.notes += [
            f"not whitened on {whitening.fitted_on} to {dims} dims: its images span only {whitening.rank}"
            for dims in sorted(set(asked) - set(sizes))
        ]
        return sizes
