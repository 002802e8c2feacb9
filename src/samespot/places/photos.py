"""A folder of one's own photos: positions, headings and times out of their EXIF data."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from samespot.errors import InputError
from samespot.photo_files import INSTALL, accept_heic, header, is_heic
from samespot.places.catalogue import MissingImages
from samespot.places.table import Places
from samespot.places.wording import first_few
from samespot.storage import StorageError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".heic", ".heif", ".tif", ".tiff")
LAYOUT = """\
any folder, with any folders below it
└── *.jpg  *.jpeg  *.png  *.webp  *.tif  *.heic    photos with GPS in their EXIF data
"""
NO_GPS = "no GPS in EXIF"
NO_SIDE = "GPS in EXIF does not say north or south, east or west"
BROKEN = "GPS in EXIF makes no sense"
NO_FIX = "GPS in EXIF is 0, 0"  # what a phone writes that has not found its position yet
UNREADABLE = "unreadable image file"

GPS_IFD, EXIF_IFD, DATE_TIME_ORIGINAL = 0x8825, 0x8769, 0x9003
LATITUDE_REF, LATITUDE, LONGITUDE_REF, LONGITUDE, ALTITUDE_REF, ALTITUDE = range(1, 7)
DIRECTION_REF, DIRECTION = 16, 17


def parts(root: Path) -> list[str]:
    """The one part "" when there is any image under root."""
    return [""] if next(images_below(Path(root)), None) is not None else []


def missing(root: Path) -> list[str]:
    """Nothing: one's own photos are complete as they are."""
    return []


def read(root: Path, part: str = "", *, missing_images: MissingImages = "warn") -> Places:
    """Every photo under root that says where it was taken.

    Also gives `latitude`, `longitude` [deg], `altitude` [m above the sea, NaN if unknown] and `time`. Compass
    directions are from true north and are turned onto the grid of the projection.
    Files and folders whose name starts with a dot are passed over.
    """
    root = Path(root)
    if part:
        raise InputError(f"{root}: a folder of photos has no part {part!r}; its one part is ''")
    names = sorted(images_below(root))
    if not names:
        raise InputError(f"{root}: no photos there; expected are files ending in {', '.join(IMAGE_SUFFIXES)}")
    facts: list[dict[str, Any]] = []
    left_out: dict[str, list[str]] = {why: [] for why in (NO_GPS, NO_SIDE, BROKEN, NO_FIX, UNREADABLE)}
    for name in names:
        found = _facts(root / name)
        if isinstance(found, str):
            left_out[found].append(name)
        else:
            facts.append({"image": name, **found})
    if not facts:
        raise InputError(f"{root}: {_none_placed(left_out)}")
    table = pd.DataFrame(facts)
    magnetic = table.pop("magnetic").to_numpy(dtype=bool)
    return Places.build(
        root,
        table,
        source=root,
        from_degrees=True,
        dropped={reason: len(names) for reason, names in left_out.items()},
        notes=(*_left_out_notes(root, left_out), *_heading_notes(root, table["heading"], magnetic)),
        wrap_headings=True,
        missing_images=missing_images,
    )


def images_below(root: Path) -> Iterator[str]:
    """Images under root, relative to it; not those of hidden files and folders (thumbnails, ._copies), nor of the one
    that every ext4 disk has for its own repairs."""
    for folder, below, files in os.walk(root, onerror=_refuse_closed):
        below[:] = sorted(name for name in below if not name.startswith(".") and name != "lost+found")
        for name in files:
            if name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith("."):
                yield (Path(folder) / name).relative_to(root).as_posix()


