"""How much field of view two cameras share on the ground: the exact intersection of two circular sectors.

The area comes in closed form from Green's theorem, with the origin at the apex of the first sector. Its own
straight edges then contribute nothing, and neither does any edge of the second sector that is collinear with
them: coincident edges, the usual trouble of polygon clipping, cannot arise. What remains are the first
sector's arc inside the second, and the second's two edges and arc inside the first.
A sector wider than 180° is not convex; it is the sum of its two halves, which are.

Pairs are worked on in runs, all by the same sums and without branches, so that the machine takes eight at once.
A pair has the same share, to the last bit, wherever it stands in a run.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
from numba import njit, prange
from numpy.typing import ArrayLike, NDArray

from samespot.arrays import read_only
from samespot.errors import InputError
from samespot.options import check_choice
from samespot.overlap.angles import HALF_PI, PI, TWO_PI, angle_of, cos_sin_of_degrees, less_sine, wrapped
from samespot.overlap.rules import RADIUS, THETA, Measure

# Shares below this are rounding of positions (a nanometre in UTM), not a shared view.
SMALLEST_SHARE = 1e-9
_SAME_SPOT = 1e-12  # apexes closer than this fraction of the radius are one point
RUN = 256  # pairs worked on together: their numbers stay in the fastest cache
# A sector is a column of numbers: its axis [rad, anticlockwise from east, at most 180° away] and the axis' cosine and
# sine; half its opening angle [rad]; cosine and sine of half of one of its convex parts; its radius [m].
NUMBERS = 7
_AXIS, _COS, _SIN, _HALF, _COS_PART, _SIN_PART, _RADIUS = range(NUMBERS)


def sector_overlap(
    a: ArrayLike,
    b: ArrayLike,
    theta: ArrayLike = THETA,
    radius: ArrayLike = RADIUS,
    measure: Measure = "overlap",
    *,
    theta_b: ArrayLike | None = None,
    radius_b: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Share of the field of view that cameras `a` and `b` have in common, in [0, 1].

    a, b: (..., 3) easting, northing [m], heading [deg, clockwise from north]; they broadcast.
    theta: opening angle [deg] in (0, 360]; radius: how far a camera sees [m]. Each a number or an array that
    broadcasts with the pairs; `theta_b` and `radius_b` are those of `b` where they differ from `a`'s.
    measure: "overlap", the shared area over the area of one sector (of the smaller one, if they differ), or
    "iou", the shared area over that of the union. An unknown (NaN) position or heading gives NaN.
    """
    check_choice("measure", measure, get_args(Measure))
    first, second = _poses(a, "a"), _poses(b, "b")
    angles = [_angles(theta, "theta"), _angles(theta if theta_b is None else theta_b, "theta_b")]
    radii = [_radii(radius, "radius"), _radii(radius if radius_b is None else radius_b, "radius_b")]
    try:
        shape = np.broadcast_shapes(
            first.shape[:-1], second.shape[:-1], *(x.shape for x in (*angles, *radii))
        )
    except ValueError as error:
        raise InputError(
            f"a {first.shape}, b {second.shape}, theta and radius do not broadcast: {error}"
        ) from error
    # Every operand is laid out flat, one pair after the other: all eastings, all northings, all headings.
    pose_a = read_only(np.broadcast_to(first, (*shape, 3)).reshape(-1, 3).T)
    pose_b = read_only(np.broadcast_to(second, (*shape, 3)).reshape(-1, 3).T)
    theta_1, theta_2, radius_1, radius_2 = (
        read_only(np.broadcast_to(x, shape).ravel()) for x in (*angles, *radii)
    )
    shares = _pairs_kernel(pose_a, theta_1, radius_1, pose_b, theta_2, radius_2, measure == "iou")
    return shares.reshape(shape)  # type: ignore[no-any-return]


def _poses(values: ArrayLike, name: str) -> NDArray[np.float64]:
    poses = np.asarray(values, dtype=np.float64)
    if poses.ndim == 0 or poses.shape[-1] != 3:
        raise InputError(f"{name} has shape {poses.shape}; its last axis must be easting, northing, heading")
    return poses


