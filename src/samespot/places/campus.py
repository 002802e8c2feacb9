"""Campus: phone photos of one university campus as a places.csv whose column `split` says train, map or query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.catalogue import MissingImages
from samespot.places.photo_sets import PhotoSet
from samespot.places.table import Places
from samespot.places.wording import unknown_part

LAYOUT = """\
campus/
  places.csv      image,easting,northing,heading,time,split; split: train (west), map and query (east)
  images/…        as the column image says
"""
SPLITS = ("train", "map", "query")


def parts(root: Path) -> list[str]:
    """train, map and query, where the table has all three."""
    table = root / "places.csv"
    if not table.is_file() or (root / "town.json").is_file():
        return []
    import pandas as pd

    try:
        told = pd.read_csv(table, usecols=["split"], dtype=str)["split"]
    except (ValueError, OSError):
        return []
    return list(SPLITS) if set(SPLITS) <= set(told) else []


def missing(root: Path) -> list[str]:
    return []


def read(root: Path, part: str, *, missing_images: MissingImages = "warn") -> Places:
    there = parts(root)
    if not there:
        raise InputError(f"{root / 'places.csv'}: needs a column split with {', '.join(SPLITS)}")
    if part not in there:
        raise unknown_part(root, part, "Campus", "campus", there)
    return Places.read(root / "places.csv", missing_images=missing_images).of_split(part)


def photo_sets(root: Path, *, missing_images: MissingImages = "warn") -> Iterator[PhotoSet]:
    """Training pairs of the west, and query × map of the east."""
    train, map_, query = (read(root, part, missing_images=missing_images) for part in SPLITS)
    yield PhotoSet("train", train, train)
    yield PhotoSet("east", query, map_, held_out=True)


def may_match(queries: Places, places: Places, query: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which map rows count as found: a photo of the query's own minute is too easy."""
    minute, minutes = (table.table["time"].to_numpy(dtype=str) for table in (queries, places))
    different: NDArray[Any] = minutes[rows] != minute[query]
    return different
