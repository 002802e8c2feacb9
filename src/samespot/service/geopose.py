"""Answers in the words of others: OGC GeoPose 1.0, and the GeoPose Protocol (v2) of the Open AR Cloud.

A GeoPose turns the frame of east, north and up into that of the camera, whose x axis points ahead and z axis up. It is
that of the answer's 6DOF pose, where there is one to be relied on and the map's positions are those of its poses. Else
only the heading is known (where it cannot be told, that of the best match stands for it): pitch and roll are 0. `h` is
the altitude of the best match where the map knows it, else 0.
"""

# ruff: noqa: N815 - the names are the protocol's
from __future__ import annotations

import base64
import binascii
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from samespot.maps.answer import Answer, Pose
from samespot.maps.map import Map
from samespot.places.geodesy import grid_headings, to_degrees
from samespot.places.pose import PoseFrame, rotations
from samespot.poses.plane import lying
from samespot.service.errors import RefusedError

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

HEADING_ERROR = 5.0  # [deg] about what headings are off by; docs/serve.md says how that was seen
UNTURNED = 45.0  # [deg] about how far the best match may look another way
SURE = 0.5  # probability from which on a pose counts
AHEAD_LEFT_UP = ((0.0, -1.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0))  # columns: in x right, y down, z ahead
SURE_OF_IT, LEAST_PRIOR = 4.0, 50.0  # times what a device calls its accuracy, and metres at least
MEDIA = "application/geopose+json"
Kind = Literal["ypr", "quaternion"]


def geopose(answer: Answer, map: Map, kind: Kind) -> dict[str, Any]:
    """Basic-YPR or Basic-Quaternion of an answer, for a map that has degrees."""
    at, projection = answer.position, map.generation.places.projection
    assert at is not None
    assert projection is not None
    known = _pose(answer, map)
    if known is None:
        latitude, longitude, turned = at.latitude, at.longitude, _turned_by_heading(answer, map)
    else:
        (latitude, longitude), turned = _placed(*known, projection)
    position = {"lat": latitude, "lon": longitude, "h": _altitude(answer, map)}
    if kind == "ypr":
        yaw, pitch, roll = (turned.as_euler("ZYX", degrees=True) + 0.0).tolist()
        return {"position": position, "angles": {"yaw": yaw % 360.0, "pitch": pitch, "roll": roll}}
    quaternion = dict(zip("xyzw", (turned.as_quat(canonical=True) + 0.0).tolist(), strict=True))
    return {"position": position, "quaternion": quaternion}


def _pose(answer: Answer, map: Map) -> tuple[Pose, PoseFrame] | None:
    """The pose, and how its world lies on the plane; None where one of them is not known for sure."""
    pose, at = answer.pose, answer.position
    if pose is None or at is None or pose.probability is None or pose.probability < SURE:
        return None
    lies = lying(map.generation.places)
    if lies is None or not lies.exact:
        return None
    away = (
        np.dot(pose.centre, lies.frame.east()) - at.easting,
        np.dot(pose.centre, lies.frame.north) - at.northing,
    )
    return (pose, lies.frame) if math.hypot(*away) <= answer.radius else None


def _placed(pose: Pose, frame: PoseFrame, projection: str) -> tuple[tuple[float, float], Rotation]:
    """Latitude and longitude, and what turns the axes of east, north and up into the camera's."""
    from scipy.spatial.transform import Rotation

    world = np.array([frame.east(), frame.north, frame.up])
    east, north, _ = world @ np.asarray(pose.centre)
    latitude, longitude = (float(one[0]) for one in to_degrees([east], [north], projection))
    from_grid = Rotation.from_euler("Z", _grid_turn(latitude, longitude, projection), degrees=True)
    axes = Rotation.from_matrix(world) * rotations(pose.quaternion)[0] * Rotation.from_matrix(AHEAD_LEFT_UP)
    return (latitude, longitude), from_grid * axes


def _turned_by_heading(answer: Answer, map: Map) -> Rotation:
    from scipy.spatial.transform import Rotation

    yaw = 90.0 - (_heading(answer, map) or 0.0)  # counterclockwise from east
    return Rotation.from_euler("Z", yaw, degrees=True)


def _heading(answer: Answer, map: Map) -> float | None:
    """[deg] from true north; the map's are from that of its grid."""
    at, projection = answer.position, map.generation.places.projection
    heading = answer.matches[0].heading if answer.heading is None and answer.matches else answer.heading
    if heading is None or at is None or at.latitude is None or at.longitude is None or projection is None:
        return None
    return (heading - _grid_turn(at.latitude, at.longitude, projection)) % 360.0


