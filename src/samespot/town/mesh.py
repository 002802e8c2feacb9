"""Polygons and blobs that the renderer draws, gathered into flat arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LEVELS = 6  # of a texture's pyramid


class Mesh(NamedTuple):
    """`n` flat convex polygons, `b` blobs (spheres of leaves), in objects that are in view or not as a whole."""

    corners: Floats  # (n, 4, 3), a triangle's last corner is not used
    sides: NDArray[np.int64]  # (n,) 3 or 4
    normal: Floats  # (n, 3) out of the front
    colour: NDArray[np.float32]  # (n, 3) reflectance, or tint of the texture
    texture: NDArray[np.int64]  # (n,) which texture, -1: none
    origin: Floats  # (n, 3) top left corner of the texture
    across: Floats  # (n, 3) texture columns a metre
    down: Floats  # (n, 3) texture rows a metre
    two_sided: NDArray[np.bool_]  # (n,)
    glow: NDArray[np.float32]  # (n,) share of the lamps' power that it emits
    blobs: Floats  # (b, 4) x, y, z, radius [m]
    blob_colour: NDArray[np.float32]  # (b, 3)
    blob_holes: NDArray[np.float32]  # (b,) share of the surface that one sees through
    objects: NDArray[np.int64]  # (o, 4) first polygon and one past the last, first blob and one past the last
    bounds: Floats  # (o, 4) centre and radius of a ball around each object


class Atlas(NamedTuple):
    """Textures with their pyramids in one run of bytes, 4 to a texel: red, green, blue, light."""

    texels: NDArray[np.uint8]  # (t, 4)
    places: NDArray[np.int64]  # (textures, LEVELS, 3) first texel, columns, rows


def _cross(a: Floats, b: Floats) -> Floats:
    """numpy's, for two vectors alone, in a tenth of its time."""
    (ax, ay, az), (bx, by, bz) = a.tolist(), b.tolist()
    return np.array([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])


