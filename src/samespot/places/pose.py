"""6DOF poses: quaternions, rotations, and the compass heading a camera has on the ground plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

Floats = NDArray[np.float64]
POSE = ("tx", "ty", "tz", "qw", "qx", "qy", "qz")  # columns: camera centre, camera-to-world rotation
VERTICAL = 1e-3  # a camera nearer than this (0.06°) to straight up or down has no heading worth the name


@dataclass(frozen=True)
class PoseFrame:
    """How a data set's poses lie on the ground: which camera axis looks ahead, which world axis points up.

    `forward` is in camera coordinates; `up` and `north` in world coordinates. East is north × up. All three
    are unit vectors, `up` and `north` at right angles.
    """

    forward: tuple[float, float, float] = (0.0, 0.0, 1.0)  # the optical axis of x right, y down, z ahead
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)
    north: tuple[float, float, float] = (0.0, 1.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("forward", "up", "north"):
            axis = np.asarray(getattr(self, name), dtype=np.float64)
            if axis.shape != (3,) or not np.isclose(np.linalg.norm(axis), 1.0, atol=1e-6):
                raise InputError(f"PoseFrame: {name} {getattr(self, name)} is not a unit vector of 3 numbers")
        if abs(np.dot(self.up, self.north)) > 1e-6:
            raise InputError(f"PoseFrame: up {self.up} and north {self.north} are not at right angles")

    def east(self) -> Floats:
        return np.cross(np.asarray(self.north), np.asarray(self.up))


def rotations(quaternions: ArrayLike) -> Rotation:
    """(n, 4) quaternions qw, qx, qy, qz of any length > 0, none NaN, for scipy, whose own order is x, y, z, w."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(np.atleast_2d(np.asarray(quaternions, dtype=np.float64)), scalar_first=True)


def rotation_matrices(quaternions: ArrayLike) -> Floats:
    """(n, 4) quaternions qw, qx, qy, qz (any length > 0) to (n, 3, 3) rotation matrices; NaN stays NaN."""
    q = np.atleast_2d(np.asarray(quaternions, dtype=np.float64))
    known = np.isfinite(q).all(axis=1)
    matrices = np.full((len(q), 3, 3), np.nan)
    matrices[known] = rotations(q[known]).as_matrix()
    return matrices


def quaternions(rotations: ArrayLike) -> Floats:
    """(n, 3, 3) rotation matrices to (n, 4) unit quaternions qw, qx, qy, qz with qw >= 0."""
    from scipy.spatial.transform import Rotation

    found = Rotation.from_matrix(np.asarray(rotations, dtype=np.float64))
    q: Floats = found.as_quat(canonical=True, scalar_first=True)
    return q


def not_rotations(matrices: ArrayLike, tolerance: float = 1e-2) -> NDArray[np.int64]:
    """Which of the (n, 3, 3) matrices are no rotations: not orthonormal within `tolerance`, or mirrored.

    Released poses are rounded and integrated over many frames, so the default is far above rounding error.
    """
    m = np.asarray(matrices, dtype=np.float64).reshape(-1, 3, 3)
    skew = np.abs(m @ m.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    with np.errstate(invalid="ignore"):  # NaN is no rotation, and no cause for a warning
        mirrored = ~(np.linalg.det(m) > 0)
    return np.flatnonzero(~(skew <= tolerance) | mirrored)


def not_unit(quaternions: ArrayLike, tolerance: float = 1e-2) -> NDArray[np.int64]:
    """Which of the (n, 4) quaternions are not of unit length within `tolerance`, NaN included."""
    length = np.linalg.norm(np.asarray(quaternions, dtype=np.float64).reshape(-1, 4), axis=1)
    return np.flatnonzero(~(np.abs(length - 1.0) <= tolerance))


def conjugate(quaternions: ArrayLike) -> Floats:
    """The inverse rotation of each (n, 4) quaternion: world-to-camera becomes camera-to-world."""
    inverse: Floats = rotations(quaternions).inv().as_quat(scalar_first=True)
    return inverse


def inverse_poses(translations: ArrayLike, quaternions: ArrayLike) -> tuple[Floats, Floats]:
    """World-to-camera to camera-to-world, or back: the inverse of x -> R x + t is x -> R⁻¹ x - R⁻¹ t.

    (n, 3) translations and (n, 4) quaternions; the same of the inverse. That of a camera-to-world pose is its centre.
    """
    inverse = rotations(quaternions).inv()
    moved: Floats = -inverse.apply(np.asarray(translations, dtype=np.float64))
    return moved + 0.0, inverse.as_quat(scalar_first=True) + 0.0  # no -0.0


def angles_between(a: ArrayLike, b: ArrayLike) -> Floats:
    """(n,) angles [deg] of the rotations between (n, 4) quaternions; a quaternion and its negative are the same."""
    degrees: Floats = np.degrees((rotations(a).inv() * rotations(b)).magnitude())
    return degrees


def ground_pose(
    centres: ArrayLike, quaternions: ArrayLike, frame: PoseFrame
) -> tuple[Floats, Floats, Floats]:
    """Camera centres (n, 3) and camera-to-world quaternions (n, 4) to easting, northing [m], heading [deg].

    Heading is the compass direction of the camera's forward axis on the ground plane; NaN for a camera
    that looks straight up or down.
    """
    centres = np.atleast_2d(np.asarray(centres, dtype=np.float64))
    ahead = rotation_matrices(quaternions) @ np.asarray(frame.forward)
    east, north = frame.east(), np.asarray(frame.north)
    heading = np.rad2deg(np.arctan2(ahead @ east, ahead @ north)) % 360.0
    heading[heading == 360.0] = 0.0
    level = np.hypot(ahead @ east, ahead @ north)
    return centres @ east, centres @ north, np.where(level > VERTICAL, heading, np.nan)


def pose_columns(centres: Floats, quaternions: Floats, frame: PoseFrame) -> dict[str, Floats]:
    """The columns of a table of places that 6DOF poses give: where on the ground, and the pose itself."""
    ground = zip(("easting", "northing", "heading"), ground_pose(centres, quaternions, frame), strict=True)
    return {**dict(ground), **dict(zip(POSE, np.hstack([centres, quaternions]).T, strict=True))}
