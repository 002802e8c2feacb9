"""A map asks itself how far to trust it: of its own photos it knows where they were taken.

A sample of them is looked up among the others, once as they are and once with their surroundings taken out, so that
the map also learns what an answer looks like to a photo that it does not hold. From the answers a calibration is
fitted (`Trust`).

A photo's own visit would answer too easily, so photos of it are left out where the map was photographed more than
once; else those of its moment; else those that stand where it stands and look the same way. And real questions are
asked in other light and by other cameras: the photos are changed before they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.cores import cores
from samespot.devices import one_torch_thread
from samespot.errors import InputError
from samespot.images.reading import read_image
from samespot.maps.candidates import LISTED, VERIFIED, Candidates, Held, candidates_of
from samespot.maps.evidence import EVIDENCE
from samespot.maps.options import WITHIN
from samespot.maps.standing import standing
from samespot.maps.trust import CannotCalibrateError, Trust
from samespot.matching.keypoints import Keypoints
from samespot.matching.verification import Agreement, Verifier
from samespot.model.network import PlaceNet
from samespot.model.shipped import DEFAULT_MODEL, SHIPPED
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import label_within
from samespot.places.camera import Camera, camera_of
from samespot.places.table import Places
from samespot.progress import Progress, counting, silent
from samespot.retrieval import exclusion
from samespot.retrieval.search import search
from samespot.storage import StorageError
from samespot.training.augment import draw_augmentation

REACH = 4.0  # times as far, two photos share nothing
QUESTIONS = 200  # photos that are asked, at most: with 80 the probabilities are off by 0.05, with 150 by 0.04
VISIT = 3600.0  # [s] without a photo between two visits
MOMENT = 60.0  # [s]
SAME_SPOT, SAME_WAY = 2.0, 10.0  # [m], [deg]
STRENGTH, CROP = 1.0, 0.3  # of the changes to a photo before it is asked
ENOUGH = 0.5  # of the photos must be findable without those that are left out
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]
Describe = Callable[[Tensor], NDArray[Any]]  # one image, uint8 RGB (3, h, w) -> vector as the map holds them


@dataclass(frozen=True)
class Answers:
    """To some questions."""

    rows: Rows  # (q,) the first match; -1: nothing was found
    at: Floats  # (q, 2) [m] the position that is answered; NaN: nothing was found
    evidence: Floats  # (q, 5)

    def off(self, truth: Floats) -> Floats:
        """(q,) [m] from where the photos were taken, (q, 2); inf where nothing was found."""
        apart: Floats = np.linalg.norm(self.at - truth, axis=1)
        return np.where(np.isnan(apart), np.inf, apart)


@dataclass(frozen=True)
class Asked:
    """The answers as the descriptors alone give them, and after they were verified."""

    plain: Answers
    verified: Answers | None  # None without a verifier
    agreements: list[Agreement | None]  # of the verified answers
    candidates: list[Candidates]  # of each question, as verified as can be


def ask(
    held: Held,
    vectors: NDArray[Any],
    keypoints: Sequence[Keypoints | None],
    verifier: Verifier | None,
    *,
    lenses: Sequence[Camera | None] | None = None,
    excluded: exclusion.Exclusion | None = None,
    within: float = WITHIN,
    candidates: int = VERIFIED,
    tick: Callable[[int], None] | None = None,
) -> Asked:
    """The answers to photos described by vectors (q, dims) and keypoints. lenses: their cameras, where known."""
    found = search(vectors, held.vectors, LISTED, excluded=excluded, device="cpu")
    plain, verified, cameras = [], [], held.places.positions
    at = cameras[:, :2]
    for query, mine in enumerate(keypoints):
        known = found.rows[query] >= 0
        listed = found.rows[query][known], found.distances[query][known]
        plain.append(candidates_of(held, at, *listed, None, None, within))
        verified.append(candidates_of(held, at, *listed, mine, verifier, within, candidates))
        if tick is not None:
            tick(1)
    agreements = [one.agreements[0] if len(one.rows) else None for one in verified]
    nothing, lenses = [None] * len(plain), lenses or [None] * len(plain)
    told = _answers(held, cameras, plain, nothing, nothing, within)
    checked = None if verifier is None else _answers(held, cameras, verified, keypoints, lenses, within)
    return Asked(told, checked, agreements, verified)


def _answers(
    held: Held,
    cameras: Floats,
    given: list[Candidates],
    keypoints: Sequence[Keypoints | None],
    lenses: Sequence[Camera | None],
    within: float,
) -> Answers:
    rows = np.array([one.rows[0] if len(one.rows) else -1 for one in given], dtype=np.int64)
    at = [
        standing(held, cameras, one, mine, within, lens).position if len(one.rows) else (np.nan, np.nan)
        for one, mine, lens in zip(given, keypoints, lenses, strict=True)
    ]
    evidence = np.array([one.evidence for one in given]).reshape(-1, len(EVIDENCE))
    return Answers(rows, np.array(at, dtype=np.float64).reshape(-1, 2), evidence)


def calibrate(
    held: Held,
    model: PlaceNet,
    verifier: Verifier | None,
    *,
    within: float = WITHIN,
    questions: int = QUESTIONS,
    candidates: int = VERIFIED,
    describe: Describe | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Trust:
    """The calibration of a map: its own, or where its photos cannot teach it, the model's, marked as such.

    within: [m] how far an answer may be from the truth and still be right. questions: photos that are asked, at most.
    describe: from one image, uint8 RGB (3, h, w), to a vector (dims,) as the map holds them. With it the photos are
    asked in other light and cut differently; without, as they are.
    """
    poses: dict[str, Any] = {}
    try:
        asked = _questions(held, within, questions, seed)
        vectors, keypoints, cut = _changed(held, asked.rows, describe, verifier, seed, progress or silent)
        photos = _Photos(vectors, keypoints, _cameras(held, asked.rows, keypoints, cut))
        answers = _asked(held, asked, photos, verifier, within, candidates, progress or silent)
        poses = _pose_facts(held, asked, photos, answers, within, progress or silent)
        trust = _fitted(held, asked, answers, within)
        trust = replace(trust, facts={**trust.facts, "photos changed": describe is not None})
    except CannotCalibrateError as error:
        trust = model_trust(model, str(error))
    return replace(trust, facts={**trust.facts, **poses})


def model_trust(model: PlaceNet, reason: str) -> Trust:
    """What the model's folder says, of places where it was tried; `reason`: why the map has no calibration itself.

    Where the model says nothing either, what samespot's own model says.
    """
    said, source = model.calibration, "model"
    if said is None:
        said, source = PlaceNet.load(SHIPPED[DEFAULT_MODEL].folder).calibration, "another model"
    assert said is not None
    made = Trust.from_dict(said)
    return replace(made, source=source, facts={**made.facts, "why not of the map": reason})


@dataclass(frozen=True)
class _Questions:
    """Photos of the map to ask, and what each must not be answered with."""

    rows: Rows  # (q,) of the map
    left_out: exclusion.Exclusion  # when it is asked as it is
    surroundings: exclusion.Exclusion  # and when it must not be found
    findable: Bools  # (q,) whether something near is left to be found
    how: str


def _questions(held: Held, within: float, most: int, seed: int) -> _Questions:
    """A sample of the photos, each without those that would answer too easily.

    The strictest way of leaving photos out is taken with which enough photos can still be found.
    """
    known = np.flatnonzero(np.asarray(held.vectors).any(axis=1))
    dice = np.random.default_rng(seed)
    rows = np.sort(dice.choice(known, most, replace=False)) if len(known) > most else known
    asked, there = held.places.select(rows), held.places
    near = label_within(asked, there, within)
    far = label_within(asked, there, REACH * within)
    for how, out in _too_easy(asked, there):
        findable = _any_left(near, out)
        if findable.mean() >= ENOUGH:
            surroundings = exclusion.any_of(out, exclusion.pairs(far.indptr, far.columns, far.shape))
            return _Questions(rows, out, surroundings, findable, how)
    raise CannotCalibrateError(
        f"of {len(rows)} photos asked, {int(findable.sum())} have another within {within:g} m to be found by"
    )


def _any_left(near: PairLabels, out: exclusion.Exclusion) -> Bools:
    """(q,) whether a photo near each question may be found."""
    left = np.zeros(near.shape[0], dtype=bool)
    for query in range(near.shape[0]):
        columns = near.columns[near.indptr[query] : near.indptr[query + 1]]
        if len(columns):
            first, last = int(columns.min()), int(columns.max()) + 1
            gone = out(slice(query, query + 1), slice(first, last))[0]
            left[query] = bool((~gone[columns - first]).any())
    return left


def _too_easy(asked: Places, there: Places) -> Iterator[tuple[str, exclusion.Exclusion]]:
    """Ways of leaving out what answers too easily, the strictest first: with what words, and what is out.

    A photo that says neither its sequence nor its time is asked without those from its own spot.
    """
    itself = exclusion.same_name(asked.table["image"], there.table["image"])
    spot = _same_spot(asked, there)

    def way(told: Bools, same: exclusion.Exclusion) -> exclusion.Exclusion:
        return exclusion.any_of(itself, same, _of_rows(~told, spot))

    if "sequence" in there.table and there.table["sequence"].nunique() > 1:
        told = asked.table["sequence"].notna().to_numpy()
        if told.mean() >= ENOUGH:
            same = exclusion.same_name(asked.table["sequence"], there.table["sequence"])
            yield "without the photos of its own sequence", way(told, same)
    seconds, others = asked.seconds(), there.seconds()
    told = np.isfinite(seconds)
    if told.mean() >= ENOUGH and np.nanmax(others) > np.nanmin(others):
        for gap, words in ((VISIT, "hour"), (MOMENT, "minute")):
            same = exclusion.time_gap(seconds, others, gap)
            yield f"without the photos of its own {words}", way(told, same)
    yield "without the photos from its own spot", exclusion.any_of(itself, spot)


def _of_rows(rows: Bools, excluded: exclusion.Exclusion) -> exclusion.Exclusion:
    """The same, but only for some of the questions."""

    def out(q: slice, m: slice) -> Bools:
        some: Bools = excluded(q, m) & rows[q, None]
        return some

    return out


def _same_spot(asked: Places, there: Places) -> exclusion.Exclusion:
    """What was taken where the photo was taken, and looks the same way as far as that is known."""
    a, b = asked.positions, there.positions

    def out(q: slice, m: slice) -> Bools:
        apart = np.hypot(a[q, None, 0] - b[None, m, 0], a[q, None, 1] - b[None, m, 1])
        turned = np.abs((a[q, None, 2] - b[None, m, 2] + 180.0) % 360.0 - 180.0)
        same: Bools = (apart < SAME_SPOT) & ~(turned > SAME_WAY)
        return same

    return out


def _changed(
    held: Held,
    rows: Rows,
    describe: Describe | None,
    verifier: Verifier | None,
    seed: int,
    tell: Progress,
) -> tuple[NDArray[Any], list[Keypoints | None], NDArray[np.float32]]:
    """Vectors and keypoints of the photos to ask, in other light and cut differently where `describe` is given; and
    (n, 4) how they were cut, as `Augmentation` tells it.

    A photo that cannot be read any more is asked as the map holds it.
    """
    vectors, keypoints = np.array(held.vectors[rows]), [held.keypoints(int(row)) for row in rows]
    cut = np.tile(np.array([1, 1, 0, 0], dtype=np.float32), (len(rows), 1))
    if describe is None:
        return vectors, keypoints, cut
    changes = draw_augmentation(seed, 0, len(rows), STRENGTH, CROP)

    def look(number: int, path: Path) -> tuple[NDArray[Any], Keypoints | None] | None:
        try:
            image = read_image(path)
        except StorageError:
            raise
        except InputError:
            return None
        other = changes[np.array([number])](image[None]).round().to(torch.uint8)[0]
        return describe(other), None if verifier is None else verifier.extract(other)

    tick = counting(tell, "changing photos to ask", len(rows))
    paths = held.places.select(rows).images
    with one_torch_thread(), ThreadPoolExecutor(cores(), thread_name_prefix="photos") as pool:
        for number, looked in enumerate(pool.map(look, range(len(paths)), paths)):
            if looked is not None:
                vectors[number], keypoints[number] = looked
                cut[number] = changes.crop[number]
            tick(1)
    return vectors, keypoints, cut


def _cameras(
    held: Held, rows: Rows, keypoints: Sequence[Keypoints | None], cut: NDArray[np.float32]
) -> list[Camera | None]:
    """Of the photos to ask, as they were cut."""
    found: list[Camera | None] = []
    for row, photo, (wide, tall, right, down) in zip(rows, keypoints, cut.tolist(), strict=True):
        lens = None if photo is None else camera_of(held.places.table, int(row), photo.size)
        found.append(None if lens is None else lens.cut((wide, right), (tall, down)))
    return found


@dataclass(frozen=True, eq=False)
class _Photos:
    """As they are asked."""

    vectors: NDArray[Any]
    keypoints: list[Keypoints | None]
    cameras: list[Camera | None]


def _asked(
    held: Held,
    asked: _Questions,
    photos: _Photos,
    verifier: Verifier | None,
    within: float,
    candidates: int,
    tell: Progress,
) -> tuple[Asked, Asked]:
    """The answers to the photos as they are, and with their surroundings taken out."""
    how: dict[str, Any] = {
        "within": within,
        "candidates": candidates,
        "lenses": photos.cameras,
        "tick": counting(tell, "asking itself", 2 * len(asked.rows)),
    }
    given = photos.vectors, photos.keypoints, verifier
    inside = ask(held, *given, excluded=asked.left_out, **how)
    return inside, ask(held, *given, excluded=asked.surroundings, **how)


def _fitted(held: Held, asked: _Questions, answers: tuple[Asked, Asked], within: float) -> Trust:
    here = held.places.positions[asked.rows, :2]
    inside, outside = answers
    cells = np.floor(here / (2 * within)).astype(np.int64)
    place = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
    evidence, right, known, groups, errors = [], [], [], [], np.zeros(0)
    for kind in ("plain", "verified"):
        found, strange = getattr(inside, kind), getattr(outside, kind)
        if found is not None:
            off = found.off(here)[asked.findable]
            errors = off[off <= within]  # of the verified ones, where there are any
            evidence += [found.evidence[asked.findable], strange.evidence]
            right += [off <= within, np.zeros(len(here), dtype=bool)]
            known += [np.ones(int(asked.findable.sum()), dtype=bool), np.zeros(len(here), dtype=bool)]
            groups += [place[asked.findable], place]
    return Trust.fit(
        *(np.concatenate(parts) for parts in (evidence, right, known)),
        groups=np.concatenate(groups),
        facts={
            "photos asked": len(here),
            "how": asked.how,
            "within": within,
            "surroundings [m]": REACH * within,
            "median error [m]": float(np.median(errors)) if len(errors) else None,
        },
    )


def _pose_facts(
    held: Held,
    asked: _Questions,
    photos: _Photos,
    answers: tuple[Asked, Asked],
    within: float,
    tell: Progress,
) -> dict[str, Any]:
    """How good the poses of a map are that gives some."""
    if not getattr(held, "known_points", None):
        return {}
    from samespot.maps.posing import POSE_TURNED, POSE_WITHIN, Poser, calibrate_poses

    ways, limits = [one.candidates for one in answers], (POSE_WITHIN * within, POSE_TURNED)
    given = asked.rows.tolist(), photos.keypoints, photos.cameras
    poser = Poser.of(held, None, limits)  # type: ignore[arg-type]
    return {"poses": calibrate_poses(poser, *given, ways, limits, tell)}
