"""Where a photo was taken and which way it looks, from matched photos of which only GPS and compass are known.

The essential matrix of the photo and a match says how the one is turned against the other, and in which direction, but
not how far, it stands from it. Points that several matches show tell how the distances compare: what is half as far
away shifts a point half as much. So the photo and its matches form a figure on the ground that is known up to its
size, and it is laid onto the positions of the matches as well as it fits, turned as their compasses say.

How large the figure is, a single match cannot tell, nor can several that stand at one spot. Streets look alike in one
respect, though: what is seen stands some ten metres away. This prior also keeps the answer among the matches where
there is no parallax: then the figure is a point, and the answer the mean of their positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samespot.matching.keypoints import Keypoints
from samespot.matching.local_features import needed
from samespot.places.camera import Camera

EPIPOLAR = 3.0  # [pixels] of the photos as they were looked at that a match may be off the geometry
TRIES = 500  # geometries that are tried at most
FEWEST = 12  # pairs that a geometry must explain
PLANE, ROUGHLY = 8.0, 25.0  # [pixels] off the homography: of pairs that it explains, and roughly so
TURN_OFF, TILT = (
    8.0,
    4.0,
)  # [deg] by which the turn differs from the one of far things, and photos from upright
RISE = 0.2  # the match stands so much higher or lower, of its distance
WAYS = 8  # directions that are tried
ROUNDS = 10
GPS, GPS_SHARED = (
    4.0,
    0.5,
)  # [m] deviation in each direction, and the share of it that all photos have in common
COMPASS, COMPASS_SHARED = 10.0, 5.0  # [deg]
AROUND = 6.0  # [m] standard deviation in each direction of where the photo is taken to be before all this
DEPTH, DEPTH_FACTOR = 15.0, 2.0  # [m] of what is seen, and the factor by which it is typically off
SHAPE, FEW = (
    0.15,
    10.0,
)  # of a distance in the figure: by how much it may be off, and the more, the fewer pairs
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sight:
    """A photo as it was looked at, and its camera."""

    keypoints: Keypoints
    camera: Camera

    def rays(self) -> Floats:
        """(n, 2) x/z and y/z of the keypoints."""
        camera = self.camera.scaled(*self.keypoints.size)
        return camera.rays(self.keypoints.xy.astype(np.float64) + 0.5)  # they are pixel indices

    @property
    def focal(self) -> float:
        """[pixels] of the photo as it was looked at."""
        return self.camera.scaled(*self.keypoints.size).fx


@dataclass(frozen=True, eq=False)
class Placed:
    """A photo of the map."""

    sight: Sight
    position: Floats  # (2,) easting, northing [m]
    heading: float  # [deg] clockwise from north


@dataclass(frozen=True, eq=False)
class GroundPose:
    """Where a photo was taken and which way it looks."""

    position: Floats  # (2,) easting, northing [m]
    covariance: Floats  # (2, 2) [m²] of the position
    heading: float  # [deg] clockwise from north
    heading_deviation: float  # [deg] standard deviation
    agreed: int  # matches that fit

    @property
    def radius(self) -> float:
        """[m] around the position within which the photo was taken, half of the time."""
        return float(1.177 * np.sqrt(0.5 * np.trace(self.covariance)))


@dataclass(frozen=True, eq=False)
class Relative:
    """What two views tell of a match, in the camera's frame of the photo that is asked about."""

    rotation: Floats  # (3, 3) from that frame to the one of the match
    centre: Floats  # (3,) where the match stands, in units of its distance
    rows: NDArray[np.int64]  # (k,) keypoints of the photo that both show
    shift: Floats  # (k,) inverse depth of each, in units of the distance
    weight: Floats  # (k,) how well it is known

    @property
    def turned(self) -> float:
        """[deg] by which the photo looks farther to the right than the match."""
        ahead = self.rotation[:, 2]
        return float(np.degrees(np.arctan2(ahead[0], ahead[2])))


