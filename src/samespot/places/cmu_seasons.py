"""CMU Seasons and Extended CMU Seasons: a car's two cameras, a year in Pittsburgh, in slices."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.camera import Camera, camera_columns, parse_camera
from samespot.places.catalogue import MissingImages
from samespot.places.pose import POSE, PoseFrame, conjugate, pose_columns
from samespot.places.pose_files import open_text, read_names, read_nvm_cameras, read_rows, unit_quaternions
from samespot.places.table import Places
from samespot.places.wording import unknown_part

LAYOUT = """\
Extended-CMU-Seasons/intrinsics.txt                     c0 OPENCV width height fx fy cx cy k1 k2 p1 p2; poses need it
Extended-CMU-Seasons/slice<2..25>/
  database/img_<number>_<c0|c1>_<microseconds>us.jpg    the reference drive
  query/img_<number>_<c0|c1>_<microseconds>us.jpg       eleven other drives
  ground-truth-database-images-slice<k>.txt             name qw qx qy qz cx cy cz
  camera-poses/*.txt                                    the same for queries whose pose is public
  test-images-slice<k>.txt                              name, of queries whose pose is secret
CMU-Seasons/
  images/slice<k>/{database,query}/img_..._rect.jpg
  3D-models/slice<k>.nvm (or 3D-models/slice<k>/slice<k>.nvm)
  query_lists/slice<k>.queries_with_intrinsics.txt
"""
# The README: cameras look along z, x right, y down; the files hold the world-to-camera rotation and the
# camera centre. Measured on 29,647 of these poses: with the rotation inverted, the images' up is world +z
# within 7°, and c0 and c1 look 44.5° left and 43.7° right of the way the car drives; as stored, neither
# holds. That y is true north is not documented; a map turned as a whole has the same overlaps.
FRAME = PoseFrame(up=(0.0, 0.0, 1.0), north=(0.0, 1.0, 0.0))
AREAS = (("urban", 2, 8), ("suburban", 9, 17), ("park", 18, 25))
# Dates as the time stamps have them; the README says 4 Apr 2011 for 21 Apr, and 28 Oct 2010 for 26 Oct.
CONDITIONS = {
    "2010-09-01": "sunny + foliage",
    "2010-09-15": "sunny + foliage",
    "2010-10-01": "cloudy + foliage",
    "2010-10-19": "sunny + foliage",
    "2010-10-26": "overcast + mixed foliage",
    "2010-11-03": "low sun + mixed foliage",
    "2010-11-12": "low sun + mixed foliage",
    "2010-11-22": "cloudy + mixed foliage",
    "2010-12-21": "low sun + no foliage + snow",
    "2011-03-04": "low sun + foliage",
    "2011-04-21": "sunny + no foliage",
    "2011-07-28": "overcast + foliage",
}
UTC = "%Y-%m-%dT%H:%M:%S.%fZ"
INTRINSICS = "c0 OPENCV width height fx fy cx cy k1 k2 p1 p2"
POSE_LINE = "name qw qx qy qz cx cy cz"
Floats = NDArray[np.float64]


def parts(root: Path) -> list[str]:
    """`slice2/database`, `slice2/query`, … of the slices whose lists are there, by slice number."""
    found = []
    for k in _slices(root):
        found += [f"slice{k}/database"] if _database_source(root, k) else []
        found += [f"slice{k}/query"] if _query_sources(root, k) else []
    return found


def read(root: Path, part: str, *, missing_images: MissingImages = "warn") -> Places:
    """The database or the queries of one slice; queries whose pose is secret have no position."""
    there = parts(root)
    if part not in there:
        raise unknown_part(root, part, "CMU Seasons", "cmu-seasons", there)
    folder, split = part.split("/")
    k = int(folder.removeprefix("slice"))
    names, centres, rotations, source, dropped = (
        _database(root, k) if split == "database" else _queries(root, k)
    )
    table = _described(names, k, split, _image_folder(root, k, split), source)
    table = table.assign(**pose_columns(centres, rotations, FRAME))
    table = table.assign(**camera_columns(table["sequence"], _cameras(root)))
    secret, odd = int(table["easting"].isna().sum()), int((table["condition"] == "unknown").sum())
    if secret == len(table):
        table = table.drop(columns=list(POSE))
    notes = [f"{secret} of {len(table)} images have no public pose: the benchmark keeps it"] if secret else []
    notes += [f"{odd} images were taken on a day that is none of the twelve documented drives"] if odd else []
    return Places.build(
        root,
        table,
        source=source,
        dropped=dropped,
        notes=tuple(notes),
        unknown_positions=split == "query",
        missing_images=missing_images,
    )


def missing(root: Path) -> list[str]:
    """Lists and image folders that the slices at hand lack, then the slices that are not there at all."""
    there = _slices(root)
    lacking = []
    for k in there:
        lacking += [] if _database_source(root, k) else [f"slice{k}: poses of the database images"]
        lacking += [] if _query_sources(root, k) else [f"slice{k}: list of the query images"]
        lacking += [
            f for f in (_image_folder(root, k, s) for s in ("database", "query")) if not (root / f).is_dir()
        ]
    absent = [f"slice{k}" for k in range(2, 26) if k not in there]
    # The first CMU Seasons had 17 of the 24 slices, so only a copy in the extended layout can lack some.
    extended = any((root / f"slice{k}").is_dir() for k in there)
    return lacking + (absent if extended else [])


def area(k: int) -> str:
    """`urban`, `suburban` or `park`: what the data set's README calls the surroundings of slice k."""
    return next((name for name, first, last in AREAS if first <= k <= last), "unknown")


def _cameras(root: Path) -> dict[str, Camera]:
    """c0 and c1 of the extended release; none of the first one, whose photos are rectified."""
    path = root / "intrinsics.txt"
    if not path.is_file():
        return {}
    cameras = {}
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            name, *words = line.split() or ["#"]
            if not name.startswith("#"):
                if len(words) != 11 or words[0] != "OPENCV":
                    raise InputError(f"{path} line {number}: expected: {INTRINSICS}")
                cameras[name] = parse_camera(",".join(words[1:]))
    return cameras


def _slices(root: Path) -> list[int]:
    folders = [*root.glob("slice*"), *(root / "images").glob("slice*")]
    numbers = (re.fullmatch(r"slice(\d+)", folder.name) for folder in folders if folder.is_dir())
    return sorted({int(found[1]) for found in numbers if found})


def _image_folder(root: Path, k: int, split: str) -> str:
    first_release = f"images/slice{k}/{split}"
    return first_release if (root / first_release).is_dir() else f"slice{k}/{split}"


def _database_source(root: Path, k: int) -> Path | None:
    names = (
        f"slice{k}/ground-truth-database-images-slice{k}.txt",
        f"3D-models/slice{k}.nvm",
        f"3D-models/slice{k}/slice{k}.nvm",
    )
    return next((root / name for name in names if (root / name).is_file()), None)


def _query_sources(root: Path, k: int) -> list[Path]:
    lists = (
        root / f"slice{k}/test-images-slice{k}.txt",
        root / f"query_lists/slice{k}.queries_with_intrinsics.txt",
    )
    return [*(path for path in lists if path.is_file()), *_query_poses(root, k)]


def _query_poses(root: Path, k: int) -> list[Path]:
    return sorted((root / f"slice{k}/camera-poses").glob("*.txt"))


def _database(root: Path, k: int) -> tuple[list[str], Floats, Floats, Path, dict[str, int]]:
    source = _database_source(root, k)
    assert source is not None  # `read` looked it up in `parts`
    if source.suffix == ".nvm":
        rows, centres, rotations = read_nvm_cameras(source)
        return rows.names, centres, rotations, source, {}
    return *_poses(source), source, {}


def _queries(root: Path, k: int) -> tuple[list[str], Floats, Floats, Path, dict[str, int]]:
    """Every query listed anywhere, once: those with a public pose first, then those without."""
    posed = [_poses(path) for path in _query_poses(root, k)]
    names = [_basename(name) for group in posed for name in group[0]]
    table = pd.DataFrame(
        np.concatenate([np.empty((0, 7)), *(np.hstack(group[1:]) for group in posed)]), index=names
    )
    reference = set(map(_basename, _database(root, k)[0])) if _database_source(root, k) else set()
    of_database = table.index.isin(reference)
    table = table[~of_database]
    repeated = table.index.duplicated()
    table = table[~repeated]
    lists = [path for path in _query_sources(root, k) if path.parent.name != "camera-poses"]
    listed = pd.Index([_basename(name) for path in lists for name in read_names(path)], dtype=object)
    secret = listed.drop_duplicates().difference(table.index, sort=False)
    pose = np.concatenate([table.to_numpy(dtype=np.float64), np.full((len(secret), 7), np.nan)])
    dropped = {
        "pose of a database image among the query poses": int(of_database.sum()),
        "query listed twice": int(repeated.sum() + listed.duplicated().sum()),
    }
    source = lists[0] if lists else root / f"slice{k}/camera-poses"
    return [*table.index, *secret], pose[:, :3], pose[:, 3:], source, dropped


def _poses(path: Path) -> tuple[list[str], Floats, Floats]:
    rows = read_rows(path, 7, POSE_LINE)
    return rows.names, rows.numbers[:, 4:7], conjugate(unit_quaternions(rows))


def _basename(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _described(names: list[str], k: int, split: str, folder: str, source: Path) -> pd.DataFrame:
    """What the file names say: image number, camera, time, and by its day the condition."""
    plain = pd.Series([_basename(name) for name in names], dtype=str)
    found = plain.str.extract(
        r"^img_(?P<frame>\d{1,17})_(?P<camera>c[01])_(?P<stamp>\d{1,17})us(?:_rect)?\.(?:jpg|png)$"
    )
    strange = np.flatnonzero(found["stamp"].isna())
    if len(strange):
        raise InputError(
            f"{source}: image name {names[strange[0]]!r} is not img_<number>_<c0|c1>_<microseconds>us.jpg"
        )
    time = pd.to_datetime(found["stamp"].astype(np.int64), unit="us")
    day = time.dt.strftime("%Y-%m-%d")  # drives are by daylight, when Pittsburgh and UTC share the date
    return pd.DataFrame(
        {
            "image": folder + "/" + plain,
            "sequence": found["camera"],
            "frame": found["frame"].astype(np.int64),
            "time": time.dt.strftime(UTC),
            "condition": day.map(CONDITIONS).fillna("unknown"),
            "split": split,
            "survey": day,
            "slice": k,
            "area": area(k),
        }
    )
