"""The descriptors that are measured: as the network gives them, and whitened on the map, on other places, by a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.results import Variant
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import Rule
from samespot.places.table import Places
from samespot.retrieval.damping_choice import Known, choose_damping
from samespot.retrieval.search import resolve_device
from samespot.whitening.axes import MOST_IMAGES
from samespot.whitening.damping import Damping
from samespot.whitening.recipe import Recipe
from samespot.whitening.whitening import Whitening

if TYPE_CHECKING:  # what is asked is read before torch is loaded
    from samespot.model.network import PlaceNet

MAP = "the map"
OWN = "the model's whitening"
LONG = 8192  # dims
Vectors = NDArray[Any]


@dataclass(frozen=True)
class Other:
    """A set apart from the evaluated one, training places as a rule: whitening and calibration are fitted on it."""

    name: str
    places: Places


@dataclass(frozen=True)
class GivenWhitening:
    """A whitening that was fitted before, on whatever it says of itself: used as it is, not fitted here."""

    name: str  # of the file, or `OWN`
    whitening: Whitening
    where: str  # the file's path, or of the model's own the same as the name

    @classmethod
    def load(cls, file: Path) -> GivenWhitening:
        return cls(file.name, Whitening.load(file), str(file))

    @classmethod
    def of_model(cls, net: PlaceNet) -> GivenWhitening:
        if net.whitening is None:
            raise InputError("`whiten=model`: this model has no whitening of its own; `whiten=auto` fits one")
        return cls(OWN, net.whitening, OWN)

    @property
    def fitted_on(self) -> str:
        return self.whitening.fitted_on or "not known"

    def sizes(self, recipes: Sequence[Recipe]) -> list[int]:
        """Those asked for that it has; all that it has of a file, and where nothing is asked for."""
        there = [dims for dims in self.asked(recipes) if dims <= self.whitening.rank]
        whole = [] if self.name == OWN and recipes else [self.whitening.rank]
        return list(dict.fromkeys([*there, *whole]))

    def asked(self, recipes: Sequence[Recipe]) -> list[int]:
        """The model's own is asked for by name; a file is measured in the sizes of PCA as well."""
        how = "model" if self.name == OWN else "pca"
        return [one.dims or self.whitening.rank for one in recipes if one.how == how]

    def refuse_other_size(self, dims: int) -> None:
        """dims: of the descriptors as the network gives them."""
        if dims != self.whitening.dims:
            raise InputError(
                f"{self.where}: whitens descriptors of {self.whitening.dims} dims, but this network gives {dims};"
                " give the whitening that was fitted with this network"
            )

    def to_dict(self) -> dict[str, Any]:
        return {"file": self.where, **self.whitening.to_dict(), "fitted on": self.fitted_on}


@dataclass(frozen=True)
class Described:
    """Vectors of one kind of descriptor: queries and map of each case, and of the other set."""

    queries: list[Vectors]
    places: list[Vectors]
    other: Vectors | None = None
    whitened_on: str | None = None
    whitened_with: str | None = None
    whitened_how: str = ""

    @property
    def dims(self) -> int:
        return int(self.places[0].shape[1])

    def variant(self, columns: dict[str, NDArray[Any]], curves: dict[str, Any]) -> Variant:
        """What a result says of it; its metrics follow."""
        return Variant(
            self.dims,
            self.whitened_on,
            {},
            {},
            columns,
            curves,
            whitened_with=self.whitened_with,
            whitened_how=self.whitened_how,
        )

    @property
    def name(self) -> str:
        return self.variant({}, {}).name


