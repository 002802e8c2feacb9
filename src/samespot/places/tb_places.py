"""TB-Places: two experimental gardens, seen by a robot's cameras in 2016 to 2018, with 6DOF poses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.catalogue import MissingImages
from samespot.places.photo_sets import PhotoSet
from samespot.places.pose import PoseFrame, not_unit, pose_columns
from samespot.places.table import Places
from samespot.places.wording import unknown_part

LAYOUT = """\
TB-Places/
  W16.json W17.json W18.json    Wageningen; {im_prefix, im_paths, poses}, poses (n, 7): tx ty tz qx qy qz qw
  R17.json                      Renningen
  <image folders as named in im_paths>
"""
# An assumption of ours: the release says only that t is the translation and q the rotation. The paper of the
# graded labels takes (t0, t1) for the ground plane, so z is vertical; that z points up, that the rotation is
# camera-to-world, and that the camera looks along its z (x right, y down) is what we suppose. Pass `frame` if
# you know better.
FRAME = PoseFrame(forward=(0.0, 0.0, 1.0), up=(0.0, 0.0, 1.0), north=(0.0, 1.0, 0.0))
SETS = ("R17", "W16", "W17", "W18")


def parts(root: Path) -> list[str]:
    """Of R17, W16, W17 and W18 those whose json file is there."""
    return [name for name in SETS if (root / f"{name}.json").is_file()]


def read(
    root: Path, part: str, *, missing_images: MissingImages = "warn", frame: PoseFrame = FRAME
) -> Places:
    """One recording session. `frame` says which camera axis looks ahead and which world axis is up."""
    there = parts(root)
    if part not in there:
        raise unknown_part(root, part, "TB-Places", "tb-places", there)
    source = root / f"{part}.json"
    index = _load(source)
    names, poses = _names(index, source), _poses(index, source)
    if len(names) != len(poses):
        raise InputError(f"{source}: {len(names)} im_paths but {len(poses)} poses; the file is not whole")
    images = _under_root(root, part, names, str(index.get("im_prefix", "")))
    columns: dict[str, Any] = {
        "image": images,
        **pose_columns(poses[:, :3], _rotations(poses, source), frame),
        "sequence": [str(PurePosixPath(image).parent) for image in images],
        "split": part,
    }
    return Places.build(root, columns, source=source, missing_images=missing_images)


def missing(root: Path) -> list[str]:
    """The json files that are not there; R17 is no part of the public download, so it may lack."""
    there = parts(root)
    return [f"{name}.json" for name in SETS if name not in there and name != "R17"] if there else []


def photo_sets(root: Path, *, missing_images: MissingImages = "warn") -> Iterator[PhotoSet]:
    """All pairs of W17, the training set."""
    garden = read(root, "W17", missing_images=missing_images)
    yield PhotoSet("W17", garden, garden)


def _load(source: Path) -> dict[str, Any]:
    try:
        index = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: not valid json ({error}); fetch it again") from error
    lacking = [key for key in ("im_paths", "poses") if not isinstance(index, dict) or key not in index]
    if lacking:
        raise InputError(
            f"{source}: no {' and no '.join(lacking)} in it; expected im_prefix, im_paths and poses"
        )
    return dict(index)


def _names(index: dict[str, Any], source: Path) -> list[str]:
    names = index["im_paths"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{source}: im_paths is not a list of paths")
    return names


def _poses(index: dict[str, Any], source: Path) -> NDArray[np.float64]:
    rows = index["poses"]
    if not isinstance(rows, list):
        raise InputError(f"{source}: poses is not a list")
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 7 or not all(isinstance(v, int | float) for v in row):
            raise InputError(f"{source}: poses[{number}] is not 7 numbers tx ty tz qx qy qz qw")
    poses = np.array([[_float(value) for value in row] for row in rows]).reshape(-1, 7)
    broken = np.flatnonzero(~np.isfinite(poses).all(axis=1))
    if len(broken):
        raise InputError(f"{source}: poses[{broken[0]}] holds a number that is not finite")
    return poses


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return float("inf")


def _rotations(poses: NDArray[np.float64], source: Path) -> NDArray[np.float64]:
    q = poses[:, [6, 3, 4, 5]]
    length, bad = np.linalg.norm(q, axis=1), not_unit(q)
    if len(bad):
        raise InputError(
            f"{source}: the quaternion of poses[{bad[0]}] has length {length[bad[0]]:.3g}, not 1"
        )
    unit: NDArray[np.float64] = q / length[:, None]
    return unit


def _under_root(root: Path, part: str, names: list[str], prefix: str) -> list[str]:
    """Image paths below root. `im_prefix` was a folder of the authors' machine, so where it ends varies:
    the folder is taken under which the first image lies, and without images the plain path."""
    plain = [name.removeprefix(prefix).lstrip("/").removeprefix("./") for name in names]
    folders = ["", prefix.strip("/").removeprefix("./"), PurePosixPath(prefix).name, part]
    found = (folder for folder in folders if names and (root / folder / plain[0]).is_file())
    folder = next(found, "")
    return [str(PurePosixPath(folder) / name) for name in plain]
