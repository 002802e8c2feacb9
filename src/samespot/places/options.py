"""Every option of opening places. No pandas in here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from samespot.errors import InputError
from samespot.options import MOST_SEED, Options, ineffective, names, option
from samespot.places.catalogue import DATA_SETS, MissingImages, as_places, pose_frame, refuse_other_suffix

if TYPE_CHECKING:
    from samespot.places.pose import PoseFrame
    from samespot.places.table import Places

PANEL = "Reading the places"
_POSE, _ROWS = "Position from the 6DOF pose", "Which images"
SOURCE = "a csv or parquet table, a data set, a folder of photos, a COLMAP model"


@dataclass(frozen=True, kw_only=True)
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
        None, "Project latitude and longitude onto this plane, e.g. EPSG:32633.", panel=PANEL
    )
    wrap_headings: bool = option(False, "Accept headings outside [0, 360).", switch=True, panel=PANEL)
    missing_images: MissingImages = option("warn", "What to do about missing image files.", panel=PANEL)

    @property
    def reading(self) -> dict[str, Any]:
        """For `open_places`; not what a subclass adds."""
        return {name: getattr(self, name) for name in names(ReadOptions)}


@dataclass(frozen=True, kw_only=True)
class PoseOptions(Options):
    """Position and heading from the 6DOF pose, whatever else a table says (strong labels)."""

    from_pose: bool = option(False, "Take position and heading from the 6DOF pose.", switch=True, panel=_POSE)
    forward: str = option("z", "Camera axis that looks ahead.", panel=_POSE)
    up: str = option("z", "World axis that points up.", panel=_POSE)
    north: str = option("y", "World axis that points north.", panel=_POSE)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.frame  # noqa: B018 - a wrong axis should show before a file is read

    def refuse_ineffective(self, typed: set[str]) -> None:
        super().refuse_ineffective(typed)
        if not self.from_pose:
            ineffective(typed, ("forward", "up", "north"), "without `from_pose`")

    @property
    def frame(self) -> PoseFrame | None:
        return pose_frame(self.forward, self.up, self.north) if self.from_pose else None


@dataclass(frozen=True, kw_only=True)
class MapPart(Options):
    """Of a map that is read from a data set."""

    map_part: str | None = option(None, "Part of the data set that is the map.", panel=_ROWS)


@dataclass(frozen=True, kw_only=True)
class RowOptions(MapPart, PoseOptions):
    """Which rows of queries and map are meant, and where they were taken: labels and training must agree on it."""

    split: str | None = option(None, "Queries: rows with this value in the column split.", panel=_ROWS)
    map_split: str | None = option(None, "Map images: rows with this value in the column split.", panel=_ROWS)


def two_tables(
    queries: Places | Path, places: Places | Path | None, reading: ReadOptions, rows: RowOptions
) -> tuple[Places, Places]:
    """Queries and the map that they are compared with: themselves where no other rows are named."""
    how = {**reading.reading, "frame": rows.frame}
    first = as_places(queries, **how)
    first = first if rows.split is None else first.of_split(rows.split)
    if (places, rows.map_part, rows.map_split) == (None, None, None):
        return first, first
    part = rows.map_part if rows.map_part is not None or places is not None else reading.part
    # both tables must lie on one plane, so the map follows the queries' projection
    second = as_map(queries if places is None else places, **{**how, "part": part}, onto=first.projection)
    return first, second if rows.map_split is None else second.of_split(rows.map_split)


def as_map(source: Any, **how: Any) -> Places:
    """As `as_places`; what is wrong with the part is said of the map's."""
    try:
        return as_places(source, **how)
    except InputError as error:
        raise InputError(str(error).replace("`part`", "`map_part`")) from None


@dataclass(frozen=True)
class SplitOptions(Options):
    """What `samespot split` reads and writes."""

    source: Path = option(..., f"{SOURCE[0].upper()}{SOURCE[1:]}.", argument=True)
    out: Path = option(Path("split"), "Folder for train.csv, map.csv and query.csv.", writes="folder")


@dataclass(frozen=True)
class CutOptions(Options):
    """How a table is cut into train, map and query."""

    by: Literal["area", "sequence", "time"] = option(
        "area",
        "How to cut: by area, so that nothing that is evaluated was seen in training, by sequence or by time.",
    )
    train: float = option(0.6, "Share of the photos to learn from.", above=0, below=1)
    queries: float = option(
        0.25, "Share of the remaining photos that become queries; the rest are the map.", above=0, below=1
    )
    gap: float = option(25.0, "By area: leave out photos this near the cut [metres].", least=0)
    seed: int = option(0, "Seed for choosing sequences.", least=0, most=MOST_SEED)

    def refuse_ineffective(self, typed: set[str]) -> None:
        if self.by != "area":
            ineffective(typed, ("gap",), f"with `by={self.by}`")


@dataclass(frozen=True)
class PlacesOptions(Options):
    """What `samespot places` reads and writes."""

    source: Path = option(..., f"{SOURCE[0].upper()}{SOURCE[1:]}.", argument=True)
    out: Path | None = option(None, "Write the table to this .csv or .parquet file.", writes="file")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out is not None:
            refuse_other_suffix(self.out)  # said before a folder of photos is read
