"""The paper's figures that need no data (2, 3, 4), and the style that all of its figures share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from samespot.figures.sectors import draw_sectors, wedge
from samespot.figures.style import house_style, save
from samespot.overlap.sector import sector_overlap

CM = 1 / 2.54  # [inch]
COLUMN = 8.9 * CM  # width of a column of the paper [inch]
# how pgfplots draws: a box of thin black lines, ticks inside, Times; text stays text in both formats
_SETTINGS: Any = {
    "font.family": ["STIXGeneral", "serif"],  # an svg names all of these, and whoever opens it has one
    "font.serif": ["Times New Roman", "Times", "DejaVu Serif"],
    "mathtext.fontset": "stix",
    "font.size": 8,
    "text.color": "black",
    "axes.titlesize": 8,
    "axes.titleweight": "normal",
    "axes.titlelocation": "center",
    "axes.labelsize": 8,
    "axes.labelcolor": "black",
    "axes.edgecolor": "black",
    "axes.linewidth": 0.5,
    "axes.spines.top": True,
    "axes.spines.right": True,
    "grid.color": "#c8c8c8",
    "grid.linewidth": 0.4,
    "xtick.color": "black",
    "ytick.color": "black",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "lines.linewidth": 0.8,
    "lines.markersize": 4.5,
    "legend.fontsize": 7,
    "legend.frameon": True,
    "legend.fancybox": False,
    "legend.edgecolor": "#262626",
    "patch.linewidth": 0.5,
}
TEXT_AS_TEXT: Any = {"pdf.fonttype": 42, "svg.fonttype": "none"}
_WALLS = ("#c98a6b", "#d9c38f", "#8fa7b8", "#b5b08a", "#a8877f", "#9db39a", "#c4a7b0")


@contextmanager
def paper_style() -> Iterator[Any]:
    """Yields pyplot, set to look like the paper."""
    with house_style() as plt, plt.rc_context({**_SETTINGS, **TEXT_AS_TEXT}):
        yield plt


def letter(number: int) -> str:
    """(a), (b), … of a panel."""
    return f"({chr(ord('a') + number)})"


def bare(axes: Any, box: bool = False) -> None:
    """No ticks and no grid; a frame only where there is a `box`."""
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[:].set_visible(box)


# ---- figure 2: the siamese architecture ----


def draw_siamese(path: Path) -> Path:
    """Two photos, one network twice, one loss."""
    with paper_style() as plt:
        figure, axes = plt.subplots(figsize=(COLUMN, 0.63 * COLUMN))
        axes.set(xlim=(0, 10.6), ylim=(0.2, 6.9), aspect="equal")
        bare(axes)
        for y, index in ((5.2, "i"), (1.6, "j")):
            _branch(axes, y, index)
        axes.plot([4.1, 4.1], [3.0, 3.8], color="black", linestyle=(0, (3, 2)))
        axes.text(4.25, 3.4, "shared weights", va="center", fontsize=7)
        _loss(axes)
        return save(figure, path)


def _branch(axes: Any, y: float, index: str) -> None:
    """Photo, layers that get smaller, pooling, descriptor; from left to right at height `y`."""
    from matplotlib.patches import Rectangle

    small = axes.inset_axes((0.1, y - 0.75, 1.9, 1.5), transform=axes.transData)
    _street(small, 0.0 if index == "i" else 1.2, 3.6)
    for x, tall in ((2.9, 1.9), (3.5, 1.5), (4.1, 1.15), (4.7, 0.85)):
        axes.add_patch(Rectangle((x - 0.2, y - tall / 2), 0.4, tall, facecolor="#dce6f2", edgecolor="black"))
    axes.add_patch(Rectangle((5.75, y - 0.45), 0.45, 0.9, facecolor="#f4dccb", edgecolor="black"))
    axes.add_patch(Rectangle((7.1, y - 0.6), 0.22, 1.2, facecolor="#e3efdc", edgecolor="black"))
    for start, end in ((2.1, 2.6), (5.0, 5.65), (6.3, 7.0)):
        _arrow(axes, (start, y), (end, y))
    axes.text(1.05, y - 1.05, f"$x_{index}$", ha="center", va="center")
    axes.text(3.8, y + 1.15, "Conv. backbone", ha="center", va="center", fontsize=7)
    axes.text(5.97, y + 0.75, "Pooling", ha="center", va="center", fontsize=7)
    axes.text(7.21, y + 0.95, rf"$\hat{{f}}(x_{index})$", ha="center", va="center")
    axes.text(4.1, y - 1.0, r"$\hat{f}$", ha="center", va="center")


def _loss(axes: Any) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((8.0, 2.8), 2.5, 1.2, facecolor="#f7e3e1", edgecolor="black"))
    # no script L: its glyph has a private number that svg viewers do not know
    words = r"$L_{GCL}(\hat{f}(x_i), \hat{f}(x_j))$"
    axes.text(9.25, 3.4, words, ha="center", va="center", fontsize=6.5)
    _arrow(axes, (7.4, 5.2), (9.25, 5.2), (9.25, 4.05))
    _arrow(axes, (7.4, 1.6), (9.25, 1.6), (9.25, 2.75))


def _arrow(axes: Any, *points: tuple[float, float]) -> None:
    """Along the points, with a head at the last one."""
    way = np.array(points)
    axes.plot(way[:-1, 0], way[:-1, 1], color="black", linewidth=0.7)
    look = {"arrowstyle": "-|>", "lw": 0.7, "color": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    axes.annotate("", xy=way[-1], xytext=way[-2], arrowprops=look)


# ---- figure 3: three images, of which two pairs share something ----


def draw_toy_data_set(path: Path) -> Path:
    """A street drawn here stands for the paper's photos: A and B share a house, B and C another, A and C none."""
    with paper_style() as plt:
        figure, axes = plt.subplots(1, 3, figsize=(COLUMN, 0.28 * COLUMN), layout="constrained")
        for number, (panel, start) in enumerate(zip(axes, (0.0, 2.0, 4.0), strict=True)):
            _street(panel, start, 3.0)
            panel.set_xlabel(f"{letter(number)} {'ABC'[number]}")
        return save(figure, path)


