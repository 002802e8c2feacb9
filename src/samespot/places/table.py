"""`Places`: where each image was taken. A root folder and a table with one row per image."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.files import read_json, whole_file, write_json
from samespot.options import check_choice
from samespot.places.catalogue import REQUIRED, MissingImages, meta_path, refuse_no_file, refuse_other_suffix
from samespot.places.csv_files import first_line, load_table, missing_columns, named_columns
from samespot.places.geodesy import far_apart, grid_headings, move, off_plane, plane, same_plane, to_metres
from samespot.places.pose import POSE as POSE
from samespot.places.wording import first_few
from samespot.storage import is_address, is_file, photo_at, shown

OPTIONAL = (*POSE, "pano", "sequence", "frame", "time", "condition", "split")
FIX = "delete it or fix it"
FARTHEST = 1e8  # [m] from the origin: no plane of this earth reaches so far, and squares stay exact


@dataclass(frozen=True)
class Places:
    """Where each image was taken.

    `table` has the columns `image` (path relative to `root`, or an address of fsspec such as s3://bucket/photo.jpg),
    `easting`, `northing` [m] and `heading` [deg, clockwise from grid north, the way northing grows; NaN if unknown];
    optional ones are the pose `tx ty tz qw qx qy qz` (camera centre and camera-to-world rotation), `pano`,
    `sequence`, `frame`, `time`, `condition`, `split`.
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
        return (
            f"Places({len(self)} images under {self.root}, {self.projection or 'local metres'}, also {extra})"
        )

    @property
    def images(self) -> list[Path]:
        """Full path of each image; of one that is named by an address, that (see `storage.address_of`)."""
        return [photo_at(self.root, name) for name in self.table["image"]]

    def image(self, row: int) -> Path:
        """Full path of one image; `images` of a large table takes seconds."""
        return photo_at(self.root, str(self.table["image"].iat[row]))

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

    def seconds(self) -> NDArray[np.float64]:
        """(n,) when each photo was taken [s], to tell how far two are apart; NaN where `time` is missing or unread."""
        if "time" not in self.table:
            return np.full(len(self), np.nan)
        if pd.api.types.is_float_dtype(self.table["time"]) or pd.api.types.is_integer_dtype(
            self.table["time"]
        ):
            return self.table["time"].to_numpy(dtype=np.float64)
        words = self.table["time"].astype("str")
        read = pd.to_datetime(words, format="mixed", errors="coerce", utc=True)
        since = (read - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
        return np.asarray(since, dtype=np.float64)

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
            raise InputError(
                f"{self.root}: no 6DOF pose in this table: it lacks the columns {', '.join(lacking)}"
            )
        return self.table[list(columns)].to_numpy(dtype=np.float64)

    def select(self, rows: Any) -> Places:
        """The chosen rows (a boolean mask, positions or a slice), numbered from 0 again."""
        rows = rows.to_numpy() if isinstance(rows, pd.Series) else rows
        table = self.table.iloc[rows].reset_index(drop=True)
        return Places(self.root, table, self.projection, dict(self.dropped), self.notes)

    def on_plane(
        self, projection: str | None = None, *, onto: str | None = None, source: str | Path | None = None
    ) -> Places:
        """The same images on another plane, positions and headings moved there from the table's own.

        A table whose own plane is not known is taken to lie on `projection`: that is the user's word. `onto`
        is the plane of another table, so nothing is known by it: the metres stay, and a note says so.
        """
        own, target, named = self.projection or projection, onto or projection, str(source or self.root)
        if target is None:
            return self
        plane(target)
        if own is None:
            note = (
                f"{named}: its metres are of no known projection and are taken to be on the plane of {onto}"
            )
            return replace(self, notes=(*self.notes, note))
        if same_plane(own, target):
            return replace(self, projection=target)
        at = self.positions
        easting, northing, heading = move(at[:, 0], at[:, 1], at[:, 2], own, target)
        _refuse_lost(np.isfinite(at[:, 0] + at[:, 1]), easting, northing, named, target)
        table = self.table.drop(columns="zone", errors="ignore")
        table = table.assign(easting=easting, northing=northing, heading=heading)
        note = f"{named}: brought from {own} onto {target}, headings too"
        return replace(self, table=table, projection=target, notes=(*self.notes, note))

    def digest(self) -> str:
        """Fingerprint of the images and where they were taken: what labels of this table depend on."""
        h = hashlib.sha256("\n".join(self.table["image"]).encode())
        h.update(_same_bytes(self.positions))
        h.update(np.packbits(self.panoramas).tobytes())
        if self.has_pose:
            h.update(_same_bytes(self._pose_columns(POSE)))
        return h.hexdigest()[:32]

    def of_split(self, split: str) -> Places:
        """The images whose column `split` says so."""
        if "split" not in self.table:
            raise InputError(
                f"{self.root}: the table has no column split, so none of its images is {split!r}"
            )
        told = self.table["split"].map(_as_typed)
        chosen = (told == str(split)).to_numpy(dtype=bool)
        if not chosen.any():
            there = ", ".join(sorted(set(told) - {""}))
            raise InputError(f"{self.root}: no image with split {split!r}; there are {there}")
        return self.select(chosen)

    def save(self, path: str | Path) -> Path:
        """Write `.csv` or `.parquet`, and beside it `<file>.meta.json` with projection, drops and notes."""
        path = Path(path)
        refuse_other_suffix(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        writers: dict[str, Any] = {".csv": self.table.to_csv, ".parquet": self.table.to_parquet}
        root = os.path.relpath(self.root, path.parent) if self.root.exists() else str(self.root)
        meta = {
            "root": root,
            "projection": self.projection,
            "dropped": self.dropped,
            "notes": list(self.notes),
        }
        try:
            with whole_file(path) as partial:
                writers[path.suffix](partial, index=False)
        except (TypeError, ValueError) as error:  # pyarrow's: a column of mixed kinds
            fault = f"cannot be written as parquet: {first_line(error)}"
            raise InputError(f"{path}: {fault}; try .csv") from error
        write_json(meta_path(path), meta)
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
        from_degrees: bool = False,
        unknown_positions: bool = False,
        wrap_headings: bool = False,
        missing_images: MissingImages = "warn",
    ) -> Places:
        """Check columns and make a table of them. Readers end here, so every table obeys the same rules.

        `source` names the file in error messages. A column may be one value for all rows.
        `from_degrees`: the positions are `latitude` and `longitude` [deg], and headings are from true north;
        both are brought onto the grid of `projection`, or of one that is chosen for them.
        `unknown_positions` admits NaN positions (test sets that keep theirs secret).
        """
        root, named = Path(root), str(source or root)
        check_choice("missing_images", missing_images, get_args(MissingImages))
        table, said = _as_table(columns), list(notes)
        if not len(table) and dropped and any(dropped.values()):
            counts = ", ".join(f"{reason}: {n}" for reason, n in dropped.items() if n)
            raise InputError(f"{named}: no image is left ({counts})")
        if from_degrees:
            table, projection, far = _projected(table, named, projection)
            said += far
        table = _checked(table, named, unknown_positions)
        said += _wrap_headings(table, named, wrap_headings)
        if from_degrees and projection is not None:
            at = table["latitude"], table["longitude"]
            table["heading"] = grid_headings(table["heading"], *at, projection)
        out = {reason: int(n) for reason, n in (dropped or {}).items() if n}
        places = cls(root, table, projection, out, tuple(said))
        return places if missing_images == "ignore" else places._with_missing_images(missing_images, named)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        root: str | Path | None = None,
        projection: str | None = None,
        onto: str | None = None,
        wrap_headings: bool = False,
        unknown_positions: bool = False,
        missing_images: MissingImages = "warn",
    ) -> Places:
        """Read a csv or parquet table. Image paths are relative to `root`, by default the table's folder.

        A table with `latitude` and `longitude` in place of `easting` and `northing` is projected to metres,
        and its headings, from true north, are turned onto the grid. `projection` is the plane to have it on;
        metres whose plane is not recorded are taken to lie there. `onto`, the plane of a first table, moves a
        second one beside it, and leaves metres of an unknown plane where they are (`on_plane`).
        """
        path = Path(path)
        refuse_no_file(path)
        (table, said), meta = named_columns(load_table(path), path), _load_meta(path)
        if not meta and root is None and "image" in table:
            meta, more = _borrowed_meta(path, table["image"])
            said += more
        recorded = meta.get("projection")
        from_degrees, anew = _needs_projecting(table, path, recorded)
        if not from_degrees and recorded is None and projection is None:
            _refuse_degrees(table, path)
        places = cls.build(
            root or path.parent / meta.get("root", "."),
            table,
            source=path,
            projection=(projection or onto or recorded) if from_degrees else recorded,
            dropped=meta.get("dropped"),
            notes=(*meta.get("notes", ()), *said, *anew),
            from_degrees=from_degrees,
            unknown_positions=unknown_positions,
            wrap_headings=wrap_headings,
            missing_images=missing_images,
        )
        return places.on_plane(None if from_degrees else projection, onto=onto, source=path)

    def _with_missing_images(self, policy: MissingImages, source: str) -> Places:
        # whether a photo at an address is there shows when it is read
        there = [is_address(path) or is_file(path) for path in self.images]
        absent = ~np.array(there, dtype=bool)
        if not absent.any():
            return self
        names = self.table["image"][absent]
        count = f"{absent.sum()} of {len(self)} images"
        said = f"{source}: {count} are not under {self.root} ({first_few(list(names))})"
        if policy == "error":
            raise InputError(f"{said}; fix the root, or drop them with `missing_images=drop`")
        if policy == "warn":
            notes = self.notes if said in self.notes else (*self.notes, said)
            return Places(self.root, self.table, self.projection, self.dropped, notes)
        if absent.all():
            raise InputError(f"{said}; none would be left, so fix the root")
        kept, reason = self.select(~absent), "image file missing"
        dropped = {**self.dropped, reason: self.dropped.get(reason, 0) + int(absent.sum())}
        return Places(kept.root, kept.table, kept.projection, dropped, (*self.notes, f"{said}; dropped"))


def _as_typed(value: Any) -> str:
    """A word of a column as it stands in the file: 1.0, of a column of numbers with gaps, is 1; a gap is nothing."""
    if pd.isna(value):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _load_meta(path: Path) -> dict[str, Any]:
    """What the file beside a table says about it; nothing where there is none."""
    beside = meta_path(path)
    return _checked_meta(beside) if beside.is_file() else {}


def _checked_meta(beside: Path) -> dict[str, Any]:
    meta = read_json(beside, FIX)
    dropped, notes = meta.get("dropped", {}), meta.get("notes", [])
    as_it_should = {
        "root, a folder": isinstance(meta.get("root", "."), str),
        "projection, a name or null": isinstance(meta.get("projection"), str | None),
        "dropped, numbers by reason": isinstance(dropped, dict)
        and all(isinstance(count, int) for count in dropped.values()),
        "notes, a list of lines": isinstance(notes, list) and all(isinstance(note, str) for note in notes),
    }
    wrong = [what for what, right in as_it_should.items() if not right]
    if wrong:
        raise InputError(f"{beside}: expected {wrong[0]}; {FIX}")
    return meta


def _borrowed_meta(path: Path, images: pd.Series) -> tuple[dict[str, Any], tuple[str, ...]]:
    """For a table without a file beside it, as one that was split by hand: what a neighbour's says, if its folder has
    the photos and the table's own has not."""
    if not len(images) or os.path.isfile(path.parent / str(images.iloc[0])):
        return {}, ()
    for beside in sorted(path.parent.glob("*.meta.json")):
        meta = _checked_meta(beside)
        if "root" in meta and os.path.isfile(path.parent / meta["root"] / str(images.iloc[0])):
            kept: dict[str, Any] = {key: meta[key] for key in ("root", "projection") if key in meta}
            return kept, (f"{path}: photos and projection as {beside.name} has them",)
    return {}, ()


def _needs_projecting(table: pd.DataFrame, path: Path, recorded: str | None) -> tuple[bool, tuple[str, ...]]:
    """Whether metres must come from latitude and longitude, and what to note about it.

    Eastings that are there win, unless they are of several zones; with a recorded projection they never are.
    """
    metres, degrees = ({*pair} <= set(table.columns) for pair in (REQUIRED[1:3], ("latitude", "longitude")))
    zones = _utm_zones(table) if metres and recorded is None else []
    if len(zones) < 2:
        return degrees and not metres, ()
    mixed = f"different UTM zones ({first_few(zones)})"
    if not degrees:
        raise InputError(
            f"{path}: eastings of {mixed} cannot share one table;"
            " give latitude and longitude columns instead, and one projection is chosen for all"
        )
    return True, (f"{path}: eastings were of {mixed}; projected again from latitude and longitude",)


def _refuse_degrees(table: pd.DataFrame, path: Path) -> None:
    """Latitude and longitude in the columns of metres: a spread of a town in degrees, far from any origin."""
    if len(table) < 2 or not {"easting", "northing"} <= set(table.columns):
        return
    x, y = (
        pd.to_numeric(table[name], errors="coerce").dropna().astype(np.float64)
        for name in ("easting", "northing")
    )
    if len(x) < 2 or len(y) < 2 or max(x.abs().max(), y.abs().max()) > 180:
        return
    spread = max(float(x.max() - x.min()), float(y.max() - y.min()))
    if 0 < spread < 2 and min(abs(x.mean()), abs(y.mean())) > 20 * spread and y.abs().max() <= 90:
        raise InputError(
            f"{path}: easting {x.iloc[0]:g} and northing {y.iloc[0]:g} look like degrees, not metres; name the columns"
            " longitude and latitude, or if they are metres of a frame of your own, count from a corner of it"
        )


def _utm_zones(table: pd.DataFrame) -> list[str]:
    """The UTM zones in a column `zone`, as 32 or 32T; other words there are no zones."""
    words = table["zone"].dropna().astype(str).str.strip() if "zone" in table else pd.Series(dtype=str)
    return sorted(words[words.str.fullmatch(r"\d{1,2}(\.0)?[C-X]?")].unique())


def _projected(
    table: pd.DataFrame, source: str, projection: str | None
) -> tuple[pd.DataFrame, str, tuple[str, ...]]:
    """The table with easting and northing out of latitude and longitude; a note on images far away."""
    latitude = _degrees(table, "latitude", 90.0, source)
    longitude = _degrees(table, "longitude", 180.0, source)
    known = (latitude.notna() & longitude.notna()).to_numpy()
    if not known.any():
        raise InputError(f"{source}: every latitude or longitude is empty; fill them in")
    easting, northing, projection = to_metres(latitude, longitude, projection)
    _refuse_lost(known, easting, northing, source, projection)
    if len(_utm_zones(table)) > 1:  # they no longer say where the eastings lie
        table = table.drop(columns="zone")
    table = table.assign(latitude=latitude, longitude=longitude, easting=easting, northing=northing)
    return table, projection, _far_note(table, source, projection)


def _refuse_lost(
    known: NDArray[np.bool_], easting: NDArray[Any], northing: NDArray[Any], source: str, projection: str
) -> None:
    lost = known & ~(np.isfinite(easting) & np.isfinite(northing))
    if (row := _first_row(lost)) is not None:
        raise InputError(
            f"{source} row {row + 1}: its position cannot be placed on {projection}; choose another projection"
        )


def _far_note(table: pd.DataFrame, source: str, projection: str) -> tuple[str, ...]:
    if len(off := off_plane(table["latitude"], table["longitude"], projection)):
        said = f"{len(off)} of {len(table)} images lie outside the area of {projection}"
        return (f"{source}: {said}, where its metres are wrong; choose another projection",)
    if "+proj=aeqd" not in projection:
        return ()
    rows, metres = far_apart(table["easting"], table["northing"])
    if not len(rows):
        return ()
    away = f"{metres / 1000:,.0f} km"
    if 2 * len(rows) >= len(table):
        return (f"{source}: images lie up to {away} from their middle; are all positions right?",)
    named = first_few([table["image"].iloc[row] for row in rows]) if "image" in table else ""
    if len(rows) == 1:
        return (f"{source}: 1 image lies {away} from the others ({named}); is its position right?",)
    said = f"{len(rows)} images lie up to {away} from the others ({named})"
    return (f"{source}: {said}; are their positions right?",)


def _degrees(table: pd.DataFrame, column: str, limit: float, source: str) -> pd.Series:
    values = pd.to_numeric(table[column], errors="coerce")
    bad = (values.abs() > limit) | (values.isna() & table[column].notna())
    if (row := _first_row(bad)) is not None:
        value = _shown(table[column].iloc[row])
        fault = (
            f"is not in [-{limit:g}, {limit:g}]" if values.notna().iloc[row] else "is not a number of degrees"
        )
        raise InputError(f"{source} row {row + 1}: {column} {value} {fault}; write it as 48.1372")
    return values.astype(np.float64)


def _first_row(bad: Any) -> int | None:
    rows = np.flatnonzero(bad)
    return int(rows[0]) if len(rows) else None


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)  # numpy's repr says np.float64(inf)