def relative(asked: Sight, match: Sight) -> Relative | None:
    """The geometry of two views; None where no sensible one explains enough pairs.

    Of few pairs, most of them wrong, the essential matrix that explains most is often nonsense. So only pairs are
    taken that a homography explains roughly, and of all geometries that start from its turn, with the match in any
    direction on the ground, the best one that leaves both photos upright.
    """
    poselib = needed("poselib", "poses")
    from samespot.matching.verification import mutual_pairs  # torch: a map is opened without it

    pairs = mutual_pairs(asked.keypoints.unit(), match.keypoints.unit())
    if len(pairs) < FEWEST:
        return None
    here, there = asked.rays()[pairs[:, 0]] * asked.focal, match.rays()[pairs[:, 1]] * match.focal
    tries = {"max_reproj_error": PLANE, "max_iterations": TRIES, "min_iterations": 100, "seed": 0}
    plane, said = poselib.estimate_homography(here, there, tries, {})
    flat = np.asarray(said["inliers"], dtype=bool)
    if flat.sum() < FEWEST or _mirrors(np.asarray(plane), here[flat].mean(axis=0)):
        return None
    roughly = np.hypot(*(_mapped(np.asarray(plane), here) - there).T) < ROUGHLY
    pairs, here, there, flat = pairs[roughly], here[roughly], there[roughly], flat[roughly]
    a, b = _homogeneous(here / asked.focal), _homogeneous(there / match.focal)
    turn, nod = (float(np.median(one[flat])) for one in _angles(a, b))
    best: tuple[float, Relative] | None = None
    cameras = _pinhole(asked.focal), _pinhole(match.focal)
    for way in np.linspace(0.0, 2 * np.pi, WAYS, endpoint=False):
        start = poselib.CameraPose()
        start.R, start.t = _turn(turn, nod), np.array([np.sin(way), 0.0, np.cos(way)])
        loss = {"loss_type": "CAUCHY", "loss_scale": EPIPOLAR, "max_iterations": 30}
        pose, _ = poselib.refine_relative_pose(here, there, start, *cameras, loss)
        one = _judged(np.asarray(pose.R), np.asarray(pose.t), a, b, pairs[:, 0], turn, asked.focal)
        if best is None or one[0] < best[0]:
            best = one
    assert best is not None
    return best[1] if len(best[1].rows) >= FEWEST else None


def _judged(
    rotation: Floats, moved: Floats, a: Floats, b: Floats, rows: NDArray[np.int64], turn: float, focal: float
) -> tuple[float, Relative]:
    """How bad a geometry is, in pairs that it does not explain; and what it tells."""
    moved = moved / max(float(np.linalg.norm(moved)), 1e-12)
    essential = np.cross(np.eye(3), moved) @ rotation
    line, back = a @ essential.T, b @ essential
    sampson = (b * line).sum(axis=1) ** 2 / ((line[:, :2] ** 2).sum(axis=1) + (back[:, :2] ** 2).sum(axis=1))
    # b is parallel to R a + t / depth
    turned, shifted = np.cross(b, a @ rotation.T), np.cross(b, moved)
    weight = (shifted**2).sum(axis=1) / (b**2).sum(axis=1)
    shift = -(turned * shifted).sum(axis=1) / np.maximum((shifted**2).sum(axis=1), 1e-12)
    behind = shift * np.sqrt(weight) * focal < -EPIPOLAR
    off = np.minimum(sampson * (focal / EPIPOLAR) ** 2, 1.0)
    off[behind] = 1.0
    kept = off < 1.0
    ahead, down = rotation[:, 2], rotation[:, 1]
    yaw = np.arctan2(ahead[0], ahead[2])
    odd = np.degrees([_wrapped(yaw - turn) / TURN_OFF, np.arccos(np.clip(down[1], -1, 1)) / TILT])
    odd = np.append(odd, moved[1] / RISE)
    view = Relative(rotation, -rotation.T @ moved, rows[kept], shift[kept], weight[kept])
    return float(off.sum() + 0.5 * (odd**2).sum()), view


def _turn(turn: float, nod: float) -> Floats:
    """(3, 3) from the photo's frame to the match's: turned to the right by so much, looking down by so much more."""
    s, c, t, d = np.sin(turn), np.cos(turn), np.sin(nod), np.cos(nod)
    yaw, pitch = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]), np.array([[1, 0, 0], [0, d, t], [0, -t, d]])
    return np.asarray(yaw @ pitch, dtype=np.float64)


