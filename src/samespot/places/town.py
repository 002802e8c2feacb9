"""A town that samespot built: a places.csv with noisy positions and exact poses, beside the town.json it came from."""

from __future__ import annotations

from pathlib import Path

from samespot.places.catalogue import MissingImages
from samespot.places.table import Places

LAYOUT = """\
town/             as `samespot town` writes it
  town.json       seed, visits, plan
  places.csv      image, noisy easting, northing and heading, exact pose, split, condition, depth, fov
"""


def parts(root: Path) -> list[str]:
    return ["photos"] if (root / "town.json").is_file() and (root / "places.csv").is_file() else []


def missing(root: Path) -> list[str]:
    return []


def read(root: Path, part: str, *, missing_images: MissingImages = "warn") -> Places:
    return Places.read(root / "places.csv", missing_images=missing_images)
