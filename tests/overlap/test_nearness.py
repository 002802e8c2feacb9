"""Soft similarity by distance, against values worked out by hand."""

import math

import numpy as np
import pytest

from samespot.overlap.nearness import FAINT, reach_of, soft_nearness


def test_by_hand():
    # 15 m, 0.8 / m: one e-fold of the odds every 1.25 m
    assert soft_nearness(15.0).item() == 0.5
    assert soft_nearness(15.0 + 1.25).item() == pytest.approx(1 / (1 + math.e), rel=1e-12)
    assert soft_nearness(15.0 - 1.25).item() == pytest.approx(math.e / (1 + math.e), rel=1e-12)
    assert soft_nearness(0.0).item() == pytest.approx(1 - 6.1e-6, abs=1e-7)


def test_it_ends_where_it_is_faint():
    reach = reach_of(15.0, 0.8)
    assert reach == pytest.approx(23.6334, abs=1e-4)
    assert soft_nearness(reach).item() == pytest.approx(FAINT, rel=1e-9)
    assert soft_nearness([reach + 1e-6, 1e6, np.inf]).tolist() == [0, 0, 0]


def test_it_falls_with_distance_and_is_a_step_where_steep():
    apart = np.linspace(0, 30, 301)
    assert (np.diff(soft_nearness(apart)) <= 0).all()
    steep = soft_nearness(apart, 10.05, 500.0)
    np.testing.assert_array_equal(steep[apart < 10.0], 1.0)
    np.testing.assert_array_equal(steep[apart > 10.1], 0.0)