def _street(axes: Any, start: float, width: float) -> None:
    """Houses of a street one unit wide each, of which a camera sees `width` units from `start` on."""
    from matplotlib.patches import Polygon, Rectangle

    axes.set_facecolor("#e4eef6")
    axes.add_patch(Rectangle((-1, -0.5), 10, 0.5, facecolor="#b8b8b8", edgecolor="none"))
    for i, wall in enumerate(_WALLS):
        tall = 1.0 + 0.45 * ((i * 3) % 4) / 3
        axes.add_patch(Rectangle((i + 0.04, 0), 0.92, tall, facecolor=wall, edgecolor="black"))
        if i % 2:
            roof = [(i, tall), (i + 0.5, tall + 0.35), (i + 1.0, tall)]
            axes.add_patch(Polygon(roof, facecolor="#7a5148", edgecolor="black"))
        floors, panes = 2 + i % 2, 2 + (i + 1) % 2
        for floor in range(floors):
            for pane in range(panes):
                at = (i + 0.92 * (pane + 0.7) / (panes + 0.4), tall * (floor + 0.45) / floors)
                axes.add_patch(Rectangle(at, 0.14, 0.2, facecolor="#41515c", edgecolor="none"))
    axes.set(xlim=(start, start + width), ylim=(-0.3, 2.0))
    bare(axes, box=True)


# ---- figure 4: the field of view on the ground ----

THETA, RADIUS = 90.0, 50.0  # [deg], [m]
# query and map image: easting, northing [m], heading [deg]. The paper's second pair stands side by side.
BORDERLINE = (((0.0, 0.0, -20.0), (0.0, 0.0, 20.0)), ((0.0, 0.0, 0.0), (25.0, 0.0, 0.0)))


def draw_field_of_view(path: Path) -> Path:
    """What a camera sees, and the two borderline pairs by which the paper chose its angle."""
    with paper_style() as plt:
        figure = plt.figure(figsize=(COLUMN, 0.62 * COLUMN), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=[1.15, 1])
        _sector_sketch(figure.add_subplot(grid[:, 0]))
        for i, (query, place) in enumerate(BORDERLINE):
            panel = figure.add_subplot(grid[i, 1])
            sectors_only(panel, query, place, THETA, RADIUS)
            middle = 0.5 * (query[0] + place[0])
            panel.set(xlim=(middle - 62, middle + 62), ylim=(-7, 55))
            share = float(sector_overlap(np.array(query), np.array(place), THETA, RADIUS))
            words = f"{letter(i + 1)} {'0 m, 40°' if i == 0 else '25 m, 0°'}: {100 * share:.2f} %"
            panel.set_xlabel(words)
        return save(figure, path)


def sectors_only(
    axes: Any, query: Sequence[float], place: Sequence[float], theta: Any, radius: float
) -> None:
    """The two sectors as in the paper: nothing around them."""
    draw_sectors(axes, query, place, theta=theta, radius=radius)
    axes.get_legend().remove()
    axes.set(title="", xlabel="", ylabel="")
    axes.set_title("", loc="left")
    corners = np.concatenate(
        [patch.get_patch_transform().transform(patch.get_path().vertices) for patch in axes.patches]
    )
    room = 0.08 * radius
    low, high = corners.min(axis=0) - room, corners.max(axis=0) + room
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    bare(axes)


def _sector_sketch(axes: Any) -> None:
    from matplotlib.patches import Arc

    heading, opening = 35.0, 70.0
    axes.add_patch(wedge((0, 0), heading, opening, 1.0, facecolor="#dfe8f4", edgecolor="black"))
    axes.annotate(
        "", xy=(0, 1.15), xytext=(0, 0), arrowprops={"arrowstyle": "-|>", "lw": 0.7, "color": "black"}
    )
    ahead = np.deg2rad(90 - heading)
    tip = (0.98 * np.cos(ahead), 0.98 * np.sin(ahead))
    axes.annotate("", xy=tip, xytext=(0, 0), arrowprops={"arrowstyle": "-|>", "lw": 0.9, "color": "red"})
    axes.add_patch(Arc((0, 0), 1.1, 1.1, theta1=90 - heading, theta2=90, color="red", linewidth=0.9))
    low, high = 90 - heading - opening / 2, 90 - heading + opening / 2
    axes.add_patch(Arc((0, 0), 0.56, 0.56, theta1=low, theta2=high, color="blue", linewidth=0.9))
    axes.plot(0, 0, "o", color="black", markersize=4)
    axes.text(-0.05, -0.1, "$(t_0, t_1)$", ha="center", va="center")
    axes.text(0, 1.21, "$N$", ha="center", va="center")
    axes.text(0.17, 0.63, r"$\alpha$", color="red", ha="center", va="center")
    axes.text(0.32, 0.2, r"$\theta$", color="blue", ha="center", va="center")
    edge = np.deg2rad(low)
    axes.text(0.62 * np.cos(edge) + 0.03, 0.62 * np.sin(edge) - 0.09, "$r$", ha="center", va="center")
    axes.set(xlim=(-0.25, 1.12), ylim=(-0.2, 1.3), aspect="equal")
    axes.set_xlabel(letter(0))
    bare(axes)
