"""The built-in town from above: houses, streets, trees, and where each visit took its photos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from samespot.figures.style import GREY, MAP, QUERY, house_style, save
from samespot.places.table import Places

SPLITS = {"train": "#4a9d6f", "map": MAP, "query": QUERY}
GROUND, ROAD, PAVEMENT, HOUSE, CHURCH, GREEN, PAVED = (
    "#eef0e8", "#c3c7cd", "#dcdfe3", "#b9a99a", "#8d6f5a", "#cfdfb8", "#ded5c6",
)  # fmt: skip


def draw_town_map(path: str | Path, places: Places, plan: dict[str, Any]) -> Path:
    """`plan` is that of the town's `town.json`; photos are dots at their exact positions, coloured by split."""
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(11.0, 7.0), layout="constrained")
        axes.grid(False)
        _draw_plan(axes, plan)
        at = places.centres if places.has_pose else places.positions
        splits = places.table["split"].to_numpy()
        for split, colour in SPLITS.items():
            mine = splits == split
            if mine.any():
                label = f"{split}: {mine.sum():,} photos"
                axes.scatter(at[mine, 0], at[mine, 1], s=5, color=colour, linewidths=0, label=label, zorder=5)
        (west, south), (wide, tall) = plan["west_south"], plan["size"]
        axes.set(xlim=(west, west + wide), ylim=(south, south + tall), aspect="equal")
        axes.set(xlabel="easting [m]", ylabel="northing [m]")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=3, markerscale=3)
        visits = places.table["sequence"].str.split("-").str[0].nunique()
        axes.set_title(f"The town: {len(plan['lots'])} houses, {visits} visits, {len(places):,} photos")
        return save(figure, path)


def _draw_plan(axes: Any, plan: dict[str, Any]) -> None:
    from matplotlib.collections import EllipseCollection, PolyCollection

    axes.set_facecolor(GROUND)
    squares = plan["squares"]
    colours = [GREEN if s["green"] else PAVED for s in squares]
    axes.add_collection(PolyCollection([s["corners"] for s in squares], facecolors=colours, zorder=1))
    for colour, kerb, layer in ((PAVEMENT, True, 2.0), (ROAD, False, 2.5)):
        bands = [
            _band(s["line"], s["half_width"] + (s["pavement"] if kerb else 0.0)) for s in plan["streets"]
        ]
        axes.add_collection(PolyCollection(bands, facecolors=colour, zorder=layer))
        ends = np.array([end for s in plan["streets"] for end in (s["line"][0], s["line"][-1])])
        reach = [
            2.0 * (s["half_width"] + (s["pavement"] if kerb else 0.0)) for s in plan["streets"] for _ in "ab"
        ]
        axes.add_collection(_discs(EllipseCollection, axes, ends, reach, colour, layer))
    houses = [lot["corners"] for lot in plan["lots"]]
    tints = [CHURCH if lot["landmark"] else HOUSE for lot in plan["lots"]]
    axes.add_collection(
        PolyCollection(houses, facecolors=tints, edgecolors="white", linewidths=0.4, zorder=3)
    )
    axes.plot(*np.array(plan["wall"]).T, color="#7d7468", linewidth=3, zorder=3)
    trees = np.array(plan["trees"])
    axes.add_collection(
        _discs(EllipseCollection, axes, trees[:, :2], 0.45 * trees[:, 2], "#8fb573", 4.0, alpha=0.7)
    )
    lamps = np.array(plan["lamps"])
    axes.scatter(lamps[:, 0], lamps[:, 1], s=1.5, color=GREY, linewidths=0, zorder=4.5)


def _discs(kind: Any, axes: Any, at: Any, across: Any, colour: str, layer: float, alpha: float = 1.0) -> Any:
    """Circles `across` metres wide."""
    return kind(
        across,
        across,
        np.zeros(len(at)),
        units="xy",
        offsets=at,
        transOffset=axes.transData,
        facecolors=colour,
        edgecolors="none",
        alpha=alpha,
        zorder=layer,
    )


def _band(line: Any, half: float) -> Any:
    """(2n, 2) outline of a strip along a line (n, 2)."""
    points = np.asarray(line, dtype=np.float64)
    way = np.gradient(points, axis=0)
    left = np.stack([-way[:, 1], way[:, 0]], axis=1) / np.linalg.norm(way, axis=1, keepdims=True)
    return np.vstack([points + half * left, (points - half * left)[::-1]])
