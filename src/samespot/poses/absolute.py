"""Where a camera stood, from points of its photo whose place in the world is known.

    sights of several map photos ─► groups that see the same things ─► LO-RANSAC of P3P in each ─► the pose that
    explains most keypoints ─► refined on all that it explains, with its covariance

How many keypoints agree by chance depends on the scene: windows in rows agree with many poses. So the photo is also
solved mirrored, which no pose explains: what agrees then does so by chance.

A pose is told as in tables of places: the centre, and the quaternion of the camera-to-world rotation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.matching.local_features import needed
from samespot.places.camera import Camera
from samespot.places.pose import quaternions

PIXELS = 6.0  # of 640 along the longer side, that a keypoint may be off
LEAST = 12  # keypoints that must agree: of unrelated photos, some do by chance
CLEAR = 0.5  # of the keypoints: where more agree, no chance is asked about
FEWEST = 4  # sights without which nothing is tried: one more than any pose goes through
GROUPS = 3  # of the candidates that are tried, besides all of them together
SHARED, NEAR = (
    3,
    0.1,
)  # sights of the same keypoints, so near by their distance, that put two candidates together
TRIES = 10_000  # poses that are tried at most
ASSUMED = 65.0  # [deg] that the longer side shows, to begin with where nobody says
VIEWS = (30.0, 40.0, 50.0, 60.0, 70.0, 85.0)  # [deg] that the longer side may show, where nobody says
NARROW, WIDE = 10.0, 140.0  # [deg] beyond which no lens is believed
STEPS = 20  # of the refinement, at most
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sights:
    """Keypoints of a photo, and where in the world the map says that they are; a keypoint may have several."""

    xy: Floats  # (n, 2) [px]
    world: Floats  # (n, 3)
    keypoint: Rows  # (n,) number of the keypoint in the photo
    candidate: Rows  # (n,) number of the map photo that says so
    depth: Floats  # (n,) distance from that photo's camera

    def __len__(self) -> int:
        return len(self.xy)

    def select(self, rows: Any) -> Sights:
        return Sights(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def mirrored(self, camera: Camera) -> Sights:
        return replace(self, xy=np.stack([camera.width - self.xy[:, 0], self.xy[:, 1]], axis=1))

    @classmethod
    def none(cls) -> Sights:
        return cls(np.zeros((0, 2)), np.zeros((0, 3)), *(np.zeros(0, dtype=np.int64),) * 2, np.zeros(0))

    @classmethod
    def together(cls, parts: list[Sights]) -> Sights:
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def sights_from(
    xy: Floats, pairs: Rows, points: NDArray[np.float32], rotation: Floats, centre: Floats, candidate: int
) -> Sights:
    """What one map photo says about where keypoints of a photo are.

    xy: (n, 2) [px] of the photo's keypoints; pairs: (k, 2) of them and of the map photo's that look the same; points:
    those of the map photo in its camera's coordinates, NaN where not known; rotation, centre: its pose.
    """
    ours, theirs = pairs.T
    known = np.isfinite(points[theirs]).all(axis=1)
    ours, there = ours[known], points[theirs[known]].astype(np.float64)
    return Sights(xy[ours], there @ rotation.T + centre, ours, np.full(len(ours), candidate), there[:, 2])


@dataclass(frozen=True, eq=False)
class Solved:
    """A pose, and what speaks for it."""

    centre: Floats  # (3,)
    quaternion: Floats  # (4,) qw qx qy qz, camera to world
    covariance: Floats  # (6, 6) of the centre [m²] and of a small turn about the camera's axes [rad²]
    camera: Camera  # as given, or as found
    explained: Rows  # (k,) numbers of the keypoints that agree with it
    asked: int  # different keypoints that had a sight
    by_chance: int = 0  # that agree if the photo is mirrored, which no pose explains; 0: hardly any can

    @property
    def keypoints(self) -> int:
        """How many agree."""
        return len(self.explained)

    @property
    def deviation(self) -> float:
        """[m] of the centre, along its least certain direction."""
        return float(np.sqrt(np.linalg.eigvalsh(self.covariance[:3, :3])[-1]))


@dataclass(frozen=True)
class NoPose:
    """Why there is none."""

    why: str


@dataclass(frozen=True, eq=False)
class _Pose:
    """World to camera: x -> rotation @ (x - centre)."""

    rotation: Floats
    centre: Floats
    focal: float = 1.0  # times that of the camera


def solve_photo(sights: Sights, camera: Camera | None, size: tuple[int, int]) -> Solved | NoPose:
    """The pose of a photo that was looked at in this size (h, w). camera: at any size; None: its focal length is found,
    too."""
    height, width = size
    if camera is not None:
        return solve(sights, camera.scaled(height, width))
    return solve(sights, Camera.of_longer(width, height, ASSUMED), focal_known=False)


def solve(sights: Sights, camera: Camera, *, focal_known: bool = True, seed: int = 0) -> Solved | NoPose:
    """The pose that explains most of the keypoints. camera: of the photo; where its focal length is not known, it is
    looked for, and the one given counts for nothing."""
    asked = len(np.unique(sights.keypoint))
    if asked < FEWEST:
        return NoPose(f"{asked} keypoints have a known place; a pose needs {LEAST}")
    pixels = PIXELS * max(camera.width, camera.height) / 640.0
    lenses = [camera] if focal_known else list(_lenses(camera))
    most, best = _best(sights, lenses, pixels, seed)
    if best is None or most < LEAST:
        return NoPose(f"only {most} of {asked} keypoints agree on a pose; {LEAST} are needed")
    lens, found = best
    solved = _told(sights, lens, _refined(sights, lens, found, pixels, focal_known), pixels, focal_known)
    if isinstance(solved, NoPose) or solved.keypoints > CLEAR * asked:
        return solved
    by_chance, _ = _best(sights.mirrored(lens), [lens], pixels, seed)
    if by_chance >= solved.keypoints:
        return NoPose(
            f"{solved.keypoints} of {asked} keypoints agree on a pose, and {by_chance} would if the photo were mirrored"
        )
    return replace(solved, by_chance=by_chance)


def _best(
    sights: Sights, lenses: list[Camera], pixels: float, seed: int
) -> tuple[int, tuple[Camera, _Pose] | None]:
    """The pose that most different keypoints agree with, its camera, and how many do."""
    best, most = None, 0
    for lens in lenses:
        for group in _groups(sights):
            pose = _ransac(sights.select(group), lens, pixels, seed)
            if pose is None:
                continue
            count = _different(sights, _errors(sights, lens, pose) <= pixels)
            if count > most:
                best, most = (lens, pose), count
    return most, best


def _lenses(camera: Camera) -> Iterator[Camera]:
    longer = max(camera.width, camera.height)
    for view in VIEWS:
        focal = 0.5 * longer / math.tan(0.5 * math.radians(view))
        yield replace(camera, fx=focal, fy=focal)


def _told(
    sights: Sights, camera: Camera, pose: _Pose | None, pixels: float, focal_known: bool
) -> Solved | NoPose:
    asked = len(np.unique(sights.keypoint))
    if pose is None:
        return NoPose("the keypoints that agree do not fix a pose: they lie on a line, or close together")
    lens = replace(camera, fx=camera.fx * pose.focal, fy=camera.fy * pose.focal)
    view = math.degrees(2.0 * math.atan(0.5 * max(lens.width, lens.height) / max(lens.fx, lens.fy)))
    if not NARROW <= view <= WIDE:
        return NoPose(f"the keypoints ask for a lens of {view:.0f}°; give the focal length of the camera")
    found = replace(pose, focal=1.0)
    good = np.flatnonzero(_errors(sights, lens, found) <= pixels)
    count = _different(sights, good)
    if count < LEAST:
        return NoPose(f"only {count} of {asked} keypoints agree on a pose; {LEAST} are needed")
    covariance = _covariance(sights.select(good), lens, found, focal_known)
    if covariance is None:
        return NoPose("the keypoints that agree do not fix a pose: they lie on a line, or close together")
    quaternion = quaternions(found.rotation.T[None])[0]
    return Solved(found.centre, quaternion, covariance, lens, np.unique(sights.keypoint[good]), asked)


# ---- which sights belong together ----


def _groups(sights: Sights) -> Iterator[Rows]:
    """All sights; then those of candidates that see the same things where the others do, the largest groups first."""
    yield np.arange(len(sights))
    group = _seeing_the_same(sights)
    numbers, sizes = np.unique(group, return_counts=True)
    if len(numbers) == 1:
        return
    for number in numbers[np.argsort(-sizes, kind="stable")][:GROUPS]:
        rows = np.flatnonzero(group == number)
        if len(np.unique(sights.keypoint[rows])) >= FEWEST:
            yield rows


def _seeing_the_same(sights: Sights) -> Rows:
    """(n,) number of the group of each sight's candidate."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    names, candidate = np.unique(sights.candidate, return_inverse=True)
    together = np.zeros((len(names), len(names)), dtype=np.int64)
    for rows in _by_keypoint(sights.keypoint):
        a, b = (one.reshape(-1) for one in np.meshgrid(rows, rows))
        apart = np.linalg.norm(sights.world[a] - sights.world[b], axis=1)
        near = apart <= NEAR * np.minimum(sights.depth[a], sights.depth[b])
        np.add.at(together, (candidate[a[near]], candidate[b[near]]), 1)
    _, group = connected_components(coo_array(together >= SHARED), directed=False)
    found: Rows = group[candidate].astype(np.int64)
    return found


