"""`Answer`: where a photo was taken, how sure that is, and what it rests on; as text, json, GeoJSON and GPX."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = 1  # of the json
Pair = tuple[float, float, float, float]  # x, y in the photo and in the match, as shares of width and height


@dataclass(frozen=True)
class Position:
    """Metres on the map's plane; degrees where the map has a projection."""

    easting: float
    northing: float
    latitude: float | None = None
    longitude: float | None = None

    def __str__(self) -> str:
        if self.latitude is None:
            return f"{self.easting:.1f} m east, {self.northing:.1f} m north"
        return f"{self.latitude:.6f}, {self.longitude:.6f}"


@dataclass(frozen=True)
class Overlap:
    """How much of the photo the match shows, by its verified matches; `low` to `high` holds four times in five."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Match:
    """A photo of the map that may show the same place."""

    image: str
    row: int  # in the map's table
    position: Position
    heading: float | None  # [deg] clockwise from grid north
    distance: float  # of the descriptors
    verified: int | None = None  # matches of local features that one geometry explains; None: not looked at
    overlap: Overlap | None = None  # None: not looked at, or no more matches than by chance
    pairs: tuple[Pair, ...] | None = None  # the verified matches, where they were asked for


@dataclass(frozen=True)
class Pose:
    """Where the camera stood and how it was turned, in the frame of the map's own poses.

    `probability`: that it lies within so many metres and degrees (`within`) of the true one, as questions to the map
    have shown; None where the map could not ask itself.
    """

    centre: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]  # qw qx qy qz, camera to world; x right, y down, z ahead
    covariance: tuple[tuple[float, ...], ...]  # 6 x 6: centre [m²], and a turn about the camera's axes [rad²]
    inliers: int  # keypoints that agree with it
    matches: int  # keypoints of the photo that the map knows in space
    fov: float  # [deg] that the width of the photo shows
    fov_estimated: bool  # whether that was found together with the pose
    probability: float | None
    within: tuple[float, float]  # [m], [deg]

    @property
    def deviation(self) -> float:
        """[m] of the centre, all directions together."""
        return math.sqrt(sum(self.covariance[at][at] for at in range(3)))

    def __str__(self) -> str:
        x, y, z = self.centre
        sure = "" if self.probability is None else f", {percent(self.probability)}"
        return f"({x:.2f}, {y:.2f}, {z:.2f}) by {self.inliers} keypoints{sure}"


@dataclass(frozen=True)
class Answer:
    """Where a photo was taken, if that can be told.

    `probability`: that the true position lies within `radius` metres of `position`, as questions to the map have shown
    (`calibration` says whose), if the share `outside` of all photos asked about are not in the map. `found`: whether
    that is enough. Where it is not, `position` and `matches` are still the best there are.
    """

    photo: str
    found: bool
    probability: float
    position: Position | None
    radius: float  # [m]
    heading: float | None  # [deg] clockwise from grid north; None if it is not known
    matches: tuple[Match, ...]
    outside: float = 0.5
    calibration: str = "map"  # whose: the map's own, the "model"'s, or "another model"'s
    typical_error: float | None = None  # [m] half of the right answers were nearer than that
    time: float | None = None  # [s] since the first photo of a sequence
    pose: Pose | None = None  # None: not asked for, or there is none
    no_pose: str | None = None  # why there is none, if it was asked for
    no_match: str | None = None  # why there is not even a best guess

    def __str__(self) -> str:
        if self.position is None or not self.matches:
            return f"{self.photo}: {self.no_match or 'not in this map'}"
        best = self.matches[0]
        if not self.found:
            return (
                f"{self.photo}: not in this map, as far as can be told (best guess {self.position}, like {best.image},"
                f" {percent(self.probability)})"
            )
        facing = "" if self.heading is None else f", facing {self.heading:.0f}°"
        return (
            f"{self.photo}: {self.position}{facing}, within {self.radius:g} m with a probability of"
            f" {percent(self.probability)}; like {best.image}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain json. Names are kept from version to version; new ones may be added."""
        return {"format": FORMAT, **asdict(self)}

    def feature(self) -> dict[str, Any]:
        """A GeoJSON feature; without geometry where the place or its degrees are not known."""
        told = self.to_dict()
        del told["position"]
        return {"type": "Feature", "geometry": _point(self.position), "properties": told}


@dataclass(frozen=True)
class Trouble:
    """A photo that could not be asked about, and why."""

    photo: str
    why: str

    def __str__(self) -> str:
        return self.why

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, "photo": self.photo, "found": False, "trouble": self.why}


def _point(position: Position | None) -> dict[str, Any] | None:
    if position is None or position.latitude is None:
        return None
    return {"type": "Point", "coordinates": [position.longitude, position.latitude]}


def percent(probability: float) -> str:
    """Never a hundred or zero: no finite number of questions shows that."""
    shown = round(100 * probability)
    return "over 99 %" if shown >= 100 else "under 1 %" if shown <= 0 else f"{shown} %"


def geojson(answers: Iterable[Answer]) -> str:
    """One feature collection; a place that was not found has no geometry of its own."""
    features = [answer.feature() for answer in answers]
    for feature in features:
        if not feature["properties"]["found"]:
            feature["geometry"] = None
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1)


def gpx(answers: Iterable[Answer], track: bool = False) -> str:
    """Waypoints of the photos that were found, or one track of them. GPX knows only degrees."""
    from xml.etree import ElementTree

    root = ElementTree.Element(
        "gpx", {"version": "1.1", "creator": "samespot", "xmlns": "http://www.topografix.com/GPX/1/1"}
    )
    parent = root
    if track:
        parent = ElementTree.SubElement(ElementTree.SubElement(root, "trk"), "trkseg")
    for answer in answers:
        at = answer.position
        if not answer.found or at is None or at.latitude is None:
            continue
        where = {"lat": f"{at.latitude:.8f}", "lon": f"{at.longitude:.8f}"}
        point = ElementTree.SubElement(parent, "trkpt" if track else "wpt", where)
        ElementTree.SubElement(point, "name").text = answer.photo
        ElementTree.SubElement(point, "desc").text = f"probability {answer.probability:.3f}"
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def row_of(outcome: Answer | Trouble) -> dict[str, Any]:
    """One line of a table: what matters of an answer, its best match included."""
    answer = outcome if isinstance(outcome, Answer) else None
    at = None if answer is None else answer.position
    best = answer.matches[0] if answer is not None and answer.matches else None
    return {
        "photo": outcome.photo,
        "found": answer is not None and answer.found,
        "probability": 0.0 if answer is None else answer.probability,
        "easting": math.nan if at is None else at.easting,
        "northing": math.nan if at is None else at.northing,
        "latitude": _number(at and at.latitude),
        "longitude": _number(at and at.longitude),
        "radius": _number(answer and answer.radius),
        "heading": _number(answer and answer.heading),
        "match": "" if best is None else best.image,
        "distance": _number(best and best.distance),
        "verified": -1 if best is None or best.verified is None else best.verified,
        "time": _number(answer and answer.time),
        "trouble": outcome.why if isinstance(outcome, Trouble) else "",
    }


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
