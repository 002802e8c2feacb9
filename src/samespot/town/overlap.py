"""True visual overlap: how much of what one photo shows the other shows too, by reprojecting depth.

Of photo A each pixel with a surface is put back into the world and looked for in photo B: it is shared if it falls
into the image and B's surface there is the same one. The overlap of the two is the mean of both directions, so it
is symmetric. Sky, and what lies beyond the depth images' reach, does not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.overlap.cloud import read_depth
from samespot.places.pose import rotation_matrices
from samespot.places.table import Places
from samespot.town.render import intrinsics_of

TOLERANCE = 0.04  # of the depth: two photos rarely hit a surface in the same point
STEP = 3  # every n-th pixel of every n-th row is looked for


@dataclass(frozen=True)
class Views:
    """What photos see: `depth` (n, h, w) float32 [m], 0 = nothing; centres (n, 3), camera-to-world `rotations`
    (n, 3, 3), `intrinsics` (n, 4) fx, fy, cx, cy [px]."""

    depth: NDArray[np.float32]
    centres: NDArray[np.float64]
    rotations: NDArray[np.float64]
    intrinsics: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.depth)

    @classmethod
    def make(
        cls, depth: ArrayLike, centres: ArrayLike, quaternions: ArrayLike, intrinsics: ArrayLike
    ) -> Views:
        """From arrays, as `render` takes and returns them."""
        near = np.array(np.nan_to_num(np.asarray(depth, dtype=np.float32), posinf=0.0), order="C")
        n = len(near)
        return cls(
            near,
            np.atleast_2d(np.array(centres, dtype=np.float64, order="C")),
            np.ascontiguousarray(rotation_matrices(quaternions)),
            np.array(np.broadcast_to(np.asarray(intrinsics, dtype=np.float64), (n, 4)), order="C"),
        )

    @classmethod
    def read(cls, places: Places) -> Views:
        """Of the photos of a town on disk, with their depth images."""
        for column in ("depth", "fov"):
            if column not in places.table or places.table[column].isna().any():
                raise InputError(
                    f"{places.root}: the column {column} is missing or has gaps; build the town with depth"
                )
        depth = np.stack([read_depth(places.root / name) for name in places.table["depth"]])
        h, w = depth.shape[1:]
        lens = np.stack([intrinsics_of(float(fov), (h, w)) for fov in places.table["fov"]])
        return cls.make(depth, places.centres, places.quaternions, lens)


def true_overlap(
    photos: Places | Views, pairs: ArrayLike, *, step: int = STEP, tolerance: float = TOLERANCE
) -> NDArray[np.float64]:
    """(m,) overlap in [0, 1] of the pairs (m, 2) of row numbers.

    The mean of the shares of A's pixels that B shows and of B's that A shows. `tolerance`: how far, as a share of
    the depth, a point may lie from the surface around the pixel it falls on. A photo of nothing but sky has 0.
    """
    views = photos if isinstance(photos, Views) else Views.read(photos)
    rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    if rows.size and (rows.min() < 0 or rows.max() >= len(views)):
        raise InputError(f"pairs name photos {rows.min()} to {rows.max()}, but there are {len(views)}")
    if step < 1:
        raise InputError(f"step {step}: give a whole number, at least 1")
    out = np.empty(len(rows))
    _overlaps(views.depth, views.centres, views.rotations, views.intrinsics, rows, step, tolerance, out)
    return out


@njit(cache=True, parallel=True, error_model="numpy")
def _overlaps(depth, centres, rotations, lenses, pairs, step, tolerance, out):  # type: ignore[no-untyped-def]
    for k in prange(len(pairs)):
        a, b = pairs[k, 0], pairs[k, 1]
        there = _share(depth, centres, rotations, lenses, a, b, step, tolerance)
        back = _share(depth, centres, rotations, lenses, b, a, step, tolerance)
        out[k] = 0.5 * (there + back)


@njit(cache=True, error_model="numpy")
def _share(depth, centres, rotations, lenses, a, b, step, tolerance):  # type: ignore[no-untyped-def]
    """Share of the pixels of photo a that photo b shows."""
    h, w = depth.shape[1], depth.shape[2]
    # from the camera of a to that of b: turn and shift
    turn, shift = np.empty((3, 3)), np.empty(3)
    for i in range(3):
        shift[i] = 0.0
        for k in range(3):
            shift[i] += rotations[b, k, i] * (centres[a, k] - centres[b, k])
        for j in range(3):
            turn[i, j] = 0.0
            for k in range(3):
                turn[i, j] += rotations[b, k, i] * rotations[a, k, j]
    ax, ay, au, av = lenses[a, 0], lenses[a, 1], lenses[a, 2], lenses[a, 3]
    bx, by, bu, bv = lenses[b, 0], lenses[b, 1], lenses[b, 2], lenses[b, 3]
    shown, shared = 0, 0
    for i in range(step // 2, h, step):
        for j in range(step // 2, w, step):
            z = np.float64(depth[a, i, j])
            if z <= 0.0:
                continue
            shown += 1
            x, y = (j + 0.5 - au) / ax * z, (i + 0.5 - av) / ay * z
            far = turn[2, 0] * x + turn[2, 1] * y + turn[2, 2] * z + shift[2]
            if far <= 0.05:
                continue
            u = bx * (turn[0, 0] * x + turn[0, 1] * y + turn[0, 2] * z + shift[0]) / far + bu
            v = by * (turn[1, 0] * x + turn[1, 1] * y + turn[1, 2] * z + shift[1]) / far + bv
            # a breath of slack: a point of the outermost pixels must not fall out by rounding
            if u >= -1e-6 and v >= -1e-6 and u < w + 1e-6 and v < h + 1e-6:
                shared += _met(depth, b, u, v, far, tolerance)
    return shared / shown if shown > 0 else 0.0


@njit(cache=True, error_model="numpy")
def _met(depth, b, u, v, far, tolerance):  # type: ignore[no-untyped-def]
    """1 if the surface around (u, v) reaches to the depth `far`.

    The four pixels around the point span a range of depths: on a slanted surface the point lies within it, behind
    something nearer it does not.
    """
    h, w = depth.shape[1], depth.shape[2]
    i, j = math.floor(v - 0.5), math.floor(u - 0.5)
    near, deep = 1e9, 0.0
    for ii in range(max(0, i), min(h, i + 2)):
        for jj in range(max(0, j), min(w, j + 2)):
            z = np.float64(depth[b, ii, jj])
            if z > 0.0:
                near, deep = min(near, z), max(deep, z)
    return 1 if deep > 0.0 and far >= near * (1.0 - tolerance) and far <= deep * (1.0 + tolerance) else 0
