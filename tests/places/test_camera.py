"""The calibration matrix puts a point where the pinhole equations do."""

import numpy as np

from samespot.places.camera import Camera


def test_matrix_projects_as_the_pinhole_equations_say():
    camera = Camera(640, 480, 585.0, 580.0, 320.0, 240.0)
    u, v, w = camera.matrix @ np.array([0.5, -0.25, 2.0])
    assert (u / w, v / w) == (320 + 585 * 0.25, 240 - 580 * 0.125)
