"""The fields of view of two cameras on the ground, and what they share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from samespot.figures.style import GREY, MAP, QUERY, SHARED, house_style, save
from samespot.overlap.rules import Measure
from samespot.overlap.sector import sector_overlap
from samespot.photo_files import open_photo

NAMES = ("query", "map image")


def draw_pair(
    path: str | Path,
    query: Sequence[float],
    place: Sequence[float],
    *,
    theta: float | tuple[float, float] = 90.0,
    radius: float = 50.0,
    measure: Measure = "overlap",
    others: ArrayLike | None = None,
    query_image: Path | None = None,
    place_image: Path | None = None,
    names: tuple[str, str] = NAMES,
) -> Path:
    """Draw two sectors with their overlap; beside them the two photos, where there are files.

    query, place: easting, northing [m], heading [deg, NaN if unknown]. others: (n, 2) positions drawn as
    small dots. theta: one opening angle for both [deg], or one for each. names: what the two are called.
    """
    photos = [p for p in (query_image, place_image) if p is not None and p.is_file()]
    with house_style() as plt:
        if len(photos) == 2:
            figure = plt.figure(figsize=(11.5, 4.6), layout="constrained")
            grid = figure.add_gridspec(1, 3, width_ratios=[1, 1, 1.25])
            for i, (photo, name, colour) in enumerate(zip(photos, names, (QUERY, MAP), strict=True)):
                _show_photo(figure.add_subplot(grid[0, i]), photo, name, colour)
            axes = figure.add_subplot(grid[0, 2])
            names = NAMES  # the photos say which they are
        else:
            figure, axes = plt.subplots(figsize=(5.2, 5.0), layout="constrained")
        draw_sectors(
            axes, query, place, theta=theta, radius=radius, measure=measure, others=others, names=names
        )
        return save(figure, path)


def draw_sectors(
    axes: Any,
    query: Sequence[float],
    place: Sequence[float],
    *,
    theta: float | tuple[float, float] = 90.0,
    radius: float = 50.0,
    measure: Measure = "overlap",
    others: ArrayLike | None = None,
    names: tuple[str, str] = NAMES,
) -> None:
    """The same on given matplotlib axes: query red, map image blue, what they share magenta."""
    q, p = np.array(query, dtype=float), np.array(place, dtype=float)
    thetas = theta if isinstance(theta, tuple) else (theta, theta)
    origin = q[:2]
    q_at, p_at = np.zeros(2), p[:2] - origin

    known = (bool(np.isfinite(q[2])), bool(np.isfinite(p[2])))
    q[2], p[2] = np.nan_to_num(q[2]), np.nan_to_num(p[2])  # where unknown, the camera sees all around
    for at, heading, opening, colour in ((q_at, q[2], thetas[0], QUERY), (p_at, p[2], thetas[1], MAP)):
        axes.add_patch(wedge(at, heading, opening, radius, facecolor=colour, alpha=0.16, edgecolor="none"))
        axes.add_patch(wedge(at, heading, opening, radius, facecolor="none", edgecolor=colour, linewidth=1.6))
    shared = axes.add_patch(
        wedge(p_at, p[2], thetas[1], radius, facecolor=SHARED, alpha=0.45, edgecolor="none")
    )
    shared.set_clip_path(wedge(q_at, q[2], thetas[0], radius, transform=axes.transData))

    if others is not None:
        dots = np.asarray(others, dtype=float) - origin
        axes.plot(dots[:, 0], dots[:, 1], ".", color=GREY, markersize=2, alpha=0.5, zorder=1)
    for at, heading, colour, name, has_heading in zip(
        (q_at, p_at), (q[2], p[2]), (QUERY, MAP), names, known, strict=True
    ):
        axes.plot(*at, "o", color=colour, markersize=7, markeredgecolor="white", zorder=5, label=name)
        if not has_heading:
            continue
        tip = at + 0.22 * radius * np.array([np.sin(np.deg2rad(heading)), np.cos(np.deg2rad(heading))])
        axes.annotate(
            "", xy=tip, xytext=at, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.6}, zorder=5
        )

    reach = np.array([q_at - radius, q_at + radius, p_at - radius, p_at + radius])
    axes.set_xlim(reach[:, 0].min() - 0.05 * radius, reach[:, 0].max() + 0.05 * radius)
    axes.set_ylim(reach[:, 1].min() - 0.05 * radius, reach[:, 1].max() + 0.05 * radius)
    axes.set_aspect("equal")
    share = sector_overlap(q, p, thetas[0], radius, measure, theta_b=thetas[1])
    turn = f"turned {abs((q[2] - p[2] + 180) % 360 - 180):.0f}°" if all(known) else "turn unknown"
    name, distance = "IoU" if measure == "iou" else "overlap", float(np.hypot(*p_at))
    axes.set_title(f"{name} {share:.3f}: {distance:.1f} m apart, {turn}", color=SHARED)
    axes.set_xlabel("east of the query [m]")
    axes.set_ylabel("north of the query [m]")
    ahead = np.deg2rad([q[2], p[2]])
    east, north = 0.5 * radius * np.array([np.sin(ahead), np.cos(ahead)]).sum(axis=1)  # where the sectors lie
    corner = f"{'lower' if north > 0 else 'upper'} {'right' if east < 0 else 'left'}"
    axes.legend(loc=corner, handletextpad=0.2, frameon=True, edgecolor="none", framealpha=0.85)


def wedge(at: Any, heading: float, opening: float, radius: float, **look: Any) -> Any:
    """A patch of what a camera at (x, y) sees: heading and opening angle [deg], radius in units of the axes."""
    from matplotlib.patches import Wedge

    return Wedge(tuple(at), radius, 90 - heading - opening / 2, 90 - heading + opening / 2, **look)


def _show_photo(axes: Any, photo: Path, title: str, colour: str) -> None:
    axes.imshow(open_photo(photo))
    axes.set_title(title, color=colour)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linewidth=2)
