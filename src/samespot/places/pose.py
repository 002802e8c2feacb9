"""6DOF poses: quaternions, rotations, and the compass heading a camera has on the ground plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError

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


def rotation_matrices(quaternions: ArrayLike) -> Floats:
    """(n, 4) quaternions qw, qx, qy, qz (any length > 0) to (n, 3, 3) rotation matrices."""
    q = np.atleast_2d(np.asarray(quaternions, dtype=np.float64))
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    w, x, y, z = q.T
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], axis=1),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], axis=1),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1),
        ],
        axis=1,
    )


def quaternions(rotations: ArrayLike) -> Floats:
    """(n, 3, 3) rotation matrices to (n, 4) unit quaternions qw, qx, qy, qz with qw >= 0."""
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(np.asarray(rotations, dtype=np.float64)).as_quat().T
    q = np.stack([w, x, y, z], axis=1)
    return np.where(q[:, :1] < 0, -q, q)


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
    """The inverse rotation of each (n, 4) unit quaternion: world-to-camera becomes camera-to-world."""
    q = np.atleast_2d(np.asarray(quaternions, dtype=np.float64))
    inverse: Floats = q * np.array([1.0, -1.0, -1.0, -1.0])
    return inverse


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
