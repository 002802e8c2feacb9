"""The plan of the town: what holds for every seed."""

import numpy as np
import pytest
from shapely.geometry import LineString, Polygon
from shapely.strtree import STRtree

from samespot.town.plan import QUARTERS, inside, make_plan


@pytest.fixture(scope="module", params=[7, 8])
def plan(request):
    return make_plan(request.param)


def test_the_same_seed_gives_the_same_plan_and_another_seed_another():
    a, b, c = make_plan(7), make_plan(7), make_plan(8)
    assert all(np.array_equal(x.corners, y.corners) for x, y in zip(a.lots, b.lots, strict=True))
    assert np.array_equal(a.trees, b.trees)
    assert not np.array_equal(a.junctions, c.junctions)


def test_no_house_stands_on_a_street_or_in_another_house(plan):
    houses = [Polygon(lot.corners) for lot in plan.lots]
    for street in plan.streets:
        road = LineString(street.line).buffer(street.half_width)
        assert all(not road.intersects(house) for house in houses)
    tree = STRtree(houses)
    for k, house in enumerate(houses):
        for other in tree.query(house):
            if other > k:
                # two houses side by side may share a joint, not a room
                assert house.intersection(houses[other]).area < 0.06 * min(house.area, houses[other].area)


def test_each_quarter_is_one_town_without_dead_ends(plan):
    for part in QUARTERS:
        ends = [s.ends for s in plan.streets if s.part == part]
        degree = np.bincount(np.array(ends).ravel())
        assert degree[degree > 0].min() >= 2
        reached = {ends[0][0]}
        for _ in ends:
            reached |= {b for pair in ends if reached & set(pair) for b in pair}
        assert reached == {end for pair in ends for end in pair}


def test_streets_bend_and_blocks_differ(plan):
    detours = [s.length / np.hypot(*(s.line[-1] - s.line[0])) for s in plan.streets]
    lengths = [s.length for s in plan.streets]
    assert max(detours) > 1.01
    assert max(lengths) > 1.3 * min(lengths)


def test_the_wall_keeps_the_quarters_apart(plan):
    wall = plan.wall[0, 0]
    west = max(s.line[:, 0].max() for s in plan.streets if s.part == "train")
    east = min(s.line[:, 0].min() for s in plan.streets if s.part == "test")
    assert west + 25 < wall < east - 25
    corners = np.concatenate([lot.corners for lot in plan.lots])
    assert np.abs(corners[:, 0] - wall).min() > 2.0


def test_inside_agrees_with_a_worked_example():
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    assert inside(np.array([[1.0, 1.0], [3.0, 1.0], [-0.1, 1.0]]), square).tolist() == [True, False, False]