def _refuse_closed(error: OSError) -> None:
    """A folder that is not let into may hold photos; where there is none, there are none."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise StorageError(
            f"{error.filename}: cannot read the folder ({error.strerror}); check the disk or the mount, and your"
            " permissions"
        )


def _facts(path: Path) -> dict[str, Any] | str:
    """What the EXIF data say, or the reason why the photo is left out."""
    try:
        with header(path) as image:
            exif = image.getexif()
            gps, shot = exif.get_ifd(GPS_IFD), exif.get_ifd(EXIF_IFD)
    except StorageError:
        raise
    except Exception:  # PIL raises many kinds on broken files, SyntaxError and struct.error among them
        return UNREADABLE
    if gps.get(LATITUDE) is None or gps.get(LONGITUDE) is None:
        return NO_GPS
    sides = _text(gps.get(LATITUDE_REF)), _text(gps.get(LONGITUDE_REF))
    if sides[0] not in ("N", "S") or sides[1] not in ("E", "W"):
        return NO_SIDE  # never guessed: a photo on the wrong half of the earth is worse than none
    latitude = _angle(gps.get(LATITUDE), sides[0] == "S", 90.0)
    longitude = _angle(gps.get(LONGITUDE), sides[1] == "W", 180.0)
    if math.isnan(latitude) or math.isnan(longitude):
        return BROKEN
    if latitude == 0 and longitude == 0:
        return NO_FIX
    return {
        "latitude": latitude,
        "longitude": longitude,
        "altitude": _altitude(gps),
        "heading": _number(gps.get(DIRECTION)),
        "magnetic": _text(gps.get(DIRECTION_REF)) == "M",
        "time": _time(_text(shot.get(DATE_TIME_ORIGINAL))),
    }


def _angle(parts: Any, negative: bool, limit: float) -> float:
    """Degrees of EXIF's (degrees, minutes, seconds), all from 0 on; NaN when broken."""
    try:
        degrees, minutes, seconds = (_number(value) for value in parts)
    except (TypeError, ValueError):
        return math.nan
    angle = degrees + minutes / 60.0 + seconds / 3600.0
    if not (0 <= angle <= limit and min(degrees, minutes, seconds) >= 0 and max(minutes, seconds) < 60):
        return math.nan
    return -angle if negative else angle


def _altitude(gps: Mapping[int, Any]) -> float:
    below = gps.get(ALTITUDE_REF) in (1, b"\x01", "1")
    altitude = _number(gps.get(ALTITUDE))
    return -altitude if below else altitude


def _number(value: Any) -> float:
    """A rational of EXIF as a float; NaN when absent, broken or 0/0."""
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _text(value: Any) -> str:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value or "")
    return text.strip("\x00 ")


def _time(text: str) -> str | None:
    """2023:05:01 14:30:00 as 2023-05-01T14:30:00, the clock of the camera; None when there is none."""
    stamp = pd.to_datetime(text, format="%Y:%m:%d %H:%M:%S", errors="coerce")
    return None if pd.isna(stamp) else stamp.isoformat()


def _none_placed(left_out: Mapping[str, list[str]]) -> str:
    counts = ", ".join(f"{len(names)} {reason}" for reason, names in left_out.items() if names)
    if not accept_heic() and any(is_heic(name) for name in left_out[UNREADABLE]):
        return f"none of the photos could be used ({counts}); {INSTALL}"
    return (
        f"none of the photos says where it was taken ({counts}); copy the originals, as messengers strip"
        " the GPS, or write a places.csv with the columns image, latitude, longitude, heading"
    )


def _left_out_notes(root: Path, left_out: Mapping[str, list[str]]) -> list[str]:
    notes = []
    for reason, names in left_out.items():
        if names:
            notes.append(f"{root}: {len(names)} photos left out, {reason} ({first_few(names)})")
    if not accept_heic() and any(is_heic(name) for name in left_out[UNREADABLE]):
        notes.append(f"{root}: {INSTALL}")
    return notes


def _heading_notes(root: Path, heading: pd.Series, magnetic: np.ndarray) -> list[str]:
    known = heading.notna().to_numpy()
    notes = []
    if not known.all():
        notes.append(f"{root}: {(~known).sum()} of {len(known)} photos have no compass direction")
    if (known & magnetic).any():
        count = (known & magnetic).sum()
        notes.append(
            f"{root}: {count} compass directions are from magnetic north, the other {known.sum() - count}"
            " from true north; all are taken to be from true north"
        )
    return notes
