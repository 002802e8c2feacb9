"""7Scenes: seven rooms filmed with a Kinect, a depth image and a 6DOF pose for every frame."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.camera import Camera
from samespot.places.catalogue import MissingImages
from samespot.places.photo_sets import PhotoSet
from samespot.places.pose import PoseFrame, not_rotations, pose_columns, quaternions
from samespot.places.pose_files import open_text
from samespot.places.table import Places
from samespot.places.wording import unknown_part

LAYOUT = """\
7Scenes/<chess|fire|heads|office|pumpkin|redkitchen|stairs>/
  TrainSplit.txt TestSplit.txt      lines: sequence1
  seq-01/frame-000000.color.png
         frame-000000.depth.png     16 bit, millimetres; 0 and 65535 mean none
         frame-000000.pose.txt      4x4, camera to world
or one bare sequence folder: frame-000000.color.{png,jpg}, …, camera-intrinsics.txt
"""
# Camera and world both have x right, y down, z ahead: the world is about the camera of the reconstruction's
# first frame, held roughly level. Measured: in all 43,000 poses the camera's y lies on the side of the
# world's y. So "up" is up to some degrees, and "north" is where that first camera looked.
FRAME = PoseFrame(forward=(0.0, 0.0, 1.0), up=(0.0, -1.0, 0.0), north=(0.0, 0.0, 1.0))
KINECT = Camera(
    width=640, height=480, fx=585.0, fy=585.0, cx=320.0, cy=240.0
)  # the depth camera, as released
# Colour and depth are not registered, and of the colour camera nothing was released. Taken to stand where the depth
# camera does, with the Kinect's usual 525 px, keypoints fall on their depth: with 585 px, poses are off by tens of cm.
COLOUR = Camera(width=640, height=480, fx=525.0, fy=525.0, cx=320.0, cy=240.0)
SCENES = ("chess", "fire", "heads", "office", "pumpkin", "redkitchen", "stairs")
SPLITS = {"test": "TestSplit.txt", "train": "TrainSplit.txt"}
BARE = "sequence"
POSE_FILE = re.compile(r"(frame-(\d+))\.pose\.txt")
COLOUR_FILE = re.compile(r"(frame-\d+)\.color\.(?:png|jpg)")


def parts(root: Path) -> list[str]:
    """`heads/test`, `heads/train`, … of the scenes that are there, or `sequence` for a bare one."""
    if next(root.glob("frame-*.pose.txt"), None):
        return [BARE]
    splits = (
        f"{path.parent.name}/{split}" for split, name in SPLITS.items() for path in root.glob(f"*/{name}")
    )
    return sorted(splits)


def read(root: Path, part: str, *, missing_images: MissingImages = "warn") -> Places:
    """One split of a scene, frame by frame.

    A pose with NaN or infinite numbers means that tracking was lost: such frames are dropped and counted (the
    released sets have none). A finite pose that is not a rotation is an error.
    """
    there = parts(root)
    if part not in there:
        raise unknown_part(root, part, "7Scenes", "7scenes", there)
    frames, dropped = _frames(root, part)
    matrices = np.array([_matrix(root / f) for f in frames["pose_file"]]).reshape(-1, 4, 4)
    tracked = np.isfinite(matrices).all(axis=(1, 2))
    frames, matrices = frames[tracked].reset_index(drop=True), matrices[tracked]
    skewed = not_rotations(matrices[:, :3, :3])
    if len(skewed):
        raise InputError(
            f"{root / frames['pose_file'][skewed[0]]}: the 3x3 part of the matrix is not a rotation"
        )
    poses = pose_columns(matrices[:, :3, 3], quaternions(matrices[:, :3, :3]), FRAME)
    depth = camera(root, part)
    views = {"fov": COLOUR.view, "depth_fov": depth.view}
    table = frames.drop(columns="pose_file").assign(**poses, **views)
    no_depth = int(table["depth"].isna().sum())
    return Places.build(
        root,
        table,
        source=root / part if part != BARE else root,
        dropped={**dropped, "tracking lost": int((~tracked).sum())},
        notes=(f"{no_depth} of {len(table)} frames have no depth image",) if no_depth else (),
        missing_images=missing_images,
    )


def intrinsics(root: Path, part: str) -> NDArray[np.float64]:
    """(3, 3) calibration matrix: `camera-intrinsics.txt` of the sequence or scene, else the Kinect's."""
    folder = root if part == BARE else root / part.split("/")[0]
    path = folder / "camera-intrinsics.txt"
    if not path.is_file():
        return KINECT.matrix
    return _numbers(path, (3, 3))


def camera(root: Path, part: str) -> Camera:
    """The depth camera of a scene or of a bare sequence."""
    matrix = intrinsics(root, part)
    return Camera(KINECT.width, KINECT.height, matrix[0, 0], matrix[1, 1], matrix[0, 2], matrix[1, 2])


