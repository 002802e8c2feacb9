"""Folders of images whose names carry the position between @ signs, as VPR-datasets-downloader makes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd

from samespot.errors import InputError
from samespot.places.catalogue import MissingImages
from samespot.places.geodesy import choose_projection, to_degrees
from samespot.places.photos import IMAGE_SUFFIXES
from samespot.places.table import Places
from samespot.places.wording import first_few

FIELDS = (
    "easting",
    "northing",
    "zone_number",
    "zone_letter",
    "latitude",
    "longitude",
    "pano_id",
    "tile_num",
    "heading",
    "pitch",
    "roll",
    "height",
    "time",
    "note",
)
NUMBERS = ("easting", "northing", "latitude", "longitude", "tile_num", "heading", "pitch", "roll", "height")
LAYOUT = """\
images/
├── train/  val/  test/
│   ├── database/  @easting@northing@zone@letter@lat@lon@pano_id@tile@heading@pitch@roll@height@time@note@.jpg
│   └── queries/   the same
or one folder of such images; a field may be empty
"""
STAMP = re.compile(
    r"^(\d{4})(?:(\d{2})(?:(\d{2})(?:_(\d{2})(\d{2})?(\d{2})?)?)?)?$"
)  # YYYYMMDD_hhmmss, or its start
DEPTH = 3  # images/test/database
OTHER_NAMES = "name without @ fields"


def parts(root: Path) -> list[str]:
    """Folders under root, at most three deep, that hold images named with @; "" is root itself."""
    root = Path(root)
    if not root.is_dir():
        return []
    return sorted(folder.relative_to(root).as_posix().removeprefix(".") for folder in _folders(root, DEPTH))


def missing(root: Path) -> list[str]:
    """The other half of each pair of database and queries."""
    root = Path(root)
    there = set(parts(root))
    pairs = {"database": "queries", "queries": "database"}
    lacking = set()
    for part in there:
        folder, _, name = part.rpartition("/")
        if name in pairs:
            lacking.add(f"{folder}/{pairs[name]}".lstrip("/"))
    return sorted(lacking - there)


def read(root: Path, part: str = "", *, missing_images: MissingImages = "warn") -> Places:
    """One folder of images, with all that their names say.

    Also gives `zone` (as 17T, when all images share one), `latitude`, `longitude` [deg], `pano_id`,
    `tile_num`, `pitch`, `roll`, `height` and `note`, as far as any name has them, and `split` where the
    folder is called database or queries. Where the names give metres of one zone, positions and headings
    are taken as they are; else they are projected again, with headings counted from true north.
    """
    root = Path(root)
    folder = root / part
    if not _holds_at_names(folder):
        raise InputError(f"{folder}: no images there with names like @easting@northing@…@.jpg; {_hint(root)}")
    files = sorted(entry.name for entry in os.scandir(folder) if _is_image(entry.name))
    named = [name for name in files if name.startswith("@")]
    table = _fields(named, folder)
    table, projection, from_degrees, notes = _on_one_plane(table, folder)
    table.insert(0, "image", [f"{part}/{name}" if part else name for name in named])
    split = _split(part)
    if split:
        table["split"] = split
    others = [name for name in files if not name.startswith("@")]
    if others:
        said = f"{len(others)} images left out, their names have no @ fields ({first_few(others)})"
        notes.append(f"{folder}: {said}")
    return Places.build(
        root,
        table,
        source=folder,
        projection=projection,
        dropped={OTHER_NAMES: len(others)},
        notes=tuple(notes),
        from_degrees=from_degrees,
        wrap_headings=True,
        missing_images=missing_images,
    )


def _folders(folder: Path, depth: int) -> list[Path]:
    """Folders with @ names; what lies below one is not looked at."""
    if _holds_at_names(folder):
        return [folder]
    if depth == 0:
        return []
    below = [
        Path(entry.path)
        for entry in os.scandir(folder)
        if os.path.isdir(entry.path)
        and not entry.name.startswith(".")  # the entry itself fails on a link in a circle
    ]
    return [found for child in below for found in _folders(child, depth - 1)]


def _holds_at_names(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        return any(entry.name.startswith("@") and _is_image(entry.name) for entry in entries)


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith(".")


def _hint(root: Path) -> str:
    there = parts(root)
    if not there:
        return f"no folder under {root} has any"
    return f"the parts are {first_few([repr(part) for part in there], 6)}"


def _split(part: str) -> str | None:
    name = part.rpartition("/")[2]
    if name.startswith("quer"):
        return "query"
    return "map" if name.startswith(("database", "gallery")) else None


def _fields(names: list[str], folder: Path) -> pd.DataFrame:
    """The fields of each name, (n, 14); numbers as floats, NaN where empty."""
    pieces = [name.split("@")[1:-1] for name in names]
    for name, found in zip(names, pieces, strict=True):
        if not 2 <= len(found) <= len(FIELDS):
            raise InputError(
                f"{folder}/{name}: {len(found)} fields between @ signs where 2 to {len(FIELDS)} are expected;"
                f" the order is {', '.join(FIELDS)}"
            )
    padded = [found + [""] * (len(FIELDS) - len(found)) for found in pieces]
    table = pd.DataFrame(padded, columns=list(FIELDS), index=names, dtype=object)
    table = table.mask(table.isin(["", "None"]))  # the downloader writes None for a pano_id that it lacks
    for column in (*NUMBERS, "zone_number"):
        numbers = pd.to_numeric(table[column], errors="coerce")
        bad = np.flatnonzero((numbers.isna() & table[column].notna()) | np.isinf(numbers))
        if len(bad):
            value = table[column].iloc[bad[0]]
            raise InputError(f"{folder}/{names[bad[0]]}: {column} {value!r} is not a number; rename the file")
        table[column] = numbers.astype(np.float64)
    table["time"] = table["time"].astype("str").str.replace(STAMP, _iso_time, regex=True)
    return table


def _iso_time(stamp: re.Match[str]) -> str:
    """201311 as 2013-11, 20190101_123000 as 2019-01-01T12:30:00."""
    day = "-".join(part for part in stamp.groups()[:3] if part)
    clock = ":".join(part for part in stamp.groups()[3:] if part)
    return f"{day}T{clock}" if clock else day


def _on_one_plane(table: pd.DataFrame, folder: Path) -> tuple[pd.DataFrame, str | None, bool, list[str]]:
    """The table without empty columns, its projection or that it must be projected; what to note."""
    codes = _utm_codes(table, folder)
    zones = sorted(codes.dropna().unique())
    unplaced = table["easting"].isna() | table["northing"].isna()
    from_degrees = len(zones) > 1 or bool(zones and codes.isna().any()) or bool(unplaced.any())
    projection, notes = None, []
    if from_degrees:
        table = _in_degrees(table, codes, folder)
        projection = choose_projection(table["latitude"], table["longitude"])
        named = ", ".join(zones) or "no zone"
        notes.append(f"{folder}: positions are of {named}; brought onto one projection, {projection}")
    elif zones:
        projection = zones[0]
        letters = table["zone_letter"].fillna("").astype(str)
        table["zone"] = table["zone_number"].astype(int).astype(str).str.zfill(2) + letters
    else:
        notes.append(f"{folder}: the names give no UTM zone, so the projection is not known")
    table = table.drop(columns=["zone_number", "zone_letter"])
    kept = ("easting", "northing", "heading")
    return (
        table.drop(columns=[c for c in table if c not in kept and table[c].isna().all()]),
        projection,
        from_degrees,
        notes,
    )


def _utm_codes(table: pd.DataFrame, folder: Path) -> pd.Series:
    """EPSG:326zz or EPSG:327zz of each row; None where the zone, or which half of the earth, is not given."""
    number = table["zone_number"]
    bad = np.flatnonzero(number.notna() & ~number.between(1, 60))
    if len(bad):
        name = table.index[bad[0]]
        raise InputError(
            f"{folder}/{name}: UTM zone {number.iloc[bad[0]]:g} is not in [1, 60]; rename the file"
        )
    letter = (
        table["zone_letter"].astype(object).where(table["zone_letter"].notna(), "").astype(str).str.upper()
    )
    north = np.where(
        letter != "", letter >= "N", table["latitude"] >= 0
    )  # N is the first band north of the equator
    known = number.notna() & ((letter != "") | table["latitude"].notna())
    codes = [
        f"EPSG:{(32600 if up else 32700) + int(zone)}" if sure else None
        for zone, up, sure in zip(number, north, known, strict=True)
    ]
    return pd.Series(codes, index=table.index, dtype=object)


def _in_degrees(table: pd.DataFrame, codes: pd.Series, folder: Path) -> pd.DataFrame:
    """Latitude and longitude of all rows: out of their own UTM zone, or as the names give them."""
    latitude, longitude = table["latitude"].to_numpy(copy=True), table["longitude"].to_numpy(copy=True)
    for code in codes.dropna().unique():  # UTM first: the degrees in the names are cut off after five digits
        here = ((codes == code) & table["easting"].notna() & table["northing"].notna()).to_numpy()
        metres = table.loc[here, ["easting", "northing"]].to_numpy()
        latitude[here], longitude[here] = to_degrees(metres[:, 0], metres[:, 1], code)
    lost = np.flatnonzero(np.isnan(latitude) | np.isnan(longitude))
    if len(lost):
        raise InputError(
            f"{folder}/{table.index[lost[0]]}: neither a UTM position with zone nor latitude and longitude"
            f" ({len(lost)} such images), and the images are not all of one zone; complete the names,"
            " or put each zone into a folder of its own"
        )
    return table.assign(latitude=latitude, longitude=longitude)