def _angles(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """[rad] by which the photo looks farther to the right, and farther down, than the match."""
    right = np.arctan(b[:, 0]) - np.arctan(a[:, 0])
    down = np.arctan(b[:, 1]) - np.arctan(a[:, 1])
    return right, down


def _mapped(plane: Floats, pixels: Floats) -> Floats:
    to = _homogeneous(pixels) @ plane.T
    return np.asarray(to[:, :2] / to[:, 2:])


def _mirrors(plane: Floats, middle: Floats) -> bool:
    """Whether left and right change places there."""
    return bool(np.linalg.det(plane) * (plane[2] @ [*middle, 1.0]) <= 0)


def _pinhole(focal: float) -> dict[str, object]:
    return {"model": "SIMPLE_PINHOLE", "width": 0, "height": 0, "params": [focal, 0.0, 0.0]}


def _homogeneous(rays: Floats) -> Floats:
    return np.column_stack([rays, np.ones(len(rays))])


def figure(views: Sequence[Relative], focal: float) -> Floats:
    """(n, 2) how far to the right and ahead of the photo each match stands, in units of the depth of what is seen.

    Each shift is a distance times an inverse depth, both unknown: they are found in turns, the ones from the others,
    and what fits badly counts little.
    """
    rows, index = np.unique(np.concatenate([one.rows for one in views]), return_inverse=True)
    which = np.repeat(np.arange(len(views)), [len(one.rows) for one in views])
    shift, weight = (np.concatenate([getattr(one, name) for one in views]) for name in ("shift", "weight"))
    scale = EPIPOLAR / focal

    def sums(at: NDArray[np.int64], values: Floats, count: int) -> Floats:
        return np.bincount(at, values, count).astype(np.float64)

    # the match with the clearest parallax has the distance 1 at first
    parallax = [
        float(np.sum(np.minimum(np.abs(one.shift) * np.sqrt(one.weight) / scale, 5.0))) for one in views
    ]
    first = int(np.argmax(parallax))
    use = which == first
    inverse = sums(index[use], shift[use], len(rows))
    known = sums(index[use], np.ones(int(use.sum())), len(rows)) > 0
    distance = np.zeros(len(views))
    for turn in range(ROUNDS):
        of_point = inverse[index]
        use = known[index]
        for _ in range(3):
            off = (shift - distance[which] * of_point) * np.sqrt(weight) / scale
            robust = use * weight / (1.0 + off**2) if turn else use * weight
            top = sums(which, robust * shift * of_point, len(views))
            bottom = sums(which, robust * of_point**2, len(views))
            distance = np.where(bottom > 0, top / np.maximum(bottom, 1e-12), distance)
        of_view = distance[which]
        off = (shift - of_view * of_point) * np.sqrt(weight) / scale
        robust = weight / (1.0 + np.where(use, off, 0.0) ** 2)
        top, bottom = (
            sums(index, robust * shift * of_view, len(rows)),
            sums(index, robust * of_view**2, len(rows)),
        )
        inverse = top / np.maximum(bottom, 1e-12)
        known = bottom > 0
        size = np.median(np.abs(inverse[known])) if known.any() else 1.0
        inverse, distance = inverse / max(size, 1e-9), distance * size
    return np.array([d * one.centre[[0, 2]] for d, one in zip(distance, views, strict=True)])


def pose_on_ground(
    asked: Sight, matches: Sequence[Placed], around: Floats | None = None, gps: float = GPS
) -> GroundPose | None:
    """Where a photo was taken and which way it looks; None where no match tells.

    matches: of one place; those without a heading do not count. around: (2,) [m] a first guess of the position, some
    metres off; the median of the matches where there is none. gps: [m] standard deviation of the matches' positions.
    """
    views = [(relative(asked, one.sight), one) for one in matches if np.isfinite(one.heading)]
    told = [(view, one) for view, one in views if view is not None]
    if not told:
        return None
    shape = figure([view for view, _ in told], asked.focal)
    at = np.array([one.position for _, one in told], dtype=np.float64)
    facing = np.radians([one.heading + view.turned for view, one in told])
    vague = np.hypot(SHAPE, FEW / np.array([len(view.rows) for view, _ in told]))
    return _laid(shape, vague, at, facing, np.median(at, axis=0) if around is None else around, gps)


def _laid(
    shape: Floats, vague: Floats, at: Floats, facing: Floats, around: Floats, gps: float
) -> GroundPose | None:
    """The figure (n, 2) laid onto the positions (n, 2) [m], turned as most of the headings (n,) [rad] say."""
    away = np.abs(_wrapped(facing[:, None] - facing[None]))
    heading = float(facing[np.argmin(away.sum(axis=1))])
    best: tuple[float, Floats, Floats, Floats] | None = None
    for start in (0.5, 2.0):
        first = np.array([*around, heading, np.log(start * DEPTH)])
        one = _fitted(shape, vague, at, facing, first, gps)
        if best is None or one[0] < best[0]:
            best = one
    assert best is not None
    _, found, covariance, weights = best
    shared = np.diag([(gps * GPS_SHARED) ** 2] * 2)
    deviation = np.sqrt(covariance[2, 2] + np.radians(COMPASS_SHARED) ** 2)
    return GroundPose(
        found[:2],
        covariance[:2, :2] + shared,
        float(np.degrees(found[2]) % 360.0),
        float(np.degrees(deviation)),
        int((weights > 0.5).sum()),
    )


def _fitted(
    shape: Floats, vague: Floats, at: Floats, facing: Floats, start: Floats, gps: float
) -> tuple[float, Floats, Floats, Floats]:
    """Easting, northing, heading and log of the size, by Gauss and Newton with weights: cost, (4,), (4, 4), (n,)

    start: (4,) of them a guess; of the position, one that counts.
    """
    now, count = start.copy(), len(shape)
    length = np.hypot(*shape.T)
    for _ in range(30):
        sine, cosine, size = np.sin(now[2]), np.cos(now[2]), np.exp(now[3])
        right, ahead = size * shape.T
        east, north = right * cosine + ahead * sine, ahead * cosine - right * sine
        spread = np.hypot(gps, vague * size * length)
        off = (at - now[:2] - np.column_stack([east, north])) / spread[:, None]
        turn = _wrapped(facing - now[2]) / np.radians(COMPASS)
        small = (np.log(DEPTH) - now[3]) / np.log(DEPTH_FACTOR)
        near = (start[:2] - now[:2]) / AROUND
        weights = 1.0 / (1.0 + (off**2).sum(axis=1) / 4.0)
        turn_weights = 1.0 / (1.0 + turn**2 / 4.0)
        zero, one = np.zeros(count), np.ones(count)
        rows_east = np.column_stack([one, zero, north, east]) / spread[:, None]
        rows_north = np.column_stack([zero, one, -east, north]) / spread[:, None]
        jacobian = np.concatenate(
            [
                rows_east * np.sqrt(weights)[:, None],
                rows_north * np.sqrt(weights)[:, None],
                np.outer(np.sqrt(turn_weights) / np.radians(COMPASS), [0, 0, 1, 0]),
                np.diag([1.0 / AROUND, 1.0 / AROUND, 0.0, 1.0 / np.log(DEPTH_FACTOR)])[[0, 1, 3]],
            ]
        )
        residual = np.concatenate(
            [
                off[:, 0] * np.sqrt(weights),
                off[:, 1] * np.sqrt(weights),
                turn * np.sqrt(turn_weights),
                near,
                [small],
            ]
        )
        normal = jacobian.T @ jacobian
        step = np.linalg.solve(normal, jacobian.T @ residual)
        now = now + np.clip(step, [-20, -20, -0.5, -0.5], [20, 20, 0.5, 0.5])
        if np.abs(step).max() < 1e-6:
            break
    cost = float(
        2 * np.log1p((off**2).sum(axis=1) / 4).sum()
        + 2 * np.log1p(turn**2 / 4).sum()
        + small**2 / 2
        + (near**2).sum() / 2
    )
    cost += float(2 * np.log(spread).sum())
    return cost, now, np.linalg.inv(normal), weights


def _wrapped(angle: Floats) -> Floats:
    return np.asarray((angle + np.pi) % (2 * np.pi) - np.pi)
