"""How much field of view two cameras share on the ground: the exact intersection of two circular sectors.

The area comes in closed form from Green's theorem, with the origin at the apex of the first sector. Its own
straight edges then contribute nothing, and neither does any edge of the second sector that is collinear with
them: coincident edges, the usual trouble of polygon clipping, cannot arise. What remains are the first
sector's arc inside the second, and the second's two edges and arc inside the first.
A sector wider than 180° is not convex; it is the sum of its two halves, which are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, get_args

import numpy as np
from numba import njit, prange
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.options import check_choice
from samespot.overlap.rules import RADIUS, THETA, Measure

# Shares below this are rounding of positions (a nanometre in UTM), not a shared view.
SMALLEST_SHARE = 1e-9
_SAME_SPOT = 1e-12  # apexes closer than this fraction of the radius are one point
_HALF_PI = 0.5 * math.pi
_TWO_PI = 2.0 * math.pi


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
    # Every operand is laid out flat: one pair after the other.
    pose_a = np.ascontiguousarray(np.broadcast_to(first, (*shape, 3)).reshape(-1, 3))
    pose_b = np.ascontiguousarray(np.broadcast_to(second, (*shape, 3)).reshape(-1, 3))
    theta_1, theta_2, radius_1, radius_2 = (
        np.ascontiguousarray(np.broadcast_to(x, shape).ravel()) for x in (*angles, *radii)
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


class Sector(NamedTuple):
    """A field of view about its apex. Angles in radians, anticlockwise from east."""

    axis: float
    cos: float  # of the axis
    sin: float
    half: float  # half the opening angle
    cos_half: float
    sin_half: float
    radius: float


@njit(cache=True, error_model="numpy")
def compass_sector(heading: float, theta: float, radius: float) -> Sector:  # pragma: no cover - compiled
    """The sector of a camera with heading and opening angle in degrees, clockwise from north."""
    return _sector(math.radians(90.0 - heading), 0.5 * math.radians(theta), radius)


@njit(cache=True, error_model="numpy")
def _sector(axis: float, half: float, radius: float) -> Sector:  # pragma: no cover - compiled
    return Sector(axis, math.cos(axis), math.sin(axis), half, math.cos(half), math.sin(half), radius)


@njit(cache=True, parallel=True, error_model="numpy")
def _pairs_kernel(
    a: Any, theta_a: Any, radius_a: Any, b: Any, theta_b: Any, radius_b: Any, iou: bool
) -> Any:  # pragma: no cover - compiled
    shares = np.empty(len(a))
    for i in prange(len(a)):
        sector_a = compass_sector(a[i, 2], theta_a[i], radius_a[i])
        sector_b = compass_sector(b[i, 2], theta_b[i], radius_b[i])
        shares[i] = pair_share(b[i, 0] - a[i, 0], b[i, 1] - a[i, 1], sector_a, sector_b, iou)
    return shares


@njit(cache=True, error_model="numpy")
def pair_share(dx: float, dy: float, a: Sector, b: Sector, iou: bool) -> float:  # pragma: no cover - compiled
    """Share that two sectors have in common; (dx, dy) leads from a's apex to b's [m]."""
    if not (math.isfinite(dx) and math.isfinite(dy) and math.isfinite(a.axis) and math.isfinite(b.axis)):
        return math.nan
    distance2 = dx * dx + dy * dy
    if distance2 >= (a.radius + b.radius) ** 2:
        return 0.0
    shorter = min(a.radius, b.radius)
    if distance2 <= (_SAME_SPOT * shorter) ** 2:
        shared = 0.5 * shorter**2 * _shared_angle(b.axis - a.axis, a.half, b.half)
    elif _comes_second(dx, dy, a, b):
        shared = _sector_area(-dx, -dy, b, a)
    else:
        shared = _sector_area(dx, dy, a, b)
    area_a, area_b = a.half * a.radius**2, b.half * b.radius**2
    smaller = min(area_a, area_b)
    if shared <= SMALLEST_SHARE * smaller:
        return 0.0
    shared = min(shared, smaller)
    return shared / (area_a + area_b - shared) if iou else shared / smaller


@njit(cache=True, error_model="numpy")
def _comes_second(dx: float, dy: float, a: Sector, b: Sector) -> bool:  # pragma: no cover - compiled
    """Whether b must be taken first. One fixed order makes the result symmetric to the last bit; the shorter
    sector goes first, since what is computed about its apex stays as small as the shared area."""
    if a.radius != b.radius:
        return b.radius < a.radius
    return dx < 0.0 or (dx == 0.0 and dy < 0.0)


@njit(cache=True, error_model="numpy")
def _shared_angle(turn: float, half_a: float, half_b: float) -> float:  # pragma: no cover - compiled
    """Angle [rad] common to two angular intervals of given half widths whose middles lie `turn` apart."""
    apart = abs(turn) % _TWO_PI
    apart = min(apart, _TWO_PI - apart)
    most = 2.0 * min(half_a, half_b)
    near = min(max(half_a + half_b - apart, 0.0), most)
    far = min(max(half_a + half_b - (_TWO_PI - apart), 0.0), most)  # wide sectors also meet at the back
    return min(near + far, most)


@njit(cache=True, error_model="numpy")
def _sector_area(dx: float, dy: float, a: Sector, b: Sector) -> float:  # pragma: no cover - compiled
    """Intersection area [m²] of two sectors of any angle: the sum over their convex halves."""
    if a.half <= _HALF_PI and b.half <= _HALF_PI:
        return _convex_area(dx, dy, a, b)
    area = 0.0
    for i in range(1 if a.half <= _HALF_PI else 2):
        for j in range(1 if b.half <= _HALF_PI else 2):
            area += _convex_area(dx, dy, _convex_half(a, i), _convex_half(b, j))
    return area


@njit(cache=True, error_model="numpy")
def _convex_half(sector: Sector, i: int) -> Sector:  # pragma: no cover - compiled
    """The right (0) or left (1) half of a sector wider than 180°; another sector as it is."""
    if sector.half <= _HALF_PI:
        return sector
    narrow = 0.5 * sector.half
    return _sector(sector.axis + (2 * i - 1) * narrow, narrow, sector.radius)


@njit(cache=True, error_model="numpy")
def _convex_area(dx: float, dy: float, a: Sector, b: Sector) -> float:  # pragma: no cover - compiled
    """Intersection area [m²] of two sectors of at most 180° whose apexes lie apart, a not longer than b.

    Everything is expressed in the frame of a: apex at the origin, axis along x. There b has its apex at
    (cx, cy) and its axis at angle `turn`. "Right" and "left" are as seen along an axis.
    """
    cx, cy = dx * a.cos + dy * a.sin, dy * a.cos - dx * a.sin
    cos_turn, sin_turn = a.cos * b.cos + a.sin * b.sin, a.cos * b.sin - a.sin * b.cos
    right_x = cos_turn * b.cos_half + sin_turn * b.sin_half  # unit vectors along b's edges
    right_y = sin_turn * b.cos_half - cos_turn * b.sin_half
    left_x = cos_turn * b.cos_half - sin_turn * b.sin_half
    left_y = sin_turn * b.cos_half + cos_turn * b.sin_half

    # How far b's apex lies inside each edge line of a, and a's apex inside each edge line of b [m].
    b_in_right = cx * a.sin_half + cy * a.cos_half
    b_in_left = cx * a.sin_half - cy * a.cos_half
    a_in_right = cx * right_y - cy * right_x
    a_in_left = cy * left_x - cx * left_y

    # A sector wholly beyond an edge line of the other shares nothing: most far pairs end here.
    if (
        b_in_right < 0.0
        and b_in_right
        + b.radius
        * _farthest(a.sin_half, a.cos_half, cos_turn, sin_turn, b.cos_half, right_x, right_y, left_x, left_y)
        <= 0.0
    ):
        return 0.0
    if (
        b_in_left < 0.0
        and b_in_left
        + b.radius
        * _farthest(a.sin_half, -a.cos_half, cos_turn, sin_turn, b.cos_half, right_x, right_y, left_x, left_y)
        <= 0.0
    ):
        return 0.0
    if (
        a_in_right < 0.0
        and a_in_right
        + a.radius
        * _farthest(-right_y, right_x, 1.0, 0.0, a.cos_half, a.cos_half, -a.sin_half, a.cos_half, a.sin_half)
        <= 0.0
    ):
        return 0.0
    if (
        a_in_left < 0.0
        and a_in_left
        + a.radius
        * _farthest(left_y, -left_x, 1.0, 0.0, a.cos_half, a.cos_half, -a.sin_half, a.cos_half, a.sin_half)
        <= 0.0
    ):
        return 0.0

    # b's edges inside a, out along the right one and back along the left one; an edge sweeps its length
    # times its line's distance from the origin.
    area = a_in_right * _edge_inside(cx, cy, right_x, right_y, b.radius, a, b_in_right, b_in_left)
    area += a_in_left * _edge_inside(cx, cy, left_x, left_y, b.radius, a, b_in_right, b_in_left)

    distance = math.sqrt(cx * cx + cy * cy)
    bearing = math.atan2(cy, cx)
    turn = _wrapped(b.axis - a.axis)
    # Where the two circles cross: `along` from each centre towards the other, the same `chord` for both.
    along_a = 0.5 * (distance + (a.radius - b.radius) * (a.radius + b.radius) / distance)
    along_b = distance - along_a
    # a is the shorter one, so that they cross is decided by it: along_b may round to b's radius
    crossing = -a.radius < along_a < a.radius
    chord = math.sqrt(max((a.radius - along_a) * (a.radius + along_a), 0.0))

    # a's arc inside b, an angle about the origin.
    area += (
        a.radius
        * a.radius
        * _arc_inside(
            a.half,
            bearing,
            _half_width(along_a, chord, a.radius),
            _wrapped(turn - b.half + _HALF_PI),
            _line_half_width(-a_in_right, a.radius),
            _wrapped(turn + b.half - _HALF_PI),
            _line_half_width(-a_in_left, a.radius),
            0.0,
            0.0,
            0.0,
        )
    )
    # b's arc inside a, in b's frame; it runs about b's apex, so its moment about the origin counts too.
    area += _arc_inside(
        b.half,
        _wrapped(bearing + math.pi - turn),
        math.atan2(chord, along_b) if crossing else -1.0,
        _wrapped(_HALF_PI - a.half - turn),
        _line_half_width(-b_in_right, b.radius),
        _wrapped(a.half - _HALF_PI - turn),
        _line_half_width(-b_in_left, b.radius),
        b.radius,
        distance,
        bearing - turn,
    )
    return 0.5 * area


@njit(cache=True, error_model="numpy")
def _farthest(
    normal_x: float,
    normal_y: float,
    axis_x: float,
    axis_y: float,
    cos_half: float,
    right_x: float,
    right_y: float,
    left_x: float,
    left_y: float,
) -> float:  # pragma: no cover - compiled
    """How far a unit sector reaches from its apex along a unit normal (0 if it only points away)."""
    if normal_x * axis_x + normal_y * axis_y >= cos_half:
        return 1.0
    return max(0.0, normal_x * right_x + normal_y * right_y, normal_x * left_x + normal_y * left_y)


@njit(cache=True, error_model="numpy")
def _edge_inside(
    cx: float, cy: float, ux: float, uy: float, length: float, a: Sector, in_right: float, in_left: float
) -> float:  # pragma: no cover - compiled
    """Length of the edge from (cx, cy) along the unit vector (ux, uy) that lies inside a."""
    moment = cx * uy - cy * ux
    radius, sin_half, cos_half = a.radius, a.sin_half, a.cos_half
    if abs(moment) >= radius:
        return 0.0
    ahead = cx * ux + cy * uy
    chord = math.sqrt((radius - moment) * (radius + moment))
    start, end = max(0.0, -ahead - chord), min(length, -ahead + chord)
    slope = ux * sin_half + uy * cos_half  # how fast the edge moves into a's right edge line
    if slope > 0.0:
        start = max(start, -in_right / slope)
    elif slope < 0.0:
        end = min(end, -in_right / slope)
    elif in_right < 0.0:
        return 0.0
    slope = ux * sin_half - uy * cos_half
    if slope > 0.0:
        start = max(start, -in_left / slope)
    elif slope < 0.0:
        end = min(end, -in_left / slope)
    elif in_left < 0.0:
        return 0.0
    return max(end - start, 0.0)


@njit(cache=True, error_model="numpy")
def _half_width(along: float, chord: float, radius: float) -> float:  # pragma: no cover - compiled
    """Half angle of the arc beyond a chord at distance `along` from the centre; negative if there is none.

    atan2 of the same chord that bounds the other circle's arc, rather than acos of a ratio: the two arcs then
    end in the same point, and rounding near tangency cancels.
    """
    if along >= radius:
        return -1.0
    if along <= -radius:
        return math.pi
    return math.atan2(chord, along)


@njit(cache=True, error_model="numpy")
def _line_half_width(along: float, radius: float) -> float:  # pragma: no cover - compiled
    """The same for the arc beyond a straight line."""
    return _half_width(along, math.sqrt(max((radius - along) * (radius + along), 0.0)), radius)


@njit(cache=True, error_model="numpy")
def _wrapped(angle: float) -> float:  # pragma: no cover - compiled
    """The same direction in [-π, π]."""
    if angle > math.pi or angle < -math.pi:
        angle -= _TWO_PI * math.floor(angle / _TWO_PI + 0.5)
    return angle


@njit(cache=True, error_model="numpy")
def _arc_inside(
    half: float,
    middle_1: float,
    width_1: float,
    middle_2: float,
    width_2: float,
    middle_3: float,
    width_3: float,
    radius: float,
    distance: float,
    bearing: float,
) -> float:  # pragma: no cover - compiled
    """Twice the area swept by the part of the arc [-half, half] that lies in three circular intervals.

    With radius 0 it is the plain angle (the arc's centre is the origin); otherwise twice the area that the
    arc, centred `distance` away in direction `bearing`, sweeps about the origin.
    """
    total = 0.0
    if width_1 <= 0.0 or width_2 <= 0.0 or width_3 <= 0.0:
        return total
    for i in range(-1, 2):  # an interval may wrap around, so it counts one turn up and down, too
        low_1 = max(-half, middle_1 - width_1 + i * _TWO_PI)
        high_1 = min(half, middle_1 + width_1 + i * _TWO_PI)
        if low_1 >= high_1:
            continue
        for j in range(-1, 2):
            low_2 = max(low_1, middle_2 - width_2 + j * _TWO_PI)
            high_2 = min(high_1, middle_2 + width_2 + j * _TWO_PI)
            if low_2 >= high_2:
                continue
            for k in range(-1, 2):
                low = max(low_2, middle_3 - width_3 + k * _TWO_PI)
                high = min(high_2, middle_3 + width_3 + k * _TWO_PI)
                if low >= high:
                    continue
                if radius == 0.0:
                    total += high - low
                else:
                    total += _swept(radius, distance, high - low, 0.5 * (high + low) - bearing)
    return total


@njit(cache=True, error_model="numpy")
def _swept(radius: float, distance: float, angle: float, off: float) -> float:  # pragma: no cover - compiled
    """Twice the area that an arc of `angle` sweeps about a point `distance` from its centre: the triangle over its
    chord and the sliver between chord and arc. `off`: from the direction of the centre to the arc's middle.

    Written so that no term is much larger than the sum: the arc of a huge circle through a small sector is nearly
    a straight line, and radius² · angle would drown it.
    """
    sine, cosine = math.sin(0.5 * angle), math.cos(0.5 * angle)
    triangle = 2.0 * radius * sine * (distance * math.cos(off) + radius * cosine)
    if angle < 0.2:
        square = angle * angle
        sliver = angle * square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0 * (1.0 - square / 72.0)))
    else:
        sliver = angle - 2.0 * sine * cosine
    return triangle + radius * radius * sliver
