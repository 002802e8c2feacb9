"""`open_map("map/").locate("photo.jpg")`: a photo in, a place and its probability out."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.devices import device_named
from samespot.errors import InputError
from samespot.images.reading import as_image
from samespot.maps.answer import Answer, Match, Overlap, Position, Trouble
from samespot.maps.candidates import LISTED, Candidates, candidates_of
from samespot.maps.estimate import heading_of, position_of
from samespot.maps.evidence import BY_CHANCE, places_among
from samespot.maps.folder import Generation, open_generation
from samespot.maps.looking import Vectors
from samespot.maps.options import LocateOptions, TrackOptions
from samespot.maps.own_model import load_own
from samespot.maps.questions import Question, questions
from samespot.maps.track import Follower, Moment, smoothed
from samespot.maps.trust import Trust
from samespot.matching.keypoints import Keypoints
from samespot.matching.verification import Verifier, verifier_named
from samespot.model.network import PlaceNet
from samespot.options import split
from samespot.places.geodesy import to_degrees
from samespot.retrieval.describe import describer_for
from samespot.retrieval.search import search

IN_MEMORY = 500_000  # photos whose descriptors are held as float32, for speed
SURE = 1e-6  # least doubt that is kept of a photo in a sequence
Floats = NDArray[np.float64]


def open_map(folder: str | Path, *, device: str = "auto") -> Map:
    """The newest generation of a map folder. It stays what it is while the map is indexed again; see `Map.newest`."""
    return Map(open_generation(folder), device)


@dataclass(frozen=True, eq=False)
class Seen:
    """A photo as a map compares it."""

    vector: NDArray[np.float32]  # (dims,) whitened
    keypoints: Keypoints | None = None  # None: not to be verified


@dataclass(frozen=True, eq=False)
class _Looked:
    """A question, and what was found for it."""

    question: Question
    seen: Seen
    found: Candidates


class Map:
    """A map that is open for questions, from several threads if need be."""

    def __init__(self, generation: Generation, device: str = "auto") -> None:
        self.generation, self.device = generation, device_named(device)
        self._loading = threading.RLock()

    def __len__(self) -> int:
        return len(self.generation.places)

    def __repr__(self) -> str:
        return f"Map({len(self):,} photos in {self.generation.folder}, generation {self.generation.number})"

    @property
    def meta(self) -> dict[str, Any]:
        """What `meta.json` says of the map."""
        return self.generation.meta

    @property
    def reach(self) -> float:
        """[m] within which an answer counts as right."""
        return float(self.meta["within"])

    @cached_property
    def trust(self) -> Trust:
        """From the evidence for an answer to the probability that it is right."""
        return Trust.from_dict(self.meta["calibration"])

    @cached_property
    def positions(self) -> Floats:
        """(n, 2) easting, northing [m] of the photos."""
        return self.generation.places.positions[:, :2]

    def newest(self) -> Map:
        """This map, or its newest generation where the folder has a newer one."""
        now = open_generation(self.generation.folder)
        return self if now.number == self.generation.number else Map(now, str(self.device))

    # ---- asking ----

    def locate(self, photo: Any, **options: Any) -> Answer:
        """Where was this photo taken? A path, the bytes of a file, a Pillow image or pixels.

        options: fields of `LocateOptions`: k, outside, at_least, candidates, verify
        """
        asked = LocateOptions.of(options)
        return self._answer(self._looked_up(_question(photo), asked), asked)

    def locate_many(self, photos: Iterable[Any], **options: Any) -> Iterator[Answer | Trouble]:
        """The same for many, one after the other. Paths may be of folders, tables and videos, too.

        A photo that cannot be read gives a `Trouble` in its place.
        """
        asked = LocateOptions.of(options)
        for one in self._all_looked_up(photos, asked):
            yield one if isinstance(one, Trouble) else self._answer(one, asked)

    def track(self, photos: Iterable[Any], **options: Any) -> Iterator[Answer | Trouble]:
        """Where was each photo of a sequence taken? Later photos help with earlier ones, too, unless `live`.

        options: fields of `LocateOptions`, and of `TrackOptions`: speed, every, live
        """
        of_photos, of_track = split(options, LocateOptions, TrackOptions)
        asked, known = LocateOptions.of(of_photos), TrackOptions.of(of_track)
        looked = self._all_looked_up(photos, asked, known.every)
        if known.live:
            follower = Follower(known.speed, self.reach, asked.outside)
            for number, one in enumerate(looked):
                if isinstance(one, Trouble):
                    yield one
                else:
                    moment = self._moment(one, known.every * number)
                    yield self._believed(one, moment, follower(moment), asked)
            return
        waiting = list(looked)
        moments = {
            number: self._moment(one, known.every * number)
            for number, one in enumerate(waiting)
            if not isinstance(one, Trouble)
        }
        beliefs = smoothed(list(moments.values()), known.speed, self.reach, asked.outside)
        believed = dict(zip(moments, beliefs, strict=True))
        for number, one in enumerate(waiting):
            if isinstance(one, Trouble):
                yield one
            else:
                yield self._believed(one, moments[number], believed[number], asked)

    # ---- looking up ----

    def look(self, photo: Any, *, verify: bool = True) -> Seen:
        """A photo as this map compares it."""
        image = as_image(photo)
        keypoints = self._verifier.extract(image) if verify and self._verifier is not None else None
        return Seen(self._describe(image), keypoints)

    def candidates(self, seen: Seen, verified: int = LocateOptions.candidates) -> Candidates:
        """The nearest photos of the map, in the order of what speaks for them."""
        count = min(max(verified, LISTED), len(self))
        found = search(seen.vector[None], self._vectors, count, device=self.device.type)
        there = found.rows[0] >= 0
        listed = found.rows[0][there], found.distances[0][there]
        return candidates_of(self.generation, *listed, seen.keypoints, self._verifier, self.reach, verified)

    def _looked_up(self, question: Question, asked: LocateOptions) -> _Looked:
        seen = self.look(question.photo, verify=asked.verify)
        return _Looked(question, seen, self.candidates(seen, asked.candidates))

    def _all_looked_up(
        self, photos: Iterable[Any], asked: LocateOptions, every: float = TrackOptions.every
    ) -> Iterator[_Looked | Trouble]:
        for photo in photos:
            several = isinstance(photo, str | Path)
            for question in questions([photo], every) if several else [_question(photo)]:
                try:
                    yield self._looked_up(question, asked)
                except InputError as error:
                    yield Trouble(question.name, str(error))

    # ---- answering ----

    def _answer(self, looked: _Looked, asked: LocateOptions) -> Answer:
        probability = float(self.trust.probability(looked.found.evidence[None], asked.outside)[0])
        return self._told(looked, looked.found, probability, asked)

    def _told(self, looked: _Looked, found: Candidates, probability: float, asked: LocateOptions) -> Answer:
        """The answer that the first candidate gives."""
        weights = found.inliers
        at = position_of(
            self.positions[found.rows], np.ones(len(found.rows)) if weights is None else weights, self.reach
        )
        return Answer(
            photo=looked.question.name,
            found=probability >= asked.at_least,
            probability=probability,
            position=self._position(at),
            radius=self.reach,
            heading=self._heading(looked.seen, found),
            matches=tuple(self._match(found, place) for place in range(min(asked.k, len(found.rows)))),
            outside=asked.outside,
            calibration=self.trust.source,
            typical_error=self.trust.facts.get("median error [m]"),
        )

    def _heading(self, seen: Seen, found: Candidates) -> float | None:
        row, agreement = int(found.rows[0]), found.agreements[0]
        there = self.generation.keypoints(row)
        if seen.keypoints is None or there is None or agreement is None:
            return None
        heading = float(self.generation.places.positions[row, 2])
        return heading_of(heading, seen.keypoints, there, agreement.pairs)

    def _match(self, found: Candidates, place: int) -> Match:
        row = int(found.rows[place])
        heading = float(self.generation.places.positions[row, 2])
        agreement = found.agreements[place]
        alike = agreement if agreement is not None and agreement.inliers > BY_CHANCE else None
        return Match(
            image=str(self.generation.places.table["image"].iloc[row]),
            row=row,
            position=self._position(self.positions[row]),
            heading=None if np.isnan(heading) else heading,
            distance=float(found.distances[place]),
            verified=None if agreement is None else agreement.inliers,
            overlap=None if alike is None else Overlap(*alike.overlap),
        )

    def _position(self, at: Floats) -> Position:
        easting, northing = float(at[0]), float(at[1])
        projection = self.generation.places.projection
        if projection is None:
            return Position(easting, northing)
        latitude, longitude = to_degrees([easting], [northing], projection)
        return Position(easting, northing, float(latitude[0]), float(longitude[0]))

    # ---- sequences ----

    def _moment(self, looked: _Looked, due: float) -> Moment:
        """The places among the candidates, and how well the photo fits each. due: when, if the photo does not say."""
        found, time = looked.found, looked.question.time
        firsts, evidence = places_among(
            found.distances, self.positions[found.rows], found.inliers, self.reach
        )
        likely = np.clip(self.trust.probability(evidence, 0.5), SURE, 1 - SURE)
        at = self.positions[found.rows[firsts]]
        return Moment(due if time is None else time, at, likely / (1 - likely))

    def _believed(self, looked: _Looked, moment: Moment, belief: Floats, asked: LocateOptions) -> Answer:
        """The answer of one moment: the candidates of the likeliest place come first."""
        best = int(np.argmax(belief))
        elsewhere = np.hypot(*(self.positions[looked.found.rows] - moment.positions[best]).T) > self.reach
        found = looked.found.in_order(np.argsort(elsewhere, kind="stable"))
        return replace(self._told(looked, found, float(belief[best]), asked), time=moment.time)

    # ---- what is loaded when it is needed ----

    @cached_property
    def model(self) -> PlaceNet:
        """The network that described the map's photos."""
        with self._loading:
            return load_own(self.generation.folder, self.meta["model"])

    @cached_property
    def _vectors(self) -> NDArray[Any]:
        kept = self.generation.vectors
        return np.asarray(kept, dtype=np.float32) if len(kept) <= IN_MEMORY else kept

    @cached_property
    def _verifier(self) -> Verifier | None:
        facts = self.meta["verifier"]
        if facts is None:
            return None
        with self._loading:
            made = verifier_named(facts["name"], facts["keypoints"], self.device)
        if {"name": made.name, **made.facts()} != facts:
            raise InputError(
                f"{self.generation.folder}: its local features are of another version of {facts['name']};"
                " index the photos into a new folder"
            )
        return made

    @cached_property
    def _describe(self) -> Vectors:
        with self._loading:
            describer = describer_for(self.model, self.device, images=1)
            dims = self.generation.vectors.shape[1]
            return Vectors(self.model.preprocessing, describer, self.generation.whitening, dims)


def _question(photo: Any) -> Question:
    if isinstance(photo, Question):
        return photo
    return Question(str(photo) if isinstance(photo, str | Path) else "photo", photo)
