"""Which photos of a map may answer: a few options, and how their words are read. No tables in here.

Positions are typed in degrees, `48.137,11.575`, latitude first; or in metres on the map's plane, each number with an m:
`691608m,5334760m`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any

from samespot.errors import InputError
from samespot.options import Options, option

FILTERS = "Which photos of the map may answer"
_DEGREES_OR_METRES = "48.137,11.575 (latitude, longitude) or 691608m,5334760m (easting, northing)"


@dataclass(frozen=True)
class Point:
    """Latitude and longitude [deg], or easting and northing [m] on the plane of a map."""

    first: float
    second: float
    metres: bool = False

    def __str__(self) -> str:
        return ",".join(f"{one:.10g}{'m' * self.metres}" for one in (self.first, self.second))


@dataclass(frozen=True)
class Near:
    """What is known of the position beforehand."""

    point: Point
    radius: float  # [m]

    def __str__(self) -> str:
        return f"{self.point},{self.radius:.10g}"


@dataclass(frozen=True)
class Area:
    """A box between two opposite corners."""

    one: Point
    other: Point

    def __str__(self) -> str:
        return f"{self.one},{self.other}"


@dataclass(frozen=True)
class Facing:
    """A way to look."""

    heading: float  # [deg] clockwise from grid north
    within: float  # [deg] to either side

    def __str__(self) -> str:
        return f"{self.heading:.10g},{self.within:.10g}"


def parse_near(words: str) -> Near:
    """From "48.137,11.575,200" or "691608m,5334760m,200m"."""
    parts = _parts(words, 3, f"write a position and a radius in metres, {_DEGREES_OR_METRES}, then ,200")
    radius = _number(parts[2].removesuffix("m"))
    if not radius > 0:
        raise InputError(f"the radius {parts[2]} must be above 0")
    return Near(_point(parts[0], parts[1]), radius)


def parse_area(words: str) -> Area:
    """From "48.1,11.5,48.2,11.6" or "100m,200m,300m,400m"."""
    parts = _parts(words, 4, f"write two opposite corners, each as {_DEGREES_OR_METRES}")
    one, other = _point(*parts[:2]), _point(*parts[2:])
    if one.metres != other.metres:
        raise InputError("one corner is in degrees and the other in metres; write both in the same way")
    return Area(one, other)


def parse_facing(words: str) -> Facing:
    """From "90,30"."""
    heading, within = (
        _number(part.removesuffix("deg"))
        for part in _parts(words, 2, "write a heading and degrees to either side, such as 90,30")
    )
    if not within > 0:
        raise InputError(f"the degrees to either side, {within:g}, must be above 0")
    return Facing(heading % 360.0, within)


def _parts(words: str, count: int, advice: str) -> list[str]:
    parts = words.replace(" ", "").split(",")
    if len(parts) != count:
        raise InputError(f"{advice}; there {'is 1 part' if len(parts) == 1 else f'are {len(parts)} parts'}")
    return parts


def _point(first: str, second: str) -> Point:
    metres = first.endswith("m")
    if metres != second.endswith("m"):
        raise InputError(f"{first},{second} is half in metres; write {_DEGREES_OR_METRES}")
    point = Point(_number(first.removesuffix("m")), _number(second.removesuffix("m")), metres)
    if not metres and not (abs(point.first) <= 90 and abs(point.second) <= 180):
        raise InputError(
            f"{first},{second} is no latitude and longitude; metres are written with an m: 100m,200m"
        )
    return point


def _number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{word!r} is not a number")
    return number


@dataclass(frozen=True)
class FilterOptions(Options):
    """Which photos of a map may answer: those that obey all that is given. Where a photo does not know what is asked
    for, such as its heading, it may not."""

    near: Near | None = option(
        None,
        "Only photos this near to a position: latitude, longitude and metres, as 48.137,11.575,200; on the map's plane"
        " 691608m,5334760m,200.",
        parse=parse_near,
        metavar="POSITION,METRES",
        panel=FILTERS,
    )
    area: Area | None = option(
        None,
        "Only photos in a box: two opposite corners, as 48.13,11.57,48.14,11.58 or 100m,200m,300m,400m.",
        parse=parse_area,
        metavar="CORNER,CORNER",
        panel=FILTERS,
    )
    heading: Facing | None = option(
        None,
        "Only photos that look this way: degrees clockwise from grid north, and degrees to either side, as 90,30.",
        parse=parse_facing,
        metavar="DEGREES,DEGREES",
        panel=FILTERS,
    )
    since: str | None = option(
        None,
        "Only photos taken at this time or later: 2026-05-01, or 2026-05-01T12:30; seconds where the map's times are.",
        metavar="TIME",
        panel=FILTERS,
    )
    until: str | None = option(None, "Only photos taken before this time.", metavar="TIME", panel=FILTERS)
    condition: str | None = option(
        None, "Only photos whose column condition says this.", metavar="WORD", panel=FILTERS
    )

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            if isinstance(given := getattr(self, name), date | datetime):
                object.__setattr__(self, name, given.isoformat())
        super().__post_init__()
        for name, kind in (("near", Near), ("area", Area), ("heading", Facing)):
            if not isinstance(given := getattr(self, name), kind | None):
                raise InputError(
                    f"`{name}` {given!r} is not understood; give it in words, as `samespot locate` takes it"
                )

    @property
    def filters(self) -> dict[str, Any]:
        """What was given, by name."""
        own = {one.name: getattr(self, one.name) for one in fields(FilterOptions)}
        return {name: value for name, value in own.items() if value is not None}
