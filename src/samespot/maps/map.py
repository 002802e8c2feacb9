"""`open_map("map/").locate("photo.jpg")`: a photo in, a place and its probability out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.gpus import check_name
from samespot.maps.answer import Answer, Match, Overlap, Pair, Position, Trouble
from samespot.maps.candidates import LISTED, NOTHING, Candidates, candidates_of
from samespot.maps.engines.engine import Engine, Exact, open_engine
from samespot.maps.evidence import BY_CHANCE, places_among
from samespot.maps.filters import FilterOptions
from samespot.maps.folder import Generation, open_generation
from samespot.maps.limits import Columns, Limits, limits_of
from samespot.maps.options import LocateOptions, TrackOptions
from samespot.maps.questions import Question, questions
from samespot.maps.standing import standing
from samespot.maps.track import Follower, Moment, Steps, distinct_places, smoothed
from samespot.maps.trust import Trust
from samespot.matching.keypoints import Keypoints
from samespot.options import split
from samespot.photo_files import refuse_no_photo
from samespot.places.camera import Camera, parse_camera
from samespot.places.exif import exif_camera
from samespot.places.geodesy import to_degrees
from samespot.poses.absolute import NoPose

if TYPE_CHECKING:  # a map is opened, and a mistake told, without torch
    import torch
    from torch import Tensor

    from samespot.maps.looking import Vectors
    from samespot.maps.posing import Poser
    from samespot.matching.verification import Agreement, Verifier
    from samespot.model.network import PlaceNet

IN_MEMORY = 500_000  # photos whose descriptors are held as float32, for speed
SURE = 1e-6  # least doubt
Floats = NDArray[np.float64]


def open_map(folder: str | Path, *, device: str = "auto") -> Map:
    """The newest generation of a map folder. It stays what it is while the map is indexed again; see `Map.newest`."""
    return Map(open_generation(folder), device)


@dataclass(frozen=True, eq=False)
class Seen:
    """A photo as a map compares it."""

    vector: NDArray[np.float32]  # (dims,) whitened
    keypoints: Keypoints | None = None  # None: not to be verified
    camera: Camera | None = None  # as far as EXIF tells; None: not known


@dataclass(frozen=True, eq=False)
class _Looked:
    """A question, and what was found for it."""

    question: Question
    seen: Seen
    found: Candidates
    no_match: str | None = None  # why no photo was compared


class Map:
    """A map that is open for questions, from several threads if need be."""

    def __init__(self, generation: Generation, device: str = "auto") -> None:
        self.generation, self._device_asked = generation, device
        check_name(device)
        if device not in ("auto", "cpu"):
            self.device  # noqa: B018 - an absent GPU shows now
        self._loading = threading.RLock()
        self._loaded: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.generation.places)

    def __repr__(self) -> str:
        return f"Map({len(self):,} photos in {self.generation.folder}, generation {self.generation.number})"

    @cached_property
    def device(self) -> torch.device:
        """Where the network runs."""
        from samespot.devices import device_named

        return device_named(self._device_asked)

    @property
    def meta(self) -> dict[str, Any]:
        """What `meta.json` says of the map."""
        return self.generation.meta

    @property
    def within(self) -> float:
        """[m] from the truth, within which an answer counts as right: what the calibration was fitted for."""
        return float(self.trust.facts.get("within", self.meta["within"]))

    @cached_property
    def trust(self) -> Trust:
        """From the evidence for an answer to the probability that it is right."""
        return Trust.from_dict(self.meta["calibration"])

    @cached_property
    def positions(self) -> Floats:
        """(n, 2) easting, northing [m] of the photos."""
        return self._cameras[:, :2]

    @cached_property
    def _cameras(self) -> Floats:
        """(n, 3) the same with the heading [deg]: made once, since a table is slow to read from."""
        return self.generation.places.positions

    def newest(self) -> Map:
        """This map, or its newest generation where the folder has a newer one."""
        now = open_generation(self.generation.folder)
        if now.meta == self.meta:  # the number alone may be that of another map, moved here
            return self
        newer = Map(now, self._device_asked)
        same = {name: now.meta[name] == self.meta[name] for name in ("model", "verifier")}
        same["describer"] = same["model"] and now.precision == self.generation.precision
        newer._loaded |= {name: self._loaded[name] for name in same if same[name] and name in self._loaded}
        return newer

    # ---- asking ----

    def locate(self, photo: Any, **options: Any) -> Answer:
        """Where was this photo taken? A path, the bytes of a file, a Pillow image, pixels, or what `look` saw.

        options: fields of `LocateOptions`: k, outside, at_least, precision, verify, pairs; and which photos of the map
        may answer: near, area, heading, since, until, condition
        """
        asked = LocateOptions.of(options)
        return self._answer(self._looked_up(_question(photo), asked, self.limits(asked)), asked)

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
        limits = self.limits(asked)
        places = distinct_places(
            self.positions if limits is None else self.positions[limits.allowed], self.within
        )
        steps = Steps(known.speed, self.within, places, asked.outside)
        moments = self._moments(self._all_looked_up(photos, asked, known.every), known.every, asked)
        if known.live:
            follower = Follower(steps)
            for one, moment in moments:
                yield self._believed(one, moment, None if moment is None else follower(moment), asked)
            return
        whole = list(moments)
        beliefs = iter(smoothed([moment for _, moment in whole if moment is not None], steps))
        for one, moment in whole:
            yield self._believed(one, moment, None if moment is None else next(beliefs), asked)

    # ---- looking up ----

    def look(self, photo: Any, *, verify: bool = True, named: str = "the photo") -> Seen:
        """A photo as this map compares it."""
        from samespot.images.reading import as_image

        image = as_image(photo, named)
        camera = exif_camera(photo) if verify else None
        return Seen(self._describe(image), self.keypoints(image) if verify else None, camera)

    def vectors(self, images: Sequence[Tensor]) -> NDArray[np.float32]:
        """(n, dims) what the map is searched by, of decoded photos, uint8 RGB (3, h, w): for `Seen`."""
        return self._describe.many(images)

    def keypoints(self, image: Tensor) -> Keypoints | None:
        """Local features of a decoded photo, for `Seen`; None where the map keeps none."""
        return None if self._verifier is None else self._verifier.extract(image)

    def limits(self, asked: FilterOptions) -> Limits | None:
        """Which photos of this map may answer; None: all of them."""
        places = self.generation.places
        return limits_of(asked, places, self._columns, str(self.generation.folder))

    def candidates(self, seen: Seen, limits: Limits | None = None) -> Candidates:
        """The nearest photos of the map, among those that may answer, in the order of what speaks for them."""
        listed = self._engine.nearest(seen.vector, min(LISTED, len(self)), limits)
        return candidates_of(
            self.generation, self.positions, *listed, seen.keypoints, self._verifier, self.within
        )

    def position_of(self, row: int) -> Position:
        """Where a photo of the map was taken."""
        return self._position(self.positions[row])

    def _looked_up(self, question: Question, asked: LocateOptions, limits: Limits | None) -> _Looked:
        if limits is not None and limits.left_none is not None:
            refuse_no_photo(question.photo)  # which is told with every filter
            return _Looked(question, Seen(np.zeros(0, dtype=np.float32)), NOTHING, limits.left_none)
        seen = question.photo
        if not isinstance(seen, Seen):
            seen = self.look(seen, verify=asked.verify, named=question.name)
        if asked.camera is not None:
            seen = replace(seen, camera=parse_camera(asked.camera))
        return _Looked(question, seen, self.candidates(seen, limits))

    def _all_looked_up(
        self, photos: Iterable[Any], asked: LocateOptions, every: float = TrackOptions.every
    ) -> Iterator[_Looked | Trouble]:
        limits = self.limits(asked)
        compares = limits is None or limits.left_none is None
        for photo in photos:
            several = isinstance(photo, str | Path)
            listed = questions([photo], every) if several else iter([_question(photo)])
            while True:
                try:
                    question = next(listed)
                except StopIteration:
                    break
                except InputError as error:  # a folder without photos, a broken table or video
                    yield Trouble(str(photo), str(error))
                    break
                try:
                    if compares and "describer" not in self._loaded:
                        refuse_no_photo(question.photo)  # before what takes seconds to load
                except InputError as error:
                    yield Trouble(question.name, str(error))
                    continue
                if compares:
                    self._describe, self._verifier, self._engine  # noqa: B018 - no photo's fault if the map is broken
                try:
                    yield self._looked_up(question, asked, limits)
                except InputError as error:
                    yield Trouble(question.name, str(error))

    # ---- answering ----

    def _answer(self, looked: _Looked, asked: LocateOptions) -> Answer:
        if not len(looked.found.rows):
            return self._told(looked, looked.found, 0.0, asked)
        probability = float(self.trust.probability(looked.found.evidence[None], asked.outside)[0])
        return self._told(looked, looked.found, probability, asked)

    def _told(self, looked: _Looked, found: Candidates, probability: float, asked: LocateOptions) -> Answer:
        """The answer that the first candidate gives."""
        seen, there = looked.seen, bool(len(found.rows))
        of_photo = (seen.keypoints, self.within, seen.camera)
        stood = standing(self.generation, self._cameras, found, *of_photo) if there else None
        return Answer(
            photo=looked.question.name,
            found=there and probability >= self._enough(looked.seen, asked),
            probability=probability,
            position=None if stood is None else self._position(stood.position),
            radius=self.within,
            heading=None if stood is None else stood.heading,
            matches=tuple(
                self._match(found, place, looked.seen.keypoints if asked.pairs else None)
                for place in range(min(asked.k, len(found.rows)))
            ),
            outside=asked.outside,
            calibration=self.trust.source,
            typical_error=self.trust.facts.get("median error [m]"),
            no_match=looked.no_match,
            **(self._pose(looked, found, asked) if asked.pose else {}),
        )

    def _pose(self, looked: _Looked, found: Candidates, asked: LocateOptions) -> dict[str, Any]:
        """`pose`, or `no_pose`: why there is none."""
        if looked.no_match is not None:
            return {"no_pose": looked.no_match}
        seen = looked.seen
        if self._poser is None or seen.keypoints is None:
            why = (self.meta.get("geometry") or {}).get("why", "it keeps nothing of them")
            return {"no_pose": f"this map does not know its keypoints in space: {why}"}
        solved = self._poser.solve(seen.keypoints, found, seen.camera, asked.pose_from)
        if isinstance(solved, NoPose):
            return {"no_pose": solved.why}
        return {"pose": self._poser.told(solved, seen.keypoints, seen.camera is None)}

    def _enough(self, seen: Seen, asked: LocateOptions) -> float:
        """The probability from which on a place counts as found."""
        if asked.precision is None:
            return asked.at_least
        verified = seen.keypoints is not None
        least = self.trust.threshold(asked.precision, asked.outside, verified=verified)
        return 2.0 if least is None else least  # no answer is so sure

    def _match(self, found: Candidates, place: int, keypoints: Keypoints | None) -> Match:
        """keypoints: of the photo, if the matching points are to be told."""
        row = int(found.rows[place])
        heading = float(self._cameras[row, 2])
        agreement = found.agreements[place]
        alike = agreement if agreement is not None and agreement.inliers > BY_CHANCE else None
        return Match(
            image=str(self.generation.places.table["image"].iloc[row]),
            row=row,
            position=self.position_of(row),
            heading=None if np.isnan(heading) else heading,
            distance=float(found.distances[place]),
            verified=None if agreement is None else agreement.inliers,
            overlap=None if alike is None else Overlap(*alike.overlap),
            pairs=None if alike is None or keypoints is None else self._pairs(keypoints, row, alike),
        )

    def _pairs(self, keypoints: Keypoints, row: int, alike: Agreement) -> tuple[Pair, ...]:
        there = self.generation.keypoints(row)
        assert there is not None  # or they could not agree
        ours, theirs = alike.pairs.T
        both = np.hstack([keypoints.shares()[ours], there.shares()[theirs]]).round(4)
        return tuple((float(x), float(y), float(u), float(v)) for x, y, u, v in both)

    def _position(self, at: Floats) -> Position:
        easting, northing = float(at[0]), float(at[1])
        projection = self.generation.places.projection
        if projection is None:
            return Position(easting, northing)
        latitude, longitude = to_degrees([easting], [northing], projection)
        return Position(easting, northing, float(latitude[0]), float(longitude[0]))

    # ---- sequences ----

    def _moments(
        self, looked: Iterable[_Looked | Trouble], every: float, asked: LocateOptions
    ) -> Iterator[tuple[_Looked | Trouble, Moment | None]]:
        """Each photo with its moment; none for one that cannot be read. Times count from the first photo on; a photo
        that has none was taken `every` seconds after the one before it."""
        start, last = None, -every
        for one in looked:
            last += every
            if isinstance(one, Trouble):
                yield one, None
                continue
            if one.question.time is not None:
                start = one.question.time - last if start is None else start
                last = one.question.time - start
            yield one, self._moment(one.found, last, asked)

    def _moment(self, found: Candidates, time: float, asked: LocateOptions) -> Moment:
        """The places among the candidates, and the chance of each by this photo alone: of the first, what `locate`
        says."""
        firsts, evidence = places_among(found.distances, found.at, found.inliers, self.within)
        likely = self.trust.probability(evidence, asked.outside)
        alone = np.append(likely, 1.0)
        if len(likely):
            odds = np.append(likely[1:] / np.maximum(1.0 - likely[1:], SURE), 1.0)
            alone[1:] = (1.0 - likely[0]) * odds / odds.sum()
        return Moment(time, found.at[firsts], alone)

    def _believed(
        self, one: _Looked | Trouble, moment: Moment | None, belief: Floats | None, asked: LocateOptions
    ) -> Answer | Trouble:
        """The answer of one moment: the candidates of the likeliest place come first."""
        if isinstance(one, Trouble) or moment is None or belief is None:
            assert isinstance(one, Trouble)
            return one
        if len(belief) == 1:  # nothing was found
            return replace(self._told(one, one.found, 0.0, asked), time=moment.time)
        best = int(np.argmax(belief[:-1]))
        elsewhere = np.linalg.norm(one.found.at - moment.positions[best], axis=1) > self.within
        found = one.found.in_order(np.argsort(elsewhere, kind="stable"))
        return replace(self._told(one, found, float(belief[best]), asked), time=moment.time)

    # ---- what is loaded when it is needed ----

    @cached_property
    def model(self) -> PlaceNet:
        """The network that described the map's photos."""
        from samespot.maps.own_model import load_own

        net: PlaceNet = self._once("model", lambda: load_own(self.generation.folder, self.meta["model"]))
        return net

    @cached_property
    def _engine(self) -> Engine:
        """What finds the nearest photos."""
        made: Engine = self._once("engine", lambda: open_engine(self.generation, self._exact))
        return made

    def _exact(self) -> Engine:
        kept = self.generation.vectors
        held = np.asarray(kept, dtype=np.float32) if len(kept) <= IN_MEMORY else kept
        return Exact(held, str(self.device))

    @property
    def gives_poses(self) -> bool:
        """Whether the map knows its keypoints in space, so that `locate` can tell 6DOF poses."""
        return bool((self.meta.get("geometry") or {}).get("kind"))

    @cached_property
    def _poser(self) -> Poser | None:
        if not self.gives_poses:
            return None
        from samespot.maps.posing import POSE_TURNED, POSE_WITHIN, Poser

        limits = POSE_WITHIN * self.within, POSE_TURNED
        return Poser.of(self.generation, self.trust.facts.get("poses"), limits)

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.generation.places)

    @cached_property
    def _verifier(self) -> Verifier | None:
        facts = self.meta["verifier"]
        if facts is None:
            return None
        from samespot.matching.verification import verifier_named

        made: Verifier = self._once(
            "verifier", lambda: verifier_named(facts["name"], facts["keypoints"], self.device)
        )
        if {"name": made.name, **made.facts()} != facts:
            raise InputError(
                f"{self.generation.folder}: its local features are of another version of {facts['name']};"
                " index the photos into a new folder"
            )
        return made

    @cached_property
    def _describe(self) -> Vectors:
        from samespot.maps.looking import Vectors, query_describer

        dims, whitening = self.generation.vectors.shape[1], self.generation.whitening
        precision = self.generation.precision
        describer = self._once("describer", lambda: query_describer(self.model, self.device, precision))
        return Vectors(self.model.preprocessing, describer, whitening, dims)

    def _once(self, name: str, load: Callable[[], Any]) -> Any:
        """What takes long is loaded once, also where several threads ask for it at the same time."""
        with self._loading:
            if name not in self._loaded:
                self._loaded[name] = load()
            return self._loaded[name]


def _question(photo: Any) -> Question:
    if isinstance(photo, Question):
        return photo
    return Question(str(photo) if isinstance(photo, str | Path) else "photo", photo)
