"""Quaternions against their product written out, headings against poses made by hand."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from samespot.errors import InputError
from samespot.places.pose import (
    PoseFrame,
    angles_between,
    conjugate,
    ground_pose,
    inverse_poses,
    not_rotations,
    not_unit,
    pose_columns,
    quaternions,
    rotation_matrices,
)

# Columns are the camera's x (right), y (down) and z (ahead) in a world of x east, y north, z up.
LOOKS_NORTH = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], dtype=float)
LOOKS_EAST = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]], dtype=float)
LOOKS_DOWN = np.array([[1, 0, 0], [0, -1, 0], [0, 0, -1]], dtype=float)


def random_rotations(n: int = 500) -> Rotation:
    return Rotation.random(n, random_state=7)


def scalar_first(rotations: Rotation) -> np.ndarray:
    return rotations.as_quat()[:, [3, 0, 1, 2]]


def product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Hamilton's, of (n, 4) quaternions qw, qx, qy, qz."""
    scalar = p[:, 0] * q[:, 0] - (p[:, 1:] * q[:, 1:]).sum(axis=1)
    return np.c_[scalar, p[:, :1] * q[:, 1:] + q[:, :1] * p[:, 1:] + np.cross(p[:, 1:], q[:, 1:])]


INVERSE = np.array([1.0, -1.0, -1.0, -1.0])  # of a unit quaternion, number by number


def test_rotation_matrices_turn_vectors_as_the_quaternions_do():
    q = scalar_first(random_rotations())
    vectors = np.random.default_rng(0).normal(size=(len(q), 3))
    turned = product(product(q, np.c_[np.zeros(len(q)), vectors]), q * INVERSE)
    assert np.allclose(np.einsum("nij,nj->ni", rotation_matrices(q), vectors), turned[:, 1:], atol=1e-14)


def test_an_unknown_rotation_stays_unknown():
    found = rotation_matrices([[np.nan] * 4, [2.0, 0, 0, 0]])
    assert np.isnan(found[0]).all()
    assert np.array_equal(found[1], np.eye(3))
    assert rotation_matrices(np.empty((0, 4))).shape == (0, 3, 3)


def test_rotation_matrices_take_any_length():
    q = scalar_first(random_rotations(20))
    assert np.allclose(rotation_matrices(q * 7.5), rotation_matrices(q), atol=1e-14)


def test_quaternions_round_trip_with_positive_scalar():
    q = quaternions(random_rotations().as_matrix())
    assert (q[:, 0] >= 0).all()
    assert np.allclose(np.linalg.norm(q, axis=1), 1.0)
    assert np.allclose(rotation_matrices(q), random_rotations().as_matrix(), atol=1e-14)


def test_conjugate_is_the_transpose():
    q = scalar_first(random_rotations())
    assert np.allclose(conjugate(q), q * INVERSE, atol=1e-15)
    assert np.allclose(rotation_matrices(conjugate(q)), rotation_matrices(q).transpose(0, 2, 1), atol=1e-14)


def test_a_pose_after_its_inverse_moves_nothing():
    q = scalar_first(random_rotations(50))
    move, x = np.random.default_rng(1).normal(size=(2, 50, 3))
    back, turned_back = inverse_poses(move, q)
    there = np.einsum("nij,nj->ni", rotation_matrices(q), x) + move
    assert np.allclose(np.einsum("nij,nj->ni", rotation_matrices(turned_back), there) + back, x, atol=1e-14)


def test_angles_are_those_of_the_matrices_and_blind_to_sign():
    a, b = (scalar_first(Rotation.random(300, random_state=seed)) for seed in (1, 2))
    trace = np.einsum("nij,nij->n", rotation_matrices(a), rotation_matrices(b))
    assert np.allclose(angles_between(a, -b), np.degrees(np.arccos((trace - 1) / 2)), atol=1e-6)


