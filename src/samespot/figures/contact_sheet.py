"""A contact sheet: one place a row, one visit a column, to see what a model has to see through."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samespot.figures.style import house_style, save
from samespot.photo_files import open_photo
from samespot.places.table import Places

FARTHEST = 15.0  # [m] a photo of another visit may be from the first one
TURN_WEIGHT = 4.0  # [deg] that count as much as a metre when the closest photo is chosen
MOST_TURNED = 50.0  # [deg]


def same_spots(places: Places, spots: int = 5) -> NDArray[np.int64]:
    """(spots, visits) rows of photos of the same spot, -1 where a visit has none near.

    Photos of the first visit spread evenly over it that the most other visits saw too; of each other visit the
    one that is closest in position and heading.
    """
    visit = places.table["sequence"].astype(str).str.split("-").str[0]
    names = list(dict.fromkeys(visit))
    at, numbers = _exact(places), visit.map({name: k for k, name in enumerate(names)}).to_numpy()
    first = np.flatnonzero(numbers == 0)
    found = np.full((len(first), len(names)), -1, dtype=np.int64)
    found[:, 0] = first
    cost_of = np.zeros(len(first))
    for k in range(1, len(names)):
        rows = np.flatnonzero(numbers == k)
        away = np.hypot(*(at[first, None, :2] - at[None, rows, :2]).transpose(2, 0, 1))
        turn = np.abs((at[first, None, 2] - at[None, rows, 2] + 180.0) % 360.0 - 180.0)
        cost = np.where((away <= FARTHEST) & (turn <= MOST_TURNED), away + turn / TURN_WEIGHT, np.inf)
        best = cost.argmin(axis=1)
        near = np.isfinite(cost[np.arange(len(first)), best])
        found[near, k] = rows[best[near]]
        cost_of += np.where(near, cost[np.arange(len(first)), best], 100.0)
    stretches = np.array_split(np.arange(len(first)), min(spots, len(first)))
    return found[[stretch[cost_of[stretch].argmin()] for stretch in stretches]]


def _exact(places: Places) -> NDArray[np.float64]:
    """(n, 3) easting, northing, heading of the poses where there are poses."""
    from samespot.places.pose import PoseFrame, ground_pose

    if not places.has_pose:
        return places.positions
    return np.stack(ground_pose(places.centres, places.quaternions, PoseFrame()), axis=1)


def draw_contact_sheet(
    path: str | Path, places: Places, rows: NDArray[np.int64] | None = None, *, spots: int = 5
) -> Path:
    """Photos `rows` (spots, visits), by default `same_spots`, with each visit's condition above."""

    chosen = same_spots(places, spots) if rows is None else rows
    height, width = chosen.shape
    with house_style() as plt:
        figure, axes = plt.subplots(
            height, width, figsize=(2.6 * width, 2.05 * height), squeeze=False, layout="constrained"
        )
        for i in range(height):
            for j in range(width):
                axes[i, j].set_axis_off()
                if chosen[i, j] < 0:
                    continue
                axes[i, j].imshow(open_photo(places.image(chosen[i, j])))
        for j in range(width):
            seen = chosen[chosen[:, j] >= 0, j]
            if len(seen) and "condition" in places.table:
                axes[0, j].set_title(str(places.table["condition"].iloc[seen[0]]), fontsize=9)
        return save(figure, path)
