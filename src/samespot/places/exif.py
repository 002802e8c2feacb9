"""Which camera took a photo, as far as its EXIF data tell."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

from samespot.photo_files import header
from samespot.places.camera import Camera

EXIF_IFD, ORIENTATION = 0x8769, 0x0112
FOCAL_LENGTH, FOCAL_35 = 0x920A, 0xA405  # [mm], and [mm] if the photo were of film
PLANE_RESOLUTION, PLANE_UNIT, PIXELS_ACROSS = 0xA20E, 0xA210, 0xA002
DIAGONAL = math.hypot(36.0, 24.0)  # [mm] of film
UNITS = {2: 25.4, 3: 10.0, 4: 1.0}  # [mm] of what resolution is counted by
NARROW, WIDE = 5.0, 150.0  # [deg] of the longer side; what is beyond is no lens, but a mistake


def exif_camera(photo: Any) -> Camera | None:
    """The camera of a photo file, its bytes or a Pillow image, upright; None where nothing is told."""
    try:
        if isinstance(photo, str | Path):
            with header(photo) as image:
                return camera_told(image)
        if isinstance(photo, bytes | bytearray | memoryview):
            from PIL import Image

            with Image.open(io.BytesIO(bytes(photo))) as image:
                return camera_told(image)
        return camera_told(photo) if hasattr(photo, "getexif") else None
    except (
        Exception
    ):  # Pillow raises many kinds on broken files, and what is wrong with a photo is told elsewhere
        return None


def camera_told(image: Any) -> Camera | None:
    """By the EXIF data of a Pillow image."""
    whole = image.getexif()
    told = whole.get_ifd(EXIF_IFD)
    width, height = image.size
    focal = _focal(told, width, height)
    if whole.get(ORIENTATION) in (5, 6, 7, 8):  # lies on its side
        width, height = height, width
    if focal is None:
        return None
    view = math.degrees(2.0 * math.atan(0.5 * max(width, height) / focal))
    return Camera.of_focal(width, height, focal) if NARROW <= view <= WIDE else None


def _focal(told: Any, width: int, height: int) -> float | None:
    """[px]"""
    film = _number(told.get(FOCAL_35))
    if film > 0:
        return film / DIAGONAL * math.hypot(width, height)
    length, density = _number(told.get(FOCAL_LENGTH)), _number(told.get(PLANE_RESOLUTION))
    unit = UNITS.get(told.get(PLANE_UNIT, 2))
    if not (length > 0 and density > 0 and unit):
        return None
    across = _number(told.get(PIXELS_ACROSS))
    resized = width / across if across > 0 else 1.0
    return length / unit * density * resized


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, ZeroDivisionError):
        return math.nan
