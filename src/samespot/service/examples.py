"""What stands in /openapi.json besides the parameters: schemas and an example for every response."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from samespot.maps.answer import Answer

ANSWER: dict[str, Any] = {
    "format": 1,
    "photo": "photo",
    "found": True,
    "probability": 0.97,
    "position": {"easting": 312.4, "northing": 88.1, "latitude": 48.1371, "longitude": 11.5754},
    "radius": 25.0,
    "heading": 182.5,
    "matches": [
        {
            "image": "walk/0042.jpg",
            "row": 42,
            "position": {"easting": 311.0, "northing": 90.2, "latitude": 48.13712, "longitude": 11.57538},
            "heading": 180.0,
            "distance": 0.41,
            "verified": 118,
            "overlap": {"share": 0.62, "low": 0.48, "high": 0.77},
            "pairs": None,
        }
    ],
    "outside": 0.5,
    "calibration": "map",
    "typical_error": 2.2,
    "time": None,
    "pose": None,
    "no_pose": None,
    "no_match": None,
}
POSE: dict[str, Any] = {
    "centre": [312.61, 87.94, 520.73],
    "quaternion": [0.0183, 0.0179, 0.7069, -0.7069],
    "covariance": [[0.0036 if row == column else 0.0 for column in range(6)] for row in range(6)],
    "inliers": 871,
    "matches": 1022,
    "fov": 66.6,
    "fov_estimated": False,
    "probability": 0.97,
    "within": [0.5, 5.0],
}
WHY = "only 9 of 214 keypoints agree on a pose; 12 are needed"
TROUBLE = {
    "format": 1,
    "photo": "broken.jpg",
    "found": False,
    "trouble": "broken.jpg: cannot decode the image",
}
QUATERNION = {
    "position": {"lat": 48.1371, "lon": 11.5754, "h": 519.0},
    "quaternion": {"x": 0.0, "y": 0.0, "z": -0.7193, "w": 0.6947},
}
YPR = {"position": QUATERNION["position"], "angles": {"yaw": 267.5, "pitch": 0.0, "roll": 0.0}}
_OTHERS: dict[str, tuple[str, Any]] = {
    "maps": ("The maps; the first is asked where none is named.", {"maps": [{"name": "town", "photos": 535}]}),
    "map": (
        "A map.",
        {
            "name": "town",
            "photos": 535,
            "generation": 3,
            "projection": "EPSG:32632",
            "bounds": {"west": 0.0, "south": 0.0, "east": 640.0, "north": 480.0},
            "degrees": {"west": 11.57, "south": 48.13, "east": 11.58, "north": 48.14},
            "model": {"name": "samespot-lite", "digest": "0123456789abcdef", "dims": 256},
            "verifier": "xfeat",
            "within": 25.0,
            "poses": {"from": "depth", "axes": {"east": [1.0, 0.0, 0.0], "north": [0.0, 1.0, 0.0]}},
            "calibration": {"source": "map", "reliability": {}},
            "limits": {"bytes": 20_000_000, "images": 20, "formats": ["image/jpeg"]},
        },
    ),
    "cameras": (
        "Evenly chosen photos of the map, at most 20,000.",
        {"photos": 9, "shown": 2, "id": [0, 5], "easting": [1.0, 2.5], "northing": [3.0, 4.5], "heading": [90.0, None]},
    ),
    "place": (
        "A photo of the map.",
        {
            "id": 42,
            "image": "walk/0042.jpg",
            "position": ANSWER["position"],
            "heading": 180.0,
            "time": "2026-05-01T10:00:00",
            "condition": "day",
            "sequence": None,
        },
    ),
    "running": ("It is there.", {"status": "running"}),
    "health": ("The process is alive.", {"status": "alive"}),
    "ready": ("It can answer.", {"status": "ready"}),
}  # fmt: skip


class Error(BaseModel):
    """A word for programs, and a sentence for people."""

    code: str
    message: str


class Refusal(BaseModel):
    error: Error


class Unread(BaseModel):
    """A photo that could not be asked about, and why."""

    format: int
    photo: str
    found: bool
    trouble: str


class Answers(BaseModel):
    """To several photos, in their order."""

    format: int
    answers: list[Answer | Unread]


def ok(name: str) -> dict[int | str, dict[str, Any]]:
    description, example = _OTHERS[name]
    return {200: {"description": description, "content": {"application/json": {"example": example}}}}


def located() -> dict[int | str, dict[str, Any]]:
    both = {
        "one photo": {"value": ANSWER},
        "with its pose": {"value": {**ANSWER, "pose": POSE}},
        "without a pose": {"value": {**ANSWER, "no_pose": WHY}},
        "several photos": {"value": {"format": 1, "answers": [ANSWER, TROUBLE]}},
    }
    feature = {"type": "FeatureCollection", "features": []}
    content = {
        "application/json": {"examples": both},
        "application/geo+json": {"example": feature},
        "application/geopose+json": {
            "examples": {"quaternion": {"value": QUATERNION}, "ypr": {"value": YPR}}
        },
    }
    return {
        200: {"model": Answer | Answers, "description": "The answer.", "content": content},
        404: _refusal(
            "No such map; or a GeoPose was asked for, and the photo is not in the map.", "not_found"
        ),
        409: _refusal("The map has no latitude and longitude.", "no_degrees"),
        413: _refusal("Too many bytes.", "too_large"),
        415: _refusal("Not a photo.", "not_a_photo"),
    }


def posed() -> dict[int | str, dict[str, Any]]:
    told = {"id": "1", "timestamp": 1, "type": "geopose"}
    found = {
        **told,
        "accuracy": {"position": 2.2, "orientation": 5.0},
        "geopose": QUATERNION,
        "samespot": {"found": True, "probability": 0.97, "radius": 25.0},
    }
    absent = {
        **told,
        "samespot": {"found": False, "probability": 0.03, "radius": 25.0},
        "error": {"code": "not_found", "message": "This photo is not in the map."},
    }
    return {
        200: {"description": "The pose.", "content": {"application/json": {"example": found}}},
        404: {
            "model": Refusal,
            "description": "Not in the map.",
            "content": {"application/json": {"example": absent}},
        },
        409: _refusal("The map has no latitude and longitude.", "no_degrees"),
        413: _refusal("Too many bytes.", "too_large"),
    }


def errors(locked: bool) -> dict[int | str, dict[str, Any]]:
    """What any request may be told."""
    retry = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
    found: dict[int | str, dict[str, Any]] = {
        400: _refusal("A request that makes no sense.", "bad_request"),
        404: _refusal("There is nothing of that name or number.", "no_such_place"),
        422: _refusal("A parameter or a photo that cannot be read.", "unreadable"),
        429: {**_refusal("Too often, or too many at once.", "busy"), "headers": retry},
        503: _refusal("Starting, stopping, or too slow.", "too_slow"),
    }  # fmt: skip
    if locked:
        found[401] = _refusal("An API key is needed.", "key_needed")
    return found


def _refusal(description: str, code: str) -> dict[str, Any]:
    example = {"error": {"code": code, "message": description}}
    return {
        "model": Refusal,
        "description": description,
        "content": {"application/json": {"example": example}},
    }


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """Json that is read by hand, once it is clear who sends it: its schema, written out."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})

    def whole(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                return whole(parts[part["$ref"].rpartition("/")[2]])
            return {name: whole(one) for name, one in part.items()}
        return [whole(one) for one in part] if isinstance(part, list) else part

    return {"requestBody": {"required": True, "content": {"application/json": {"schema": whole(schema)}}}}


def photos_body(kinds: tuple[str, ...]) -> dict[str, Any]:
    """A photo as it is, or several in a form."""
    photo = {"type": "string", "format": "binary"}
    form = {
        "schema": {
            "type": "object",
            "properties": {"photo": {"type": "array", "items": photo}},
            "required": ["photo"],
        }
    }
    one: dict[str, Any] = {kind: {"schema": photo} for kind in kinds}
    return {"requestBody": {"required": True, "content": {**one, "multipart/form-data": form}}}
