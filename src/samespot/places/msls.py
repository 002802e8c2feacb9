"""Mapillary Street-Level Sequences: 1.6 million street photos of 30 cities, with position and compass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from samespot.errors import InputError
from samespot.places.catalogue import MissingImages
from samespot.places.csv_files import load_table
from samespot.places.geodesy import to_metres, utm_zone
from samespot.places.photo_sets import PhotoSet
from samespot.places.table import Places
from samespot.places.wording import first_few, unknown_part

TRAIN_CITIES = (
    *("trondheim", "london", "boston", "melbourne", "amsterdam", "helsinki", "tokyo", "toronto", "saopaulo"),
    *("moscow", "zurich", "paris", "bangkok", "budapest", "austin", "berlin", "ottawa", "phoenix", "goa"),
    *("amman", "nairobi", "manila"),
)
VAL_CITIES = ("cph", "sf")
TEST_CITIES = ("miami", "athens", "buenosaires", "stockholm", "bengaluru", "kampala")
SUBTASKS = ("all", "s2w", "w2s", "o2n", "n2o", "d2n", "n2d")  # seasons, years and daylight, query to database
LAYOUT = """\
train_val/<city>/{query,database}/
├── images/<key>.jpg
├── raw.csv              key, lon, lat, ca, captured_at, pano
├── postprocessed.csv    key, easting, northing, unique_cluster, control_panel, night, view_direction
├── seq_info.csv         key, sequence_key, frame_number
└── subtask_index.csv    all, s2w, w2s, o2n, n2o, d2n, n2d
test/<city>/{query,database}/    the same without raw.csv and postprocessed.csv
"""
CSVS = ("postprocessed.csv", "raw.csv", "seq_info.csv", "subtask_index.csv")
NEEDED = {
    "postprocessed.csv": ("key", "easting", "northing", "night", "view_direction"),
    "raw.csv": ("key", "lon", "lat", "ca", "captured_at", "pano"),
    "seq_info.csv": ("key", "sequence_key", "frame_number"),
    "subtask_index.csv": ("all",),
}
FLAGS = {"postprocessed.csv": ("night",), "subtask_index.csv": SUBTASKS}
NUMBERS = {
    "postprocessed.csv": ("easting", "northing"),
    "raw.csv": ("lon", "lat", "ca"),
    "seq_info.csv": ("frame_number",),
}
TYPICAL_ERROR, LARGEST_ERROR = 10.0, 50.0  # [m] between the raw GPS position and the one that MSLS derived


def official_split(city: str) -> str:
    """The split a city belongs to: train, val or test."""
    for split, cities in (("train", TRAIN_CITIES), ("val", VAL_CITIES), ("test", TEST_CITIES)):
        if city in cities:
            return split
    known = ", ".join(sorted(TRAIN_CITIES + VAL_CITIES + TEST_CITIES))
    raise InputError(f"{city!r} is not a city of MSLS; they are {known}")


def parts(root: Path) -> list[str]:
    """As train_val/zurich/query or test/miami/database."""
    root = Path(root)
    found = {
        path.parent
        for name in CSVS
        for top in ("train_val", "test")
        for path in root.glob(f"{top}/*/*/{name}")
    }
    return sorted(p.relative_to(root).as_posix() for p in found if p.name in ("query", "database"))


def missing(root: Path) -> list[str]:
    """Cities without metadata, and per part the csv files and the folder of images that are not there."""
    root = Path(root)
    there = parts(root)
    if not there:
        return []
    lacking = []
    for city in sorted(TRAIN_CITIES + VAL_CITIES + TEST_CITIES):
        for side in ("database", "query"):
            part = f"{'test' if city in TEST_CITIES else 'train_val'}/{city}/{side}"
            if part not in there:
                lacking.append(part)
    for part in there:
        needed = CSVS[2:] if part.startswith("test/") else CSVS
        lacking += [f"{part}/{name}" for name in (*needed, "images") if not (root / part / name).exists()]
    return sorted(lacking)


def read(root: Path, part: str, *, missing_images: MissingImages = "warn") -> Places:
    """One side of one city.

    Also gives `key`, `city`, `latitude`, `longitude`, `view_direction`, `unique_cluster`, `control_panel` and
    one boolean column a subtask: `subtask_all`, `subtask_s2w`, … Cities of the test set have no positions.
    Headings are the compass angles `ca` as the data set gives them beside its UTM metres, and as the labels
    of the paper took them: not turned from true to grid north, which would be 1° or 2°.
    """
    root = Path(root)
    there = parts(root)
    if part not in there:
        raise unknown_part(root, part, "MSLS", "msls", there)
    folder = root / part
    secret = part.startswith("test/") and not (folder / "postprocessed.csv").is_file()
    tables, notes, dropped = _joined(folder, CSVS[2:] if secret else CSVS)
    key = tables["seq_info.csv"]["key"]
    columns: dict[str, Any] = {
        "image": [f"{part}/images/{name}.jpg" for name in key],
        "sequence": tables["seq_info.csv"]["sequence_key"],
        "frame": tables["seq_info.csv"]["frame_number"],
        "split": "query" if folder.name == "query" else "map",
        "key": key,
        "city": folder.parent.name,
    }
    projection = None
    if secret:
        columns |= {"easting": np.nan, "northing": np.nan, "heading": np.nan}
        notes.append(f"{folder}: positions of the test cities are kept secret, so none are known")
    else:
        columns |= _measured(tables["raw.csv"], tables["postprocessed.csv"])
        projection, open_question = _projection_of(columns, folder)
        notes += open_question
    subtasks = tables["subtask_index.csv"]
    columns |= {f"subtask_{name}": subtasks[name].to_numpy() for name in SUBTASKS if name in subtasks}
    return Places.build(
        root,
        columns,
        source=folder,
        projection=projection,
        dropped=dropped,
        notes=tuple(notes),
        unknown_positions=secret,
        wrap_headings=True,  # compass angles of 360 and beyond occur
        missing_images=missing_images,
    )


def photo_sets(root: Path, *, missing_images: MissingImages = "warn") -> Iterator[PhotoSet]:
    """Query × map of each city that is not a test city; those of validation are held out."""
    cities = sorted({part.split("/")[1] for part in parts(root) if part.startswith("train_val/")})
    for city in cities:
        queries, places = (
            read(root, f"train_val/{city}/{side}", missing_images=missing_images)
            for side in ("query", "database")
        )
        yield PhotoSet(city, queries, places, held_out=official_split(city) != "train")


def _joined(
    folder: Path, names: tuple[str, ...]
) -> tuple[dict[str, pd.DataFrame], list[str], dict[str, int]]:
    """The csv files row by row of the same key, in the order of the first; keys not in all are left out."""
    tables = {name: _load(folder / name) for name in names}
    tables["subtask_index.csv"] = _with_keys(
        tables["subtask_index.csv"], tables["seq_info.csv"]["key"], folder
    )
    keys = {name: pd.Index(table["key"]) for name, table in tables.items()}
    first = keys[names[0]]
    if all(own.equals(first) for own in keys.values()):
        return tables, [], {}
    everywhere, common = first, first
    for own in keys.values():
        everywhere, common = everywhere.union(own, sort=False), common[common.isin(own)]
    if len(common) == 0:
        raise InputError(f"{folder}: no key stands in all of {', '.join(names)}; unpack metadata.zip again")
    notes = []
    for name, own in keys.items():
        lacking = everywhere.difference(own, sort=False)
        if len(lacking):
            shown = first_few(list(lacking))
            notes.append(f"{folder / name}: lacks {len(lacking)} keys of the other files ({shown}); left out")
        if not own[own.isin(common)].equals(common):
            notes.append(f"{folder / name}: its keys are in another order than in {names[0]}; joined by key")
    dropped = {"key not in every csv file": len(everywhere) - len(common)}
    return {name: t.set_index("key").loc[common].reset_index() for name, t in tables.items()}, notes, dropped


def _with_keys(subtasks: pd.DataFrame, keys: pd.Series, folder: Path) -> pd.DataFrame:
    """The subtasks with keys; a file without them goes row by row with seq_info.csv."""
    if "key" in subtasks:
        return subtasks
    if len(subtasks) != len(keys):
        raise InputError(
            f"{folder / 'subtask_index.csv'}: {len(subtasks)} rows, without keys, for the {len(keys)} rows"
            " of seq_info.csv; unpack metadata.zip of MSLS again"
        )
    return subtasks.assign(key=keys.to_numpy())


def _load(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise InputError(f"{path}: no such file; unpack metadata.zip of MSLS there")
    table = load_table(path).rename(
        columns={"sequence_id": "sequence_key"}
    )  # the documentation's name for it
    lacking = [column for column in NEEDED[path.name] if column not in table]
    if lacking:
        raise InputError(f"{path} line 1: no column {', '.join(lacking)}; unpack metadata.zip of MSLS again")
    for column in (c for c in NUMBERS.get(path.name, ()) if c in table):
        numbers = pd.to_numeric(table[column], errors="coerce")
        unknown = table[column].isna() if column == "ca" else False  # a phone without a compass
        _refuse(~np.isfinite(numbers) & ~np.asarray(unknown), table[column], path, "is not a number")
        table[column] = numbers
    for column in (c for c in FLAGS.get(path.name, ()) if c in table):
        flags = table[column].astype(str).str.strip().map({"True": True, "False": False})
        _refuse(flags.isna(), table[column], path, "is neither True nor False")
        table[column] = flags.astype(bool)
    if "key" in table:
        _refuse(table["key"].isna(), table["key"], path, "is not a key")
        _refuse(table["key"].duplicated(), table["key"], path, "stands there twice")
    return table


def _refuse(bad: pd.Series, column: pd.Series, path: Path, fault: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        value = column.iloc[rows[0]]
        raise InputError(
            f"{path} line {rows[0] + 2}: {column.name} {value} {fault}; unpack metadata.zip of MSLS again"
        )


def _measured(raw: pd.DataFrame, derived: pd.DataFrame) -> dict[str, Any]:
    optional = ("view_direction", "unique_cluster", "control_panel")
    return {
        "easting": derived["easting"],
        "northing": derived["northing"],
        "heading": raw["ca"],
        "pano": raw["pano"],
        "time": raw["captured_at"],
        "condition": np.where(derived["night"], "night", "day"),
        "latitude": raw["lat"],
        "longitude": raw["lon"],
        **{name: derived[name] for name in optional if name in derived},
    }


def _projection_of(columns: dict[str, Any], folder: Path) -> tuple[str | None, list[str]]:
    """The UTM zone in which the given metres lie where the raw GPS says; None and why, if there is none."""
    latitude, longitude = (columns[name].to_numpy(dtype=np.float64) for name in ("latitude", "longitude"))
    metres = np.stack([columns[name].to_numpy(dtype=np.float64) for name in ("easting", "northing")])
    codes, counts = np.unique(utm_zone(latitude, longitude), return_counts=True)
    for code in codes[np.argsort(-counts)]:
        easting, northing, projection = to_metres(latitude, longitude, f"EPSG:{code}")
        apart = np.hypot(*(np.stack([easting, northing]) - metres))
        if np.median(apart) <= TYPICAL_ERROR and np.quantile(apart, 0.95) <= LARGEST_ERROR:
            return projection, []
    zones = ", ".join(f"EPSG:{code}" for code in codes)
    fault = f"easting and northing do not agree with latitude and longitude in {zones}"
    return None, [f"{folder}: {fault}; the projection is left open"]
