"""Position and heading from matched photos with GPS and compass alone."""

from dataclasses import replace

import numpy as np
import pytest

from samespot.matching.keypoints import Keypoints
from samespot.places.camera import Camera
from samespot.poses.two_view import Placed, Sight, pose_on_ground, relative

LENS = Camera.of_view(640, 480, 65.0)
HERE, FACING = np.array([100.0, 200.0]), 40.0


def axes(heading):
    angle = np.radians(heading)
    ahead, right = np.array([np.sin(angle), np.cos(angle), 0]), np.array([np.cos(angle), -np.sin(angle), 0])
    return np.stack([right, [0.0, 0.0, -1.0], ahead])


def scene(count=200, seed=0, near=8.0, far=40.0):
    """Points before the photo that is asked about: (n, 3) east, north, up [m]."""
    dice = np.random.default_rng(seed)
    depth = dice.uniform(near, far, count)
    rays = np.column_stack([dice.uniform(-0.6, 0.6, count), dice.uniform(-0.45, 0.45, count), np.ones(count)])
    return (depth[:, None] * rays) @ axes(FACING) + [*HERE, 1.6]


def wall(count=200):
    """The same on a plane that stands askew, 14 m ahead."""
    dice = np.random.default_rng(3)
    x, y = dice.uniform(-8, 8, count), dice.uniform(-4, 4, count)
    return np.column_stack([x, y, 14 + 0.4 * x]) @ axes(FACING) + [*HERE, 1.6]


def seen(points, position, heading, noise=0.5, wrong=0.0, seed=1, mirrored=False):
    """The photo's keypoints, each with a descriptor of its own; a share of them are in wrong places."""
    dice = np.random.default_rng(seed)
    names = np.random.default_rng(0).normal(size=(len(points), 64))
    pixels = LENS.pixels((points - [*position, 1.6]) @ axes(heading).T)
    pixels += noise * dice.normal(size=pixels.shape)
    lost = dice.random(len(points)) < wrong
    pixels[lost] = dice.uniform(0, (640, 480), (int(lost.sum()), 2))
    inside = ((pixels > 0) & (pixels < (640, 480))).all(axis=1)
    if mirrored:
        pixels[:, 0] = 640 - pixels[:, 0]
    return Sight(Keypoints.pack(pixels[inside] - 0.5, names[inside], (480, 640)), LENS)


SPOTS = (
    (-6.0, -4.0, 10.0),
    (5.0, -3.0, -15.0),
    (1.0, 7.0, 5.0),
    (-3.0, 5.0, 0.0),
)  # right, ahead [m], turn [deg]


def placed(points, spots=SPOTS, **how):
    matches = []
    for number, (right, ahead, turn) in enumerate(spots):
        at = HERE + (np.array([right, 0.0, ahead]) @ axes(FACING))[:2]
        sight = seen(points, at, FACING + turn, seed=10 + number, **how)
        matches.append(Placed(sight, at, (FACING + turn) % 360))
    return matches


def off(pose):
    """[m], [deg] from the truth."""
    return np.hypot(*(pose.position - HERE)), abs((pose.heading - FACING + 180) % 360 - 180)


def test_two_views_tell_the_turn_and_the_direction():
    points = scene()
    (match,) = placed(points, [(5.0, 4.0, 12.0)])
    view = relative(seen(points, HERE, FACING), match.sight)
    assert view.turned == pytest.approx(-12.0, abs=0.3)
    right, ahead = view.centre[[0, 2]]
    assert np.degrees(np.arctan2(right, ahead)) == pytest.approx(np.degrees(np.arctan2(5, 4)), abs=3.0)


def test_the_photo_is_placed_between_its_matches():
    points = scene()
    pose = pose_on_ground(seen(points, HERE, FACING), placed(points))
    assert off(pose) == (pytest.approx(0, abs=0.6), pytest.approx(0, abs=0.5))
    assert pose.agreed == 4


def test_and_beyond_them_where_their_mean_is_far_off():
    points, spots = scene(), [(-2.0, 6.0, 3.0), (2.0, 10.0, -3.0), (-1.0, 14.0, 0.0)]
    matches = placed(points, spots)
    pose = pose_on_ground(seen(points, HERE, FACING), matches, gps=0.3)
    mean = np.mean([one.position for one in matches], axis=0)
    assert np.hypot(*(mean - HERE)) > 9
    assert off(pose)[0] < 3.0


def test_turning_on_the_spot_is_no_way_gone():
    points = scene(400)
    pose = pose_on_ground(seen(points, HERE, FACING), placed(points, [(0.0, 0.0, 20.0), (0.0, 0.0, -10.0)]))
    assert off(pose) == (pytest.approx(0, abs=0.5), pytest.approx(0, abs=0.5))


