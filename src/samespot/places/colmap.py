"""A COLMAP reconstruction, text or binary: where its cameras stand, how they see, and the points they saw."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.camera import DISTORTION, Camera, camera_columns
from samespot.places.catalogue import MissingImages
from samespot.places.pose import PoseFrame, inverse_poses, not_unit, pose_columns, rotation_matrices
from samespot.places.pose_files import open_text
from samespot.places.table import Places
from samespot.places.wording import first_few, unknown_part

LAYOUT = """\
project/
  images/<name>                         as named in the model
  sparse/0/cameras.{bin,txt}            the folder may also be sparse/, <place>/sparse/ or the project itself
           images.{bin,txt}
           points3D.{bin,txt}
"""
# A reconstruction's world is arbitrary: turned, shifted and scaled at will. Only a model aligned to positions
# (COLMAP's model_aligner, ENU) has x east, y north, z up in metres, and for such a one this default is right.
FRAME = PoseFrame(up=(0.0, 0.0, 1.0), north=(0.0, 1.0, 0.0))
# Model id on disk is the position here. Name, focal lengths, distortion parameters: on disk the focal lengths
# come first, then the principal point, then the distortion.
MODELS = (
    ("SIMPLE_PINHOLE", 1, 0),
    ("PINHOLE", 2, 0),
    ("SIMPLE_RADIAL", 1, 1),
    ("RADIAL", 1, 2),
    ("OPENCV", 2, 4),
    ("OPENCV_FISHEYE", 2, 4),
    ("FULL_OPENCV", 2, 8),
    ("FOV", 2, 1),
    ("SIMPLE_RADIAL_FISHEYE", 1, 1),
    ("RADIAL_FISHEYE", 1, 2),
    ("THIN_PRISM_FISHEYE", 2, 8),
    ("RAD_TAN_THIN_PRISM_FISHEYE", 2, 12),
    ("SIMPLE_DIVISION", 1, 1),
    ("DIVISION", 2, 1),
    ("SIMPLE_FISHEYE", 1, 0),
    ("FISHEYE", 2, 0),
    ("EUCM", 2, 2),
    ("EQUIRECTANGULAR", 0, 0),  # a full panorama: its two parameters repeat width and height
)
SUFFIXES = (".bin", ".txt")  # COLMAP itself prefers the binary file where both are there
WHERE = (".", "sparse", "sparse/*", "*", "*/sparse", "*/sparse/*")
PANORAMA = "EQUIRECTANGULAR"
# Lenses that bend the view so much that no pinhole comes near; FOV and EUCM are fisheye models too.
FISHEYE = frozenset({"FOV", "EUCM", *(name for name, *_ in MODELS if name.endswith("FISHEYE"))})
UNDISTORT = "undistort the images first: colmap image_undistorter"
LARGEST = 2**63  # no number of a model comes near
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Images:
    """The posed images of a model: centres (n, 3) and camera-to-world quaternions (n, 4), qw first."""

    source: Path
    ids: Ints
    names: list[str]
    camera_ids: Ints
    centres: Floats
    quaternions: Floats
    observed: list[Ints] | None = (
        None  # for each image the ids of the points it saw, where they were asked for
    )


@dataclass(frozen=True)
class Points:
    """The points of a model: ids (n,), xyz (n, 3) in its world, rgb (n, 3) from 0 to 255."""

    ids: Ints
    xyz: Floats
    rgb: NDArray[np.uint8]


@dataclass(frozen=True)
class _Lens:
    """A camera as stored: its model's name, size [px] and parameters."""

    model: str
    width: int
    height: int
    parameters: tuple[float, ...]


def parts(root: Path) -> list[str]:
    """Folders below root that hold a model, as paths relative to it (`.` is root itself)."""
    folders = {folder for pattern in WHERE for folder in ([root] if pattern == "." else root.glob(pattern))}
    return sorted(folder.relative_to(root).as_posix() for folder in folders if is_model(folder))