def photo_sets(root: Path, *, missing_images: MissingImages = "warn") -> Iterator[PhotoSet]:
    """All pairs of each scene's training set, and test × train, held out."""
    there = parts(root)
    for part in there:
        scene, _, split = part.partition("/")
        if split not in ("train", ""):
            continue
        train, lens = read(root, part, missing_images=missing_images), camera(root, part)
        yield PhotoSet(f"{scene}-train" if split else scene, train, train, camera=lens)
        if f"{scene}/test" in there:
            test = read(root, f"{scene}/test", missing_images=missing_images)
            yield PhotoSet(f"{scene}-test", test, train, held_out=True, camera=lens)


def missing(root: Path) -> list[str]:
    """Scenes, split lists and sequences that a complete copy has and this one lacks."""
    there = parts(root)
    if not there or there == [BARE]:
        return []
    lacking = []
    for scene in SCENES:
        if not (root / scene).is_dir():
            lacking.append(scene)
            continue
        for name in SPLITS.values():
            listing = root / scene / name
            folders = _sequences(listing) if listing.is_file() else []
            lacking += [] if listing.is_file() else [f"{scene}/{name}"]
            lacking += [f"{scene}/{f}" for f in folders if not (root / scene / f).is_dir()]
    return lacking


def _sequences(listing: Path) -> list[str]:
    """`sequence1` in a split list is the folder seq-01."""
    folders = []
    with open_text(listing) as file:
        for number, line in enumerate(file, start=1):
            found = re.fullmatch(r"(?:sequence|seq-?)(\d+)", line.strip())
            if line.strip() and not found:
                raise InputError(f"{listing} line {number}: {line.strip()!r} is not of the form sequence1")
            folders += [f"seq-{int(found[1]):02d}"] if found else []
    return folders


def _frames(root: Path, part: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """image, depth, sequence, frame, split and pose file of each frame with a pose, in order."""
    if part == BARE:
        folders, split = {"": root.resolve().name}, {}
    else:
        scene, name = part.split("/")
        folders, split = (
            {f"{scene}/{s}/": s for s in _sequences(root / scene / SPLITS[name])},
            {"split": name},
        )
    rows: list[dict[str, Any]] = []
    without_pose = 0
    for folder, sequence in folders.items():
        if not (root / folder).is_dir():
            packed = (
                f"; unpack {folder.rstrip('/')}.zip" if (root / f"{folder.rstrip('/')}.zip").is_file() else ""
            )
            raise InputError(f"{root / folder}: no such folder, though {part} lists {sequence}{packed}")
        found, lacking = _frames_in(root, folder)
        rows += [{**row, "sequence": sequence, **split} for row in found]
        without_pose += lacking
    columns = ["image", "depth", "frame", "pose_file", "sequence", *split]
    return pd.DataFrame(rows, columns=columns), {"frame without a pose file": without_pose}


def _frames_in(root: Path, folder: str) -> tuple[list[dict[str, Any]], int]:
    """Frames with a pose in one folder, and how many have a colour image only."""
    files = set(os.listdir(root / folder))
    poses = sorted(found.groups() for found in map(POSE_FILE.fullmatch, files) if found)
    coloured = {found[1] for found in map(COLOUR_FILE.fullmatch, files) if found}
    rows = []
    for stem, number in poses:
        colour = (
            f"{stem}.color.jpg"
            if f"{stem}.color.jpg" in files and f"{stem}.color.png" not in files
            else f"{stem}.color.png"
        )
        depth = f"{folder}{stem}.depth.png" if f"{stem}.depth.png" in files else None
        rows.append(
            {
                "image": f"{folder}{colour}",
                "depth": depth,
                "frame": int(number),
                "pose_file": f"{folder}{stem}.pose.txt",
            }
        )
    return rows, len(coloured - {stem for stem, _ in poses})


def _matrix(path: Path) -> NDArray[np.float64]:
    matrix = _numbers(path, (4, 4))
    if np.isfinite(matrix).all() and not np.allclose(matrix[3], (0.0, 0.0, 0.0, 1.0), atol=1e-6):
        raise InputError(
            f"{path} line 4: the last row of a pose is 0 0 0 1, not {' '.join(f'{v:g}' for v in matrix[3])}"
        )
    return matrix


def _numbers(path: Path, shape: tuple[int, int]) -> NDArray[np.float64]:
    with open_text(path) as file:
        words = [(number, word) for number, line in enumerate(file, start=1) for word in line.split()]
    rows, columns = shape
    if len(words) != rows * columns:
        line = words[-1][0] if words else 1
        raise InputError(
            f"{path} line {line}: {len(words)} numbers, not the {rows * columns} of a {rows}x{columns} matrix"
        )
    values = []
    for line, word in words:
        try:
            values.append(float(word))
        except ValueError:
            raise InputError(f"{path} line {line}: {word!r} is not a number") from None
    return np.array(values).reshape(shape)
