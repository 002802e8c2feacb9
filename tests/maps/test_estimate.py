"""Position and heading from matched photos."""

import numpy as np
import pytest

from samespot.maps.estimate import FEWEST, VIEW, heading_of, position_of
from samespot.matching.keypoints import Keypoints


def seen(x, width=640, height=480):
    xy = np.column_stack([x, np.full(len(x), height / 2)]).astype(np.float32)
    return Keypoints(xy, np.zeros((len(x), 64), np.int8), (height, width))


def test_the_position_is_drawn_to_what_speaks_for_it_and_never_to_other_places():
    places = np.array([[0.0, 0.0], [10.0, 0.0], [500.0, 0.0]])
    assert position_of(places, np.array([30.0, 10.0, 29.0]), 25.0) == pytest.approx([2.5, 0.0])
    assert position_of(places, np.zeros(3), 25.0) == pytest.approx([0.0, 0.0])


def bearings(turn, count=40):
    """x of far points as seen by a camera, and by another that is turned `turn` degrees to the right."""
    focal = 320 / np.tan(np.radians(VIEW / 2))
    angles = np.radians(np.linspace(-10, 10, count))
    return 320 + focal * np.tan(angles), 320 + focal * np.tan(angles - np.radians(turn))


@pytest.mark.parametrize("turn", [-12.0, 0.0, 7.0])
def test_a_turned_camera_is_told_from_the_shift_of_what_is_far(turn):
    match, asked = bearings(turn)
    pairs = np.stack([np.arange(40), np.arange(40)], axis=1)
    assert heading_of(355.0, seen(asked), seen(match), pairs) == pytest.approx((355.0 + turn) % 360, abs=0.01)


def test_near_things_that_shift_otherwise_do_not_mislead_it():
    match, asked = bearings(7.0)
    asked[:15] += 200
    pairs = np.stack([np.arange(40), np.arange(40)], axis=1)
    assert heading_of(90.0, seen(asked), seen(match), pairs) == pytest.approx(97.0, abs=1.0)


def test_few_matches_or_an_unknown_heading_tell_nothing():
    match, asked = bearings(7.0)
    pairs = np.stack([np.arange(40), np.arange(40)], axis=1)
    assert heading_of(90.0, seen(asked), seen(match), pairs[: FEWEST - 1]) is None
    assert heading_of(float("nan"), seen(asked), seen(match), pairs) is None
