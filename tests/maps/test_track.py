"""Sequences: evidence is summed over time, and no camera jumps."""

import numpy as np
import pytest

from samespot.maps.track import LEAVES, Follower, Moment, moves, smoothed


def moment(time, places, odds):
    return Moment(float(time), np.array(places, dtype=float).reshape(-1, 2), np.array(odds, dtype=float))


def test_one_photo_alone_is_believed_as_its_odds_say():
    belief = Follower(10.0, 25.0, outside=0.5)(moment(0, [(0, 0)], [4.0]))
    assert belief == pytest.approx([0.8])
    belief = Follower(10.0, 25.0, outside=0.8)(moment(0, [(0, 0)], [4.0]))
    assert belief == pytest.approx([0.8 / (0.8 + 0.8)])


def test_weak_evidence_that_agrees_over_time_becomes_strong():
    walk = [moment(t, [(2.0 * t, 0), (5_000 - 900 * t, 900 * t)], [1.5, 1.4]) for t in range(8)]
    follower = Follower(5.0, 25.0, outside=0.5)
    beliefs = [follower(one) for one in walk]
    assert beliefs[0][0] < 0.45
    assert beliefs[-1][0] > 0.9
    assert beliefs[-1][1] < 0.01


def test_a_place_that_cannot_be_reached_in_time_is_not_believed_for_better_looks():
    near, far = (10.0, 0.0), (4_000.0, 0.0)
    walk = [moment(t, [near, far], odds) for t, odds in enumerate([(9, 0.1), (9, 0.1), (2, 8), (9, 0.1)])]
    follower = Follower(5.0, 25.0, outside=0.5)
    beliefs = [follower(one) for one in walk]
    assert beliefs[2][0] > 0.9 > 0.05 > beliefs[2][1]
    assert np.array([8.0, 2.0]).argmax() == 0  # alone, the third photo would have said the far place


def test_what_comes_later_tells_about_the_start_when_smoothed_and_not_when_live():
    walk = [moment(t, [(0, 0), (3_000, 0)], [1.0, 1.2] if t == 0 else [20.0, 0.05]) for t in range(4)]
    live = Follower(5.0, 25.0, 0.5)(walk[0])
    whole = smoothed(walk, 5.0, 25.0, 0.5)[0]
    assert live.argmax() == 1
    assert whole.argmax() == 0
    assert whole[0] > 0.9


def test_smoothed_equals_the_sum_over_all_ways():
    """By hand: every way through three moments, outside included."""
    rng = np.random.default_rng(3)
    walk = [moment(t, rng.normal(0, 40, (2, 2)), rng.uniform(0.2, 3.0, 2)) for t in range(3)]

    def step(t, a, b):
        if a == 2 or b == 2:
            return 1 - LEAVES if a == b else LEAVES
        return (1 - LEAVES) * moves(walk[t], walk[t + 1], 5.0, 25.0)[a, b]

    start = [0.7, 0.7, 0.3]
    chance = np.zeros((3, 3))
    for way in np.ndindex(3, 3, 3):
        weight = start[way[0]] * step(0, way[0], way[1]) * step(1, way[1], way[2])
        for t, at in enumerate(way):
            weight *= 1.0 if at == 2 else walk[t].odds[at]
        for t, at in enumerate(way):
            chance[t, at] += weight
    expected = (chance / chance.sum(axis=1, keepdims=True))[:, :2]
    assert np.allclose(smoothed(walk, 5.0, 25.0, 0.3), expected)


def test_leaving_the_map_is_noticed():
    walk = [moment(t, [(t, 0)], [20.0]) for t in range(5)] + [
        moment(t, [(t, 0)], [0.02]) for t in range(5, 12)
    ]
    follower = Follower(5.0, 25.0, 0.5)
    beliefs = [float(follower(one)[0]) for one in walk]
    assert beliefs[4] > 0.95
    assert beliefs[-1] < 0.05


def test_no_photo_and_no_candidate_are_no_trouble():
    assert smoothed([], 5.0, 25.0, 0.5) == []
    nothing = Moment(0.0, np.zeros((0, 2)), np.zeros(0))
    assert [len(one) for one in smoothed([nothing, moment(1, [(0, 0)], [3.0])], 5.0, 25.0, 0.5)] == [0, 1]