def _by_keypoint(keypoint: Rows) -> list[Rows]:
    """The sights of each keypoint that has several."""
    order = np.argsort(keypoint, kind="stable")
    ends = np.flatnonzero(np.diff(keypoint[order])) + 1
    return [rows for rows in np.split(order, ends) if len(rows) > 1]


def _different(sights: Sights, rows: Any) -> int:
    return len(np.unique(sights.keypoint[rows]))


# ---- poses ----


def _ransac(sights: Sights, camera: Camera, pixels: float, seed: int) -> _Pose | None:
    poselib = needed("poselib", "solving for poses")
    if len(sights) < FEWEST:
        return None
    focal = float(np.sqrt(camera.fx * camera.fy))
    lens = {"model": "SIMPLE_PINHOLE", "width": 1, "height": 1, "params": [focal, 0.0, 0.0]}
    flat = camera.rays(sights.xy) * focal
    origin = np.median(sights.world, axis=0)  # coordinates may be of a whole country
    tries = {"max_reproj_error": pixels, "max_iterations": TRIES, "min_iterations": 200, "seed": seed}
    found, facts = poselib.estimate_absolute_pose(flat, sights.world - origin, lens, tries, {})
    if not facts["num_inliers"]:
        return None
    rotation = np.asarray(found.R)
    return _Pose(rotation, origin - rotation.T @ np.asarray(found.t))


