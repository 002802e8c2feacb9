"""A filter as it is on one map: ranges of its columns, which this process checks and an engine may, too."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.maps.filters import FilterOptions, Near, Point
from samespot.places.geodesy import to_degrees, to_metres
from samespot.places.table import Places

Bools = NDArray[np.bool_]
NUMBERS = ("easting", "northing", "heading", "time", "latitude", "longitude")  # columns that may be limited


@dataclass(frozen=True)
class Range:
    """Of a column, ends included. An unknown value, NaN, is in no range."""

    column: str
    least: float = -np.inf
    most: float = np.inf


@dataclass(frozen=True)
class Circle:
    easting: float
    northing: float
    radius: float  # [m]


@dataclass(frozen=True)
class Rules:
    """A photo may answer if of each of `ranges` it is in one or the other, in the circle, and of the condition."""

    ranges: tuple[tuple[Range, ...], ...] = ()
    circle: Circle | None = None  # `ranges` hold the box around it
    condition: str | None = None


@dataclass(frozen=True, eq=False)
class Limits:
    """Which photos of a map may answer."""

    rules: Rules
    allowed: Bools  # (n,) those that obey them
    left_none: str | None = None  # where none does: which filter it is that no photo passes


class Columns:
    """What photos of a map can be filtered by: (n,) of each, made when it is first asked for."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._made: dict[str, NDArray[np.float64]] = {}

    def numbers(self, name: str) -> NDArray[np.float64]:
        """One of `NUMBERS`; NaN: unknown."""
        if name not in self._made:
            self._made[name] = self._of(name)
        return self._made[name]

    @cached_property
    def conditions(self) -> NDArray[Any]:
        """Words; "": unknown."""
        if "condition" not in self._places.table:
            return np.full(len(self._places), "", dtype=object)
        return self._places.table["condition"].map(_word).to_numpy(dtype=object)

    def allowed(self, rules: Rules) -> Bools:
        """(n,) which photos may answer."""
        may = np.ones(len(self._places), dtype=bool)
        for one_of in rules.ranges:
            may &= reduce(np.logical_or, [self._inside(one) for one in one_of])
        if (circle := rules.circle) is not None:
            boxed = np.flatnonzero(may)  # few, since ranges hold the box around the circle
            east = self.numbers("easting")[boxed] - circle.easting
            north = self.numbers("northing")[boxed] - circle.northing
            may[boxed] = np.hypot(east, north) <= circle.radius
        if rules.condition is not None:
            may &= self.conditions == rules.condition
        return may

    def _inside(self, one: Range) -> Bools:
        values = self.numbers(one.column)
        inside: Bools = (values >= one.least) & (values <= one.most)
        return inside

    def _of(self, name: str) -> NDArray[np.float64]:
        if name == "time":
            return self._places.seconds()
        if name in ("easting", "northing", "heading"):
            return self._places.table[name].to_numpy(dtype=np.float64)
        if self._places.projection is None:
            return np.full(len(self._places), np.nan)
        at = self._places.positions
        degrees = to_degrees(at[:, 0], at[:, 1], self._places.projection)
        self._made |= dict(zip(("latitude", "longitude"), degrees, strict=True))
        return self._made[name]