def read(
    root: Path,
    part: str,
    *,
    missing_images: MissingImages = "warn",
    frame: PoseFrame = FRAME,
    images: str | None = None,
) -> Places:
    """The posed images of one model, with the column `camera_id`.

    `frame` says how the model's world lies on the ground. `images` is the folder of the images relative to
    root; by default the nearest `images` folder at or above the model, else root.
    """
    there = parts(root)
    if part not in there:
        raise unknown_part(root, part, "a COLMAP project", "colmap", there)
    model = read_images(root / part)
    lenses = _lenses(root / part)
    unknown = np.flatnonzero(~np.isin(model.camera_ids, list(lenses)))
    if len(unknown):
        row = unknown[0]
        raise InputError(
            f"{model.source}: image {model.names[row]} has camera {model.camera_ids[row]}, "
            f"which is not among the {len(lenses)} cameras of the model"
        )
    folder = _image_folder(root, part) if images is None else images.strip("/")
    columns = {
        "image": [f"{folder}/{name}" if folder not in ("", ".") else name for name in model.names],
        **pose_columns(model.centres, model.quaternions, frame),
        "camera_id": model.camera_ids,
        **_camera_columns(model.camera_ids, lenses),
    }
    panoramas = [i for i, lens in lenses.items() if lens.model == PANORAMA]
    if panoramas:
        columns["pano"] = np.isin(model.camera_ids, panoramas)
    notes = (*_tilt_note(model.quaternions, frame), *_lens_note(root / part, lenses))
    return Places.build(root, columns, source=model.source, notes=notes, missing_images=missing_images)


def missing(root: Path) -> list[str]:
    """Models without their points, which 3D overlap needs."""
    return [f"{part}/points3D.bin or .txt" for part in parts(root) if not _file(root / part, "points3D")]


def is_model(folder: Path) -> bool:
    """Whether the folder holds cameras and images of a model."""
    return folder.is_dir() and all(_file(folder, name) for name in ("cameras", "images"))


def read_cameras(folder: Path) -> dict[int, Camera]:
    """Camera id to pinhole camera, without the distortion of those that `distorted` names.

    A fisheye lens or a panorama has no such camera and is an error.
    """
    return {i: _pinhole(folder, i, lens) for i, lens in _lenses(folder).items()}


def distorted(folder: Path) -> list[str]:
    """The cameras that `read_cameras` takes for pinholes though their lens distorts, as `5 SIMPLE_RADIAL`."""
    return _distorted(_lenses(folder))


def read_images(folder: Path, *, observed: bool = False) -> Images:
    """The posed images; `observed=True` also takes the ids of the points that each image saw."""
    path = _needed(folder, "images")
    return _images_binary(path, observed) if path.suffix == ".bin" else _images_text(path, observed)


def read_points(folder: Path) -> Points:
    """The points of the model, in the order of the file."""
    path = _needed(folder, "points3D")
    return _points_binary(path) if path.suffix == ".bin" else _points_text(path)


def _file(folder: Path, name: str) -> Path | None:
    return next((folder / f"{name}{s}" for s in SUFFIXES if (folder / f"{name}{s}").is_file()), None)


def _needed(folder: Path, name: str) -> Path:
    path = _file(folder, name)
    if path is None:
        raise InputError(f"{folder}: no {name}.bin and no {name}.txt; is it the folder of a COLMAP model?")
    return path


def _image_folder(root: Path, part: str) -> str:
    folder = root / part
    for above in (folder, *folder.parents):
        if (above / "images").is_dir():
            return (above / "images").relative_to(root).as_posix()
        if above == root:
            break
    return ""


def _tilt_note(quaternions: Floats, frame: PoseFrame) -> tuple[str, ...]:
    """Most cameras are held level, so an images' mean up far from the frame's tells of an unaligned model."""
    if not len(quaternions):
        return ()
    up = -rotation_matrices(quaternions)[:, :, 1].mean(axis=0)
    if up @ np.asarray(frame.up) >= np.cos(np.pi / 4) * np.linalg.norm(up):
        return ()
    mean = ", ".join(f"{v:.2f}" for v in np.round(up / np.linalg.norm(up), 2) + 0.0)  # + 0.0: no -0.00
    return (
        f"the images' mean up is ({mean}) in the model's world, not near the assumed {frame.up}: "
        "eastings, northings and headings mean little until you align the model or pass a frame",
    )


# --- cameras ---