@dataclass
class Kinds:
    """Every kind of descriptor that is asked for, one at a time: all at once would take several times the memory."""

    base: Described
    options: EvaluateOptions
    other: Other | None = None
    given: Sequence[GivenWhitening] = ()
    to_span: bool = (
        False  # PCA sizes beyond what the images span become that; else they are left out, or refused
    )
    device: str = "auto"
    rule: Rule | None = None  # which photos are similar, for what is learned or chosen
    maps: Sequence[Places] = ()  # of each case, where they are photos and none of them is a query

    def __post_init__(self) -> None:
        self.fitted: list[Whitening] = []  # here, in the order they were
        self.notes: list[str] = []
        for given in self.given:
            given.refuse_other_size(self.base.dims)
        self.recipes = [one for one in self.options.whiten if one.fitted]
        if any(one.how == "learned" for one in self.recipes) and self.other is None:
            raise InputError("a learned whitening needs `train`, the places to learn it on")

    def names(self) -> list[str]:
        """Of all that there may be; known before the work is done."""
        named = [Variant(self.base.dims, None, {}, {}, {})]
        for on in self._sets():
            spanned = min(self.base.dims, len(self._vectors_of(on)) - 1)
            for one in self._of(on):
                # as `_sizes_within` does
                clipped = one.how != "pca" or one.dims is None
                dims = min(one.dims or spanned, spanned) if clipped else one.dims
                named.append(Variant(dims or spanned, on, {}, {}, {}, whitened_how=one.words))
        named += [
            Variant(dims, given.fitted_on, {}, {}, {}, whitened_with=given.name)
            for given in self.given
            for dims in given.sizes(self.options.whiten)
        ]
        return [one.name for one in named]

    def _sets(self) -> list[str]:
        """What whitening is fitted on."""
        both = (None, "both")
        sets = [MAP] if self.options.whiten_on in (*both, "map") else []
        if self.other is not None:
            sets.append(self.other.name)
        return [name for name in sets if self._of(name)]

    def _of(self, name: str) -> list[Recipe]:
        """The ways that are fitted on a set: labels are learned from on the other one alone."""
        if name == MAP:
            return [one for one in self.recipes if one.how != "learned"]
        all_of_them = self.options.whiten_on != "map"
        return [one for one in self.recipes if all_of_them or one.how == "learned"]

    def __iter__(self) -> Iterator[Described]:
        """As they are, then whitened on the map, on the other set, and as given, in each size."""
        yield self.base
        for name in self._sets():
            recipes = self._of(name)
            for how in dict.fromkeys(one.words for one in recipes):
                asked = [one for one in recipes if one.words == how]
                whitening = self._fit(name, asked)
                self.fitted.append(whitening)
                for dims in self._sizes_within(whitening, asked):
                    yield replace(self._whitened(whitening, dims, name), whitened_how=how)
        for given in self.given:
            yield from self._as_given(given)

    def _fit(self, name: str, asked: Sequence[Recipe]) -> Whitening:
        """One way of a set, in the sizes asked for."""
        vectors, first, device = self._vectors_of(name), asked[0], resolve_device(self.device)
        if first.how == "learned":
            share: Damping = "auto" if first.damping is None else first.damping
            return Whitening.learn(vectors, self._labels(), name, damping=share, device=device)
        known = next((one for one in self.fitted if one.kind == "pca" and one.fitted_on == name), None)
        if known is None or vectors.shape[1] > LONG:
            known = self._pca(name, vectors, asked, device)
        if first.how == "damped" and first.damping is None:
            return self._chosen(known, name, device)
        return known.damped(first.damping or 0.0)

    def _pca(self, name: str, vectors: Vectors, asked: Sequence[Recipe], device: str) -> Whitening:
        # all axes of long descriptors, as NetVLAD's, would take gigabytes
        sizes = [one.dims for one in asked]
        most = None if vectors.shape[1] <= LONG or None in sizes else max(one for one in sizes if one)
        whitening = Whitening.fit(vectors, name, most=most, device=device)
        if whitening.images + whitening.left_out < len(vectors):
            self.notes.append(
                f"whitening on {name}: fitted on {MOST_IMAGES:,} of its {len(vectors):,} images"
            )
        return whitening

    def _chosen(self, whitening: Whitening, name: str, device: str) -> Whitening:
        """Damped as suits the map's own photos. Those of training are too well known to the network to choose on."""
        if name != MAP or self.rule is None or not self.maps:
            return whitening.damped()
        known = [Known(*one) for one in zip(self.base.places, self.maps, strict=True)]
        chosen = choose_damping(whitening, known, self.rule, device)
        self.notes.append(f"whitening on {name}: damping {chosen.damping:g}, chosen on its own photos")
        return chosen

    def _labels(self) -> PairLabels:
        """The graded truth of the other set, by the rule of the evaluated one."""
        assert self.other is not None
        if self.rule is None:
            raise InputError(
                "a learned whitening needs a protocol with graded truth, to label `train` by its rule"
            )
        for what, unknown in self.rule.unknown(self.other.places).items():
            raise InputError(
                f"no learned whitening on {self.other.name}: {unknown.sum()} of its images have no {what}"
            )
        return self.rule.label(self.other.places, self.other.places)

    def _vectors_of(self, name: str) -> Vectors:
        if name != MAP:
            assert self.base.other is not None
            return self.base.other
        maps = self.base.places
        return maps[0] if len(maps) == 1 else np.concatenate(maps)

    def _as_given(self, given: GivenWhitening) -> Iterator[Described]:
        self.notes.append(
            f"whitening {given.where} was not fitted here: by its own record on {given.fitted_on}"
        )
        rank = given.whitening.rank
        self.notes += [
            f"not whitened with {given.name} to {dims} dims: it has {rank}"
            for dims in sorted(given.asked(self.options.whiten))
            if dims > rank
        ]
        there = replace(given.whitening, device=resolve_device(self.device))
        for dims in given.sizes(self.options.whiten):
            yield self._whitened(there, dims, given.fitted_on, given.name)

    def _whitened(self, whitening: Whitening, dims: int, on: str, with_file: str | None = None) -> Described:
        return Described(
            [whitening(x, dims) for x in self.base.queries],
            [whitening(x, dims) for x in self.base.places],
            None if self.base.other is None else whitening(self.base.other, dims),
            on,
            with_file,
        )

    def _sizes_within(self, whitening: Whitening, recipes: Sequence[Recipe]) -> list[int]:
        """The sizes that the whitening can give; a note on the others. Damped, all that it has is never too much."""
        asked = list(dict.fromkeys(one.dims or whitening.rank for one in recipes))
        sizes = [dims for dims in asked if dims <= whitening.rank]
        if len(sizes) < len(asked) and (self.to_span or whitening.damping):
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
