"""Where the camera of a photo stood, by a map that knows its keypoints in three dimensions; and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.maps.answer import Pose
from samespot.maps.candidates import Candidates, Held
from samespot.matching.keypoints import Keypoints
from samespot.matching.verification import covered
from samespot.places.camera import Camera
from samespot.places.pose import angles_between, rotation_matrices
from samespot.poses.absolute import LEAST as FEW
from samespot.poses.absolute import NoPose, Sights, Solved, sights_from, solve_photo
from samespot.poses.lifting import pixels_of
from samespot.progress import Progress, counting
from samespot.statistics.reliability import reliability
from samespot.statistics.rising import Rising, probability

FROM = 10  # photos of the map that a pose is solved from
LEAST = 15  # right poses and wrong ones: with fewer, nothing can be fitted
FOLDS = 5
ASKED = 80  # photos that a map asks itself about, at most: a pose takes a tenth of a second
POSE_WITHIN, POSE_TURNED = 0.02, 5.0  # a pose is right so near, as a share of `within` of the map; and [deg]
# keypoints that agree; their share of those asked; what part of the photo they cover; how well they fix the centre; how
# many times as many as by chance
EVIDENCE = ("keypoints", "share", "area", "certainty", "contrast")
Floats = NDArray[np.float64]


class Geometric(Held, Protocol):
    """What is asked: a generation of a map that knows where its keypoints are."""

    def points(self, row: int) -> NDArray[np.float32] | None:
        """(n, 3) in the coordinates of the photo's camera; NaN: not known."""


@dataclass(frozen=True, eq=False)
class Poser:
    """Solves for poses."""

    held: Geometric
    centres: Floats  # (n, 3)
    rotations: Floats  # (n, 3, 3) camera to world
    within: tuple[float, float]  # [m], [deg] in which a pose is right
    trust: PoseTrust | None

    @classmethod
    def of(cls, held: Geometric, facts: Mapping[str, Any] | None, within: tuple[float, float]) -> Poser:
        """facts: what `calibrate_poses` told of the map."""
        said = None if facts is None else facts["calibration"]
        trust = None if said is None else PoseTrust.from_dict(said)
        centres, rotations = held.places.centres, rotation_matrices(held.places.quaternions)
        return cls(held, centres, rotations, within if trust is None else trust.within, trust)

    def sights(self, seen: Keypoints, found: Candidates, most: int = FROM) -> Sights:
        """What the first candidates say about where the photo's keypoints are."""
        xy, parts = pixels_of(seen), list[Sights]()
        for row, agreement in zip(found.rows[:most], found.agreements[:most], strict=True):
            points = None if agreement is None else self.held.points(int(row))
            if agreement is None or points is None:
                continue
            place = self.rotations[row], self.centres[row], int(row)
            parts.append(sights_from(xy, agreement.matched, points, *place))
        return Sights.together(parts) if parts else Sights.none()

    def solve(
        self, seen: Keypoints, found: Candidates, camera: Camera | None, most: int = FROM
    ) -> Solved | NoPose:
        """camera: of the photo, at any size; None: its focal length is to be found, too."""
        return solve_photo(self.sights(seen, found, most), camera, seen.size)

    def told(self, solved: Solved, seen: Keypoints, estimated: bool) -> Pose:
        """For an answer. estimated: whether the focal length was found with the pose."""
        evidence = evidence_of(solved, seen, self.within[0])
        x, y, z = solved.centre.tolist()
        qw, qx, qy, qz = solved.quaternion.tolist()
        return Pose(
            centre=(x, y, z),
            quaternion=(qw, qx, qy, qz),
            covariance=tuple(tuple(row) for row in solved.covariance.tolist()),
            inliers=solved.keypoints,
            matches=solved.asked,
            fov=solved.camera.view,
            fov_estimated=estimated,
            probability=None if self.trust is None else self.trust(evidence),
            within=self.within,
        )


def evidence_of(solved: Solved, seen: Keypoints, near: float) -> Floats:
    """(5,) numbers of which more is better. near: [m] scale on which certainty is counted."""
    area = covered(seen, solved.explained)
    return np.array(
        [
            np.log(solved.keypoints),
            np.log(solved.keypoints / max(solved.asked, 1)),
            area,
            -np.log(max(solved.deviation, 1e-3 * near) / near),
            np.log(solved.keypoints / max(solved.by_chance, FEW)),
        ]
    )


