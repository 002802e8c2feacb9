"""Every option of opening places. No pandas in here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from samespot.options import Options, ineffective, option
from samespot.places.catalogue import DATA_SETS, MissingImages

PANEL = "Reading the places"
SOURCE = "a csv or parquet table, a data set, a folder of photos, a COLMAP model"


@dataclass(frozen=True)
class ReadOptions(Options):
    """How places are read, whatever they are."""

    dataset: str | None = option(
        None,
        "Data set or format; overrides auto-detection.",
        choices=lambda: [known.name for known in DATA_SETS],
        metavar="NAME",
        panel=PANEL,
    )
    part: str | None = option(None, "Part of a data set, e.g. train_val/london/query.", panel=PANEL)
    projection: str | None = option(
        None, "Project latitude and longitude to this plane, e.g. EPSG:32633.", panel=PANEL
    )
    wrap_headings: bool = option(False, "Accept headings outside [0, 360).", switch=True, panel=PANEL)
    missing_images: MissingImages = option(
        "warn", "What to do about image files that are not there.", panel=PANEL
    )


@dataclass(frozen=True)
class SplitOptions(Options):
    """What `samespot split` reads and writes."""

    source: Path = option(..., f"{SOURCE[0].upper()}{SOURCE[1:]}.", argument=True)
    out: Path = option(Path("split"), "Folder for train.csv, map.csv and query.csv.", writes="folder")


@dataclass(frozen=True)
class CutOptions(Options):
    """How a table is cut into train, map and query."""

    by: Literal["area", "sequence", "time"] = option(
        "area", "By area nothing that is evaluated was seen in training; or by sequence or time."
    )
    train: float = option(0.6, "Share of the photos to learn from.", above=0, below=1)
    queries: float = option(0.25, "Share of the others that are looked up in the rest.", above=0, below=1)
    gap: float = option(25.0, "By area: photos this near the cut are left out [metres].", least=0)
    seed: int = option(0, "Seed for choosing sequences.", least=0)

    def refuse_ineffective(self, typed: set[str]) -> None:
        if self.by != "area":
            ineffective(typed, ("gap",), f"with `by={self.by}`")


@dataclass(frozen=True)
class PlacesOptions(Options):
    """What `samespot places` reads and writes."""

    source: Path = option(..., f"{SOURCE[0].upper()}{SOURCE[1:]}.", argument=True)
    out: Path | None = option(None, "Write the table to this .csv or .parquet file.", writes="file")
