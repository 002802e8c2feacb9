"""Keypoints in space, from photos of known pose that show the same things."""

import os
import signal

import numpy as np
import pytest

from samespot.matching.keypoints import Keypoints
from samespot.places.camera import Camera
from samespot.places.pose import quaternions
from samespot.poses.triangulation import neighbours, triangulated
from samespot.progress import silent
from tests import warm

pytest.importorskip("pycolmap", reason="needs samespot[pose]")
CAMERA = Camera.of_focal(640, 480, 500.0)


def scene(photos=4, points=60, wrong=10):
    """Photos along a street that all look north at the same points; the first `wrong` keypoints of each are others'."""
    dice = np.random.default_rng(0)
    world = dice.uniform((-3, -2, 8), (3, 2, 14), (points, 3))
    centres = np.stack([[0.7 * number, 0.0, 0.0] for number in range(photos)])
    seen = []
    for centre in centres:
        xy = CAMERA.pixels(world - centre)
        xy[:wrong] = dice.uniform((0, 0), (640, 480), (wrong, 2))
        seen.append(
            Keypoints((xy - 0.5).astype(np.float32), np.zeros((points, 4), dtype=np.int8), (480, 640))
        )
    turns = quaternions(np.tile(np.eye(3), (photos, 1, 1)))
    return world, centres, turns, seen


def by_number(a, b):
    return np.stack([np.arange(len(a))] * 2, axis=1)


def test_points_are_where_they_are_in_each_camera():
    world, centres, turns, seen = scene()
    found = triangulated(centres, turns, seen, [CAMERA] * 4, by_number, silent)
    for centre, points in zip(centres, found, strict=True):
        assert points[10:] == pytest.approx(world[10:] - centre, abs=0.05)
        known = np.isfinite(points[:10, 2])
        assert known.mean() < 0.5  # what lies off the epipolar lines is no match


def test_nothing_is_known_from_one_spot():
    _, _, turns, seen = scene(2)
    found = triangulated(np.zeros((2, 3)), turns, [seen[0]] * 2, [CAMERA] * 2, by_number, silent)
    assert all(np.isnan(points).all() for points in found)


def test_photos_that_look_another_way_are_not_neighbours():
    turned = np.stack([np.eye(3), np.eye(3), np.diag([-1.0, 1.0, -1.0])])
    assert neighbours(np.array([[0.0, 0, 0], [1, 0, 0], [0.5, 0, 0]]), turned) == [(0, 1)]


ENDED = """
import os, signal, time
from samespot.progress import silent
from tests.poses.test_triangulation import CAMERA, by_number, scene, triangulated
_, centres, turns, seen = scene()
triangulated(centres, turns, seen, [CAMERA] * 4, by_number, silent)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


def test_sigterm_ends_it_without_a_word():
    done = warm.run(["-c", ENDED], cwd=os.getcwd())
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")
