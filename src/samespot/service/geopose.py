"""Answers in the words of others: OGC GeoPose 1.0, and the GeoPose Protocol (v2) of the Open AR Cloud.

A GeoPose turns the frame of east, north and up into that of the camera, whose x axis points ahead and z axis up. Only
the heading is known (where it cannot be told, that of the best match stands for it): pitch and roll are 0. `h` is
the altitude of the best match where the map knows it, else 0.
"""

# ruff: noqa: N815 - the names are the protocol's
from __future__ import annotations

import base64
import binascii
import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from samespot.maps.answer import Answer
from samespot.maps.map import Map
from samespot.places.geodesy import grid_headings
from samespot.service.errors import RefusedError

HEADING_ERROR = 5.0  # [deg] about what headings are off by; docs/serve.md says how that was seen
UNTURNED = 45.0  # [deg] about how far the best match may look another way
SURE_OF_IT, LEAST_PRIOR = 4.0, 50.0  # times what a device calls its accuracy, and metres at least
MEDIA = "application/geopose+json"
Kind = Literal["ypr", "quaternion"]


def geopose(answer: Answer, map: Map, kind: Kind) -> dict[str, Any]:
    """Basic-YPR or Basic-Quaternion of an answer, for a map that has degrees."""
    at = answer.position
    assert at is not None
    assert at.latitude is not None
    position = {"lat": at.latitude, "lon": at.longitude, "h": _altitude(answer, map)}
    yaw = (90.0 - (_heading(answer, map) or 0.0)) % 360.0  # counterclockwise from east
    if kind == "ypr":
        return {"position": position, "angles": {"yaw": yaw, "pitch": 0.0, "roll": 0.0}}
    half = math.radians(yaw) / 2
    quaternion = {"x": 0.0, "y": 0.0, "z": math.sin(half), "w": math.cos(half)}
    return {"position": position, "quaternion": quaternion}


def _heading(answer: Answer, map: Map) -> float | None:
    """[deg] from true north; the map's are from that of its grid."""
    at, projection = answer.position, map.generation.places.projection
    heading = answer.matches[0].heading if answer.heading is None and answer.matches else answer.heading
    if heading is None or at is None or at.latitude is None or at.longitude is None or projection is None:
        return None
    turn = grid_headings([0.0], [at.latitude], [at.longitude], projection)[0]
    return (heading - float(turn)) % 360.0


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


def reply(asked: GeoPoseRequest, answer: Answer, map: Map) -> dict[str, Any]:
    """What the protocol answers. `samespot` is our addition: the probability, and whether it is enough."""
    ours = {"found": answer.found, "probability": answer.probability, "radius": answer.radius}
    told: dict[str, Any] = {"id": asked.id, "timestamp": asked.timestamp, "type": "geopose", "samespot": ours}
    if not answer.found:
        return {**told, "error": {"code": "not_found", "message": "This photo is not in the map."}}
    unknown = UNTURNED if _heading(answer, map) is not None else 180.0
    turned = unknown if answer.heading is None else HEADING_ERROR
    accuracy = {"position": answer.typical_error or answer.radius, "orientation": turned}
    return {**told, "accuracy": accuracy, "geopose": geopose(answer, map, "quaternion")}
