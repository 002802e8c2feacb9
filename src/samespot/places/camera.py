"""A pinhole camera, for readers that know one and for measures that look through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Camera:
    """A pinhole camera: image size [px], focal lengths and principal point [px]; x right, y down, z ahead."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float

    @property
    def matrix(self) -> NDArray[np.float64]:
        """(3, 3) calibration matrix: camera coordinates to homogeneous pixels."""
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])