def _grid_turn(latitude: float, longitude: float, projection: str) -> float:
    """[deg] the heading on the grid of what points to true north."""
    return float(grid_headings([0.0], [latitude], [longitude], projection)[0])


def _altitude(answer: Answer, map: Map) -> float:
    table = map.generation.places.table
    if "altitude" not in table or not answer.matches:
        return 0.0
    altitude = float(table["altitude"].iloc[answer.matches[0].row])
    return 0.0 if math.isnan(altitude) else altitude


# ---- the protocol ----


class CameraReading(BaseModel):
    """One photo. `imageBytes` is the base64 of an image file; raw pixels are not taken."""

    model_config = ConfigDict(extra="allow")
    timestamp: float = Field(0, allow_inf_nan=False)
    sensorId: str = Field("", max_length=200)
    sequenceNumber: int = 0
    imageFormat: str = Field("", max_length=40)
    size: list[int] = Field(default_factory=list, max_length=4)
    imageBytes: str


class GeolocationReading(BaseModel):
    """Where the device thinks it is: a prior, if it says how accurately."""

    model_config = ConfigDict(extra="allow")
    latitude: float = Field(ge=-90, le=90)
    longitude: float = Field(ge=-180, le=180)
    accuracy: float | None = Field(None, ge=0, le=1e7)


class SensorReadings(BaseModel):
    model_config = ConfigDict(extra="allow")
    cameraReadings: list[CameraReading] = Field(min_length=1, max_length=1)
    geolocationReadings: list[GeolocationReading] = Field(default_factory=list, max_length=100)


class GeoPoseRequest(BaseModel):
    """What a client of the protocol sends. Other sensors are accepted and not used."""

    model_config = ConfigDict(extra="allow")
    id: str = Field(max_length=200)
    timestamp: float = Field(allow_inf_nan=False)
    type: str = Field("geopose", max_length=40)
    sensors: list[dict[str, Any]] = Field(default_factory=list, max_length=100)
    sensorReadings: SensorReadings


def read(body: bytes) -> tuple[GeoPoseRequest, bytes]:
    """What was asked, and the photo in it."""
    try:
        asked = GeoPoseRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RefusedError(
            422, "bad_request", f"{where}: {first['msg']}" if where else first["msg"]
        ) from None
    try:
        return asked, base64.b64decode(asked.sensorReadings.cameraReadings[0].imageBytes, validate=True)
    except (binascii.Error, ValueError):
        raise RefusedError(400, "bad_request", "imageBytes is not base64 of an image file.") from None


def prior(asked: GeoPoseRequest) -> dict[str, Any]:
    """What the device knows of its position, as an option of `locate`: nothing, unless it says how accurately."""
    for reading in asked.sensorReadings.geolocationReadings:
        if reading.accuracy:
            radius = max(LEAST_PRIOR, SURE_OF_IT * reading.accuracy)
            return {"near": f"{reading.latitude:.8f},{reading.longitude:.8f},{radius:.1f}"}
    return {}


def wanted(map: Map) -> dict[str, Any]:
    """As options of `locate`: a 6DOF pose, where it would be told."""
    lies = lying(map.generation.places) if map.gives_poses else None
    return {"pose": True} if lies is not None and lies.exact else {}


def reply(asked: GeoPoseRequest, answer: Answer, map: Map) -> dict[str, Any]:
    """What the protocol answers. `samespot` is our addition: the probability, and whether it is enough."""
    ours = {"found": answer.found, "probability": answer.probability, "radius": answer.radius}
    told: dict[str, Any] = {"id": asked.id, "timestamp": asked.timestamp, "type": "geopose", "samespot": ours}
    if not answer.found:
        return {**told, "error": {"code": "not_found", "message": "This photo is not in the map."}}
    if (known := _pose(answer, map)) is not None:
        position, turned = known[0].within  # more likely than not
    else:
        position, turned = answer.typical_error or answer.radius, _heading_error(answer, map)
    accuracy = {"position": position, "orientation": turned}
    return {**told, "accuracy": accuracy, "geopose": geopose(answer, map, "quaternion")}


def _heading_error(answer: Answer, map: Map) -> float:
    """[deg]"""
    unknown = UNTURNED if _heading(answer, map) is not None else 180.0
    return unknown if answer.heading is None else HEADING_ERROR
