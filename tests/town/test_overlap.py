"""True visual overlap, on scenes simple enough to know it."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.town.overlap import Views, true_overlap
from samespot.town.render import facing, intrinsics_of

SIZE = (60, 80)
FOV = 70.0
LENS = intrinsics_of(FOV, SIZE)


def sphere_views(headings, radius=20.0):
    """Cameras in the middle of a ball: every ray is `radius` long, whatever the way it looks."""
    i, j = np.mgrid[: SIZE[0], : SIZE[1]]
    length = np.sqrt(1 + ((j + 0.5 - LENS[2]) / LENS[0]) ** 2 + ((i + 0.5 - LENS[3]) / LENS[1]) ** 2)
    n = len(headings)
    return Views.make(np.broadcast_to(radius / length, (n, *SIZE)), np.zeros((n, 3)), facing(headings), LENS)


def wall_views(centres, headings=None, wall=10.0):
    """Cameras that look at the plane y = wall and see nothing else."""
    centres = np.asarray(centres, dtype=float)
    depth = np.broadcast_to((wall - centres[:, 1])[:, None, None], (len(centres), *SIZE))
    return Views.make(depth, centres, facing(np.zeros(len(centres))), LENS)


def test_a_photo_shares_all_of_itself():
    assert true_overlap(sphere_views([0.0, 77.0]), [[0, 0], [1, 1]], step=1).tolist() == [1.0, 1.0]


def test_opposite_views_share_nothing():
    assert true_overlap(sphere_views([0.0, 180.0]), [[0, 1]])[0] == 0.0


def test_overlap_is_symmetric_and_bounded():
    rng = np.random.default_rng(0)
    views = sphere_views(rng.uniform(0, 360, 30))
    pairs = rng.integers(0, 30, (200, 2))
    there, back = true_overlap(views, pairs), true_overlap(views, pairs[:, ::-1])
    assert np.array_equal(there, back)
    assert ((there >= 0) & (there <= 1)).all()


def test_turning_by_half_the_field_of_view_leaves_about_half():
    """Of a flat image that part right of the middle stays, less the corners that turn out of it."""
    share = true_overlap(sphere_views([0.0, FOV / 2]), [[0, 1]], step=1)[0]
    assert 0.42 < share < 0.5


def test_a_step_to_the_side_before_a_wall_shares_what_the_frustum_says():
    """At 10 m a view is 2 · 10 · tan 35° = 14.004 m wide; 3.5 m to the side 75 % of it is the same."""
    views = wall_views([[0.0, 0.0, 2.0], [14.004 / 4, 0.0, 2.0]])
    assert np.isclose(true_overlap(views, [[0, 1]], step=1)[0], 0.75, atol=0.01)


def test_coming_closer_is_the_mean_of_all_of_one_and_a_quarter_of_the_other():
    views = wall_views([[0.0, 0.0, 2.0], [0.0, 5.0, 2.0]])
    assert np.isclose(true_overlap(views, [[0, 1]], step=1)[0], 0.5 * (1.0 + 0.25), atol=0.01)


def test_what_something_nearer_hides_is_not_shared():
    """The second camera stands in the same spot, but sees a board at 3 m on its left half."""
    views = wall_views([[0.0, 0.0, 2.0], [0.0, 0.0, 2.0]])
    depth = views.depth.copy()
    depth[1, :, :40] = 3.0
    board = Views(depth, views.centres, views.rotations, views.intrinsics)
    assert np.isclose(true_overlap(board, [[0, 1]], step=1)[0], 0.5, atol=0.02)


def test_sky_does_not_count():
    views = wall_views([[0.0, 0.0, 2.0], [0.0, 0.0, 2.0]])
    depth = views.depth.copy()
    depth[:, :30] = 0.0
    half_sky = Views(depth, views.centres, views.rotations, views.intrinsics)
    assert true_overlap(half_sky, [[0, 1]], step=1)[0] == 1.0
    depth[:] = 0.0
    assert true_overlap(half_sky, [[0, 1]], step=1)[0] == 0.0


def test_a_coarser_step_estimates_the_same():
    rng = np.random.default_rng(1)
    views = sphere_views(rng.uniform(0, 120, 20))
    pairs = rng.integers(0, 20, (60, 2))
    assert np.abs(true_overlap(views, pairs, step=1) - true_overlap(views, pairs, step=3)).max() < 0.03


def test_a_pair_that_is_not_there_is_named():
    with pytest.raises(InputError, match="photos 0 to 5, but there are 2"):
        true_overlap(sphere_views([0.0, 1.0]), [[0, 5]])
