"""The way of a visit: every street both ways, photos on the road."""

from itertools import pairwise

import numpy as np
import pytest

from samespot.town.plan import QUARTERS, make_plan
from samespot.town.routes import shoot, tour
from samespot.town.visits import make_visits, map_visits


@pytest.fixture(scope="module")
def plan():
    return make_plan(7)


@pytest.mark.parametrize("part", QUARTERS)
def test_a_tour_drives_every_street_in_both_directions_without_a_jump(plan, part):
    line = tour(plan, part, np.random.default_rng(0))
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    assert steps.max() < 1.6  # the points of a street are about a metre apart
    assert np.isclose(steps.sum(), 2 * sum(s.length for s in plan.streets if s.part == part))
    way = {tuple(np.round([*a, *b], 6)) for a, b in pairwise(line)}
    for street in (s for s in plan.streets if s.part == part):
        for one in (street.line, street.line[::-1]):
            assert tuple(np.round([*one[0], *one[1]], 6)) in way


@pytest.mark.parametrize("part", QUARTERS)
def test_photos_are_taken_on_the_road_and_mostly_ahead(plan, part):
    shots = shoot(plan, part, make_visits(7, 4)[0], 200)
    assert shots.centres.shape == (200, 3)
    lines = [s for s in plan.streets if s.part == part]
    away = np.min(
        [
            np.linalg.norm(shots.centres[:, None, :2] - s.line, axis=2).min(axis=1) - s.half_width
            for s in lines
        ],
        axis=0,
    )
    assert away.max() < 0
    assert (np.diff(shots.along) > 0).all()


def test_some_photos_look_to_the_side(plan):
    shots = shoot(plan, "train", make_visits(7, 4)[0], 600)
    way = np.gradient(shots.centres[:, :2], axis=0)
    course = np.rad2deg(np.arctan2(way[:, 0], way[:, 1]))
    turned = np.abs((shots.heading - course + 180) % 360 - 180)
    assert 0.1 < (turned > 33).mean() < 0.32  # 18 % sideways, and the corners
    assert np.median(turned) < 8


def test_visits_differ_in_light_and_camera():
    visits = make_visits(7, 4)
    assert {v.hour for v in visits} >= {"day", "dusk", "night"}
    assert len({v.condition for v in visits}) == len({v.fov for v in visits}) == 4
    assert len({v.height for v in visits}) > 2
    assert make_visits(7, 4) == make_visits(7, 6)[:4]
    assert (map_visits(2), map_visits(3), map_visits(4)) == (1, 1, 2)
