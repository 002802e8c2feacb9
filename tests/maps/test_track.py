"""Sequences: evidence is summed over time, and no camera jumps."""

import numpy as np
import pytest

from samespot.maps.track import FINDS, LOSES, LOST, Follower, Moment, Steps, distinct_places, smoothed

TOWN = np.stack(np.meshgrid(np.arange(0, 5000, 100.0), np.arange(0, 5000, 100.0)), axis=-1).reshape(-1, 2)


def moment(time, places, alone):
    alone = np.array(alone, dtype=float)
    return Moment(
        float(time), np.array(places, dtype=float).reshape(-1, 2), np.append(alone, 1 - alone.sum())
    )


def steps(speed=5.0, slack=25.0, places=TOWN, outside=0.5):
    return Steps(speed, slack, places, outside)


def test_one_photo_alone_is_believed_as_it_is():
    for outside in (0.05, 0.5, 0.9):
        one = moment(0, [(0, 0), (900, 0)], [0.6, 0.1])
        assert Follower(steps(outside=outside))(one) == pytest.approx([0.6, 0.1, 0.3])
        assert smoothed([one], steps(outside=outside))[0] == pytest.approx([0.6, 0.1, 0.3])


def test_weak_evidence_that_agrees_over_time_becomes_strong():
    walk = [moment(t, [(2.0 * t, 0), (4_900 - 600 * t, 600 * t)], [0.3, 0.3]) for t in range(8)]
    follower = Follower(steps())
    beliefs = [follower(one) for one in walk]
    assert beliefs[0][0] == pytest.approx(0.3)
    assert beliefs[-1][0] > 0.95
    assert beliefs[-1][1] < 0.01


def test_a_place_that_cannot_be_reached_in_time_is_not_believed_for_better_looks():
    near, far = (10.0, 0.0), (4_000.0, 0.0)
    walk = [moment(t, [near, far], [0.8, 0.05]) for t in (0, 1, 2)] + [moment(3, [near, far], [0.2, 0.7])]
    follower = Follower(steps())
    beliefs = [follower(one) for one in walk]
    assert walk[3].alone.argmax() == 1
    assert beliefs[3].argmax() == 0
    assert beliefs[3][1] < 0.02


def test_what_comes_later_tells_about_the_start_when_smoothed_and_not_when_live():
    first = moment(0, [(0, 0), (3_000, 0)], [0.3, 0.4])
    walk = [first, *(moment(t, [(0, 0), (3_000, 0)], [0.8, 0.02]) for t in (1, 2, 3))]
    live, whole = Follower(steps())(first), smoothed(walk, steps())[0]
    assert live.argmax() == 1
    assert whole.argmax() == 0
    assert whole[0] > 0.9


@pytest.mark.parametrize("outside", [0.2, 0.5, 0.8])
def test_both_ways_equal_the_sum_over_all_ways_through_the_town(outside):
    """By hand: a chain over every place of a small town and outside, with the steps and the prior written out.

    The candidates are all its places here, so that nothing stands for another.
    """
    rng = np.random.default_rng(3)
    town = np.array([[0.0, 0.0], [30.0, 0.0], [900.0, 0.0]])
    walk = [moment(10 * t, town, rng.dirichlet(np.ones(4))[:3]) for t in range(3)]
    prior = np.append(np.full(3, (1 - outside) / 3), outside)
    stay = (1 - outside * LOSES) / (1 - outside)
    ratio = np.full((4, 4), FINDS)
    ratio[:3, :3] = stay * 3 / 2  # two of three places can be reached, from the first two
    ratio[2, :3] = ratio[:2, 2] = LOST
    ratio[2, 2] = stay * 3
    ratio[:3, 3], ratio[3, 3] = LOSES, (1 - FINDS * (1 - outside)) / outside
    move = ratio * prior  # from, to
    assert move[[0, 1, 3]].sum(axis=1) == pytest.approx(1.0, abs=0.01)  # a chance, but for what is lost
    chance = np.zeros((3, 4))
    forward = np.zeros((3, 4))
    for way in np.ndindex(4, 4, 4):
        weight = prior[way[0]]
        for t, at in enumerate(way):
            weight *= walk[t].alone[at] / prior[at] * (move[way[t - 1], at] if t else 1.0)
            forward[t, at] += weight if t < 2 else 0.0
        for t, at in enumerate(way):
            chance[t, at] += weight
    expected = chance / chance.sum(axis=1, keepdims=True)
    found = smoothed(walk, steps(speed=0.0, slack=50.0, places=town, outside=outside))
    assert np.allclose(found, expected)
    follower = Follower(steps(speed=0.0, slack=50.0, places=town, outside=outside))
    assert np.allclose([follower(one) for one in walk][-1], expected[-1])


def test_where_anything_can_be_reached_photos_are_nearly_independent():
    walk = [moment(1e6 * t, [(0, 0), (3_000, 0)], [0.3, 0.2]) for t in range(20)]
    follower = Follower(steps(outside=0.5))
    beliefs = [follower(one) for one in walk]
    assert beliefs[-1][1] / beliefs[-1][0] == pytest.approx(2 / 3)
    assert 0.2 < beliefs[-1][0] < 0.45


def test_many_places_that_do_not_fit_do_not_add_up_to_one():
    crowd = [(10.0 * i, 0.0) for i in range(60)]
    walk = [moment(t, crowd, [0.002] * 60) for t in range(10)]
    follower = Follower(steps())
    beliefs = [follower(one) for one in walk]
    assert beliefs[0][-1] == pytest.approx(0.88)
    after = follower(moment(10, [(4_000, 4_000)], [0.5]))
    assert after[0] < 0.6


def test_leaving_the_map_is_noticed():
    walk = [moment(t, [(t, 0)], [0.95]) for t in range(5)]
    walk += [moment(t, [(300.0 * t, 4_000 - 200.0 * t)], [0.05]) for t in range(5, 10)]  # here and there
    follower = Follower(steps())
    beliefs = [float(follower(one)[0]) for one in walk]
    assert beliefs[4] > 0.95
    assert max(beliefs[5:]) < 0.1


def test_a_place_that_comes_again_and_again_is_believed_in_the_end():
    follower = Follower(steps())
    beliefs = [float(follower(moment(t, [(2.0 * t, 0)], [0.2]))[0]) for t in range(8)]
    assert beliefs[0] == pytest.approx(0.2)
    assert np.all(np.diff(beliefs) > 0)
    assert beliefs[-1] > 0.5


def test_no_photo_and_no_candidate_are_no_trouble():
    assert smoothed([], steps()) == []
    nothing = Moment(0.0, np.zeros((0, 2)), np.ones(1))
    first, second = smoothed([nothing, moment(1, [(0, 0)], [0.6])], steps())
    assert first == pytest.approx([1.0])
    assert 0.3 < second[0] < 0.7


def test_distinct_places_are_one_for_each_square():
    found = distinct_places(np.array([[1.0, 1.0], [24.0, 2.0], [26.0, 1.0], [-1.0, 1.0]]), 25.0)
    assert sorted(map(tuple, found)) == [(-12.5, 12.5), (12.5, 12.5), (37.5, 12.5)]
