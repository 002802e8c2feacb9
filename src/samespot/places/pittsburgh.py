"""Pittsburgh30k and 250k: street-view panoramas cut into 24 views each, listed in NetVLAD's .mat files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from samespot.errors import InputError
from samespot.places import at_names
from samespot.places.catalogue import MissingImages
from samespot.places.dbstruct import find_images, listed_places, named_parts, read_listing, struct_files
from samespot.places.table import Places
from samespot.places.wording import unknown_part

PROJECTION = "EPSG:32617"  # UTM 17N; the .mat files do not say so, but Pittsburgh lies at 80° W
SETS = tuple(f"pitts{size}_{which}" for size in ("30k", "250k") for which in ("train", "val", "test"))
LAYOUT = """\
datasets/
├── pitts30k_train.mat  pitts30k_val.mat  pitts30k_test.mat
└── pitts250k_train.mat  pitts250k_val.mat  pitts250k_test.mat
000/ … 010/      000000_pitch1_yaw1.jpg … map images (or in images/)
queries_real/    000/ … query images (or queries/)
or the folders images/{train,val,test}/{database,queries} of images named with @
"""
FOLDERS = {
    "database": ("", "images", "database", "Pittsburgh/images"),
    "query": ("queries_real", "queries", "query", "Pittsburgh/queries", "images/queries_real"),
}
VIEW = r"(?P<pano_id>\d+)_pitch(?P<pitch>\d+)_yaw(?P<yaw>\d+)\.\w+$"
NO_COMPASS = (
    "yaw counts from each panorama's own zero; which way that points is not known, so heading is empty"
)


def parts(root: Path) -> list[str]:
    """As pitts30k_test/query, or the folders of images named with @, as images/test/queries."""
    root = Path(root)
    return named_parts(struct_files(root, "pitts*k_*.mat")) or [
        p for p in at_names.parts(root) if _is_ours(root / p)
    ]


def missing(root: Path) -> list[str]:
    """Splits without a .mat file, and the folders of images that no name leads to."""
    root = Path(root)
    files = struct_files(root, "pitts*k_*.mat")
    if not files:
        return at_names.missing(root) if parts(root) else []
    sizes = {stem.partition("_")[0] for stem in files}
    lacking = [
        f"datasets/{name}.mat" for name in SETS if name.partition("_")[0] in sizes and name not in files
    ]
    if not any((root / folder / "000").is_dir() for folder in FOLDERS["database"]):
        lacking.append("000/ … (map images)")
    if not any((root / folder).is_dir() for folder in FOLDERS["query"]):
        lacking.append("queries_real/ (query images)")
    return lacking


def read(root: Path, part: str, *, missing_images: MissingImages = "warn") -> Places:
    """One side of a .mat file, or one folder of images named with @.

    Also gives `pano_id`, `yaw` [deg from the panorama's own zero, steps of 30] and `pitch` (1 or 2, the
    row of views that the name gives). The compass heading is not known.
    """
    root = Path(root)
    there = parts(root)
    if part not in there:
        raise unknown_part(root, part, "Pittsburgh", "pittsburgh", there)
    stem, _, side = part.rpartition("/")
    source = struct_files(root, "pitts*k_*.mat").get(stem)
    if source is None:
        return _read_at_names(root, part, missing_images)
    listing = read_listing(source, side)
    images, _ = find_images(root, listing.images, FOLDERS[side])
    columns = {"image": images, **_view(pd.Series(listing.images), source)}
    return listed_places(root, listing, columns, PROJECTION, NO_COMPASS, missing_images)


def _read_at_names(root: Path, part: str, missing_images: MissingImages) -> Places:
    places = at_names.read(root, part, missing_images=missing_images)
    view = places.table["note"].str.extract(r"pitch(?P<pitch>\d+)_yaw(?P<yaw>\d+)").astype(np.float64)
    table = places.table.drop(columns=["note", "pitch"], errors="ignore")
    table = table.assign(pitch=view["pitch"], yaw=(view["yaw"] - 1) * 30.0)
    notes = (*places.notes, f"{root / part}: {NO_COMPASS}")
    return Places(root, table, places.projection, places.dropped, notes)


def _view(names: pd.Series, source: Path) -> dict[str, pd.Series]:
    """The panorama, pitch and yaw of names such as 000/000829_pitch1_yaw12.jpg."""
    view = names.str.extract(VIEW)
    bad = np.flatnonzero(view["yaw"].isna())
    if len(bad):
        raise InputError(
            f"{source}: image {bad[0] + 1}, {names.iloc[bad[0]]!r}, is not named"
            " like 000/000829_pitch1_yaw12.jpg; is it a .mat of Pittsburgh?"
        )
    yaw = (view["yaw"].astype(np.int64) - 1) * 30.0
    return {"pano_id": view["pano_id"], "yaw": yaw, "pitch": view["pitch"].astype(np.int64)}


def _is_ours(folder: Path) -> bool:
    """Whether names carry Pittsburgh's zone and a note as pitch1_yaw1."""
    with os.scandir(folder) as entries:
        name = next(entry.name for entry in entries if entry.name.startswith("@"))
    return "@17@T@" in name and "@pitch" in name