class MeshBuilder:
    """Polygons and blobs one by one; `close` ends an object."""

    def __init__(self) -> None:
        self.polygons: list[tuple[Any, ...]] = []  # one entry a field of Mesh
        self.blobs: list[tuple[float, ...]] = []
        self.objects: list[tuple[int, int, int, int]] = []

    def polygon(
        self,
        points: ArrayLike,
        colour: tuple[float, ...] = (1.0, 1.0, 1.0),
        *,
        texture: int = -1,
        texel: float = 1.0,
        across: ArrayLike | None = None,
        origin: ArrayLike | None = None,
        two_sided: bool = False,
        glow: float = 0.0,
    ) -> None:
        """A polygon of 3 or 4 corners, counter-clockwise from outside. A texture's columns run along `across`
        (a unit vector; by default from the first corner to the second), its rows down from `origin` (by default
        above the first corner, as high as the highest)."""
        at = np.asarray(points, dtype=np.float64)
        normal = _cross(at[1] - at[0], at[2] - at[0])
        normal /= np.linalg.norm(normal)
        u = (at[1] - at[0]) / np.linalg.norm(at[1] - at[0]) if across is None else np.asarray(across, float)
        v = -_cross(normal, u)
        start = at[0] + v * ((at - at[0]) @ v).min() if origin is None else np.asarray(origin, float)
        four = at if len(at) == 4 else np.vstack([at, at[2:]])
        self.polygons.append(
            (four, len(at), normal, tuple(colour), texture, start, u / texel, v / texel, two_sided, glow)
        )

    def wall(
        self,
        a: ArrayLike,
        b: ArrayLike,
        low: float,
        high: float,
        colour: tuple[float, ...] = (1.0, 1.0, 1.0),
        **how: object,
    ) -> None:
        """An upright wall over the ground line from a to b, seen from its right."""
        (ax, ay), (bx, by) = np.asarray(a), np.asarray(b)
        self.polygon([(ax, ay, low), (bx, by, low), (bx, by, high), (ax, ay, high)], colour, **how)  # type: ignore[arg-type]

    def box(
        self,
        corners: Floats,
        low: float,
        high: float,
        colour: tuple[float, ...],
        *,
        top: tuple[float, ...] | None = None,
        glow: float = 0.0,
    ) -> None:
        """Upright walls over a counter-clockwise outline (4, 2), and a lid."""
        for k in range(len(corners)):
            self.wall(corners[k], corners[(k + 1) % len(corners)], low, high, colour, glow=glow)
        self.polygon(np.column_stack([corners, np.full(len(corners), high)]), top or colour, glow=glow)

    def blob(self, x: float, y: float, z: float, radius: float) -> None:
        self.blobs.append((x, y, z, radius))

    def close(self) -> None:
        """End an object: everything since the last one."""
        first, first_blob = (self.objects[-1][1], self.objects[-1][3]) if self.objects else (0, 0)
        if (first, first_blob) != (len(self.polygons), len(self.blobs)):
            self.objects.append((first, len(self.polygons), first_blob, len(self.blobs)))

    def build(self) -> Mesh:
        self.close()
        corners, sides, normal, colour, texture, origin, across, down, two_sided, glow = (
            zip(*self.polygons, strict=True) if self.polygons else ((),) * 10
        )
        blobs = np.array(self.blobs, dtype=np.float64).reshape(-1, 4)
        mesh = Mesh(
            np.array(corners, dtype=np.float64).reshape(-1, 4, 3),
            np.array(sides, dtype=np.int64),
            np.array(normal, dtype=np.float64).reshape(-1, 3),
            np.array(colour, dtype=np.float32).reshape(-1, 3),
            np.array(texture, dtype=np.int64),
            np.array(origin, dtype=np.float64).reshape(-1, 3),
            np.array(across, dtype=np.float64).reshape(-1, 3),
            np.array(down, dtype=np.float64).reshape(-1, 3),
            np.array(two_sided, dtype=np.bool_),
            np.array(glow, dtype=np.float32),
            blobs,
            np.full((len(blobs), 3), 0.3, dtype=np.float32),
            np.zeros(len(blobs), dtype=np.float32),
            np.array(self.objects, dtype=np.int64).reshape(-1, 4),
            np.zeros((len(self.objects), 4)),
        )
        for k, (f0, f1, b0, b1) in enumerate(mesh.objects):
            points = mesh.corners[f0:f1].reshape(-1, 3)
            balls = np.vstack([np.column_stack([points, np.zeros(len(points))]), blobs[b0:b1]])
            middle = 0.5 * (balls[:, :3].min(axis=0) + balls[:, :3].max(axis=0))
            reach = (np.linalg.norm(balls[:, :3] - middle, axis=1) + balls[:, 3]).max()
            mesh.bounds[k] = (*middle, reach)
        return mesh


def join(a: Mesh, b: Mesh) -> Mesh:
    """Both meshes as one; the polygons and blobs of `a` keep their numbers."""
    shift = np.array([len(a.sides), len(a.sides), len(a.blobs), len(a.blobs)])
    both = Mesh(*(np.concatenate([x, y]) for x, y in zip(a, b, strict=True)))
    return both._replace(objects=np.concatenate([a.objects, b.objects + shift]))


def make_atlas(pictures: list[NDArray[np.uint8]]) -> Atlas:
    """Textures (rows, columns, 4) uint8 with pyramids: colours are averaged, the light is picked."""
    runs, places, at = [], np.zeros((len(pictures), LEVELS, 3), dtype=np.int64), 0
    for number, picture in enumerate(pictures):
        level = picture
        for depth in range(LEVELS):
            rows, columns = level.shape[:2]
            places[number, depth] = (at, columns, rows)
            runs.append(level.reshape(-1, 4))
            at += rows * columns
            level = _halved(level)
    return Atlas(np.ascontiguousarray(np.concatenate(runs)), places)


def _halved(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    rows, columns = picture.shape[:2]
    grown = np.pad(picture, ((0, rows % 2), (0, columns % 2), (0, 0)), mode="edge")
    quarters = grown.astype(np.uint16).reshape(grown.shape[0] // 2, 2, grown.shape[1] // 2, 2, 4)
    half: NDArray[np.uint8] = ((quarters.sum(axis=(1, 3)) + 2) // 4).astype(np.uint8)
    half[..., 3] = grown[::2, ::2, 3]
    return half
