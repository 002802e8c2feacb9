"""A camera: from directions to pixels and back. For readers that know one and for measures that look through it.

Pixels are counted so that the centre of the first one lies at (0.5, 0.5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
CAMERA = ("width", "height", "fx", "fy", "cx", "cy")  # columns of a table, [px]
DISTORTION = ("k1", "k2", "p1", "p2")  # further ones, as OpenCV counts them
FOV = "fov"  # instead: [deg] that the width of the photo shows
UNBENT = 20  # steps of undoing a distortion; each leaves a fraction of the error


@dataclass(frozen=True)
class Camera:
    """Image size [px], focal lengths and principal point [px]; x right, y down, z ahead."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # k1, k2, p1, p2

    @property
    def matrix(self) -> Floats:
        """(3, 3) calibration matrix: camera coordinates to homogeneous pixels."""
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])

    @property
    def view(self) -> float:
        """[deg] that the width shows, if the lens does not distort."""
        return math.degrees(2.0 * math.atan(0.5 * self.width / self.fx))

    @classmethod
    def of_view(cls, width: int, height: int, fov: float) -> Camera:
        """A pinhole with square pixels. fov: [deg] that the width shows."""
        focal = 0.5 * width / math.tan(0.5 * math.radians(fov))
        return cls(width, height, focal, focal, 0.5 * width, 0.5 * height)

    @classmethod
    def of_longer(cls, width: int, height: int, fov: float) -> Camera:
        """The same. fov: [deg] that the longer side shows."""
        return cls.of_focal(width, height, 0.5 * max(width, height) / math.tan(0.5 * math.radians(fov)))

    @classmethod
    def of_focal(cls, width: int, height: int, focal: float) -> Camera:
        """A pinhole with square pixels. focal: [px]"""
        return cls(width, height, focal, focal, 0.5 * width, 0.5 * height)

    def scaled(self, height: int, width: int) -> Camera:
        """The same for photos that were resized."""
        x, y = width / self.width, height / self.height
        return Camera(
            width, height, self.fx * x, self.fy * y, self.cx * x, self.cy * y, distortion=self.distortion
        )

    def cut(self, across: tuple[float, float], along: tuple[float, float]) -> Camera:
        """The same for a part of the photo that was enlarged to the whole: its size and the shift of its middle, across
        and along the photo, as shares of half the photo."""
        (wide, right), (tall, down) = across, along
        cx = 0.5 * self.width * ((2.0 * self.cx / self.width - 1.0 - right) / wide + 1.0)
        cy = 0.5 * self.height * ((2.0 * self.cy / self.height - 1.0 - down) / tall + 1.0)
        return Camera(self.width, self.height, self.fx / wide, self.fy / tall, cx, cy, self.distortion)

    def pixels(self, points: ArrayLike) -> Floats:
        """(n, 2) where points (n, 3) in camera coordinates are seen; NaN for what lies behind the camera."""
        xyz = np.asarray(points, dtype=np.float64).reshape(-1, 3)
        ahead = np.where(xyz[:, 2:] > 0, xyz[:, 2:], np.nan)
        bent = self._bent(xyz[:, :2] / ahead)
        seen: Floats = bent * (self.fx, self.fy) + (self.cx, self.cy)
        return seen

    def rays(self, pixels: ArrayLike) -> Floats:
        """(n, 2) x/z and y/z of the directions that pixels (n, 2) look to."""
        bent = (np.asarray(pixels, dtype=np.float64).reshape(-1, 2) - (self.cx, self.cy)) / (self.fx, self.fy)
        if not any(self.distortion):
            return np.asarray(bent)
        rays = bent.copy()
        for _ in range(UNBENT):
            rays += bent - self._bent(rays)
        return rays

    def _bent(self, rays: Floats) -> Floats:
        k1, k2, p1, p2 = self.distortion
        if not any(self.distortion):
            return rays
        x, y = rays.T
        square = x * x + y * y
        radial = 1.0 + square * (k1 + square * k2)
        bent_x = x * radial + 2.0 * p1 * x * y + p2 * (square + 2.0 * x * x)
        bent_y = y * radial + p1 * (square + 2.0 * y * y) + 2.0 * p2 * x * y
        return np.stack([bent_x, bent_y], axis=1)


def camera_of(table: pd.DataFrame, row: int, size: tuple[int, int]) -> Camera | None:
    """The camera of a photo in a table of places, for the photo at this size (h, w); None where it is not known."""
    values = {name: _number(table, name, row) for name in (*CAMERA, *DISTORTION, FOV)}
    height, width = size
    if all(values[name] > 0 for name in CAMERA[:4]) and not math.isnan(values["cx"] + values["cy"]):
        k1, k2, p1, p2 = (0.0 if math.isnan(values[name]) else values[name] for name in DISTORTION)
        fx, fy, cx, cy = (values[name] for name in CAMERA[2:])
        whole = Camera(int(values["width"]), int(values["height"]), fx, fy, cx, cy, (k1, k2, p1, p2))
        return whole.scaled(height, width)
    if 0 < values[FOV] < 180:
        return Camera.of_view(width, height, values[FOV])
    return None


def camera_columns(names: Iterable[str], cameras: Mapping[str, Camera]) -> dict[str, Floats]:
    """The columns of a table that tell the camera of each photo, by its name; none where no camera is known."""
    if not cameras:
        return {}
    rows = [
        [*(getattr(lens, name) for name in CAMERA), *lens.distortion]
        if (lens := cameras.get(name)) is not None
        else [math.nan] * (len(CAMERA) + len(DISTORTION))
        for name in names
    ]
    values = np.array(rows, dtype=np.float64).reshape(-1, len(CAMERA) + len(DISTORTION))
    return dict(zip((*CAMERA, *DISTORTION), values.T, strict=True))


def parse_camera(words: str) -> Camera:
    """A camera from "width,height,fx,fy,cx,cy" in pixels, and further k1,k2,p1,p2 where the lens distorts."""
    try:
        width, height, fx, fy, cx, cy, *bent = (float(word) for word in words.split(","))
        if len(bent) not in (0, 4) or not np.isfinite([cx, cy, *bent]).all():
            raise ValueError
        if not all(1 <= value < np.inf for value in (width, height)) or not all(
            0 < value < np.inf for value in (fx, fy)
        ):
            raise ValueError
    except ValueError:
        raise InputError(
            f"camera {words!r}: give six numbers, width,height,fx,fy,cx,cy [pixels]"
            " and k1,k2,p1,p2 where the lens distorts"
        ) from None
    k1, k2, p1, p2 = bent or (0.0, 0.0, 0.0, 0.0)
    return Camera(int(width), int(height), fx, fy, cx, cy, distortion=(k1, k2, p1, p2))


def _number(table: Any, name: str, row: int) -> float:
    try:
        return float(table[name].iloc[row]) if name in table else math.nan
    except (TypeError, ValueError):
        return math.nan
