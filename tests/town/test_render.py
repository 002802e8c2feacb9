"""The renderer: known walls at known distances, poses that agree with the picture, the same bytes every time."""

import numba
import numpy as np
import pytest

from samespot.places.pose import PoseFrame, ground_pose, rotation_matrices
from samespot.town.ground import Ground
from samespot.town.light import Air, Light
from samespot.town.mesh import MeshBuilder, make_atlas
from samespot.town.render import facing, intrinsics_of, render
from samespot.town.world import make_town, on_visit

SIZE = (60, 80)
LENS = intrinsics_of(70.0, SIZE)


def plain_ground(level=128):
    """A grey plane of 80 × 80 m around the origin."""
    places = np.array([[0, 600, 600]] + [[0, 2, 2]] * 5)
    return Ground(np.full((360000, 3), level, np.uint8), places, -45.0, -45.0)


def plain_light():
    """An even white sky and no sun."""
    white = (1.0, 1.0, 1.0)
    numbers = dict.fromkeys(Air._fields[4:], 0.0) | {"gain": 1.0, "visit": 0, "lamp_columns": 1}
    air = Air((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), white, white, **numbers)
    none = np.zeros(0, np.int64)
    return Light(
        air, np.zeros((0, 3)), np.zeros(2, np.int64), none, np.zeros((2, 2), np.float32), np.zeros(360)
    )


def scene(*polygons):
    """A mesh of coloured polygons, with a texture nobody uses."""
    builder = MeshBuilder()
    for points, colour in polygons:
        builder.polygon(points, colour, two_sided=True)
        builder.close()
    return builder.build(), make_atlas([np.zeros((4, 4, 4), np.uint8)]), plain_ground(), plain_light()


def wall_north(distance, colour=(0.5, 0.1, 0.1), wide=200.0, low=0.0, high=100.0):
    return [
        (-wide, distance, low),
        (wide, distance, low),
        (wide, distance, high),
        (-wide, distance, high),
    ], colour


def test_a_wall_has_its_distance_as_depth_everywhere():
    things = scene(wall_north(12.5))
    _, depth = render(*things, [[0.0, 0.0, 2.0]], facing(0.0), LENS, SIZE)
    above = depth[0, :30]  # above the horizon there is only wall
    np.testing.assert_allclose(above, 12.5, rtol=1e-6)


def test_depth_runs_along_the_optical_axis_of_a_turned_camera():
    """The ray through the middle of pixel (i, j) meets the wall y = 12.5 at depth 12.5 / (its step north)."""
    things = scene(wall_north(12.5))
    pose = facing(20.0, 8.0, 3.0)
    _, depth = render(*things, [[1.0, 0.0, 2.0]], pose, LENS, SIZE)
    i, j = np.mgrid[: SIZE[0], : SIZE[1]]
    rays = np.stack([(j + 0.5 - LENS[2]) / LENS[0], (i + 0.5 - LENS[3]) / LENS[1], np.ones(SIZE)], axis=-1)
    world = rays @ rotation_matrices(pose)[0].T
    with np.errstate(divide="ignore"):
        expected = np.minimum(12.5 / world[..., 1], np.where(world[..., 2] < 0, -2.0 / world[..., 2], np.inf))
    np.testing.assert_allclose(
        depth[0], expected, rtol=0.05
    )  # the foot of the wall is off by part of a pixel
    assert np.mean(np.abs(depth[0] / expected - 1) < 1e-5) > 0.95


def test_the_ground_has_the_depth_of_a_plane():
    things = scene(wall_north(-50.0))
    _, depth = render(*things, [[0.0, 0.0, 1.5]], facing(90.0), LENS, SIZE)
    rows = np.arange(31, SIZE[0])
    np.testing.assert_allclose(depth[0, rows, 40], 1.5 * LENS[1] / (rows + 0.5 - LENS[3]), rtol=1e-5)


def test_the_sky_has_no_depth():
    _, depth = render(*scene(wall_north(-50.0)), [[0.0, 0.0, 1.5]], facing(0.0), LENS, SIZE)
    assert (depth[0, :29] == 0).all()
    assert (depth[0, 31:] > 0).all()


def test_the_nearer_of_two_walls_is_seen_whatever_the_order():
    near, far = wall_north(5.0, (0.8, 0.0, 0.0)), wall_north(9.0, (0.0, 0.8, 0.0))
    for order in ((near, far), (far, near)):
        image, depth = render(*scene(*order), [[0.0, 0.0, 2.0]], facing(0.0), LENS, SIZE)
        np.testing.assert_allclose(depth[0, :30], 5.0, rtol=1e-6)
        assert (image[0, :30, :, 0] > 3 * image[0, :30, :, 1].astype(int)).all()