def _same_bytes(numbers: NDArray[np.float64]) -> bytes:
    """Bytes that are equal when the numbers are, to six decimals: one NaN, one zero.

    Headings and turns that are computed differ in their last bits from machine to machine.
    """
    return np.where(np.isnan(numbers), np.nan, np.round(numbers, 6) + 0.0).tobytes()


def _as_table(columns: Mapping[str, Any] | pd.DataFrame) -> pd.DataFrame:
    """Columns side by side by position, whatever index they carry."""
    if isinstance(columns, pd.DataFrame):
        return columns.reset_index(drop=True)
    bare = {k: v.reset_index(drop=True) if isinstance(v, pd.Series) else v for k, v in columns.items()}
    lengths = {len(v) for v in bare.values() if hasattr(v, "__len__") and not isinstance(v, str)}
    if len(lengths) > 1:
        raise ValueError(f"columns of different lengths: {sorted(lengths)}")
    return pd.DataFrame(bare, index=pd.RangeIndex(lengths.pop() if lengths else 0))


def _checked(table: pd.DataFrame, source: str, unknown_positions: bool) -> pd.DataFrame:
    if unknown_positions and set(POSE) <= set(table.columns):  # the pose will say where they are
        table = table.assign(**{c: np.nan for c in ("easting", "northing") if c not in table})
    lacking = [c for c in ("image", "easting", "northing") if c not in table]
    if lacking:
        needed = f"{', '.join(REQUIRED)} (or latitude and longitude for the position)"
        raise missing_columns(table, lacking, source, needed)
    if len(table) == 0:
        raise InputError(f"{source}: the table has no rows; give it one for each image")
    if "heading" not in table:
        table["heading"] = np.nan
    for column in ("easting", "northing", "heading", *(c for c in POSE if c in table)):
        table[column] = _finite(table[column], source)
    for column in ("easting", "northing", *(c for c in POSE[:3] if c in table)):
        if (row := _first_row(table[column].abs() > FARTHEST)) is not None:
            value = table[column].iloc[row]
            raise InputError(f"{source} row {row + 1}: {column} {value:g} m is off the earth; give metres")
    unplaced = table["easting"].isna() | table["northing"].isna()
    if not unknown_positions and (row := _first_row(unplaced)) is not None:
        count = f"{unplaced.sum()} rows lack one"
        raise InputError(f"{source} row {row + 1}: no position ({count}); fill them in or delete them")
    _refuse_bad_names(table["image"], source)
    table["image"] = table["image"].astype(str)
    if set(POSE) <= set(table.columns):
        no_rotation = (table[list(POSE[3:])] == 0).all(axis=1)
        if (row := _first_row(no_rotation)) is not None:
            raise InputError(f"{source} row {row + 1}: qw qx qy qz are all 0; not turned at all is 1 0 0 0")
    if "pano" in table:
        table["pano"] = _booleans(table["pano"], source)
    order = [*REQUIRED, *(c for c in OPTIONAL if c in table)]
    return table[[*order, *(c for c in table.columns if c not in order)]]


