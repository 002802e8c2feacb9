"""A camera puts a point where the equations of a lens do, and finds the direction of a pixel again."""

import numpy as np
import pandas as pd
import pytest

from samespot.errors import InputError
from samespot.places.camera import Camera, camera_of, parse_camera

BENT = Camera(640, 480, 525.0, 520.0, 322.0, 238.0, distortion=(-0.3, 0.1, 0.002, -0.001))


def test_matrix_projects_as_the_pinhole_equations_say():
    camera = Camera(640, 480, 585.0, 580.0, 320.0, 240.0)
    u, v, w = camera.matrix @ np.array([0.5, -0.25, 2.0])
    assert (u / w, v / w) == (320 + 585 * 0.25, 240 - 580 * 0.125)
    assert camera.pixels([[0.5, -0.25, 2.0]])[0] == pytest.approx((u / w, v / w))
    assert np.isnan(camera.pixels([[0.5, -0.25, -2.0]])).all()


def test_a_distorting_lens_agrees_with_colmap():
    pycolmap = pytest.importorskip("pycolmap")
    theirs = pycolmap.Camera(
        model="OPENCV", width=640, height=480, params=[525, 520, 322, 238, *BENT.distortion]
    )
    points = np.random.default_rng(0).uniform((-1, -0.8, 2), (1, 0.8, 3), (50, 3))
    expected = np.array([theirs.img_from_cam(point) for point in points]).reshape(-1, 2)
    assert BENT.pixels(points) == pytest.approx(expected, abs=1e-9)
    assert BENT.rays(expected) == pytest.approx(points[:, :2] / points[:, 2:], abs=1e-6)


def test_a_resized_photo_has_a_smaller_camera():
    half = BENT.scaled(240, 320)
    assert half.pixels([[0.1, 0.2, 1.0]]) == pytest.approx(BENT.pixels([[0.1, 0.2, 1.0]]) / 2)


def test_a_table_tells_cameras_in_two_ways():
    table = pd.DataFrame(
        {
            **dict(zip(("width", "height", "fx", "fy", "cx", "cy"), [[640, np.nan, 0]] * 6, strict=True)),
            "k1": [0.1, np.nan, 0.1],
            "fov": [50.0, 90.0, np.nan],
        }
    )
    assert camera_of(table, 0, (320, 640)) == Camera(
        640, 320, 640.0, 320.0, 640.0, 320.0, (0.1, 0.0, 0.0, 0.0)
    )
    assert camera_of(table, 1, (100, 200)).fx == pytest.approx(100.0)
    assert camera_of(table, 2, (100, 200)) is None
    assert camera_of(table[["k1"]], 0, (100, 200)) is None


@pytest.mark.parametrize(
    "words",
    [
        "640,480",
        "a,b,c,d,e,f",
        "nan,480,1,1,1,1",
        "640,480,0,1,1,1",
        "inf,1,1,1,1,1",
        "640,480,1,1,1,1,0.1",
        "640,480,1,1,1,1,0,0,0,nan",
    ],
)
def test_a_camera_is_six_numbers(words):
    assert parse_camera("8,6,8,8,4,3") == Camera(8, 6, 8.0, 8.0, 4.0, 3.0)
    assert parse_camera("640,480,525,520,322,238,-0.3,0.1,0.002,-0.001") == BENT
    with pytest.raises(InputError, match="give six numbers"):
        parse_camera(words)