@pytest.mark.parametrize(("rotation", "heading"), [(LOOKS_NORTH, 0.0), (LOOKS_EAST, 90.0)])
def test_heading_of_a_level_camera(rotation, heading):
    easting, northing, found = ground_pose([[3.0, 4.0, 5.0]], quaternions(rotation[None]), PoseFrame())
    assert (easting[0], northing[0]) == (3.0, 4.0)
    assert found[0] == pytest.approx(heading, abs=1e-9)


def test_turning_clockwise_seen_from_above_raises_the_heading():
    turns = Rotation.from_euler(
        "z", -np.arange(0, 360, 15.0)[:, None], degrees=True
    )  # scipy counts the other way
    q = quaternions((turns * Rotation.from_matrix(LOOKS_NORTH)).as_matrix())
    heading = ground_pose(np.zeros((24, 3)), q, PoseFrame())[2]
    assert np.allclose((heading - np.arange(0, 360, 15.0) + 180) % 360 - 180, 0, atol=1e-9)
    assert ((heading >= 0) & (heading < 360)).all()


def test_pitch_and_roll_leave_the_heading():
    tilted = Rotation.from_matrix(LOOKS_EAST) * Rotation.from_euler("zx", [[30, 40]], degrees=True)
    assert ground_pose([[0, 0, 0]], quaternions(tilted.as_matrix()), PoseFrame())[2][0] == pytest.approx(90.0)


def test_a_camera_that_looks_straight_down_has_no_heading():
    assert np.isnan(ground_pose([[0, 0, 0]], quaternions(LOOKS_DOWN[None]), PoseFrame())[2][0])


def test_unknown_pose_gives_unknown_place():
    assert np.isnan(ground_pose(np.full((1, 3), np.nan), np.full((1, 4), np.nan), PoseFrame())).all()


def test_north_east_down_world():
    """The same camera in a world of x north, y east, z down: east is north × up there too."""
    frame = PoseFrame(up=(0, 0, -1), north=(1, 0, 0))
    assert np.array_equal(frame.east(), [0, 1, 0])
    to_ned = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]], dtype=float)
    rotation, centre = to_ned @ LOOKS_EAST, to_ned @ [3.0, 4.0, 5.0]
    easting, northing, heading = ground_pose(centre[None], quaternions(rotation[None]), frame)
    assert (easting[0], northing[0]) == (3.0, 4.0)
    assert heading[0] == pytest.approx(90.0)


@pytest.mark.parametrize(
    ("axes", "word"),
    [({"up": (0, 0, 2)}, "unit"), ({"forward": (1, 0)}, "unit"), ({"north": (0, 0.6, 0.8)}, "right angles")],
)
def test_a_frame_that_is_none_is_refused(axes, word):
    with pytest.raises(InputError, match=word):
        PoseFrame(**axes)


def test_not_rotations_finds_mirrors_scalings_and_nan():
    m = np.stack([np.eye(3), -np.eye(3), 1.1 * np.eye(3), np.full((3, 3), np.nan), 1.001 * np.eye(3)])
    assert not_rotations(m).tolist() == [1, 2, 3]


def test_quaternions_that_are_not_of_unit_length_are_found():
    given = [[1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5], [1.02, 0, 0, 0], [np.nan, 0, 0, 1], [1.001, 0, 0, 0]]
    assert not_unit(given).tolist() == [2, 3]
    assert not_unit(np.empty((0, 4))).tolist() == []


def test_pose_columns_hold_the_ground_pose_and_the_pose():
    centres, rotations = np.array([[1.0, 2.0, 3.0]]), np.array([[0.5**0.5, -(0.5**0.5), 0.0, 0.0]])
    columns = pose_columns(centres, rotations, PoseFrame())
    assert list(columns) == ["easting", "northing", "heading", "tx", "ty", "tz", "qw", "qx", "qy", "qz"]
    assert [float(v[0]) for v in columns.values()] == pytest.approx(
        [1, 2, 0, 1, 2, 3, 0.5**0.5, -(0.5**0.5), 0, 0], abs=1e-9
    )