def _distorted(lenses: dict[int, _Lens]) -> list[str]:
    extra = {name: count for name, _, count in MODELS if name not in FISHEYE}
    return [
        f"{i} {lens.model}"
        for i, lens in lenses.items()
        if (count := extra.get(lens.model, 0)) and any(lens.parameters[-count:])
    ]


def _lens_note(folder: Path, lenses: dict[int, _Lens]) -> tuple[str, ...]:
    bent = _distorted(lenses)
    if not bent:
        return ()
    which = f"{len(bent)} of {len(lenses)} cameras distort ({first_few(bent)})"
    return (f"{folder}: {which}; 3D labels take them for pinholes, so {UNDISTORT}",)


def _lenses(folder: Path) -> dict[int, _Lens]:
    path = _needed(folder, "cameras")
    return _lenses_binary(path) if path.suffix == ".bin" else _lenses_text(path)


def _parameter_count(focals: int, extra: int) -> int:
    """The two besides are the principal point, or the size of a panorama."""
    return focals + 2 + extra


def _pinhole(folder: Path, camera_id: int, lens: _Lens) -> Camera:
    focals = next(focals for name, focals, _ in MODELS if name == lens.model)
    if not focals:
        raise InputError(
            f"{folder}: camera {camera_id} is {lens.model}: a panorama, which no pinhole camera stands for"
        )
    if lens.model in FISHEYE:
        raise InputError(
            f"{folder}: camera {camera_id} is {lens.model}: a fisheye, for which no pinhole camera stands;"
            f" {UNDISTORT}"
        )
    fx, fy = lens.parameters[0], lens.parameters[focals - 1]
    cx, cy = lens.parameters[focals : focals + 2]
    return Camera(lens.width, lens.height, fx, fy, cx, cy)


def _camera_columns(camera_ids: Ints, lenses: dict[int, _Lens]) -> dict[str, Floats]:
    """The columns of a table that tell the camera of each image; NaN of lenses that they cannot tell."""
    told = {str(number): camera for number, lens in lenses.items() if (camera := _camera(lens)) is not None}
    return camera_columns((str(number) for number in camera_ids), told)


def _camera(lens: _Lens) -> Camera | None:
    """With its distortion; None of a lens that takes more than k1, k2, p1 and p2."""
    focals, extra = next((focals, extra) for name, focals, extra in MODELS if name == lens.model)
    bent = {"SIMPLE_RADIAL": ("k1",), "RADIAL": ("k1", "k2"), "OPENCV": DISTORTION}
    if not focals or lens.model in FISHEYE or (extra and lens.model not in bent):
        return None
    told = dict(zip(bent.get(lens.model, ()), lens.parameters[focals + 2 :], strict=True))
    k1, k2, p1, p2 = (told.get(name, 0.0) for name in DISTORTION)
    fx, fy = lens.parameters[0], lens.parameters[focals - 1]
    cx, cy = lens.parameters[focals : focals + 2]
    return Camera(lens.width, lens.height, fx, fy, cx, cy, (k1, k2, p1, p2))


def _lenses_binary(path: Path) -> dict[int, _Lens]:
    lenses: dict[int, _Lens] = {}
    data = _Binary(path)
    for _ in range(data.count):
        camera_id, model, width, height = data.take("<IiQQ")
        if not 0 <= model < len(MODELS):
            raise InputError(
                f"{path}: camera {camera_id} has the unknown model id {model}; known: 0 to {len(MODELS) - 1}"
            )
        name, focals, extra = MODELS[model]
        parameters = data.take(f"<{_parameter_count(focals, extra)}d")
        lenses[camera_id] = _Lens(name, width, height, parameters)
    data.finish()
    return lenses


def _lenses_text(path: Path) -> dict[int, _Lens]:
    known = {name: _parameter_count(focals, extra) for name, focals, extra in MODELS}
    lenses: dict[int, _Lens] = {}
    text = _Text(path)
    for number, line in text.records():
        words = line.split()
        if len(words) < 4:
            raise InputError(
                f"{path} line {number}: a camera is CAMERA_ID MODEL WIDTH HEIGHT PARAMETERS, not {line!r}"
            )
        if words[1] not in known:
            raise InputError(f"{path} line {number}: unknown camera model {words[1]!r}")
        if len(words) - 4 != known[words[1]]:
            raise InputError(
                f"{path} line {number}: {words[1]} has {known[words[1]]} parameters, not {len(words) - 4}"
            )
        values = text.floats(number, words[4:])
        camera_id, width, height = text.ints(number, [words[0], words[2], words[3]])
        lenses[camera_id] = _Lens(words[1], width, height, tuple(values))
    text.check_count("cameras", len(lenses))
    return lenses