def _finite(column: pd.Series, source: str) -> pd.Series:
    """The column as float64; NaN stays, but text and infinity are refused."""
    numbers = pd.to_numeric(column, errors="coerce").astype(np.float64)
    of_no_number = column.dtype.kind in "bmM"  # true and false, times: pandas has numbers for them
    bad = (numbers.isna() & column.notna()) | np.isinf(numbers) | (of_no_number & column.notna())
    if (row := _first_row(bad)) is not None:
        value = _shown(column.iloc[row])
        raise InputError(
            f"{source} row {row + 1}: {column.name} {value} is not a finite number; write it as 12.5"
        )
    return numbers


def _refuse_bad_names(images: pd.Series, source: str) -> None:
    nameless = images.isna() | (images.astype(str).str.strip() == "")
    if (row := _first_row(nameless)) is not None:
        count = f"{nameless.sum()} rows lack one"
        raise InputError(f"{source} row {row + 1}: no image name ({count}); fill them in or delete them")
    if images.dtype == object:
        strange = ~images.map(lambda name: isinstance(name, str | bytes | int | float))
        if (row := _first_row(strange)) is not None:
            raise InputError(
                f"{source} row {row + 1}: image {_shown(images.iloc[row])} is not a name; give the path of a photo"
            )
    names = images.astype(str)
    if (row := _first_row(names.str.contains("\0", regex=False))) is not None:
        raise InputError(f"{source} row {row + 1}: the image name holds a NUL byte; write the table again")
    for name in names[names.map(is_address)]:
        photo_at(Path(), name)  # what is no good as an address is told here
    twice = _written_plainly(names).duplicated()
    if (row := _first_row(twice)) is not None:
        raise InputError(
            f"{source} row {row + 1}: image {shown(images.iloc[row])} is in the table twice"
            f" ({twice.sum()} repeated rows); keep one row per image"
        )


