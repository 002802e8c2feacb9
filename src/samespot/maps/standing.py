"""Where a photo was taken and which way it looks, by the best there is: for the answer and for the map's questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samespot.maps.candidates import Candidates, Held
from samespot.maps.estimate import assumed_camera, heading_of
from samespot.maps.evidence import BY_CHANCE
from samespot.matching.keypoints import Keypoints
from samespot.places.camera import Camera, camera_of
from samespot.poses.two_view import Placed, Sight, pose_on_ground

MOST = 8  # matches that are compared, the first ones
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Standing:
    """Of a photo, if the first of its candidates is right."""

    position: Floats  # (2,) easting, northing [m]
    heading: float | None  # [deg] clockwise from north


def standing(
    held: Held,
    cameras: Floats,
    found: Candidates,
    keypoints: Keypoints | None,
    near: float,
    camera: Camera | None = None,
) -> Standing:
    """From the geometry of the photo and its matches; where that tells nothing, the mean of the matches' positions.

    cameras: (n, 3) easting, northing [m], heading [deg] of all photos of the map. keypoints, camera: of the photo, the
    latter at any size; one that is not known is taken for a phone's. near: [m] matches no farther from the first are of
    its place.
    """
    mean = found.position(near)
    if keypoints is None or found.agreements[0] is None:
        return Standing(mean, None)
    lens = assumed_camera(keypoints.size) if camera is None else camera.scaled(*keypoints.size)
    asked = Sight(keypoints, lens)
    pose = pose_on_ground(asked, sights_of(held, cameras, found, near), mean)
    if pose is not None and np.hypot(*(pose.position - found.at[0])) <= near:
        return Standing(pose.position, pose.heading)
    first, match = int(found.rows[0]), held.keypoints(int(found.rows[0]))
    if match is None:
        return Standing(mean, None)
    return Standing(mean, heading_of(float(cameras[first, 2]), keypoints, match, found.agreements[0].pairs))


def sights_of(
    held: Held, cameras: Floats, found: Candidates, near: float, known: bool = True
) -> list[Placed]:
    """The matches that speak for the place of the first; known: whether the map's table is asked for their cameras."""
    there = np.hypot(*(found.at - found.at[0]).T) <= near
    placed = []
    for row in found.rows[there & (np.nan_to_num(found.inliers) > BY_CHANCE)][:MOST]:
        if (keypoints := held.keypoints(int(row))) is not None:
            camera = camera_of(held.places.table, int(row), keypoints.size) if known else None
            sight = Sight(keypoints, camera or assumed_camera(keypoints.size))
            placed.append(Placed(sight, cameras[row, :2], float(cameras[row, 2])))
    return placed