def _word(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def limits_of(asked: FilterOptions, places: Places, columns: Columns, named: str) -> Limits | None:
    """What the filters mean on this map; None where there are none. named: the map, in errors."""
    if not asked.filters:
        return None
    rules = _rules_of(asked, places, columns, named)
    allowed = columns.allowed(rules)
    return Limits(rules, allowed, None if allowed.any() else _left_none(asked, places, columns, named))


def _left_none(asked: FilterOptions, places: Places, columns: Columns, named: str) -> str:
    """Which filter no photo passes; all of them where each leaves some."""
    each = {name: FilterOptions(**{name: value}) for name, value in asked.filters.items()}
    alone = [
        name
        for name, one in each.items()
        if not columns.allowed(_rules_of(one, places, columns, named)).any()
    ]
    blamed = alone[:1] or list(each)
    told = " and ".join(f"{name} {asked.filters[name]}" for name in blamed)
    kind = "the filter" if len(blamed) == 1 else "all of the filters"
    return f"no photo of this map, which has {len(places):,}, passes {kind} {told}"


def _rules_of(asked: FilterOptions, places: Places, columns: Columns, named: str) -> Rules:
    ranges: list[tuple[Range, ...]] = []
    circle = None
    if asked.near is not None:
        circle = _circle(asked.near, places, named)
        east, north, radius = circle.easting, circle.northing, circle.radius
        ranges += [(Range("easting", east - radius, east + radius),)]
        ranges += [(Range("northing", north - radius, north + radius),)]
    if asked.area is not None:
        one, other = asked.area.one, asked.area.other
        _refuse_degrees(one, places, "area", named)
        names = ("easting", "northing") if one.metres else ("latitude", "longitude")
        sides = (one.first, other.first), (one.second, other.second)
        ranges += [(Range(name, min(side), max(side)),) for name, side in zip(names, sides, strict=True)]
    if asked.heading is not None:
        if np.isnan(columns.numbers("heading")).all():
            raise InputError(f"{named}: no photo of this map knows its heading; leave out `heading`")
        ranges += [_turned(asked.heading.heading, asked.heading.within)]
    if asked.since is not None or asked.until is not None:
        ranges += [(_times(asked, places, columns, named),)]
    if asked.condition is not None and "condition" not in places.table:
        raise InputError(f"{named}: its photos tell no condition (no such column); leave out `condition`")
    return Rules(tuple(ranges), circle, asked.condition)


def _circle(near: Near, places: Places, named: str) -> Circle:
    point = near.point
    if point.metres:
        return Circle(point.first, point.second, near.radius)
    _refuse_degrees(point, places, "near", named)
    assert places.projection is not None
    easting, northing, _ = to_metres([point.first], [point.second], places.projection)
    return Circle(float(easting[0]), float(northing[0]), near.radius)


def _refuse_degrees(point: Point, places: Places, name: str, named: str) -> None:
    if not point.metres and places.projection is None:
        raise InputError(
            f"{named}: this map has no projection, so `{name}` must be in metres on its plane, such as 100m,200m"
        )


def _turned(heading: float, within: float) -> tuple[Range, ...]:
    """Headings are from 0 to below 360."""
    least, most = heading - within, heading + within
    if within >= 180:
        return (Range("heading", 0.0, 360.0),)
    if least < 0:
        return Range("heading", least + 360.0, 360.0), Range("heading", 0.0, most)
    if most >= 360:
        return Range("heading", least, 360.0), Range("heading", 0.0, most - 360.0)
    return (Range("heading", least, most),)


def _times(asked: FilterOptions, places: Places, columns: Columns, named: str) -> Range:
    name = "since" if asked.since is not None else "until"
    if np.isnan(columns.numbers("time")).all():
        raise InputError(f"{named}: its photos do not tell when they were taken; leave out `{name}`")
    seconds = places.table["time"].dtype.kind in "if"
    least = -np.inf if asked.since is None else _moment("since", asked.since, seconds)
    until = np.inf if asked.until is None else _moment("until", asked.until, seconds)
    return Range("time", least, float(np.nextafter(until, -np.inf)) if asked.until is not None else until)


def _moment(name: str, words: str, seconds: bool) -> float:
    """[s] as `Places.seconds` counts them."""
    try:
        if seconds:
            moment = float(words)
        else:
            moment = (pd.to_datetime(words, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    except (ValueError, OverflowError):
        moment = np.nan
    if not np.isfinite(moment):
        wanted = "seconds, as the map's own times are" if seconds else "a time such as 2026-05-01T12:30"
        raise InputError(f"`{name}` {words!r} is not {wanted}")
    return float(moment)
