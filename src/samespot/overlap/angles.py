"""Angles and unit vectors for compiled loops, as plain sums and products without branches.

A call to the C library's `atan2` or `cos` handles one number, and keeps the loop around it from going through eight at
once. These do not; they are off by an ulp or two at most, and give the same bits in any loop, alone or eight at once.
"""

from __future__ import annotations

import math

from numba import njit

PI = math.pi
HALF_PI = 0.5 * math.pi
TWO_PI = 2.0 * math.pi
_EIGHTH_TURN = math.tan(PI / 8.0)
_DEGREE = PI / 180.0


@njit(forceinline=True, error_model="numpy")
def wrapped(angle: float) -> float:  # pragma: no cover - compiled
    """The same direction in [-π, π]."""
    return angle - TWO_PI * math.floor(angle / TWO_PI + 0.5)


@njit(forceinline=True, error_model="numpy")
def angle_of(x: float, y: float) -> float:  # pragma: no cover - compiled
    """Angle of the direction (x, y) with y >= 0, in [0, π].

    Turned by 45° where that makes it smaller, the tangent is at most tan(22.5°), where a short polynomial will do.
    """
    across = abs(x)
    low, high = min(y, across), max(y, across)
    steep = low > _EIGHTH_TURN * high
    t = (low - high if steep else low) / (low + high if steep else high)
    z = t * t
    p = -0.01917685746960811
    p = p * z + 0.03923163408550222
    p = p * z - 0.05085448899918921
    p = p * z + 0.058581487526600855
    p = p * z - 0.06664511428947303
    p = p * z + 0.07692183189517367
    p = p * z - 0.09090904578067568
    p = p * z + 0.11111111015254975
    p = p * z - 0.14285714284666526
    p = p * z + 0.1999999999999552
    p = p * z - 0.3333333333333333
    angle = t + t * (z * p)
    angle = 0.25 * PI + angle if steep else angle
    angle = HALF_PI - angle if y > across else angle
    return PI - angle if x < 0.0 else angle


@njit(forceinline=True, error_model="numpy")
def less_sine(x: float) -> float:  # pragma: no cover - compiled
    """x − sin x for |x| up to π/2, to all digits: near 0 their difference would have none left."""
    z = x * x
    p = -2.7312868913092307e-15
    p = p * z + 7.643957622560617e-13
    p = p * z - 1.6058976915095007e-10
    p = p * z + 2.505210761086116e-08
    p = p * z - 2.7557319219115013e-06
    p = p * z + 0.00019841269841254795
    p = p * z - 0.008333333333333316
    p = p * z + 0.16666666666666666
    return x * z * p


@njit(forceinline=True, error_model="numpy")
def cos_sin_of_degrees(degrees: float) -> tuple[float, float]:  # pragma: no cover - compiled
    """Cosine and sine. The quarter turns are taken off in degrees, where that is exact."""
    quarters = math.floor(degrees / 90.0 + 0.5)
    x = (degrees - 90.0 * quarters) * _DEGREE
    z = x * x
    p = -1.1382614868556325e-11
    p = p * z + 2.0876146024689747e-09
    p = p * z - 2.7557317270560326e-07
    p = p * z + 2.4801587298763433e-05
    p = p * z - 0.0013888888888887395
    p = p * z + 0.041666666666666664
    cosine, sine = 1.0 - (0.5 * z - z * z * p), x - less_sine(x)
    quarter = quarters - 4.0 * math.floor(0.25 * quarters)  # 0, 1, 2 or 3
    odd = (quarter == 1.0) | (quarter == 3.0)
    along, across = (sine if odd else cosine), (cosine if odd else sine)
    along = -along if (quarter == 1.0) | (quarter == 2.0) else along
    return along, -across if quarter >= 2.0 else across