# --- images ---


def _images(
    path: Path,
    ids: list[int],
    names: list[str],
    cameras: list[int],
    stored: Floats,
    observed: list[Ints] | None,
) -> Images:
    """From the stored world-to-camera quaternions and translations (n, 7) to centres and camera-to-world."""
    length = np.linalg.norm(stored[:, :4], axis=1)
    bad = np.union1d(np.flatnonzero(~np.isfinite(stored).all(axis=1)), not_unit(stored[:, :4]))
    if len(bad):
        finite = np.isfinite(stored[bad[0]]).all()
        fault = f"a quaternion of length {length[bad[0]]:.3g}" if finite else "a number that is not finite"
        raise InputError(f"{path}: image {names[bad[0]]} has no valid pose ({fault}); export the model again")
    centres, rotations = inverse_poses(stored[:, 4:], stored[:, :4])
    as_array = np.asarray(ids, dtype=np.int64), np.asarray(cameras, dtype=np.int64)
    return Images(path, as_array[0], names, as_array[1], centres, rotations, observed)


def _images_binary(path: Path, observed: bool) -> Images:
    ids, names, cameras, poses = [], [], [], []
    seen: list[Ints] = []
    keypoint = np.dtype([("x", "<f8"), ("y", "<f8"), ("point", "<i8")])
    data = _Binary(path)
    for _ in range(data.count):
        image_id, *pose, camera_id = data.take("<I7dI")
        ids.append(image_id)
        poses.append(pose)
        cameras.append(camera_id)
        names.append(data.take_name())
        (count,) = data.take("<Q")
        points = data.take_array(keypoint, count)
        if observed:
            seen.append(np.unique(points["point"][points["point"] >= 0]))
    data.finish()
    return _images(path, ids, names, cameras, np.array(poses).reshape(-1, 7), seen if observed else None)


def _images_text(path: Path, observed: bool) -> Images:
    """Two lines an image: the pose, then its keypoints, a line that may be empty."""
    ids, names, cameras, poses = [], [], [], []
    seen: list[Ints] = []
    text = _Text(path)
    for number, line, points in text.record_pairs():
        words = line.split(maxsplit=9)
        if len(words) != 10:
            raise InputError(
                f"{path} line {number}: an image is ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, not {line[:60]!r}"
            )
        image_id, camera_id = text.ints(number, [words[0], words[8]])
        ids.append(image_id)
        cameras.append(camera_id)
        names.append(words[9])
        poses.append(text.floats(number, words[1:8]))
        fields = points.split()
        if len(fields) % 3:
            raise InputError(
                f"{path} line {number + 1}: the keypoints of {words[9]} are not triples X Y POINT3D_ID"
            )
        if observed:
            points_seen = np.unique(np.array(text.ints(number + 1, fields[2::3]), dtype=np.int64))
            seen.append(points_seen[points_seen >= 0])
    text.check_count("images", len(names))
    return _images(path, ids, names, cameras, np.array(poses).reshape(-1, 7), seen if observed else None)


# --- points ---


def _points_binary(path: Path) -> Points:
    """Records differ in length by their tracks: one pass finds where each starts, numpy takes the rest."""
    head = np.dtype([("id", "<i8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8"), ("track", "<u8")])
    track_at, element = head.fields["track"][1], 8  # type: ignore[index]
    data = _Binary(path)
    starts = np.empty(data.count, dtype=np.int64)
    length_of = struct.Struct("<Q").unpack_from
    at, size, view = data.at, data.size, data.view
    for row in range(data.count):
        starts[row] = at
        if at + head.itemsize > size:
            raise data.truncated()
        at += head.itemsize + element * length_of(view, at + track_at)[0]
    data.at = at
    data.finish()
    everything = np.frombuffer(view, dtype=np.uint8)
    records = everything[starts[:, None] + np.arange(head.itemsize)].reshape(-1).view(head)
    return Points(records["id"].astype(np.int64), records["xyz"].astype(np.float64), records["rgb"].copy())


