"""Tokyo 24/7 (phone photos by day, sunset and night) and Tokyo Time Machine, from .mat files of NetVLAD."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from samespot.errors import InputError
from samespot.places.catalogue import MissingImages
from samespot.places.dbstruct import find_images, listed_places, named_parts, read_listing, struct_files
from samespot.places.table import Places
from samespot.places.wording import unknown_part

PROJECTION = (
    "EPSG:32654"  # UTM 54N; the latitude and longitude in the names of Time Machine images agree with it
)
SETS = ("tokyo247", "tokyoTM_train", "tokyoTM_val")
LAYOUT = """\
datasets/
├── tokyo247.mat
└── tokyoTM_train.mat  tokyoTM_val.mat
tokyo247/              03814/ … 03829/  map images, .png (or in images/ or database_gsv_vga/)
247query_subset_v2/    00010.jpg …      query images (or in query/)
tokyoTM/images/        --/ … zz/        Time Machine images (or in images/)
"""
FOLDERS = {
    ("tokyo247", "database"): (
        "tokyo247",
        "tokyo247/images",
        "tokyo247/database_gsv_vga",
        "database_gsv_vga",
        "images",
        "",
    ),
    ("tokyo247", "query"): (
        "247query_subset_v2",
        "tokyo247/247query_subset_v2",
        "tokyo247/query",
        "query",
        "query/247query_subset_v2",
        "queries/247query_subset_v2",
        "queries",
    ),
    "tokyoTM": ("tokyoTM/images", "tokyoTM", "tokyoTimeMachine/images", "images", ""),
}
CUT_247 = r"(?P<pano_id>[^/]{22})_012_(?P<yaw>\d{3})\.\w+$"
CUT_TM = (
    r"(?P<pano_id>[^/]{22})__\d{6}_(?P<latitude>-?[\d.]+)_(?P<longitude>-?[\d.]+)_(?P<yaw>\d{3})_012\.\w+$"
)
NO_COMPASS = "whether yaw counts from north is not documented, so heading is empty"


def parts(root: Path) -> list[str]:
    """As tokyo247/query or tokyoTM_train/database."""
    return named_parts(_files(Path(root)))


def missing(root: Path) -> list[str]:
    """The .mat files and folders of images that are not there."""
    root = Path(root)
    files = _files(root)
    if not files:
        return []
    lacking = [f"datasets/{name}.mat" for name in SETS if name not in files]
    sides = [("tokyo247", "database", "03814"), ("tokyo247", "query", "00010.jpg"), ("tokyoTM", "", "zz")]
    for name, side, probe in sides:
        folders, _ = _where(name, side)
        if any(stem.startswith(name) for stem in files) and not any(
            (root / f / probe).exists() for f in folders
        ):
            lacking.append(f"{folders[0]}/ ({side} images of {name})".replace("( ", "("))
    return lacking


def read(root: Path, part: str, *, missing_images: MissingImages = "warn") -> Places:
    """One side of a .mat file.

    Map and Time Machine images also have `pano_id` and `yaw` [deg, steps of 30]; Time Machine images `time`
    (year and month) and `latitude`, `longitude`; queries of 24/7 `condition` (day, sunset, night).
    """
    root = Path(root)
    there = parts(root)
    if part not in there:
        raise unknown_part(root, part, "Tokyo", "tokyo", there)
    stem, _, side = part.rpartition("/")
    source = _files(root)[stem]
    listing = read_listing(source, side)
    columns: dict[str, Any] = {"image": find_images(root, listing.images, *_where(stem, side))[0]}
    if listing.month is not None:
        columns["time"] = listing.month
    if part == "tokyo247/query":
        columns["condition"], note = _conditions(len(listing.images)), "a phone's heading is not given"
    else:
        columns |= _cut(pd.Series(listing.images), stem, source)
        note = NO_COMPASS
    return listed_places(root, listing, columns, PROJECTION, note, missing_images)


def _files(root: Path) -> dict[str, Path]:
    return {stem: path for stem, path in struct_files(root, "tokyo*.mat").items() if stem in SETS}


def _where(stem: str, side: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders to look in, and file types: the .mat lists .jpg where the map of 24/7 comes as .png."""
    if stem != "tokyo247":
        return FOLDERS["tokyoTM"], ("",)
    return FOLDERS[stem, side], (".png", "") if side == "database" else ("",)


def _conditions(count: int) -> list[str]:
    """The queries come in threes: the same view by day, at sunset and at night."""
    return [("day", "sunset", "night")[row % 3] for row in range(count)]


def _cut(names: pd.Series, stem: str, source: Path) -> dict[str, pd.Series]:
    """The panorama and yaw in the names of its cuts, and the position where the names have it."""
    found = names.str.extract(CUT_247 if stem == "tokyo247" else CUT_TM)
    bad = np.flatnonzero(found["yaw"].isna())
    if len(bad):
        example = (
            "<pano id>_012_030.jpg" if stem == "tokyo247" else "<pano id>__201306_35.65_139.68_030_012.jpg"
        )
        raise InputError(f"{source}: image {bad[0] + 1}, {names.iloc[bad[0]]!r}, is not named like {example}")
    return {str(c): v if c == "pano_id" else v.astype(np.float64) for c, v in found.items()}
