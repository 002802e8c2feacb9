"""View synthesis against a scene that is traced ray by ray: a painted wall 4 m away and a painted board before it."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.spatial.transform import Rotation

from samespot.errors import InputError
from samespot.overlap.cloud import PointCloud
from samespot.places.camera import Camera
from samespot.poses.synthesis import joined, likeness, photo_cloud, pose_likeness, render

CAMERA = Camera.of_focal(320, 240, 260.0)
WALL, BOARD = 4.0, 2.5  # [m] ahead
UNTURNED = np.array([1.0, 0.0, 0.0, 0.0])
PAINT = gaussian_filter(np.random.default_rng(0).normal(size=(3, 600, 800)), (0, 4, 4))
PAINT = 255 * (PAINT - PAINT.min()) / np.ptp(PAINT)


def painted(x, y, shift):
    """Colours of a wall at (x, y) [m], 50 px of paint a metre."""
    at = [50 * y + 300 + shift, 50 * x + 400]
    return np.stack([map_coordinates(layer, at, order=1, mode="mirror") for layer in PAINT], axis=-1)


def seen(centre, turn=UNTURNED, camera=CAMERA):
    """Photo (h, w, 3) and depth (h, w) of the scene."""
    rows, columns = np.mgrid[: camera.height, : camera.width]
    pixels = np.column_stack([columns.ravel(), rows.ravel()]) + 0.5
    rays = np.column_stack([camera.rays(pixels), np.ones(len(pixels))])
    rays = Rotation.from_quat(turn, scalar_first=True).apply(rays)
    depth = (WALL - centre[2]) / rays[:, 2]
    x, y, _ = (np.asarray(centre) + rays * depth[:, None]).T
    colour = painted(x, y, 0)
    nearer = (BOARD - centre[2]) / rays[:, 2]
    bx, by, _ = (np.asarray(centre) + rays * nearer[:, None]).T
    board = (np.abs(bx - 0.3) < 0.4) & (np.abs(by) < 0.5)
    colour[board] = painted(bx, by, 150)[board]
    depth = np.where(board, nearer, depth)
    shape = camera.height, camera.width
    return colour.reshape(*shape, 3).astype(np.uint8), depth.reshape(shape)


def turned(degrees):
    return Rotation.from_euler("y", degrees, degrees=True).as_quat(scalar_first=True)


@pytest.fixture(scope="module")
def cloud():
    places = [(np.zeros(3), UNTURNED), (np.array([-0.4, 0.1, 0.2]), turned(5))]
    return joined(photo_cloud(*seen(*place), *place, CAMERA) for place in places)


def test_the_pose_of_the_map_photo_shows_the_map_photo():
    photo, depth = seen(np.zeros(3))
    cloud = photo_cloud(photo, depth, np.zeros(3), UNTURNED, CAMERA)
    exact, filled = render(cloud, CAMERA, np.zeros(3), UNTURNED, splat=0)
    assert filled.all()
    np.testing.assert_array_equal(exact, photo)
    assert likeness(photo, exact, filled) == pytest.approx(1.0)
    picture, _ = render(cloud, CAMERA, np.zeros(3), UNTURNED)
    assert (picture != photo).any(
        axis=2
    ).mean() < 0.01  # the edge of the board grows by a pixel, and nothing else


def test_a_drawn_view_is_what_a_camera_there_sees(cloud):
    centre, turn = np.array([0.2, 0.1, 0.3]), turned(-4)
    photo, _ = seen(centre, turn)
    picture, filled = render(cloud, CAMERA, centre, turn)
    off = np.abs(picture.astype(int) - photo).max(axis=2)
    assert filled.mean() > 0.85
    assert np.median(off[filled]) <= 6
    assert (off[filled] < 30).mean() > 0.95  # the board hides what is behind it
    assert (
        filled.mean() > render(cloud, CAMERA, centre, turn, splat=0)[1].mean() + 0.02
    )  # and holes are small


@pytest.mark.parametrize("light", ["as it is", "dusk"])
def test_the_true_pose_is_preferred(cloud, light):
    centre, turn = np.array([0.25, 0.1, 0.2]), turned(6)
    photo, _ = seen(centre, turn)
    if light == "dusk":
        photo = (90 * (photo / 255.0) ** 1.6 * (0.8, 0.9, 1.0)).astype(np.uint8)
    steps = np.array([[0, 0, 0], [0.5, 0, 0], [0, 0, -0.5], [-2 * centre[0], 0, 0], [np.nan] * 3])
    turns = [turn, turn, turn, turned(-6), turn]
    scores = pose_likeness(photo, CAMERA, cloud, centre + steps, turns)
    assert scores[0] > scores[1:].max() + 0.05
    assert scores[-1] == 0
    mirrored = pose_likeness(photo[:, ::-1].copy(), CAMERA, cloud, centre, turn)
    assert scores[0] > mirrored[0] + 0.05


def test_a_pose_that_sees_nothing_of_the_map_scores_nothing(cloud):
    photo, _ = seen(np.zeros(3))
    assert pose_likeness(photo, CAMERA, cloud, np.zeros(3), turned(180)) == [0.0]


def test_gaps_are_not_compared():
    photo, _ = seen(np.zeros(3))
    picture, filled = photo.copy(), np.ones(photo.shape[:2], dtype=bool)
    filled[:, 100:180] = False
    picture[:, 100:180] = 0
    assert likeness(photo, picture, filled) == pytest.approx(1.0)
    assert likeness(photo, picture, np.zeros_like(filled)) == 0.0


def test_invalid_depth_makes_no_points():
    photo, depth = seen(np.zeros(3))
    depth[:60] = np.nan
    depth[60:80] = 0.0
    cloud = photo_cloud(photo, depth, np.zeros(3), UNTURNED, CAMERA)
    assert len(cloud) == (240 - 80) * 320
    assert np.isfinite(cloud.xyz).all()
    assert not render(cloud, CAMERA, np.zeros(3), UNTURNED, splat=0)[1][:80].any()


def test_clouds_without_colour_are_refused():
    with pytest.raises(InputError, match="without colours"):
        render(PointCloud(np.ones((1, 3))), CAMERA, np.zeros(3), UNTURNED)
