"""Pixels that know how far away they are."""

import numpy as np
import pandas as pd
import pytest

from samespot.places.camera import Camera
from samespot.poses.lifting import depth_at, depth_camera_of, lifted

CAMERA = Camera.of_focal(64, 48, 50.0)


def slanted():
    """A depth image of the plane z = 4 + x / 2."""
    columns, rows = np.meshgrid(np.arange(64) + 0.5, np.arange(48) + 0.5)
    rays = CAMERA.rays(np.stack([columns.ravel(), rows.ravel()], axis=1))
    return (4.0 / (1.0 - 0.5 * rays[:, 0])).reshape(48, 64).astype(np.float32)


def test_between_pixels_a_plane_stays_a_plane():
    pixels = np.random.default_rng(0).uniform((2, 2), (62, 46), (100, 2))
    points = lifted(pixels, CAMERA, slanted())
    assert points[:, 2] == pytest.approx(4.0 + points[:, 0] / 2, abs=1e-4)
    assert CAMERA.pixels(points) == pytest.approx(pixels, abs=1e-3)


def test_across_an_edge_nothing_is_mixed():
    depth = np.full((48, 64), 2.0, dtype=np.float32)
    depth[:, 32:] = 10.0
    assert set(depth_at(depth, np.array([[31.9, 20.0], [32.1, 20.0], [31.6, 20.5]]))) == {2.0, 10.0}


def test_holes_and_what_lies_outside_are_not_known():
    depth = slanted()
    depth[10:12, 10:12] = np.nan
    depth[30, 30] = 0.0
    found = depth_at(depth, np.array([[11.0, 11.0], [30.5, 30.5], [-0.1, 5.0], [64.0, 5.0], [40.0, 20.0]]))
    assert np.isnan(found).tolist() == [True, True, True, True, False]


def test_a_depth_camera_of_another_focal_length():
    """7Scenes: the depth camera looks closer than the colour camera, whose border has no depth."""
    longer, colour = Camera.of_focal(640, 480, 585.0), Camera.of_focal(640, 480, 525.0)
    table = pd.DataFrame({"depth_fov": [longer.view, np.nan]})
    assert depth_camera_of(table, 0, colour).fx == pytest.approx(585.0)
    assert depth_camera_of(table, 1, colour) is None
    rows, columns = np.mgrid[:480, :640]
    rays = longer.rays(np.stack([columns.ravel() + 0.5, rows.ravel() + 0.5], axis=1))
    depth = (3.0 + rays[:, 0]).reshape(480, 640).astype(np.float32)
    points = lifted(np.array([[400.0, 300.0], [1.0, 1.0]]), colour, depth, longer)
    assert points[0, 2] == pytest.approx(3.0 + (400.0 - 320.0) / 525.0, abs=1e-3)
    assert np.isnan(points[1]).all()
