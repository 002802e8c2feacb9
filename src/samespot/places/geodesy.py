"""Latitude and longitude to metres on a plane: UTM, or one local projection for a set that spans zones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def utm_zone(latitude: ArrayLike, longitude: ArrayLike) -> NDArray[np.int64]:
    """EPSG code of the standard UTM zone of each position, Norway's and Svalbard's exceptions included."""
    lat = np.asarray(latitude, dtype=np.float64)
    lon = (np.asarray(longitude, dtype=np.float64) + 180.0) % 360.0 - 180.0
    zone = np.floor((lon + 180.0) / 6.0).astype(np.int64) + 1
    zone = np.where((lat >= 56) & (lat < 64) & (lon >= 3) & (lon < 12), 32, zone)
    svalbard = (lat >= 72) & (lat < 84)
    for west, east, number in ((0, 9, 31), (9, 21, 33), (21, 33, 35), (33, 42, 37)):
        zone = np.where(svalbard & (lon >= west) & (lon < east), number, zone)
    return np.where(lat >= 0, 32600, 32700) + zone


def choose_projection(latitude: ArrayLike, longitude: ArrayLike) -> str:
    """The projection for these positions: their UTM zone if they share one, else one local projection.

    The local one is an azimuthal equidistant projection about their middle, so that a city on a zone
    boundary keeps straight streets and true metres.
    """
    lat, lon = np.asarray(latitude, dtype=np.float64), np.asarray(longitude, dtype=np.float64)
    known = np.isfinite(lat) & np.isfinite(lon)
    if not known.any():
        raise ValueError("no finite latitude and longitude to choose a projection from")
    codes = np.unique(utm_zone(lat[known], lon[known]))
    if len(codes) == 1:
        return f"EPSG:{codes[0]}"
    turn = np.exp(1j * np.deg2rad(lon[known]))  # a mean that survives the date line
    return f"+proj=aeqd +lat_0={lat[known].mean():.6f} +lon_0={np.rad2deg(np.angle(turn.mean())):.6f} +datum=WGS84"


def to_metres(latitude: ArrayLike, longitude: ArrayLike, projection: str | None = None) -> tuple[Floats, Floats, str]:
    """Project WGS84 degrees to (easting [m], northing [m], projection).

    Unknown positions (NaN) stay NaN. Pass `projection` to put a second set onto the plane of a first.
    """
    from pyproj import Transformer

    lat, lon = np.asarray(latitude, dtype=np.float64), np.asarray(longitude, dtype=np.float64)
    projection = projection or choose_projection(lat, lon)
    known = np.isfinite(lat) & np.isfinite(lon)
    easting, northing = np.full(lat.shape, np.nan), np.full(lat.shape, np.nan)
    forward = Transformer.from_crs("EPSG:4326", projection, always_xy=True)
    easting[known], northing[known] = forward.transform(lon[known], lat[known])
    return easting, northing, projection


def to_degrees(easting: ArrayLike, northing: ArrayLike, projection: str) -> tuple[Floats, Floats]:
    """The way back: metres on a named projection to (latitude, longitude) in degrees."""
    from pyproj import Transformer

    back = Transformer.from_crs(projection, "EPSG:4326", always_xy=True)
    lon, lat = back.transform(np.asarray(easting, dtype=np.float64), np.asarray(northing, dtype=np.float64))
    return np.asarray(lat), np.asarray(lon)