def test_a_polygon_lands_where_its_pose_says():
    """A red square at (3, 10, 4): its centre, brought into the image by the pose columns' convention, is red."""
    things = scene(([(2.5, 10, 3.5), (3.5, 10, 3.5), (3.5, 10, 4.5), (2.5, 10, 4.5)], (0.9, 0.0, 0.0)))
    centre, pose = np.array([0.5, -1.0, 2.0]), facing(12.0, 3.0, -4.0)
    image, _ = render(*things, [centre], pose, LENS, SIZE)
    x, y, z = rotation_matrices(pose)[0].T @ (np.array([3.0, 10.0, 4.0]) - centre)
    column, row = int(LENS[0] * x / z + LENS[2]), int(LENS[1] * y / z + LENS[3])
    red = (image[0, ..., 0] > 100) & (image[0, ..., 1] < 60)
    assert red[row, column]
    assert (
        np.abs(
            np.argwhere(red).mean(axis=0) + 0.5 - (LENS[1] * y / z + LENS[3], LENS[0] * x / z + LENS[2])
        ).max()
        < 0.5
    )


def test_a_polygon_that_passes_the_camera_is_cut_and_not_lost():
    """The floor of a passage under the camera's own feet, from behind it to before it."""
    passage = [(1.0, -20.0, 0.0), (1.0, 20.0, 0.0), (1.0, 20.0, 9.0), (1.0, -20.0, 9.0)], (0.5, 0.5, 0.5)
    _, depth = render(*scene(passage), [[0.0, 0.0, 2.0]], facing(0.0), LENS, SIZE)
    columns = np.arange(45, SIZE[1])
    np.testing.assert_allclose(depth[0, 29, columns], LENS[0] / (columns + 0.5 - LENS[2]), rtol=1e-5)


@pytest.mark.parametrize("heading", [0.0, 90.0, 213.0])
def test_facing_is_the_heading_that_poses_are_read_with(heading):
    for pitch, roll in ((0.0, 0.0), (10.0, 5.0)):
        pose = facing(heading, pitch, roll)
        _, _, seen = ground_pose([[0.0, 0.0, 0.0]], pose, PoseFrame())
        assert np.isclose(seen[0], heading)
        assert np.isclose(
            rotation_matrices(pose)[0][2, 2], np.sin(np.deg2rad(pitch))
        )  # the axis rises by the pitch
    down = rotation_matrices(facing(heading))[0][:, 1]
    np.testing.assert_allclose(down, [0, 0, -1], atol=1e-12)


def test_the_field_of_view_is_that_of_the_lens():
    fx, _, cx, _ = intrinsics_of(70.0, (120, 160))
    assert np.isclose(2 * np.rad2deg(np.arctan(cx / fx)), 70.0)


def test_threads_do_not_change_a_byte():
    things = scene(wall_north(12.5), wall_north(8.0, (0.1, 0.2, 0.3), wide=2.0))
    poses = [[0.0, 0.0, 1.5 + 0.1 * k] for k in range(9)], facing(np.arange(9) * 40.0)
    before = numba.get_num_threads()
    results = []
    for threads in (1, before):
        numba.set_num_threads(threads)
        results.append(render(*things, *poses, LENS, SIZE, noise=0.05))
    numba.set_num_threads(before)
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])


def test_a_point_seen_from_two_places_has_the_same_colour():
    """Depth and poses lay one photo of the town over another; two pixels beside it the pictures agree less."""
    town = make_town(5)
    scenery = on_visit(town, 0, "day", "overcast", "summer")
    street, size = town.plan.streets[3], (120, 160)
    fx, fy, cx, cy = intrinsics_of(70.0, size)
    heading = np.rad2deg(np.arctan2(*(street.at(31.0, -1.2) - street.at(30.0, -1.2))))
    centres = np.array([[*street.at(30.0, -1.2), 2.0], [*street.at(30.8, -0.8), 2.1]])
    poses = facing([heading, heading + 6.0], [0.0, 2.0], [0.0, 2.0])
    things = (scenery.mesh, scenery.atlas, scenery.ground, scenery.light)
    image, depth = render(*things, centres, poses, (fx, fy, cx, cy), size)
    grey, turn = image.mean(axis=-1), rotation_matrices(poses)
    i, j = np.nonzero(depth[0] > 0)
    z = depth[0][i, j].astype(float)
    world = np.stack([(j + 0.5 - cx) / fx * z, (i + 0.5 - cy) / fy * z, z], axis=1) @ turn[0].T + centres[0]
    x, y, far = ((world - centres[1]) @ turn[1]).T
    agreement = []
    for beside in (0, 2):
        u, v = (fx * x / far + cx + beside).astype(int), (fy * y / far + cy).astype(int)
        ok = (far > 0) & (u >= 0) & (v >= 0) & (u < size[1]) & (v < size[0])
        ok[ok] &= np.abs(depth[1][v[ok], u[ok]] / far[ok] - 1) < 0.05
        agreement.append(np.corrcoef(grey[1][v[ok], u[ok]], grey[0][i[ok], j[ok]])[0, 1])
    assert agreement[0] > 0.9
    assert agreement[0] > agreement[1] + 0.05
