"""GPS and compass noise has the spread that it is given."""

import numpy as np

from samespot.town.noise import Noise, measured


def turned(a, b):
    return (a - b + 180.0) % 360.0 - 180.0


def test_no_noise_changes_nothing():
    true = np.random.default_rng(0).uniform(0, 300, (50, 3))
    assert np.allclose(measured(true, np.arange(50) // 10, Noise(0, 0, 0, 0)), true)


def test_the_spread_within_a_visit_is_that_of_photos_and_between_visits_that_of_visits():
    true = np.tile([100.0, 200.0, 10.0], (400 * 50, 1))
    visit = np.repeat(np.arange(400), 50)
    error = measured(true, visit, Noise(3.0, 1.0, 6.0, 2.0), seed=3) - true
    error[:, 2] = turned(error[:, 2], 0.0)
    by_visit = error.reshape(400, 50, 3)
    within = (by_visit - by_visit.mean(axis=1, keepdims=True)).std(axis=(0, 1)) * np.sqrt(50 / 49)
    between = by_visit.mean(axis=1).std(axis=0)
    np.testing.assert_allclose(within, [1.0, 1.0, 2.0], rtol=0.03)
    np.testing.assert_allclose(between, [3.0, 3.0, 6.0], rtol=0.12)
    assert (np.abs(by_visit.mean(axis=(0, 1))) < [0.5, 0.5, 1.0]).all()


def test_twice_the_deviation_is_twice_the_same_error():
    true = np.tile([0.0, 0.0, 180.0], (40, 1))
    one = measured(true, np.zeros(40), Noise(1, 1, 1, 1)) - true
    two = measured(true, np.zeros(40), Noise(2, 2, 2, 2)) - true
    np.testing.assert_allclose(two, 2 * one)


def test_headings_stay_on_the_compass():
    true = np.tile([0.0, 0.0, 359.9], (500, 1))
    heading = measured(true, np.zeros(500), Noise(0, 0, 0, 30.0))[:, 2]
    assert ((heading >= 0) & (heading < 360)).all()
