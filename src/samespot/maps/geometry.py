"""What a map knows in three dimensions: of each keypoint where it is, as the photo's camera sees it.

    points.npy        (k, 3) float32    keypoints of all photos, one photo after the other [m]; NaN: not known
    point_starts.npy  (n + 1,) int64    where each photo begins, and where the last one ends
    point_keys.npy    (n, 16) uint8     what the points of each photo come from: where that is as before, they are kept

They come from depth images, or from photos of known pose that show the same things (`samespot.poses`).
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import read_npy, save_array
from samespot.errors import InputError
from samespot.maps.options import Geometry
from samespot.matching.keypoints import Keypoints
from samespot.places.camera import CAMERA, FOV, Camera, camera_of
from samespot.places.table import Places
from samespot.progress import Progress, counting

POINTS, STARTS, KEYS = "points.npy", "point_starts.npy", "point_keys.npy"
DEPTH = "depth"  # column: file of the depth image
MOST_ALONE = 5000  # photos whose keypoints are triangulated without being asked for
KEY = 16  # bytes
Kind = Literal["depth", "triangulate"]
_Made = tuple[int, NDArray[np.float32]]  # row of a photo, and its points


@dataclass(frozen=True, eq=False)
class Points:
    """Keypoints of a map in three dimensions, mapped into memory; see the head of this module."""

    xyz: NDArray[np.float32]
    starts: NDArray[np.int64]
    keys: NDArray[np.uint8]

    @classmethod
    def open(cls, folder: Path, advice: str) -> Points:
        """advice: what to do where a file is damaged."""
        points = cls(*(np.asarray(read_npy(folder / name, advice)) for name in (POINTS, STARTS, KEYS)))
        for name, array, kind, shape in (
            (POINTS, points.xyz, np.float32, (3,)),
            (STARTS, points.starts, np.int64, ()),
            (KEYS, points.keys, np.uint8, (KEY,)),
        ):
            if array.dtype != kind or array.ndim != len(shape) + 1 or array.shape[1:] != shape:
                raise InputError(f"{folder / name}: is damaged; {advice}")
        lengths, ends = np.diff(points.starts), points.starts[[0, -1]].tolist() if len(points.starts) else []
        if len(lengths) != len(points.keys) or ends != [0, len(points.xyz)] or (lengths < 0).any():
            raise InputError(f"{folder / STARTS}: is damaged; {advice}")
        return points

    def __call__(self, row: int) -> NDArray[np.float32]:
        """(n, 3) in the coordinates of the camera of this photo."""
        return self.xyz[self.starts[row] : self.starts[row + 1]]

    def kept(self) -> dict[bytes, int]:
        """By key, the row."""
        return {key.tobytes(): row for row, key in enumerate(self.keys)}


def kind_for(asked: Geometry, places: Places, verified: bool) -> tuple[Kind | None, str]:
    """Where the points of a map come from; else None, and why it has none."""
    if asked == "none":
        return None, "it was asked not to"
    why, known = _lacking(places, verified), _with_depth(places)
    if why is None and asked == "depth" and not known.any():
        why = "no photo has a depth image (a column depth)"
    if why is not None:
        if asked != "auto":
            raise InputError(f"{places.root}: `geometry={asked}`: {why}")
        return None, why
    if asked != "auto":
        return asked, ""
    if known.any():
        return "depth", ""
    if len(places) > MOST_ALONE:
        return None, f"its {len(places):,} photos would take long; `geometry=triangulate` does it"
    if importlib.util.find_spec("pycolmap") is None:
        return None, "pycolmap is not installed: pip install 'samespot[pose]'"
    return "triangulate", ""


def _lacking(places: Places, verified: bool) -> str | None:
    """What a map needs for poses and this one does not have."""
    if not verified:
        return "it keeps no local features"
    if not places.has_pose or not np.isfinite(places.centres).all(axis=1).any():
        return "its photos have no 6DOF poses (columns tx ty tz qw qx qy qz)"
    if FOV not in places.table and not set(CAMERA) <= set(places.table.columns):
        return f"the cameras of its photos are not known (a column {FOV}, or {' '.join(CAMERA)})"
    return None


def _with_depth(places: Places) -> NDArray[np.bool_]:
    if DEPTH not in places.table:
        return np.zeros(len(places), dtype=bool)
    return np.asarray(places.table[DEPTH].notna().to_numpy(dtype=bool))


def write_points(
    kind: Kind,
    here: Path,
    places: Places,
    roots: Sequence[Path],
    keypoints: Callable[[int], Keypoints | None],
    match: Callable[[Keypoints, Keypoints], NDArray[np.int64]],
    matcher: str,
    old: Points | None,
    tell: Progress,
) -> dict[str, Any]:
    """Write the points of all photos into the folder; what meta.json says of them. roots: of each photo's source.
    matcher: all that `match` depends on. old: the points of the map before."""
    lengths = [0 if (seen := keypoints(row)) is None else len(seen) for row in range(len(places))]
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    save_array(here / STARTS, starts)
    keys = np.zeros((len(places), KEY), dtype=np.uint8)
    made = (
        _by_depth(places, roots, keypoints, keys, old, tell)
        if kind == "depth"
        else _by_poses(places, keypoints, match, matcher, keys, old, tell)
    )
    known = _written(here / POINTS, lengths, made)
    save_array(here / KEYS, keys)
    return {"kind": kind, "photos": int((known > 0).sum()), "points": int(known.sum())}


def _written(path: Path, lengths: Sequence[int], made: Iterable[_Made]) -> NDArray[np.int64]:
    """Write the points of photos, in ascending order, and NaN for the photos in between; how many each has.

    Not through a memory map: a full disk would end the process.
    """
    known, done = np.zeros(len(lengths), dtype=np.int64), 0
    with path.open("wb") as file:
        about = {"descr": "<f4", "fortran_order": False, "shape": (sum(lengths), 3)}
        np.lib.format.write_array_header_1_0(file, about)
        for row, xyz in made:
            assert len(xyz) == lengths[row]
            _write_unknown(file, lengths[done:row])
            file.write(np.ascontiguousarray(xyz, dtype=np.float32).tobytes())
            known[row], done = np.isfinite(xyz[:, 2]).sum(), row + 1
        _write_unknown(file, lengths[done:])
    return known


def _write_unknown(file: IO[bytes], lengths: Sequence[int]) -> None:
    for length in lengths:
        file.write(np.full((length, 3), np.nan, dtype=np.float32).tobytes())


def _posed(places: Places) -> NDArray[np.int64]:
    """Rows of the photos whose pose is known."""
    return np.flatnonzero(np.isfinite(np.hstack([places.centres, places.quaternions])).all(axis=1))


def _by_poses(
    places: Places,
    keypoints: Callable[[int], Keypoints | None],
    match: Callable[[Keypoints, Keypoints], NDArray[np.int64]],
    matcher: str,
    keys: NDArray[np.uint8],
    old: Points | None,
    tell: Progress,
) -> Iterator[_Made]:
    """By photos that show the same things; all keypoints are held in memory meanwhile. `keys` are filled in: of each
    photo that of them all, since its points come from all."""
    from samespot.poses.triangulation import triangulated

    rows, seen, cameras = list[int](), list[Keypoints](), list[Camera]()
    for row in _posed(places).tolist():
        one = keypoints(row)
        camera = None if one is None else camera_of(places.table, row, one.size)
        if one is not None and camera is not None:
            rows.append(row)
            seen.append(one)
            cameras.append(camera)
    poses = places.centres[rows], places.quaternions[rows]
    digest = hashlib.blake2b(f"{matcher} {rows} {cameras}".encode(), digest_size=KEY)
    for values in (*poses, *(part for one in seen for part in (one.xy, one.descriptors))):
        digest.update(np.ascontiguousarray(values).tobytes())
    keys[rows] = np.frombuffer(digest.digest(), np.uint8)
    if old is not None and rows and rows[-1] < len(old.keys) and (old.keys[rows] == keys[rows]).all():
        yield from ((row, np.array(old(row))) for row in rows)
        return
    yield from zip(rows, triangulated(*poses, seen, cameras, match, tell), strict=True)


def _by_depth(
    places: Places,
    roots: Sequence[Path],
    keypoints: Callable[[int], Keypoints | None],
    keys: NDArray[np.uint8],
    old: Points | None,
    tell: Progress,
) -> Iterator[_Made]:
    """By depth images, photo by photo; `keys` are filled in. What is as it was in the map before is not read again."""
    from samespot.overlap.cloud import read_depth
    from samespot.poses.lifting import depth_camera_of, lifted, pixels_of

    kept = {} if old is None else old.kept()
    deep = _with_depth(places)
    rows = [row for row in _posed(places).tolist() if deep[row]]
    tick = counting(tell, "reading depth", len(rows))
    for row in rows:
        tick(1)
        photo, path = keypoints(row), roots[row] / str(places.table[DEPTH].iloc[row])
        lens = None if photo is None else camera_of(places.table, row, photo.size)
        if photo is None or lens is None:
            continue
        seen_by = depth_camera_of(places.table, row, lens)
        try:
            stat = path.stat()
            told = f"{lens} {seen_by} {path} {stat.st_size} {stat.st_mtime_ns}"
            key = hashlib.blake2b(photo.xy.tobytes() + told.encode(), digest_size=KEY).digest()
            if old is not None and key in kept:
                made = np.array(old(kept[key]))
            else:
                made = lifted(pixels_of(photo), lens, read_depth(path), seen_by)
        except (OSError, InputError):
            continue  # a photo without depth may still be found
        keys[row] = np.frombuffer(key, np.uint8)
        yield row, made
