"""How near is near? A soft step: similarity that falls from 1 to 0 with the distance on the ground, and no threshold.

The rule is that of Thoma et al. (2020): ψ = 1 / (1 + exp(steepness · (distance − metres))), so 0.5 at `metres`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

METRES, STEEPNESS = 15.0, 0.8  # [m], [1/m]; the authors' defaults
FAINT = 0.001  # a fainter similarity is 0, so that labels stay sparse


def reach_of(metres: float, steepness: float) -> float:
    """The distance [m] beyond which the similarity is 0."""
    return metres + math.log(1.0 / FAINT - 1.0) / steepness


def soft_nearness(
    distance: ArrayLike, metres: float = METRES, steepness: float = STEEPNESS
) -> NDArray[np.float64]:
    """Similarity in [0, 1] of two photos so far apart [m], float64, of the same shape."""
    apart = np.asarray(distance, dtype=np.float64)
    exponent = np.minimum(steepness * (apart - metres), 700.0)  # beyond reach anyway, and no overflow
    return np.where(apart <= reach_of(metres, steepness), 1.0 / (1.0 + np.exp(exponent)), 0.0)
