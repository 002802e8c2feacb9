"""Local features of a photo, small enough to keep by the million: a byte for each number of a descriptor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Where the keypoints of a photo are, and what they look like; the surest first."""

    xy: NDArray[np.float32]  # (n, 2) [pixels] of the photo as it was looked at
    descriptors: NDArray[np.int8]  # (n, d) 127 times unit length
    size: tuple[int, int]  # height and width [pixels] of the photo as it was looked at

    def __len__(self) -> int:
        return len(self.xy)
