"""GPS and compass: where a phone or a car thinks that a photo was taken."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Noise(NamedTuple):
    """Standard deviations: of an error that a whole visit shares and of one that every photo has anew."""

    gps_visit: float = 1.5  # [m], in each direction
    gps_photo: float = 1.5
    compass_visit: float = 4.0  # [deg]
    compass_photo: float = 4.0


def measured(
    true: ArrayLike, visit: ArrayLike, noise: Noise | None = None, seed: int = 7
) -> NDArray[np.float64]:
    """(n, 3) easting, northing [m], heading [deg] as measured, of the true ones and the visit (n,) of each photo.

    The draws do not depend on the size of the noise: twice the deviation is twice the same error.
    """
    kind = noise or Noise()
    at = np.array(true, dtype=np.float64)
    visits = np.asarray(visit, dtype=np.int64)
    for number in np.unique(visits):
        rng = np.random.default_rng((seed, 22, int(number)))
        mine = visits == number
        bias, own = rng.standard_normal(3), rng.standard_normal((int(mine.sum()), 3))
        shared = np.array([kind.gps_visit, kind.gps_visit, kind.compass_visit])
        single = np.array([kind.gps_photo, kind.gps_photo, kind.compass_photo])
        at[mine] += bias * shared + own * single
    at[:, 2] %= 360.0
    at[at[:, 2] >= 360.0, 2] = 0.0
    return at
