"""Sums and products instead of the C library: within an ulp or two of it, and exact where it counts."""

import math

import mpmath
import numpy as np
from numba import njit

from samespot.overlap.angles import angle_of, cos_sin_of_degrees, less_sine, wrapped

ULP = np.spacing(1.0)


def test_an_angle_is_that_of_the_c_library_within_two_ulps():
    rng = np.random.default_rng(0)
    x, y = (
        rng.standard_normal(20_000),
        np.abs(rng.standard_normal(20_000)) * 10.0 ** rng.uniform(-9, 3, 20_000),
    )
    got = np.array([angle_of(a, b) for a, b in zip(x, y, strict=True)])
    assert (np.abs(got - np.arctan2(y, x)) <= 2 * np.spacing(np.arctan2(y, x))).all()
    assert [angle_of(1.0, 0.0), angle_of(0.0, 1.0), angle_of(-1.0, 0.0)] == [0.0, math.pi / 2, math.pi]


def test_an_angle_less_its_sine_keeps_all_digits():
    for x in np.concatenate([10.0 ** np.linspace(-12, 0, 50), [1.3, math.pi / 2]]):
        with mpmath.workdps(60):
            expected = float(mpmath.mpf(x) - mpmath.sin(mpmath.mpf(x)))
        assert abs(less_sine(x) / expected - 1) < 3 * ULP
        assert less_sine(-x) == -less_sine(x)


def test_quarter_turns_are_exact_and_all_others_within_an_ulp():
    quarters = [cos_sin_of_degrees(90.0 * i) for i in range(-4, 9)]
    assert quarters == [[(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][i % 4] for i in range(-4, 9)]
    for degrees in np.random.default_rng(1).uniform(-720, 720, 5000):
        got = cos_sin_of_degrees(degrees)
        with mpmath.workdps(40):
            radians = mpmath.radians(mpmath.mpf(degrees))
            expected = float(mpmath.cos(radians)), float(mpmath.sin(radians))
        assert np.abs(np.subtract(got, expected)).max() <= ULP


def test_a_wrapped_angle_is_the_same_direction():
    for angle in (0.5, math.pi, -math.pi, 4.0, -4.0, 100.0):
        assert -math.pi - 1e-14 <= wrapped(angle) <= math.pi + 1e-14
        assert abs(math.remainder(wrapped(angle) - angle, 2 * math.pi)) < 1e-13


@njit(error_model="numpy")
def _angles(x, y, out):
    for i in range(len(x)):
        out[i] = angle_of(x[i], y[i])


def test_alone_or_many_at_once_give_the_same_bits():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal(1003), np.abs(rng.standard_normal(1003))
    out = np.empty(1003)
    _angles(x, y, out)
    assert out.tolist() == [angle_of(a, b) for a, b in zip(x, y, strict=True)]