def _errors(sights: Sights, camera: Camera, pose: _Pose) -> Floats:
    """(n,) [px]; inf behind the camera."""
    seen = (sights.world - pose.centre) @ pose.rotation.T
    off = np.linalg.norm(camera.pixels(seen) - sights.xy, axis=1)
    return np.where(np.isnan(off), np.inf, off)


def _equations(sights: Sights, camera: Camera, pose: _Pose) -> tuple[Floats, Floats]:
    """Residuals (n, 2) [px] without distortion; their slopes (n, 2, 7) by centre, turn and log focal length."""
    focal = np.array([camera.fx, camera.fy]) * pose.focal
    flat = camera.rays(sights.xy) * (camera.fx, camera.fy)
    seen = (sights.world - pose.centre) @ pose.rotation.T
    z = seen[:, 2]
    z = np.where(np.abs(z) > 1e-9, z, 1e-9)
    over = seen[:, :2] / z[:, None]
    slopes = np.zeros((len(seen), 2, 3))  # of the pixel by the point in camera coordinates
    slopes[:, 0, 0], slopes[:, 1, 1] = focal[0] / z, focal[1] / z
    slopes[:, :, 2] = -focal * over / z[:, None]
    cross = np.zeros((len(seen), 3, 3))  # of the point by a turn: -[seen]x
    cross[:, 0, 1], cross[:, 0, 2], cross[:, 1, 2] = seen[:, 2], -seen[:, 1], seen[:, 0]
    cross -= cross.transpose(0, 2, 1)
    by = np.concatenate([slopes @ -pose.rotation, slopes @ cross, (focal * over)[:, :, None]], axis=2)
    return over * focal - flat, by


def _weights(sights: Sights) -> Floats:
    """(n,) sights of one keypoint count once together: their errors are of one."""
    _, which, counts = np.unique(sights.keypoint, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[which])


def _refined(sights: Sights, camera: Camera, pose: _Pose, pixels: float, focal_known: bool) -> _Pose | None:
    """The least squares of what the pose explains, each sight weighing less the farther it is off (Cauchy)."""
    from scipy.spatial.transform import Rotation

    free = 6 if focal_known else 7
    for _ in range(STEPS):
        lens = replace(camera, fx=camera.fx * pose.focal, fy=camera.fy * pose.focal)
        mine = sights.select(_errors(sights, lens, pose) <= pixels)
        if _different(mine, slice(None)) < FEWEST:
            return None
        off, by = _equations(mine, camera, pose)
        by = by[:, :, :free]
        scale = max(0.5, 1.4826 * float(np.median(np.linalg.norm(off, axis=1))))
        share = _weights(mine) / (1.0 + (off**2).sum(axis=1) / scale**2)
        normal = np.einsum("nij,n,nik->jk", by, share, by)
        try:
            step = -np.linalg.solve(normal, np.einsum("nij,n,ni->j", by, share, off))
        except np.linalg.LinAlgError:
            return None
        turn = Rotation.from_rotvec(step[3:6]).as_matrix()
        focal = pose.focal * (1.0 if focal_known else math.exp(float(np.clip(step[6], -0.5, 0.5))))
        pose = _Pose(turn @ pose.rotation, pose.centre + step[:3], focal)
        if not np.isfinite(step).all():
            return None
        if np.linalg.norm(step[3:6]) < 1e-7 and np.linalg.norm(step[:3]) < 1e-7 * np.median(mine.depth):
            break
    return pose


def _covariance(sights: Sights, camera: Camera, pose: _Pose, focal_known: bool) -> Floats | None:
    """(6, 6) of the centre and the turn, by how far the sights are off; None where they do not fix them."""
    off, by = _equations(sights, camera, pose)
    by = by[:, :, : 6 if focal_known else 7]
    share = _weights(sights)
    spread = max(0.5, 1.4826 * float(np.median(np.abs(off))))
    normal = np.einsum("nij,n,nik->jk", by, share, by)
    scales = np.sqrt(np.diag(normal))
    if not (scales > 0).all() or np.linalg.cond(normal / np.outer(scales, scales)) > 1e8:
        return None
    found: Floats = spread**2 * np.linalg.inv(normal)[:6, :6]
    return found
