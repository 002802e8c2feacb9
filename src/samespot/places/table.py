"""`Places`: where each image was taken. A root folder and a table with one row an image."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.geodesy import to_metres

REQUIRED = ("image", "easting", "northing", "heading")
POSE = ("tx", "ty", "tz", "qw", "qx", "qy", "qz")
OPTIONAL = (*POSE, "pano", "sequence", "frame", "time", "condition", "split")
MissingImages = Literal["error", "warn", "drop", "ignore"]


@dataclass(frozen=True)
class Places:
    """Where each image was taken.

    `table` has the columns `image` (path relative to `root`), `easting`, `northing` [m] and `heading`
    [deg, clockwise from north, NaN if unknown]; optional ones are the pose `tx ty tz qw qx qy qz` (camera
    centre and camera-to-world rotation), `pano`, `sequence`, `frame`, `time`, `condition`, `split`.
    Other columns are kept as they are.
    """

    root: Path
    table: pd.DataFrame
    projection: str | None = None  # e.g. "EPSG:32633"; None: metres in a frame of its own
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> number of rows left out
    notes: tuple[str, ...] = ()  # one line each: what a reader should know about this table

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        extra = [c for c in self.table.columns if c not in REQUIRED]
        return f"Places({len(self)} images under {self.root}, {self.projection or 'local metres'}, also {extra})"

    @property
    def images(self) -> list[Path]:
        """Full path of each image."""
        return [self.root / name for name in self.table["image"]]

    @property
    def positions(self) -> NDArray[np.float64]:
        """(n, 3) easting, northing [m], heading [deg, clockwise from north, NaN if unknown]."""
        return self.table[["easting", "northing", "heading"]].to_numpy(dtype=np.float64)

    @property
    def panoramas(self) -> NDArray[np.bool_]:
        """(n,) which images are panoramas; all False when the table does not say."""
        if "pano" not in self.table:
            return np.zeros(len(self), dtype=bool)
        return self.table["pano"].to_numpy(dtype=bool)

    @property
    def has_pose(self) -> bool:
        return set(POSE) <= set(self.table.columns)

    @property
    def centres(self) -> NDArray[np.float64]:
        """(n, 3) camera centres of a table with 6DOF poses."""
        return self._pose_columns(POSE[:3])

    @property
    def quaternions(self) -> NDArray[np.float64]:
        """(n, 4) camera-to-world rotations qw, qx, qy, qz of a table with 6DOF poses."""
        return self._pose_columns(POSE[3:])

    def _pose_columns(self, columns: tuple[str, ...]) -> NDArray[np.float64]:
        if not self.has_pose:
            lacking = sorted(set(POSE) - set(self.table.columns))
            raise InputError(f"{self.root}: no 6DOF pose in this table: it lacks the columns {', '.join(lacking)}")
        return self.table[list(columns)].to_numpy(dtype=np.float64)

    def select(self, rows: Any) -> Places:
        """The chosen rows (a boolean mask, positions or a slice), numbered from 0 again."""
        return Places(
            self.root, self.table.iloc[rows].reset_index(drop=True), self.projection, dict(self.dropped), self.notes
        )

    def digest(self) -> str:
        """Fingerprint of the images and where they were taken: what labels of this table depend on."""
        h = hashlib.sha256("\n".join(self.table["image"]).encode())
        h.update(np.ascontiguousarray(self.positions).tobytes())
        h.update(np.packbits(self.panoramas).tobytes())
        if self.has_pose:
            h.update(np.ascontiguousarray(self._pose_columns(POSE)).tobytes())
        return h.hexdigest()[:32]

    def save(self, path: str | Path) -> Path:
        """Write `.csv` or `.parquet`, and beside it `<name>.meta.json` with projection, drops and notes."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.part")
        if path.suffix == ".parquet":
            self.table.to_parquet(scratch, index=False)
        elif path.suffix == ".csv":
            self.table.to_csv(scratch, index=False)
        else:
            raise InputError(f"{path}: a table of places is written as .csv or .parquet")
        os.replace(scratch, path)
        root = os.path.relpath(self.root, path.parent) if self.root.exists() else str(self.root)
        meta = {"root": root, "projection": self.projection, "dropped": self.dropped, "notes": list(self.notes)}
        _meta_path(path).write_text(json.dumps(meta, indent=1) + "\n")
        return path

    @classmethod
    def build(
        cls,
        root: str | Path,
        columns: Mapping[str, Any] | pd.DataFrame,
        *,
        source: str | Path | None = None,
        projection: str | None = None,
        dropped: Mapping[str, int] | None = None,
        notes: tuple[str, ...] = (),
        unknown_positions: bool = False,
        wrap_headings: bool = False,
        missing_images: MissingImages = "warn",
    ) -> Places:
        """Check columns and make a table of them. Readers end here, so every table obeys the same rules.

        `source` names the file in error messages. `unknown_positions` admits NaN positions (test sets that
        keep theirs secret).
        """
        root = Path(root)
        table = pd.DataFrame(dict(columns)).reset_index(drop=True)
        table = _checked(table, str(source or root), unknown_positions, wrap_headings)
        out = {reason: int(n) for reason, n in (dropped or {}).items() if n}
        places = cls(root, table, projection, out, notes)
        return places if missing_images == "ignore" else places._with_missing_images(missing_images, str(source or root))

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        root: str | Path | None = None,
        projection: str | None = None,
        wrap_headings: bool = False,
        unknown_positions: bool = False,
        missing_images: MissingImages = "warn",
    ) -> Places:
        """Read a csv or parquet table. Image paths are relative to `root`, by default the table's folder.

        A table with `latitude` and `longitude` in place of `easting` and `northing` is projected to metres.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"{path}: no such file; a table of places is a .csv or .parquet with the columns {', '.join(REQUIRED)}")
        table, meta = _load_table(path), _load_meta(path)
        projection = projection or meta.get("projection")
        table, projection = _in_metres(table, path, projection)
        return cls.build(
            root or path.parent / meta.get("root", "."),
            table,
            source=path,
            projection=projection,
            dropped=meta.get("dropped"),
            notes=tuple(meta.get("notes", ())),
            unknown_positions=unknown_positions,
            wrap_headings=wrap_headings,
            missing_images=missing_images,
        )

    def _with_missing_images(self, policy: MissingImages, source: str) -> Places:
        absent = np.array([not path.is_file() for path in self.images], dtype=bool)
        if not absent.any():
            return self
        names = self.table["image"][absent]
        said = f"{source}: {absent.sum()} of {len(self)} images are not under {self.root} ({_first_three(names)})"
        if policy == "error":
            raise InputError(f"{said}; fix the root, or drop them with --missing-images drop")
        if policy == "warn":
            return Places(self.root, self.table, self.projection, self.dropped, (*self.notes, said))
        kept = self.select(~absent)
        dropped = {**self.dropped, "image file missing": int(absent.sum())}
        return Places(kept.root, kept.table, kept.projection, dropped, (*self.notes, f"{said}; dropped"))


def _first_three(values: Any) -> str:
    names = [str(v) for v in list(values)[:3]]
    return ", ".join(names) + (", …" if len(values) > 3 else "")


def _meta_path(path: Path) -> Path:
    return path.with_suffix(".meta.json")


def _load_meta(path: Path) -> dict[str, Any]:
    beside = _meta_path(path)
    if not beside.is_file():
        return {}
    try:
        meta = json.loads(beside.read_text())
    except json.JSONDecodeError as error:
        raise InputError(f"{beside}: not valid json ({error}); delete it or mend it") from error
    return meta if isinstance(meta, dict) else {}


def _load_table(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except (ValueError, OSError) as error:  # pandas' parser errors and pyarrow's are both ValueErrors
        raise InputError(f"{path}: cannot be read as {path.suffix or 'csv'}: {str(error).splitlines()[0]}") from error


def _in_metres(table: pd.DataFrame, path: Path, projection: str | None) -> tuple[pd.DataFrame, str | None]:
    zones = table["zone"].dropna().unique() if "zone" in table else []
    if len(zones) > 1:
        raise InputError(
            f"{path}: eastings of different UTM zones ({_first_three(sorted(map(str, zones)))}) cannot share one table; "
            "give latitude and longitude columns instead, and one projection is chosen for all"
        )
    if {"easting", "northing"} <= set(table.columns) or not {"latitude", "longitude"} <= set(table.columns):
        return table, projection
    for column, limit in (("latitude", 90.0), ("longitude", 180.0)):
        values = pd.to_numeric(table[column], errors="coerce")
        bad = (values.abs() > limit) | (values.isna() & table[column].notna())
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(f"{path} row {row + 1}: {column} {table[column].iloc[row]} is not in [-{limit:g}, {limit:g}]")
    if not (table["latitude"].notna() & table["longitude"].notna()).any():
        raise InputError(f"{path}: every latitude or longitude is empty")
    easting, northing, projection = to_metres(table["latitude"], table["longitude"], projection)
    return table.assign(easting=easting, northing=northing), projection


def _checked(table: pd.DataFrame, source: str, unknown_positions: bool, wrap_headings: bool) -> pd.DataFrame:
    lacking = [c for c in ("image", "easting", "northing") if c not in table]
    if lacking:
        raise InputError(
            f"{source}: missing column{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}; "
            f"needed are {', '.join(REQUIRED)} (or latitude and longitude for the position)"
        )
    if len(table) == 0:
        raise InputError(f"{source}: the table has no rows")
    if "heading" not in table:
        table["heading"] = np.nan
    for column in ("easting", "northing", "heading", *(c for c in POSE if c in table)):
        numbers = pd.to_numeric(table[column], errors="coerce").astype(np.float64)
        bad = (numbers.isna() & table[column].notna()) | np.isinf(numbers)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(f"{source} row {row + 1}: {column} {table[column].iloc[row]!r} is not a finite number")
        table[column] = numbers
    unplaced = (table["easting"].isna() | table["northing"].isna()).to_numpy()
    if unplaced.any() and not unknown_positions:
        row = int(np.flatnonzero(unplaced)[0])
        raise InputError(f"{source} row {row + 1}: no position ({unplaced.sum()} rows lack one); fill them in or delete them")
    outside = ((table["heading"] < 0) | (table["heading"] >= 360)).to_numpy()
    if outside.any() and not wrap_headings:
        row = int(np.flatnonzero(outside)[0])
        raise InputError(
            f"{source} row {row + 1}: heading {table['heading'].iloc[row]:g} is not in [0, 360)"
            f" ({outside.sum()} such rows); pass --wrap-headings to accept it"
        )
    if outside.any():
        wrapped = table["heading"] % 360.0
        table["heading"] = wrapped.where(wrapped < 360.0, 0.0)  # -1e-15 % 360 rounds up to 360
    table["image"] = table["image"].astype(str)
    twice = table["image"].duplicated().to_numpy()
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        raise InputError(
            f"{source} row {row + 1}: image {table['image'].iloc[row]} stands in the table twice"
            f" ({twice.sum()} repeated rows); keep one row an image"
        )
    if "pano" in table:
        table["pano"] = _booleans(table["pano"], source)
    order = [*REQUIRED, *(c for c in OPTIONAL if c in table)]
    return table[[*order, *(c for c in table.columns if c not in order)]]


def _booleans(column: pd.Series, source: str) -> pd.Series:  # type: ignore[type-arg]
    words = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False, "nan": False, "": False, "none": False}
    values = column.astype(str).str.lower().map(words)
    if values.isna().any():
        row = int(np.flatnonzero(values.isna())[0])
        raise InputError(f"{source} row {row + 1}: pano {column.iloc[row]!r} is neither true nor false")
    return values.astype(bool)