def _angles(values: ArrayLike, name: str) -> NDArray[np.float64]:
    angles = np.asarray(values, dtype=np.float64)
    bad = ~((angles > 0) & (angles <= 360))
    if bad.any():
        raise InputError(f"{name} {angles[bad].flat[0]:g} is not in (0, 360] degrees")
    return angles


def _radii(values: ArrayLike, name: str) -> NDArray[np.float64]:
    radii = np.asarray(values, dtype=np.float64)
    bad = ~((radii > 0) & np.isfinite(radii))
    if bad.any():
        raise InputError(f"{name} {radii[bad].flat[0]:g} is not a positive number of metres")
    return radii


@njit(cache=True, error_model="numpy")
def put_sectors(sectors: Any, headings: Any, thetas: Any, radii: Any) -> None:  # pragma: no cover - compiled
    """Fill in the columns of cameras with headings and opening angles in degrees, clockwise from north."""
    for i in range(len(headings)):
        heading = headings[i] - 360.0 * math.floor(headings[i] / 360.0 + 0.5)
        sectors[_AXIS, i] = math.radians(90.0 - heading)
        sectors[_SIN, i], sectors[_COS, i] = cos_sin_of_degrees(heading)
        sectors[_HALF, i] = 0.5 * math.radians(thetas[i])
        part = 0.5 * thetas[i] if thetas[i] <= 180.0 else 0.25 * thetas[i]
        sectors[_COS_PART, i], sectors[_SIN_PART, i] = cos_sin_of_degrees(part)
        sectors[_RADIUS, i] = radii[i]


