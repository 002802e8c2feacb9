"""A pose from points whose place is known: exact, robust, and none where the points do not fix it."""

import numpy as np
import pytest

from samespot.places.camera import Camera
from samespot.places.pose import angles_between, quaternions, rotation_matrices
from samespot.poses.absolute import LEAST, NoPose, Sights, Solved, sights_from, solve

CAMERA = Camera.of_focal(640, 480, 525.0)
CENTRE = np.array([412_000.0, 5_320_000.0, 3.0])  # metres of a whole country


def turned(seed=0):
    from scipy.spatial.transform import Rotation

    return Rotation.from_rotvec(np.random.default_rng(seed).normal(0, 1, 3)).as_matrix()


def sights(count=200, *, seed=0, camera=CAMERA, noise=0.0, wrong=0.0, plane=None, candidates=1):
    """Points before a camera at CENTRE; a share of them `wrong`; on a `plane` at that distance."""
    dice = np.random.default_rng(seed)
    pixels = dice.uniform((10, 10), (630, 470), (count, 2))
    z = np.full(count, plane) if plane else dice.uniform(2, 12, count)
    local = np.hstack([camera.rays(pixels), np.ones((count, 1))]) * z[:, None]
    world = local @ turned().T + CENTRE
    bad = dice.random(count) < wrong
    world[bad] += dice.normal(0, 3, (int(bad.sum()), 3))
    seen = pixels + dice.normal(0, noise, pixels.shape)
    return Sights(seen, world, np.arange(count), np.arange(count) % candidates, z)


def off(found):
    assert isinstance(found, Solved), found
    truth = quaternions(turned()[None])
    return np.linalg.norm(found.centre - CENTRE), angles_between(found.quaternion[None], truth)[0]


def test_exact_points_give_the_exact_pose():
    metres, degrees = off(solve(sights(), CAMERA))
    assert metres < 1e-4
    assert degrees < 1e-3


def test_noise_and_wrong_matches():
    metres, degrees = off(solve(sights(300, noise=1.0, wrong=0.6), CAMERA))
    assert metres < 0.03
    assert degrees < 0.3


def test_the_covariance_is_about_the_error():
    """In the square of deviations, of which 3 are expected and 7.8 are passed once in twenty times."""
    gone = []
    for seed in range(30):
        found = solve(sights(150, seed=seed, noise=1.0), CAMERA)
        apart = found.centre - CENTRE
        gone.append(apart @ np.linalg.solve(found.covariance[:3, :3], apart))
    assert 1.0 < np.median(gone) < 5.0
    assert np.mean(np.array(gone) > 7.8) < 0.25


def test_sights_of_one_keypoint_count_once():
    one = sights(100, noise=1.0)
    many = Sights.together([one] * 4)
    assert np.allclose(solve(one, CAMERA).covariance, solve(many, CAMERA).covariance, rtol=0.1)
    assert solve(many, CAMERA).keypoints == solve(one, CAMERA).keypoints


def test_a_plane_is_enough_when_the_focal_length_is_known():
    metres, degrees = off(solve(sights(plane=5.0, noise=0.5), CAMERA))
    assert metres < 0.05
    assert degrees < 0.5


def test_an_unknown_focal_length_is_found():
    found = solve(sights(300, noise=0.5, wrong=0.3), Camera.of_focal(640, 480, 900.0), focal_known=False)
    assert found.camera.fx == pytest.approx(525.0, rel=0.02)
    assert off(found)[0] < 0.2


def test_a_distorting_lens_is_undone():
    bent = Camera(640, 480, 525.0, 525.0, 320.0, 240.0, (-0.25, 0.08, 0.001, -0.001))
    metres, degrees = off(solve(sights(camera=bent, noise=0.3), bent))
    assert metres < 0.02
    assert degrees < 0.2
    assert off(solve(sights(camera=bent, noise=0.3), CAMERA))[0] > 5 * metres


@pytest.mark.parametrize(
    ("given", "camera", "known", "why"),
    [
        (Sights.none(), CAMERA, True, "0 keypoints"),
        (sights(3), CAMERA, True, "3 keypoints"),
        (sights(LEAST - 1), CAMERA, True, f"{LEAST - 1} of {LEAST - 1} keypoints agree"),
        (sights(200, wrong=1.0), CAMERA, True, "agree on a pose"),
        (sights(200, plane=5.0, noise=0.3), CAMERA, False, ""),
    ],
)
def test_no_pose_says_why(given, camera, known, why):
    """Too few points, points that are all wrong, and a wall before an unknown lens: its distance cannot be told."""
    found = solve(given, camera, focal_known=known)
    if known:
        assert isinstance(found, NoPose)
        assert why in found.why
    else:
        assert isinstance(found, NoPose) or found.deviation > 0.1


def test_points_on_a_line_do_not_fix_a_pose():
    dice = np.random.default_rng(0)
    along = np.array([0.0, 0.0, 5.0]) + np.outer(dice.uniform(-2, 2, 60), [1.0, 0.0, 0.0])
    world = along @ turned().T + CENTRE
    line = Sights(CAMERA.pixels(along), world, np.arange(60), np.zeros(60, dtype=int), along[:, 2])
    assert isinstance(solve(line, CAMERA), NoPose)


def test_a_mirrored_photo_has_no_pose():
    """Even if all its keypoints were matched as if it were not."""
    given = sights(300, noise=0.5)
    mirrored = Sights(
        np.stack([640 - given.xy[:, 0], given.xy[:, 1]], axis=1),
        given.world,
        given.keypoint,
        given.candidate,
        given.depth,
    )
    found = solve(mirrored, CAMERA)
    assert isinstance(found, NoPose)
    assert "300 would if the photo were mirrored" in found.why


def test_the_wrong_place_with_more_matches_does_not_drown_the_right_one():
    """Candidates that see other things are solved apart: few that agree beat many that do not."""
    right, noise = sights(40, noise=0.5), sights(600, seed=5, wrong=1.0)
    noise = Sights(noise.xy, noise.world + 100, noise.keypoint + 1000, noise.candidate + 1, noise.depth)
    metres, _ = off(solve(Sights.together([right, noise]), CAMERA))
    assert metres < 0.1


def test_sights_from_a_map_photo():
    points = np.array([[1.0, 2.0, 4.0], [np.nan] * 3, [0.0, 0.0, 2.0]], dtype=np.float32)
    pairs = np.array([[5, 0], [6, 1], [7, 2]])
    found = sights_from(np.arange(20.0).reshape(10, 2), pairs, points, turned(1), CENTRE, 9)
    assert found.keypoint.tolist() == [5, 7]
    assert found.xy.tolist() == [[10.0, 11.0], [14.0, 15.0]]
    assert found.world == pytest.approx(points[[0, 2]] @ turned(1).T + CENTRE)
    assert found.candidate.tolist() == [9, 9]
    assert found.depth.tolist() == [4.0, 2.0]
    assert rotation_matrices(quaternions(turned()[None])) == pytest.approx(turned()[None])