@dataclass(frozen=True)
class PoseTrust:
    """The probability that a pose lies within some metres and degrees of the true one."""

    rising: Rising
    within: tuple[float, float]  # [m], [deg]
    facts: Mapping[str, Any]

    @classmethod
    def fit(cls, evidence: Floats, right: NDArray[np.bool_], within: tuple[float, float]) -> PoseTrust | None:
        """From poses (n, 5) of which is known whether they were right; None where there are too few of a kind."""
        hits, misses = int(right.sum()), int((~right).sum())
        if hits < LEAST or misses < LEAST:
            return None
        fold = np.random.default_rng(0).permutation(len(right)) % FOLDS
        held_out = np.empty(len(right))
        for one in range(FOLDS):
            rest = fold != one
            held_out[~rest] = probability(Rising.fit(evidence[rest], right[rest])(evidence[~rest]))
        ece = reliability(held_out, right.astype(float)).ece
        return cls(Rising.fit(evidence, right), within, {"right": hits, "wrong": misses, "ece": ece})

    def __call__(self, evidence: Floats) -> float:
        return float(probability(self.rising(evidence[None])[0]))

    def to_dict(self) -> dict[str, Any]:
        return {"within": list(self.within), "facts": dict(self.facts), **self.rising.to_dict()}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> PoseTrust:
        try:
            metres, degrees = (float(number) for number in said["within"])
            rising = Rising.from_dict(said)
            if len(rising.knots) != len(EVIDENCE):
                raise ValueError("it is of other evidence")
            return cls(rising, (metres, degrees), dict(said["facts"]))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a calibration of poses ({error}); build the map again") from None


def pose_errors(solved: Solved, centre: Floats, quaternion: Floats) -> tuple[float, float]:
    """[m], [deg] from the true pose."""
    off = float(np.linalg.norm(solved.centre - centre))
    return off, float(angles_between(solved.quaternion[None], quaternion[None])[0])


def calibrate_poses(
    poser: Poser,
    rows: Sequence[int],
    seen: Sequence[Keypoints | None],
    cameras: Sequence[Camera | None],
    asked: Sequence[Sequence[Candidates]],
    within: tuple[float, float],
    tell: Progress,
) -> dict[str, Any]:
    """What meta.json says of poses: how often they were right, and their calibration where there is one.

    rows: photos of the map that were asked; asked: for each way of asking, the candidates of each. A pose of a photo
    whose surroundings were left out is wrong, however good it looks.
    """
    evidence, right, errors = list[Floats](), list[bool](), list[tuple[float, float]]()
    some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), ASKED)).round().astype(np.int64)).tolist()
    tried, tick = 0, counting(tell, "solving for poses", len(some) * len(asked))
    for way, candidates in enumerate(asked):
        for one in some:
            row, photo, camera, found = rows[one], seen[one], cameras[one], candidates[one]
            tick(1)
            if photo is None or camera is None:
                continue
            tried += way == 0
            solved = poser.solve(photo, found, camera)
            if isinstance(solved, NoPose):
                continue
            evidence.append(evidence_of(solved, photo, within[0]))
            off = pose_errors(solved, poser.centres[row], poser.held.places.quaternions[row])
            right.append(off[0] <= within[0] and off[1] <= within[1])
            if way == 0:
                errors.append(off)
    metres, degrees = np.array(errors).reshape(-1, 2).T
    told: dict[str, Any] = {
        "within": list(within),
        "asked": tried,
        "solved": len(errors),
        "right": int(((metres <= within[0]) & (degrees <= within[1])).sum()),
        "median [m]": float(np.median(metres)) if len(metres) else None,
        "median [deg]": float(np.median(degrees)) if len(degrees) else None,
    }
    trust = PoseTrust.fit(np.array(evidence).reshape(-1, len(EVIDENCE)), np.array(right, dtype=bool), within)
    return {**told, "calibration": None if trust is None else trust.to_dict()}