def _points_text(path: Path) -> Points:
    ids, values = [], []
    text = _Text(path)
    for number, line in text.records():
        words = line.split(maxsplit=8)
        if len(words) < 8:
            raise InputError(
                f"{path} line {number}: a point is ID X Y Z R G B ERROR TRACK, not {line[:60]!r}"
            )
        ids += text.ints(number, words[:1])
        values.append(text.floats(number, words[1:7]))
    text.check_count("points", len(ids))
    table = np.array(values).reshape(-1, 6)
    return Points(np.array(ids, dtype=np.int64), table[:, :3].copy(), table[:, 3:].astype(np.uint8))


# --- the two kinds of file ---


class _Text:
    """A COLMAP text file: `#` comments, one of which announces how many records there are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.announced: int | None = None

    def _lines(self) -> Iterator[tuple[int, str]]:
        with open_text(self.path) as file:
            for number, line in enumerate(file, start=1):
                if line.startswith("#"):
                    found = re.match(r"# Number of \w+: (\d+)", line)
                    self.announced = int(found[1]) if found else self.announced
                else:
                    yield number, line.rstrip("\r\n")

    def records(self) -> Iterator[tuple[int, str]]:
        return ((number, line) for number, line in self._lines() if line.strip())

    def record_pairs(self) -> Iterator[tuple[int, str, str]]:
        lines = self._lines()
        for number, line in lines:
            if line.strip():  # the line after it belongs to it even if it is empty
                yield number, line, next(lines, (0, ""))[1]

    def check_count(self, what: str, found: int) -> None:
        if self.announced is not None and self.announced != found:
            raise InputError(
                f"{self.path}: {self.announced} {what} announced, {found} found; export the model again"
            )

    def floats(self, number: int, words: list[str]) -> list[float]:
        return [self._number(float, number, word, "a finite number") for word in words]

    def ints(self, number: int, words: list[str]) -> list[int]:
        return [self._number(int, number, word, "a whole number") for word in words]

    def _number(self, kind: type, number: int, word: str, wanted: str) -> Any:
        try:
            value = kind(word)
            if abs(value) < LARGEST:  # not so of NaN
                return value
        except ValueError:
            pass
        raise InputError(f"{self.path} line {number}: {word!r} is not {wanted}; export the model again")


class _Binary:
    """A COLMAP binary file: a 64 bit count, then that many records, little endian, without padding."""

    def __init__(self, path: Path) -> None:
        self.path, self.at, self.count = path, 0, 0
        try:
            with path.open("rb") as file:
                whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
        self.view: mmap.mmap | bytes = whole
        self.size = len(whole)
        (self.count,) = self.take("<Q")
        if self.count > self.size:  # every record takes more than a byte
            raise self.truncated()

    def take(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize(form)
        self._ensure(size)
        values = struct.unpack_from(form, self.view, self.at)
        self.at += size
        return values

    def take_array(self, dtype: np.dtype[np.void], count: int) -> NDArray[np.void]:
        self._ensure(dtype.itemsize * count)
        array = np.frombuffer(self.view, dtype=dtype, count=count, offset=self.at)
        self.at += dtype.itemsize * count
        return array

    def take_name(self) -> str:
        end = self.view.find(b"\0", self.at)
        if end < 0:
            raise self.truncated()
        name = bytes(self.view[self.at : end]).decode("utf-8", errors="replace")
        self.at = end + 1
        return name

    def finish(self) -> None:
        if self.at > self.size:
            raise self.truncated()
        if self.at < self.size:
            raise InputError(
                f"{self.path}: {self.size - self.at} bytes follow the {self.count} records announced; "
                "is it a COLMAP file?"
            )

    def truncated(self) -> InputError:
        return InputError(
            f"{self.path}: cut short: its {self.size} bytes end inside the {self.count} records announced; "
            "copy it again"
        )

    def _ensure(self, size: int) -> None:
        if self.at + size > self.size:
            raise self.truncated()