def _written_plainly(names: pd.Series) -> pd.Series:
    """a.jpg for ./a.jpg and b/../a.jpg: one photo under two names would find itself."""
    roundabout = names.str.contains(r"//|(?:^|/)\.\.?/")
    return names.mask(roundabout, names[roundabout].map(os.path.normpath)) if roundabout.any() else names


def _wrap_headings(table: pd.DataFrame, source: str, allowed: bool) -> tuple[str, ...]:
    """Bring headings into [0, 360) where that is allowed, and say how many."""
    outside = (table["heading"] < 0) | (table["heading"] >= 360)
    row = _first_row(outside)
    if row is None:
        return ()
    if not allowed:
        raise InputError(
            f"{source} row {row + 1}: heading {table['heading'].iloc[row]:g} is not in [0, 360)"
            f" ({outside.sum()} such rows); pass `wrap_headings` to accept it"
        )
    wrapped = table["heading"] % 360.0
    table["heading"] = wrapped.mask(wrapped == 360.0, 0.0)  # -1e-15 % 360 rounds up to 360
    return (f"{source}: {outside.sum()} headings were not in [0, 360) and were wrapped",)


def _booleans(column: pd.Series, source: str) -> pd.Series:
    """True and false in the spellings of csv files; an empty field is false."""
    words = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False, "": False}
    values = column.astype(object).where(column.notna(), "").astype(str).str.strip().str.lower().map(words)
    if (row := _first_row(values.isna())) is not None:
        value = _shown(column.iloc[row])
        raise InputError(f"{source} row {row + 1}: pano {value} is neither true nor false")
    return values.astype(bool)
