"""RobotCar Seasons v2: one reference drive through Oxford, nine more by night and in all weathers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places import colmap
from samespot.places.camera import Camera, camera_columns
from samespot.places.catalogue import MissingImages
from samespot.places.pose import PoseFrame, not_rotations, pose_columns, quaternions
from samespot.places.pose_files import read_names, read_nvm_cameras, read_rows
from samespot.places.table import Places
from samespot.places.wording import unknown_part

LAYOUT = """\
RobotCar-Seasons/
  images/<condition>/{left,rear,right}/<microseconds>.jpg
  3D-models/all-merged/all.nvm                                      poses of overcast-reference, or
  3D-models/individual/colmap_reconstructions/<001..049>_aligned/   the same, one model a location
  intrinsics/{left,rear,right}_intrinsics.txt                       fx, fy, cx and cy, a line each; poses need them
  robotcar_v2_train.txt                                             name and 4x4 pose
  robotcar_v2_test.txt                                              name; the poses are secret
"""
# The data set's README: cameras look along z, x right, y down. The world follows the car's inertial unit,
# which counts north, east, down: in the README's sample pose of a rear camera the image's down is world +z
# to 11°, the tilt of that camera. That x is true north is our reading of the same convention.
FRAME = PoseFrame(up=(0.0, 0.0, -1.0), north=(1.0, 0.0, 0.0))
CONDITIONS = (
    "dawn",
    "dusk",
    "night",
    "night-rain",
    "overcast-reference",
    "overcast-summer",
    "overcast-winter",
    "rain",
    "snow",
    "sun",
)
SIZE = (1024, 1024)  # width and height [px]; the released photos are undistorted
UTC = "%Y-%m-%dT%H:%M:%S.%fZ"
NVM = "3D-models/all-merged/all.nvm"
MODELS = "3D-models/individual/colmap_reconstructions"
TRAIN, TEST = "robotcar_v2_train.txt", "robotcar_v2_test.txt"


def parts(root: Path) -> list[str]:
    """Of `reference`, `test` and `train` those whose lists of images are there."""
    there = {
        "reference": bool(_reference_sources(root)),
        "test": (root / TEST).is_file(),
        "train": (root / TRAIN).is_file(),
    }
    return [part for part, found in there.items() if found]


def read(root: Path, part: str, *, missing_images: MissingImages = "warn") -> Places:
    """The reference drive (poses of its 3D model), the v2 training images (with poses) or the test images."""
    there = parts(root)
    if part not in there:
        raise unknown_part(root, part, "RobotCar Seasons", "robotcar", there)
    if part == "test":
        names = read_names(root / TEST)
        unknown = {"easting": np.nan, "northing": np.nan, "heading": np.nan}
        table = _with_cameras(_described(names, part, root / TEST).assign(**unknown), root)
        note = "the poses of the test images are secret; submit estimates to the benchmark"
        return Places.build(
            root,
            table,
            source=root / TEST,
            notes=(note,),
            unknown_positions=True,
            missing_images=missing_images,
        )
    names, centres, rotations, source = _train(root / TRAIN) if part == "train" else _reference(root)
    table = _described(names, part, source).assign(**pose_columns(centres, rotations, FRAME))
    table = _with_cameras(table, root)
    repeated = table["image"].duplicated()
    return Places.build(
        root,
        table[~repeated],
        source=source,
        dropped={"image repeated in the model of a neighbouring location": int(repeated.sum())},
        missing_images=missing_images,
    )


def missing(root: Path) -> list[str]:
    """What a complete copy would have that this one lacks."""
    if not parts(root):
        return []
    lacking = [f"images/{c}" for c in CONDITIONS if not (root / "images" / c).is_dir()]
    lacking += [name for name in (TRAIN, TEST) if not (root / name).is_file()]
    return lacking + ([] if _reference_sources(root) else [NVM])


def _with_cameras(table: pd.DataFrame, root: Path) -> pd.DataFrame:
    """With the camera of each photo, where the data set's own files tell it."""
    cameras = {}
    for side in ("left", "rear", "right"):
        path = root / f"intrinsics/{side}_intrinsics.txt"
        if path.is_file():
            values = read_rows(path, 1, "fx 400.0").numbers[:, 0]
            if len(values) != 4 or not (values > 0).all():
                raise InputError(f"{path}: a camera is fx, fy, cx and cy, a line each, above 0")
            cameras[side] = Camera(*SIZE, *values.tolist())
    return table.assign(**camera_columns(table["camera"], cameras))


def _train(path: Path) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64], Path]:
    rows = read_rows(path, 16, "condition/rear/time.jpg and the 16 numbers of a 4x4 camera-to-world matrix")
    matrices = rows.numbers.reshape(-1, 4, 4)
    skewed = not_rotations(matrices[:, :3, :3])
    if len(skewed):
        raise InputError(
            f"{rows.at(skewed[0])}: the 3x3 part of the matrix of {rows.names[skewed[0]]} is not a rotation"
        )
    return rows.names, matrices[:, :3, 3], quaternions(matrices[:, :3, :3]), path


def _reference_sources(root: Path) -> list[Path]:
    """The merged model if it is there, else the folders of the models by location."""
    if (root / NVM).is_file():
        return [root / NVM]
    return sorted(folder for folder in (root / MODELS).glob("*") if colmap.is_model(folder))


def _reference(root: Path) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64], Path]:
    sources = _reference_sources(root)
    if sources[0].suffix == ".nvm":
        rows, centres, rotations = read_nvm_cameras(sources[0])
        return rows.names, centres, rotations, sources[0]
    models = [colmap.read_images(folder) for folder in sources]
    names = [name for model in models for name in model.names]
    centres = np.concatenate([model.centres for model in models])
    return names, centres, np.concatenate([model.quaternions for model in models]), root / MODELS


def _described(names: list[str], part: str, source: Path) -> pd.DataFrame:
    """image, condition, camera, sequence and time, all from `condition/camera/microseconds.{jpg,png}`.

    The models were built from PNG images and say so, but the released images are JPEG.
    """
    form = r"^(?:\./)?(?:images/)?(?P<condition>[^/]+)/(?P<camera>left|rear|right)/(?P<stamp>\d{1,17})\.(?:jpg|png)$"
    found = pd.Series(names, dtype=str).str.extract(form)
    strange = np.flatnonzero(found["stamp"].isna())
    if len(strange):
        raise InputError(
            f"{source}: image name {names[strange[0]]!r} is not condition/camera/microseconds.jpg"
        )
    time = pd.to_datetime(found["stamp"].astype(np.int64), unit="us")
    route = found["condition"] + "/" + found["camera"]
    return pd.DataFrame(
        {
            "image": "images/" + route + "/" + found["stamp"] + ".jpg",
            "sequence": route,
            "time": time.dt.strftime(UTC),
            "condition": found["condition"],
            "split": part,
            "camera": found["camera"],
        }
    )
