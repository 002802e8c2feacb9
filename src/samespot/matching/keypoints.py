"""Local features of a photo, small enough to keep by the million: a byte for each number of a descriptor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCALE = 127.0  # a number of a unit descriptor becomes a byte
PER_PIXEL = 64  # steps of a position that is kept


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Where the keypoints of a photo are, and what they look like; the surest first."""

    xy: NDArray[np.float32]  # (n, 2) [pixels] of the photo as it was looked at
    descriptors: NDArray[np.int8]  # (n, d) 127 times unit length
    size: tuple[int, int]  # height and width [pixels] of the photo as it was looked at

    def __len__(self) -> int:
        return len(self.xy)

    @classmethod
    def pack(cls, xy: NDArray[Any], descriptors: NDArray[Any], size: tuple[int, int]) -> Keypoints:
        """From positions (n, 2) and descriptors (n, d) of any length, which are brought to unit length and rounded."""
        length = np.linalg.norm(descriptors, axis=1, keepdims=True)
        unit = np.divide(descriptors, length, out=np.zeros_like(descriptors), where=length > 0)
        rounded = np.rint(SCALE * unit).astype(np.int8)
        return cls(np.asarray(xy, dtype=np.float32).reshape(-1, 2), rounded, size)

    def steps(self) -> NDArray[np.uint16]:
        """(n, 2) where they are [1/64 pixel]."""
        steps = np.round(self.xy.astype(np.float64) * PER_PIXEL)
        if len(steps) and not (steps.min() >= 0 and steps.max() <= np.iinfo(np.uint16).max):
            raise ValueError(f"a keypoint outside 0 to {2**16 // PER_PIXEL} pixels")
        return steps.astype(np.uint16)

    @classmethod
    def of_steps(
        cls, steps: NDArray[np.uint16], descriptors: NDArray[np.int8], size: tuple[int, int]
    ) -> Keypoints:
        """As they were before `steps`, to 1/64 pixel."""
        return cls(steps.astype(np.float32) / np.float32(PER_PIXEL), descriptors, size)

    def shares(self) -> NDArray[np.float32]:
        """(n, 2) where they are, as shares of the photo's width and height."""
        height, width = self.size
        return np.divide(self.xy, (width, height), dtype=np.float32)

    def unit(self) -> NDArray[np.float32]:
        """(n, d) descriptors of about unit length."""
        return self.descriptors.astype(np.float32) / np.float32(SCALE)
