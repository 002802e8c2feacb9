"""Where the truth is a pose: that of the best match is the estimate, and must lie near the true one.

Most true poses are secret. What is public can be scored here (`known_poses`); for the rest, the estimates go to the
benchmark's server in a file of `evaluation/submission.py`, under `server_names`.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.evaluation.cases import Case

# [m], [deg]: of the long-term visual localisation benchmark
POSE_LIMITS = ((0.25, 2.0), (0.5, 5.0), (5.0, 10.0))
ROOM = (0.05, 5.0)  # [m], [deg]: of 7Scenes
NEAR_ENOUGH = "the pose of the best match lies within .25 m and 2°, .5 m and 5°, 5 m and 10° of the query's"
NO_RECALL = "R@k is not defined here: only the best match counts, and it has a pose, not a list of positives"
SATTLER = (
    "T. Sattler et al., Benchmarking 6DOF Outdoor Visual Localization in Changing Conditions, CVPR 2018;"
    " visuallocalization.net"
)
CAMERAS = ("left", "rear", "right")  # folders of RobotCar, which its server wants before the file name
Floats = NDArray[np.float64]


def pose_estimates(case: Case, rows_of_best: ArrayLike) -> tuple[Floats, Floats]:
    """The best matches' poses: (n, 3) centres [m] and (n, 4) camera-to-world quaternions.

    rows_of_best: (n,) map rows; where one is -1 nothing was found, and the estimate is NaN.
    """
    rows = np.asarray(rows_of_best, dtype=np.int64)
    found = (rows >= 0)[:, None]
    centres, quaternions = case.places.centres[rows], case.places.quaternions[rows]
    return np.where(found, centres, np.nan), np.where(found, quaternions, np.nan)


def known_poses(case: Case) -> NDArray[np.bool_]:
    """(q,) which queries have a public pose, and so can be scored here."""
    if not case.queries.has_pose:
        return np.zeros(len(case.queries), dtype=bool)
    known = np.isfinite(case.queries.centres).all(axis=1) & np.isfinite(case.queries.quaternions).all(axis=1)
    return np.asarray(known, dtype=bool)


def server_names(case: Case) -> list[str]:
    """The queries as the benchmark's server calls them: the file name, for RobotCar with its camera before it."""
    paths = [PurePosixPath(name) for name in case.query_names]
    return [f"{p.parent.name}/{p.name}" if p.parent.name in CAMERAS else p.name for p in paths]