@njit(cache=True, parallel=True, error_model="numpy")
def _pairs_kernel(
    a: Any, theta_a: Any, radius_a: Any, b: Any, theta_b: Any, radius_b: Any, iou: bool
) -> Any:  # pragma: no cover - compiled
    n = a.shape[1]
    shares = np.empty(n)
    for run in prange(-(-n // RUN)):
        part = slice(run * RUN, min((run + 1) * RUN, n))
        mine, theirs = np.empty((NUMBERS, RUN)), np.empty((NUMBERS, RUN))
        put_sectors(mine, a[2, part], theta_a[part], radius_a[part])
        put_sectors(theirs, b[2, part], theta_b[part], radius_b[part])
        sector_shares(b[0, part] - a[0, part], b[1, part] - a[1, part], mine, theirs, iou, shares[part])
    return shares


@njit(cache=True, error_model="numpy")
def sector_shares(
    dx: Any, dy: Any, a: Any, b: Any, iou: bool, shares: Any
) -> None:  # pragma: no cover - compiled
    """Fill in the share that each of n <= `RUN` pairs has in common: of the first n sectors (7, ...) of a and of b,
    where (dx, dy) (n,) lead from a's apex to b's [m]."""
    n = len(shares)
    wide_a = wide_b = False
    for i in range(n):
        wide_a |= a[_HALF, i] > HALF_PI
        wide_b |= b[_HALF, i] > HALF_PI
    areas = np.zeros((4, RUN))
    for part_a in range(2 if wide_a else 1):
        for part_b in range(2 if wide_b else 1):
            sign_a, sign_b, part = 2.0 * part_a - 1.0, 2.0 * part_b - 1.0, 2 * part_a + part_b
            for i in range(n):
                areas[part, i] = _area_of_parts(dx[i], dy[i], _part(a, i, sign_a), _part(b, i, sign_b))
    for i in range(n):
        # in this order it is the same, to the last bit, for (b, a)
        shared = (areas[0, i] + areas[3, i]) + (areas[1, i] + areas[2, i])
        shares[i] = _share(
            dx[i], dy[i], a[_AXIS, i], a[_HALF, i], a[_RADIUS, i],
            b[_AXIS, i], b[_HALF, i], b[_RADIUS, i], shared, iou,
        )  # fmt: skip


@njit(cache=True, error_model="numpy")
def may_share(a: Any, b: Any, possible: Any) -> None:  # pragma: no cover - compiled
    """Fill in which of the cameras b (9, n), positions and sectors, can share anything with camera a (9,).

    A sector wholly beyond an edge line of the other shares nothing: most pairs are far apart or look elsewhere.
    """
    x, y, cos_a, sin_a, cos_half_a, sin_half_a = a[0], a[1], a[3], a[4], a[6], a[7]
    half_a, radius_a = a[2 + _HALF], a[2 + _RADIUS]
    for i in range(b.shape[1]):
        dx, dy, half_b, radius_b = b[0, i] - x, b[1, i] - y, b[2 + _HALF, i], b[2 + _RADIUS, i]
        # as in `_convex_area`, but with any of the two first
        cx, cy = dx * cos_a + dy * sin_a, dy * cos_a - dx * sin_a
        cos_b, sin_b = b[2 + _COS, i], b[2 + _SIN, i]
        cos_half_b, sin_half_b = b[2 + _COS_PART, i], b[2 + _SIN_PART, i]
        cos_turn, sin_turn = cos_a * cos_b + sin_a * sin_b, cos_a * sin_b - sin_a * cos_b
        right_x = cos_turn * cos_half_b + sin_turn * sin_half_b
        right_y = sin_turn * cos_half_b - cos_turn * sin_half_b
        left_x = cos_turn * cos_half_b - sin_turn * sin_half_b
        left_y = sin_turn * cos_half_b + cos_turn * sin_half_b
        # how far each reaches beyond each edge line of the other [m]
        along, across = sin_half_a * cos_turn, cos_half_a * sin_turn
        ends, sides = sin_half_a * right_x, cos_half_a * right_y
        ends_left, sides_left = sin_half_a * left_x, cos_half_a * left_y
        b_right = (
            cx * sin_half_a
            + cy * cos_half_a
            + radius_b * _reach(along + across, ends + sides, ends_left + sides_left, cos_half_b)
        )
        b_left = (
            cx * sin_half_a
            - cy * cos_half_a
            + radius_b * _reach(along - across, ends - sides, ends_left - sides_left, cos_half_b)
        )
        ends, sides = right_y * cos_half_a, right_x * sin_half_a
        a_right = (
            cx * right_y - cy * right_x + radius_a * _reach(-right_y, -ends - sides, sides - ends, cos_half_a)
        )
        ends, sides = left_y * cos_half_a, left_x * sin_half_a
        a_left = cy * left_x - cx * left_y + radius_a * _reach(left_y, ends + sides, ends - sides, cos_half_a)
        convex = (half_a <= HALF_PI) & (half_b <= HALF_PI)
        apart = (b_right <= 0.0) | (b_left <= 0.0) | (a_right <= 0.0) | (a_left <= 0.0)
        near = dx * dx + dy * dy < (radius_a + radius_b) ** 2
        possible[i] = near & ~(convex & apart)


@njit(cache=True, forceinline=True, error_model="numpy")
def _reach(axis: float, right: float, left: float, cos_half: float) -> float:  # pragma: no cover - compiled
    """How far a unit sector reaches from its apex along a unit normal (0 if it only points away): from how far its
    axis and its edges do."""
    return 1.0 if axis >= cos_half else max(0.0, right, left)


@njit(cache=True, forceinline=True, error_model="numpy")
def _share(
    dx: float,
    dy: float,
    axis_a: float,
    half_a: float,
    radius_a: float,
    axis_b: float,
    half_b: float,
    radius_b: float,
    shared: float,
    iou: bool,
) -> float:  # pragma: no cover - compiled
    """From the shared area [m²] of two sectors whose apexes lie apart to the share, also of those that do not."""
    distance2, shorter = dx * dx + dy * dy, min(radius_a, radius_b)
    one_spot = distance2 <= (_SAME_SPOT * shorter) ** 2
    shared = 0.5 * shorter**2 * _shared_angle(axis_b - axis_a, half_a, half_b) if one_spot else shared
    area_a, area_b = half_a * radius_a**2, half_b * radius_b**2
    smaller = min(area_a, area_b)
    nothing = (shared <= SMALLEST_SHARE * smaller) | (distance2 >= (radius_a + radius_b) ** 2)
    shared = 0.0 if nothing else min(shared, smaller)
    share = shared / (area_a + area_b - shared if iou else smaller)
    known = (abs(dx) < math.inf) & (abs(dy) < math.inf) & (abs(axis_b - axis_a) < math.inf)
    return share if known else math.nan


@njit(cache=True, forceinline=True, error_model="numpy")
def _shared_angle(turn: float, half_a: float, half_b: float) -> float:  # pragma: no cover - compiled
    """Angle [rad] common to two angular intervals of given half widths whose middles lie `turn` apart."""
    apart = abs(wrapped(turn))
    most = 2.0 * min(half_a, half_b)
    near = min(max(half_a + half_b - apart, 0.0), most)
    far = min(max(half_a + half_b - (TWO_PI - apart), 0.0), most)  # wide sectors also meet at the back
    return min(near + far, most)


@njit(cache=True, forceinline=True, error_model="numpy")
def _part(sectors: Any, i: int, sign: float) -> Any:  # pragma: no cover - compiled
    """The right (-1) or left (+1) half of a sector wider than 180°, or the whole of another: axis, its cosine and
    sine, half its angle with cosine and sine, radius, and whether there is such a part: another has no left one."""
    axis, cosine, sine, half = sectors[_AXIS, i], sectors[_COS, i], sectors[_SIN, i], sectors[_HALF, i]
    cos_part, sin_part, radius = sectors[_COS_PART, i], sectors[_SIN_PART, i], sectors[_RADIUS, i]
    wide = half > HALF_PI
    part = 0.5 * half if wide else half
    turn, cos_turn, sin_turn = (
        (part if wide else 0.0),
        (cos_part if wide else 1.0),
        (sin_part if wide else 0.0),
    )
    turn, sin_turn = sign * turn, sign * sin_turn
    return (
        axis + turn,
        cosine * cos_turn - sine * sin_turn,
        sine * cos_turn + cosine * sin_turn,
        part,
        cos_part,
        sin_part,
        radius,
        wide | (sign < 0.0),
    )


@njit(cache=True, forceinline=True, error_model="numpy")
def _area_of_parts(dx: float, dy: float, a: Any, b: Any) -> float:  # pragma: no cover - compiled
    """Intersection area [m²] of two parts, in one fixed order, which makes the result symmetric to the last bit.

    The shorter sector goes first, since what is computed about its apex stays as small as the shared area.
    """
    axis_a, cos_a, sin_a, half_a, cos_half_a, sin_half_a, radius_a, there_a = a
    axis_b, cos_b, sin_b, half_b, cos_half_b, sin_half_b, radius_b, there_b = b
    b_first = (radius_b < radius_a) | ((radius_a == radius_b) & ((dx < 0.0) | ((dx == 0.0) & (dy < 0.0))))
    area = _convex_area(
        -dx if b_first else dx,
        -dy if b_first else dy,
        axis_b - axis_a if not b_first else axis_a - axis_b,
        cos_b if b_first else cos_a,
        sin_b if b_first else sin_a,
        half_b if b_first else half_a,
        cos_half_b if b_first else cos_half_a,
        sin_half_b if b_first else sin_half_a,
        radius_b if b_first else radius_a,
        cos_a if b_first else cos_b,
        sin_a if b_first else sin_b,
        half_a if b_first else half_b,
        cos_half_a if b_first else cos_half_b,
        sin_half_a if b_first else sin_half_b,
        radius_a if b_first else radius_b,
    )
    return area if there_a & there_b else 0.0


@njit(cache=True, forceinline=True, error_model="numpy")
def _convex_area(
    dx: float,
    dy: float,
    turn: float,
    cos_a: float,
    sin_a: float,
    half_a: float,
    cos_half_a: float,
    sin_half_a: float,
    radius_a: float,
    cos_b: float,
    sin_b: float,
    half_b: float,
    cos_half_b: float,
    sin_half_b: float,
    radius_b: float,
) -> float:  # pragma: no cover - compiled
    """Intersection area [m²] of two sectors of at most 180° whose apexes lie apart, a not longer than b.

    Everything is expressed in the frame of a: apex at the origin, axis along x. There b has its apex at
    (cx, cy) and its axis at angle `turn`. "Right" and "left" are as seen along an axis.
    """
    cx, cy = dx * cos_a + dy * sin_a, dy * cos_a - dx * sin_a
    cos_turn, sin_turn = cos_a * cos_b + sin_a * sin_b, cos_a * sin_b - sin_a * cos_b
    right_x = cos_turn * cos_half_b + sin_turn * sin_half_b  # unit vectors along b's edges
    right_y = sin_turn * cos_half_b - cos_turn * sin_half_b
    left_x = cos_turn * cos_half_b - sin_turn * sin_half_b
    left_y = sin_turn * cos_half_b + cos_turn * sin_half_b

    # How far b's apex lies inside each edge line of a, and a's apex inside each edge line of b [m].
    b_in_right = cx * sin_half_a + cy * cos_half_a
    b_in_left = cx * sin_half_a - cy * cos_half_a
    a_in_right = cx * right_y - cy * right_x
    a_in_left = cy * left_x - cx * left_y

    # b's edges inside a, out along the right one and back along the left one; an edge sweeps its length
    # times its line's distance from the origin.
    edge = _edge_inside(
        cx, cy, right_x, right_y, radius_b, radius_a, cos_half_a, sin_half_a, b_in_right, b_in_left
    )
    area = a_in_right * edge
    edge = _edge_inside(
        cx, cy, left_x, left_y, radius_b, radius_a, cos_half_a, sin_half_a, b_in_right, b_in_left
    )
    area += a_in_left * edge

    distance = math.sqrt(cx * cx + cy * cy)
    bearing = angle_of(cx, abs(cy))
    bearing = -bearing if cy < 0.0 else bearing
    # Where the two circles cross: `along` from each centre towards the other, the same `chord` for both. The two
    # arcs then end in the same point, and rounding near tangency cancels. The chord is 0 where they do not cross.
    along_a = 0.5 * (distance + (radius_a - radius_b) * (radius_a + radius_b) / distance)
    along_b = distance - along_a
    chord = math.sqrt(max((radius_a - along_a) * (radius_a + along_a), 0.0))

    # a's arc inside b, an angle about the origin: what its circle, its right and its left edge line leave of it.
    middle_2, width_2 = wrapped(turn - half_b + HALF_PI), _half_width(-a_in_right, radius_a)
    middle_3, width_3 = wrapped(turn + half_b - HALF_PI), _half_width(-a_in_left, radius_a)
    width = angle_of(along_a, chord)
    for_once = _other_turn(bearing)
    angle = _angle_inside(
        max(-half_a, bearing - width), min(half_a, bearing + width), middle_2, width_2, middle_3, width_3
    )
    angle += _angle_inside(
        max(-half_a, bearing + for_once - width),
        min(half_a, bearing + for_once + width),
        middle_2,
        width_2,
        middle_3,
        width_3,
    )
    area += radius_a * radius_a * angle

    # b's arc inside a, as angles about b's apex from the direction towards a's: what lies inside a's circle is at
    # most a right angle away from it.
    towards = wrapped(bearing + PI - turn)
    width = angle_of(along_b, chord)
    area += _area_swept(
        max(-width, -towards - half_b),
        min(width, -towards + half_b),
        wrapped(HALF_PI - half_a - turn - towards),
        _half_width(-b_in_right, radius_b),
        wrapped(half_a - HALF_PI - turn - towards),
        _half_width(-b_in_left, radius_b),
        radius_b,
        distance,
    )
    return 0.5 * area


@njit(cache=True, forceinline=True, error_model="numpy")
def _edge_inside(
    cx: float,
    cy: float,
    ux: float,
    uy: float,
    length: float,
    radius: float,
    cos_half: float,
    sin_half: float,
    in_right: float,
    in_left: float,
) -> float:  # pragma: no cover - compiled
    """Length of the edge from (cx, cy) along the unit vector (ux, uy) that lies inside a."""
    moment, ahead = cx * uy - cy * ux, cx * ux + cy * uy
    chord = math.sqrt(max((radius - moment) * (radius + moment), 0.0))
    start, end = max(0.0, -ahead - chord), min(length, -ahead + chord)
    slope = ux * sin_half + uy * cos_half  # how fast the edge moves into a's right edge line
    start, end = _beyond(start, end, slope, in_right)
    slope = ux * sin_half - uy * cos_half
    start, end = _beyond(start, end, slope, in_left)
    return max(end - start, 0.0)


@njit(cache=True, forceinline=True, error_model="numpy")
def _beyond(
    start: float, end: float, slope: float, inside: float
) -> tuple[float, float]:  # pragma: no cover - compiled
    """The part of an edge from `start` to `end` that lies beyond a line, of which it is `inside` at 0."""
    crossing = -inside / slope
    end = min(end, crossing) if slope < 0.0 else end
    end = start if (slope == 0.0) & (inside < 0.0) else end
    return max(start, crossing) if slope > 0.0 else start, end


@njit(cache=True, forceinline=True, error_model="numpy")
def _half_width(along: float, radius: float) -> float:  # pragma: no cover - compiled
    """Half angle of the arc beyond a line at distance `along` from the centre: 0 if there is none, π if all of it."""
    return angle_of(along, math.sqrt(max((radius - along) * (radius + along), 0.0)))


@njit(cache=True, forceinline=True, error_model="numpy")
def _other_turn(middle: float) -> float:  # pragma: no cover - compiled
    """An interval about `middle` in [-π, π] may wrap around and come in again from the other side."""
    return -TWO_PI if middle > 0.0 else TWO_PI


@njit(cache=True, forceinline=True, error_model="numpy")
def _angle_inside(
    low: float, high: float, middle_2: float, width_2: float, middle_3: float, width_3: float
) -> float:  # pragma: no cover - compiled
    """Length of what [low, high] has in common with two circular intervals."""
    other_2, other_3 = middle_2 + _other_turn(middle_2), middle_3 + _other_turn(middle_3)
    low_2, high_2 = max(low, middle_2 - width_2), min(high, middle_2 + width_2)
    angle = max(min(high_2, middle_3 + width_3) - max(low_2, middle_3 - width_3), 0.0)
    angle += max(min(high_2, other_3 + width_3) - max(low_2, other_3 - width_3), 0.0)
    low_2, high_2 = max(low, other_2 - width_2), min(high, other_2 + width_2)
    angle += max(min(high_2, middle_3 + width_3) - max(low_2, middle_3 - width_3), 0.0)
    angle += max(min(high_2, other_3 + width_3) - max(low_2, other_3 - width_3), 0.0)
    return angle


@njit(cache=True, forceinline=True, error_model="numpy")
def _area_swept(
    low: float,
    high: float,
    middle_2: float,
    width_2: float,
    middle_3: float,
    width_3: float,
    radius: float,
    distance: float,
) -> float:  # pragma: no cover - compiled
    """Twice the area that the arc from `low` to `high`, inside two circular intervals, sweeps about a point.

    Angles are from the direction of that point, which is `distance` away from the arc's centre.
    """
    other_2, other_3 = middle_2 + _other_turn(middle_2), middle_3 + _other_turn(middle_3)
    low_2, high_2 = max(low, middle_2 - width_2), min(high, middle_2 + width_2)
    area = _swept(max(low_2, middle_3 - width_3), min(high_2, middle_3 + width_3), radius, distance)
    area += _swept(max(low_2, other_3 - width_3), min(high_2, other_3 + width_3), radius, distance)
    low_2, high_2 = max(low, other_2 - width_2), min(high, other_2 + width_2)
    area += _swept(max(low_2, middle_3 - width_3), min(high_2, middle_3 + width_3), radius, distance)
    area += _swept(max(low_2, other_3 - width_3), min(high_2, other_3 + width_3), radius, distance)
    return area


@njit(cache=True, forceinline=True, error_model="numpy")
def _swept(low: float, high: float, radius: float, distance: float) -> float:  # pragma: no cover - compiled
    """Of one piece of the arc; 0 if it is empty.

    radius² · angle − radius · distance · sin(angle), at `high` less at `low`, written so that no term is much larger
    than the sum: the arc of a huge circle through a small sector is nearly a straight line, and radius² · angle would
    drown it.
    """
    high = max(low, high)
    return radius * ((radius - distance) * (high - low) + distance * (less_sine(high) - less_sine(low)))