def test_a_wall_alone_is_enough():
    pose = pose_on_ground(seen(wall(), HERE, FACING), placed(wall()), gps=0.3)
    assert off(pose) == (pytest.approx(0, abs=1.5), pytest.approx(0, abs=3.0))


def test_half_of_the_pairs_may_be_wrong():
    points = scene()
    pose = pose_on_ground(seen(points, HERE, FACING), placed(points, wrong=0.5))
    assert off(pose) == (pytest.approx(0, abs=1.0), pytest.approx(0, abs=1.0))


def test_a_match_whose_gps_and_compass_are_wrong_does_not_count():
    points = scene()
    matches = placed(points)
    matches[1] = replace(matches[1], position=matches[1].position + np.array([40.0, 0.0]), heading=200.0)
    pose = pose_on_ground(seen(points, HERE, FACING), matches)
    assert off(pose) == (pytest.approx(0, abs=1.5), pytest.approx(0, abs=2.0))
    assert pose.agreed == 3


@pytest.mark.parametrize("points", [scene(), wall()], ids=["scene", "wall"])
def test_a_mirrored_photo_tells_nothing(points):
    assert pose_on_ground(seen(points, HERE, FACING, mirrored=True), placed(points)) is None


def test_nothing_is_told_without_pairs_or_without_headings():
    points = scene()
    asked = seen(points, HERE, FACING)
    assert pose_on_ground(asked, []) is None
    assert pose_on_ground(asked, placed(scene(8))) is None
    assert pose_on_ground(asked, placed(scene(seed=5), wrong=1.0)) is None
    assert pose_on_ground(asked, [replace(one, heading=np.nan) for one in placed(points)]) is None


def test_with_noisy_gps_it_beats_the_mean_and_says_how_sure_it_is():
    points, dice = scene(), np.random.default_rng(7)
    spots = [(-2.0, 6.0, 3.0), (3.0, 9.0, -3.0), (-3.0, -4.0, 0.0), (1.0, 12.0, 5.0)]
    asked, exact = seen(points, HERE, FACING), placed(points, spots)
    ours, means, inside = [], [], []
    for _ in range(25):
        noisy = [
            replace(
                one, position=one.position + dice.normal(0, 2, 2), heading=one.heading + dice.normal(0, 6)
            )
            for one in exact
        ]
        pose = pose_on_ground(asked, noisy)
        wrong = pose.position - HERE
        ours.append(off(pose)[0])
        means.append(np.hypot(*(np.mean([one.position for one in noisy], axis=0) - HERE)))
        inside.append(wrong @ np.linalg.solve(pose.covariance, wrong) <= 4.605)  # nine times in ten
    assert np.mean(ours) < 0.6 * np.mean(means)
    assert np.mean(inside) >= 0.8
    assert pose.radius < 5.0


def test_in_rendered_streets_it_finds_the_way_from_its_matches(one_thread):
    """Real keypoints, photos some metres apart along a street and across it; positions and headings are exact."""
    torch = pytest.importorskip("torch")
    from samespot.matching.verification import verifier_named
    from samespot.town.render import facing, intrinsics_of, render
    from samespot.town.routes import shoot
    from samespot.town.visits import make_visits
    from samespot.town.world import make_town, on_visit

    town, visit = make_town(5), make_visits(5, 2)[0]
    scenery = on_visit(town, 0, "day", "clear", "summer")
    parts = scenery.mesh, scenery.atlas, scenery.ground, scenery.light
    lens, verifier = intrinsics_of(visit.fov, (240, 320)), verifier_named("xfeat")
    camera, shots = Camera(320, 240, *lens.tolist()), shoot(town.plan, "test", visit, 40)
    # right, ahead [m], turn [deg]; the first is asked about
    spots = np.array([(0.0, 0.0, 0.0), (-1.5, 5.0, 4.0), (1.0, 8.0, -3.0), (-2.0, -3.0, 2.0)])
    errors, means, turns = [], [], []
    for shot in (4, 12, 20, 28, 36):
        heading = float(shots.heading[shot])
        moved = np.column_stack([spots[:, 0], np.zeros(4), spots[:, 1]]) @ axes(heading)
        at = shots.centres[shot] + moved
        images, _ = render(*parts, at, facing(heading + spots[:, 2]), lens, (240, 320))
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
        asked, *others = (Sight(verifier.extract(one), camera) for one in pixels)
        matches = [
            Placed(sight, where[:2], (heading + turn) % 360)
            for sight, where, turn in zip(others, at[1:], spots[1:, 2], strict=True)
        ]
        pose = pose_on_ground(asked, matches, gps=0.3)
        errors.append(np.hypot(*(pose.position - at[0, :2])))
        means.append(np.hypot(*(at[1:, :2].mean(axis=0) - at[0, :2])))
        turns.append(abs((pose.heading - heading + 180) % 360 - 180))
    assert np.median(means) > 3.3
    assert np.median(errors) < 1.0
    assert np.median(turns) < 1.0
