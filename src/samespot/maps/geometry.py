"""What a map knows in three dimensions: of each keypoint where it is, as the photo's camera sees it.

    points.npy        (k, 3) float32    keypoints of all photos, one photo after the other [m]; NaN: not known
    point_starts.npy  (n + 1,) int64    where each photo begins, and where the last one ends
    point_keys.npy    (n, 16) uint8     what the points of each photo come from: where that is as before, they are kept

They come from depth images, or from photos of known pose that show the same things (`samespot.poses`).
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, eq=False)
class Points:
    """Keypoints of a map in three dimensions, mapped into memory."""

    folder: Path

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.asarray(np.load(self.folder / STARTS, allow_pickle=False))

    @cached_property
    def _xyz(self) -> NDArray[np.float32]:
        return np.asarray(np.load(self.folder / POINTS, mmap_mode="r", allow_pickle=False))

    def __call__(self, row: int) -> NDArray[np.float32]:
        """(n, 3) in the coordinates of the camera of this photo."""
        return self._xyz[self._starts[row] : self._starts[row + 1]]

    def kept(self) -> dict[bytes, int]:
        """By key, the row."""
        keys = np.load(self.folder / KEYS, allow_pickle=False)
        return {key.tobytes(): row for row, key in enumerate(keys)}


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
    old: Points | None,
    tell: Progress,
) -> dict[str, Any]:
    """Write the points of all photos into the folder; what meta.json says of them. roots: of each photo's source."""
    seen = [keypoints(row) for row in range(len(places))]
    cameras = [
        None if one is None else camera_of(places.table, row, one.size) for row, one in enumerate(seen)
    ]
    posed = np.isfinite(np.hstack([places.centres, places.quaternions])).all(axis=1)
    usable = posed & np.array([one is not None for one in cameras])
    points = [np.full((0 if one is None else len(one), 3), np.nan, dtype=np.float32) for one in seen]
    keys = np.zeros((len(places), KEY), dtype=np.uint8)
    if kind == "depth":
        _by_depth(places, roots, seen, cameras, usable & _with_depth(places), points, keys, old, tell)
    else:
        from samespot.poses.triangulation import triangulated

        rows = np.flatnonzero(usable)
        lenses = [one for one in cameras if one is not None]
        some = [seen[row] for row in rows]
        made = triangulated(
            places.centres[rows],
            places.quaternions[rows],
            [one for one in some if one is not None],
            [cameras[row] or lenses[0] for row in rows],
            match,
            tell,
        )
        for row, one in zip(rows, made, strict=True):
            points[row] = one
    np.save(here / POINTS, np.concatenate(points), allow_pickle=False)
    np.save(here / STARTS, np.concatenate([[0], np.cumsum([len(one) for one in points])]), allow_pickle=False)
    np.save(here / KEYS, keys, allow_pickle=False)
    known = [int(np.isfinite(one[:, 2]).sum()) for one in points]
    return {"kind": kind, "photos": sum(count > 0 for count in known), "points": sum(known)}


def _by_depth(
    places: Places,
    roots: Sequence[Path],
    seen: Sequence[Keypoints | None],
    cameras: Sequence[Camera | None],
    usable: NDArray[np.bool_],
    points: list[NDArray[np.float32]],
    keys: NDArray[np.uint8],
    old: Points | None,
    tell: Progress,
) -> None:
    """Fill in the points and keys of the usable photos."""
    from samespot.overlap.cloud import read_depth
    from samespot.poses.lifting import depth_camera_of, lifted, pixels_of

    kept = {} if old is None else old.kept()
    tick = counting(tell, "reading depth", int(usable.sum()))
    for row in np.flatnonzero(usable).tolist():
        photo, lens, path = seen[row], cameras[row], roots[row] / str(places.table[DEPTH].iloc[row])
        assert photo is not None
        assert lens is not None
        tick(1)
        seen_by = depth_camera_of(places.table, row, lens)
        try:
            stat = path.stat()
            told = f"{lens} {seen_by} {path} {stat.st_size} {stat.st_mtime_ns}"
            key = hashlib.blake2b(photo.xy.tobytes() + told.encode(), digest_size=KEY).digest()
            if old is not None and key in kept:
                points[row] = np.array(old(kept[key]))
            else:
                points[row] = lifted(pixels_of(photo), lens, read_depth(path), seen_by)
            keys[row] = np.frombuffer(key, np.uint8)
        except (OSError, InputError):
            continue  # a photo without depth may still be found


def poses_of(geometry: dict[str, Any] | None) -> str:
    """Which poses a map can give, in a word."""
    return "6dof" if geometry is not None and geometry.get("kind") else "ground"
