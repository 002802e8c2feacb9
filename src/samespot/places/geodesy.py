"""Latitude and longitude to metres on a plane (UTM, or one local projection), compass to grid headings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError

Floats = NDArray[np.float64]
OUTSIDE = 3.0  # [deg] beyond the area of a UTM zone, its metres are off by half a percent
FAR = 500e3  # [m] from the middle: beyond, a local projection is no longer true to 0.1 %


def utm_zone(latitude: ArrayLike, longitude: ArrayLike) -> NDArray[np.int64]:
    """EPSG code of the standard UTM zone of each position, Norway's and Svalbard's exceptions included."""
    lat = np.asarray(latitude, dtype=np.float64)
    lon = (np.asarray(longitude, dtype=np.float64) + 180.0) % 360.0 - 180.0
    if not (np.isfinite(lat) & np.isfinite(lon)).all():
        raise ValueError("a UTM zone needs a finite latitude and longitude")
    zone = np.floor((lon + 180.0) / 6.0).astype(np.int64) + 1
    zone = np.where((lat >= 56) & (lat < 64) & (lon >= 3) & (lon < 12), 32, zone)
    svalbard = (lat >= 72) & (lat <= 84)  # band X reaches up to and includes 84
    for west, east, number in ((0, 9, 31), (9, 21, 33), (21, 33, 35), (33, 42, 37)):
        zone = np.where(svalbard & (lon >= west) & (lon < east), number, zone)
    return np.where(lat >= 0, 32600, 32700) + zone


def choose_projection(latitude: ArrayLike, longitude: ArrayLike) -> str:
    """The projection for these positions: their UTM zone if they share one, else one local projection.

    The local one is an azimuthal equidistant projection about their middle, so that a city on a zone
    boundary keeps straight streets and true metres: distances are true to 0.1 % within 490 km of the middle.
    """
    lat, lon = np.asarray(latitude, dtype=np.float64), np.asarray(longitude, dtype=np.float64)
    known = np.isfinite(lat) & np.isfinite(lon)
    if not known.any():
        raise ValueError("no finite latitude and longitude to choose a projection from")
    codes = np.unique(utm_zone(lat[known], lon[known]))
    if len(codes) == 1:
        return f"EPSG:{codes[0]}"
    turn = np.exp(1j * np.deg2rad(lon[known])).mean()  # a mean that survives the date line
    middle = f"+lat_0={lat[known].mean():.6f} +lon_0={np.rad2deg(np.angle(turn)):.6f}"
    return f"+proj=aeqd {middle} +datum=WGS84"


def to_metres(
    latitude: ArrayLike, longitude: ArrayLike, projection: str | None = None
) -> tuple[Floats, Floats, str]:
    """Project WGS84 degrees to (easting [m], northing [m], projection).

    Unknown positions (NaN) stay NaN. Pass `projection` to put a second set onto the plane of a first.
    """
    lat, lon = np.asarray(latitude, dtype=np.float64), np.asarray(longitude, dtype=np.float64)
    projection = projection or choose_projection(lat, lon)
    easting, northing = _transform(lon, lat, "EPSG:4326", plane(projection))
    return easting, northing, projection


def to_degrees(easting: ArrayLike, northing: ArrayLike, projection: str) -> tuple[Floats, Floats]:
    """The way back: metres on a named projection to (latitude, longitude) in degrees; NaN stays NaN."""
    east, north = np.asarray(easting, dtype=np.float64), np.asarray(northing, dtype=np.float64)
    lon, lat = _transform(east, north, plane(projection), "EPSG:4326")
    return lat, lon


def grid_headings(headings: ArrayLike, latitude: ArrayLike, longitude: ArrayLike, projection: str) -> Floats:
    """Headings [deg] from true north, as a compass gives them, to headings from the grid north of a plane.

    The two differ by the meridian convergence: 1.9° in Munich on UTM, up to 2.6° at 60° N, and more at the
    rim of a wide local projection. Unknown headings stay NaN; at an unknown position nothing is turned.
    """
    turned = np.asarray(headings, dtype=np.float64) - _convergence(latitude, longitude, projection)
    return _wrapped(turned)


def move(
    easting: ArrayLike, northing: ArrayLike, headings: ArrayLike, source: str, target: str
) -> tuple[Floats, Floats, Floats]:
    """Easting, northing [m] and grid headings [deg] of one plane, on another; NaN stays NaN.

    Positions and headings turn together, so that what two cameras share stays what it was.
    """
    lat, lon = to_degrees(easting, northing, source)
    turn = _convergence(lat, lon, source) - _convergence(lat, lon, target)
    east, north, _ = to_metres(lat, lon, target)
    return east, north, _wrapped(np.asarray(headings, dtype=np.float64) + turn)


def plane(projection: str) -> Any:
    """The coordinate system of that name, if it is one in metres on a plane."""
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    advice = "give one like EPSG:32633, or none to have it chosen"
    try:
        system = CRS.from_user_input(projection)
    except CRSError as error:
        raise InputError(f"projection {projection!r} is not known; {advice}") from error
    if not system.is_projected or {axis.unit_name for axis in system.axis_info} != {"metre"}:
        raise InputError(f"projection {projection!r} is not in metres on a plane; {advice}")
    if any(axis.direction == "west" for axis in system.axis_info):
        raise InputError(f"projection {projection!r} counts westwards; {advice}")
    return system


def off_plane(latitude: ArrayLike, longitude: ArrayLike, projection: str) -> NDArray[np.int64]:
    """Rows that lie more than 3° outside the area that a projection is made for: its metres are no metres there."""
    area = plane(projection).area_of_use
    if area is None:
        return np.zeros(0, dtype=np.int64)
    lat, lon = np.asarray(latitude, dtype=np.float64), np.asarray(longitude, dtype=np.float64)
    width = (area.east - area.west) % 360.0 or 360.0  # an area may cross the date line
    east_of_it = (lon - (area.west - OUTSIDE)) % 360.0 > width + 2 * OUTSIDE
    above_or_below = (lat < area.south - OUTSIDE) | (lat > area.north + OUTSIDE)
    beside = east_of_it & (width + 2 * OUTSIDE < 360.0)
    return np.flatnonzero((beside | above_or_below) & np.isfinite(lat + lon))


def same_plane(one: str, other: str) -> bool:
    """Whether two names stand for one projection, as EPSG:32632 and +proj=utm +zone=32 do."""
    return one == other or bool(plane(one) == plane(other))


def far_apart(easting: ArrayLike, northing: ArrayLike) -> tuple[NDArray[np.int64], float]:
    """Rows more than 500 km from the median position, and how far off [m] the farthest is."""
    metres = np.stack([np.asarray(easting, dtype=np.float64), np.asarray(northing, dtype=np.float64)])
    known = np.isfinite(metres).all(axis=0)
    if not known.any():
        return np.zeros(0, dtype=np.int64), 0.0
    away = np.where(known, np.hypot(*(metres - np.median(metres[:, known], axis=1, keepdims=True))), 0.0)
    rows = np.flatnonzero(away > FAR)
    return rows, float(away[rows].max(initial=0.0))


def _convergence(latitude: ArrayLike, longitude: ArrayLike, projection: str) -> Floats:
    """Angle [deg, clockwise] from true north to grid north; 0 where the position is unknown."""
    from pyproj import Proj

    lat, lon = np.asarray(latitude, dtype=np.float64), np.asarray(longitude, dtype=np.float64)
    known = np.isfinite(lat) & np.isfinite(lon)
    angle = np.zeros(lat.shape)
    angle[known] = Proj(plane(projection)).get_factors(lon[known], lat[known]).meridian_convergence
    return angle


def _wrapped(headings: Floats) -> Floats:
    wrapped = headings % 360.0
    return np.where(wrapped == 360.0, 0.0, wrapped)  # -1e-15 % 360 rounds up to 360


def _transform(x: Floats, y: Floats, source: Any, target: Any) -> tuple[Floats, Floats]:
    from pyproj import Transformer

    known = np.isfinite(x) & np.isfinite(y)
    there = np.full(x.shape, np.nan), np.full(x.shape, np.nan)
    there[0][known], there[1][known] = Transformer.from_crs(source, target, always_xy=True).transform(
        x[known], y[known]
    )
    return there
