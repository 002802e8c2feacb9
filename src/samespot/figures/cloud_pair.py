"""A pair of photos and the point cloud they look at: what only one sees, what both see, and how much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.figures.style import INK, MAP, QUERY, SHARED, house_style, save
from samespot.overlap.cloud import PointCloud, point_spacing
from samespot.photo_files import open_photo
from samespot.places.camera import Camera
from samespot.places.pose import rotation_matrices

Floats = NDArray[np.float64]

NEITHER = "#dcdee2"
ELEVATION, SIDE = (
    38.0,
    22.0,
)  # [deg] the viewer stands behind the cameras, above them and a little to the right
RENDER_WIDTH = 1500  # [px]
SIZE = (11.0, 5.6)  # [inch]
CLOUD = (0.28, 0.03, 0.71, 0.815)  # the cloud's axes in the figure: left, bottom, width, height
MARGIN = 0.06  # share of the seen part's size left around it


def draw_cloud_pair(
    out: str | Path,
    *,
    cloud: PointCloud,
    seen_a: ArrayLike,
    seen_b: ArrayLike,
    image_a: str | Path,
    image_b: str | Path,
    centres: ArrayLike,
    quaternions: ArrayLike,
    similarity: float,
    camera: Camera | tuple[Camera, Camera] | None = None,
    title: str | None = None,
    names: tuple[str, str] = ("query", "map"),
    photo_titles: tuple[str, str] | None = None,
) -> Path:
    """Write a figure (png, pdf or svg) of two photos and the cloud, seen from above and behind the cameras.

    `seen_a`, `seen_b` (n,) booleans over the cloud; `centres` (2, 3) and camera-to-world `quaternions` (2, 4)
    of the two cameras; `camera` gives the frusta their shape (4:3 and 60 degrees wide if not given).
    `names` stand in the legend and, unless `photo_titles` are given, on the photos.
    Red: only the first photo sees it; blue: only the second; magenta: both; grey: neither. A photo that is
    not on this machine leaves its panel empty and says so.
    """
    a, b = _mask(seen_a, cloud), _mask(seen_b, cloud)
    if not (a | b).any():
        raise InputError(f"{out}: neither camera sees a point of this cloud, so there is nothing to draw")
    centre = np.asarray(centres, dtype=np.float64).reshape(2, 3)
    rotation = rotation_matrices(quaternions)
    lenses = camera if isinstance(camera, tuple) else (camera, camera)
    distance = np.linalg.norm(cloud.xyz[a | b] - centre.mean(axis=0), axis=1)
    reach = 0.22 * float(np.median(distance))
    frusta = [_frustum(c, r, lens, reach) for c, r, lens in zip(centre, rotation, lenses, strict=True)]
    view = _viewpoint(rotation)
    picture, window = _render(cloud, a, b, view, np.concatenate(frusta))

    with house_style() as plt:
        figure = plt.figure(figsize=SIZE)
        for (name, path), colour, bottom in zip(
            zip(photo_titles or names, (image_a, image_b), strict=True),
            (QUERY, MAP),
            (0.455, 0.03),
            strict=True,
        ):
            _photo(figure.add_axes((0.01, bottom, 0.262, 0.39)), path, colour, name)
        axes = figure.add_axes(CLOUD)
        axes.imshow(picture, extent=window, interpolation="antialiased", aspect="equal", zorder=0)
        for corners, colour in zip(frusta, (QUERY, MAP), strict=True):
            _draw_frustum(axes, corners @ view.T, colour)
        _scale_bar(axes, window)
        axes.set(xlim=window[:2], ylim=window[2:])
        axes.set_axis_off()
        heading = title or f"3D overlap {similarity:.2f} (IoU)"
        figure.text(0.01, 0.965, heading, size=17, weight="bold", va="top")
        _legend(figure, a, b, names)
        return save(figure, out)


def _mask(seen: ArrayLike, cloud: PointCloud) -> NDArray[np.bool_]:
    mask = np.asarray(seen, dtype=bool)
    if mask.shape != (len(cloud),):
        raise InputError(
            f"seen points of shape {mask.shape} for a cloud of {len(cloud)} points: give one boolean per point"
        )
    return mask


def _legend(figure: Any, a: NDArray[np.bool_], b: NDArray[np.bool_], names: tuple[str, str]) -> None:
    from matplotlib.lines import Line2D

    parts = (
        (SHARED, "both", a & b),
        (QUERY, f"only {names[0]}", a & ~b),
        (MAP, f"only {names[1]}", b & ~a),
        (NEITHER, "neither", ~a & ~b),
    )
    marks = [
        Line2D([], [], marker="s", linestyle="", markersize=8, color=colour, label=f"{text}  {mask.sum():,}")
        for colour, text, mask in parts
    ]
    marks.insert(0, Line2D([], [], linestyle="", label="points seen by"))
    figure.legend(
        handles=marks,
        loc="upper right",
        bbox_to_anchor=(0.995, 0.98),
        ncols=5,
        handletextpad=0.2,
        columnspacing=1.4,
    )


def _viewpoint(rotation: Floats) -> Floats:
    """(3, 3) rows right, up, towards the viewer: behind both cameras, raised and a little to the side."""
    up = -rotation[:, :, 1].sum(axis=0)
    up = up / np.linalg.norm(up) if np.linalg.norm(up) > 1e-6 else np.array([0.0, -1.0, 0.0])
    ahead = rotation[:, :, 2].sum(axis=0)
    ahead = ahead - (ahead @ up) * up
    if (
        np.linalg.norm(ahead) < 0.2
    ):  # they look in opposite directions, or straight down: watch from the first one's back
        ahead = rotation[0, :, 2] + rotation[0, :, 1] * 1e-3
        ahead = ahead - (ahead @ up) * up
    ahead /= np.linalg.norm(ahead)
    right = np.cross(ahead, up)
    side, lift = np.deg2rad(SIDE), np.deg2rad(ELEVATION)
    back = -np.cos(side) * ahead + np.sin(side) * right
    towards = np.cos(lift) * back + np.sin(lift) * up
    across = np.cross(up, towards)
    across /= np.linalg.norm(across)
    return np.stack([across, np.cross(towards, across), towards])


def _frustum(centre: Floats, rotation: Floats, camera: Camera | None, reach: float) -> Floats:
    """(5, 3) the camera's centre and the corners of its image, `reach` metres ahead."""
    camera = camera or Camera(640, 480, 555.0, 555.0, 320.0, 240.0)
    u, v = np.array([0, camera.width, camera.width, 0]), np.array([0, 0, camera.height, camera.height])
    rays = np.stack([(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy, np.ones(4)], axis=1) * reach
    return np.concatenate([centre[None], rays @ rotation.T + centre])


def _render(
    cloud: PointCloud, a: NDArray[np.bool_], b: NDArray[np.bool_], view: Floats, frusta: Floats
) -> tuple[NDArray[np.uint8], tuple[float, float, float, float]]:
    """The cloud in parallel projection as an image, and its left, right, bottom and top in metres.

    Seen points are drawn after the rest, so that a wall between them and the viewer does not hide them.
    """
    finite = np.isfinite(cloud.xyz).all(axis=1)
    flat = np.where(finite[:, None], cloud.xyz, 0.0).astype(np.float64) @ view.T
    lens = frusta @ view.T
    seen = (a | b) & finite
    low = np.minimum(np.percentile(flat[seen, :2], 0.5, axis=0), lens[:, :2].min(axis=0))
    high = np.maximum(np.percentile(flat[seen, :2], 99.5, axis=0), lens[:, :2].max(axis=0))
    low, high = low - MARGIN * (high - low).max(), high + MARGIN * (high - low).max()
    low, high = _with_aspect(low, high, width=CLOUD[2] * SIZE[0], height=CLOUD[3] * SIZE[1])
    scale = RENDER_WIDTH / (high[0] - low[0])
    picture = np.full((round((high[1] - low[1]) * scale), RENDER_WIDTH, 3), 255, dtype=np.uint8)
    colours = _tints(cloud, a, b)
    half = max(1, round(0.7 * point_spacing(cloud.xyz) * scale))
    for layer in (finite & ~seen, seen):
        _paint(picture, flat[layer], colours[layer], low, high, scale, half)
    return picture, (low[0], high[0], low[1], high[1])


def _with_aspect(low: Floats, high: Floats, width: float, height: float) -> tuple[Floats, Floats]:
    """Widen a box about its middle to the shape of the axes."""
    middle, size = (low + high) / 2, high - low
    scale = max(size[0] / width, size[1] / height)
    size = np.array([width, height]) * scale
    return middle - size / 2, middle + size / 2


def _tints(cloud: PointCloud, a: NDArray[np.bool_], b: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(n, 3) the colour of each point's class, darker and lighter with the scene so that things show."""
    from matplotlib.colors import to_rgb

    classes = np.array([to_rgb(c) for c in (NEITHER, QUERY, MAP, SHARED)])
    colours = classes[a.astype(np.int64) + 2 * b.astype(np.int64)]
    if cloud.rgb is None:
        return _bytes(colours)
    light = cloud.rgb.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    low, high = np.percentile(light, [2, 98])
    light = np.clip((light - low) / max(high - low, 1.0), 0.0, 1.0)[:, None]
    rest = ~(a | b)[:, None]
    dark = np.where(rest, 0.84, 0.55) * colours
    pale = colours + (1.0 - colours) * np.where(rest, 0.45, 0.38)
    return _bytes(dark + (pale - dark) * light)


def _bytes(colours: Floats) -> NDArray[np.uint8]:
    levels: NDArray[np.uint8] = np.rint(colours * 255).astype(np.uint8)
    return levels


def _paint(
    picture: NDArray[np.uint8],
    flat: Floats,
    colours: NDArray[np.uint8],
    low: Floats,
    high: Floats,
    scale: float,
    half: int,
) -> None:
    """Draw points as squares of 2 half + 1 pixels, the nearest to the viewer on top."""
    order = np.argsort(flat[:, 2], kind="stable")
    column = np.floor((flat[order, 0] - low[0]) * scale).astype(np.int64)
    row = np.floor((high[1] - flat[order, 1]) * scale).astype(np.int64)
    steps = np.arange(-half, half + 1)
    rows = (row[:, None, None] + steps[None, :, None] + 0 * steps).ravel()
    columns = (column[:, None, None] + 0 * steps[:, None] + steps).ravel()
    inside = (rows >= 0) & (rows < picture.shape[0]) & (columns >= 0) & (columns < picture.shape[1])
    # far points come first, and of several writes to one pixel the last stays
    picture[rows[inside], columns[inside]] = np.repeat(colours[order], len(steps) ** 2, axis=0)[inside]


def _photo(axes: Any, path: str | Path, colour: str, name: str) -> None:
    if Path(path).is_file():
        axes.imshow(open_photo(path))
    else:
        missing = f"{Path(path).name}\nis not on this machine"
        axes.text(0.5, 0.5, missing, transform=axes.transAxes, ha="center", va="center", color="#5b626c")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color=colour, linewidth=4, visible=True)
    size = 11 if len(name) < 24 else 8.5  # a longer one would leave the photo
    box = {"facecolor": colour, "edgecolor": "none", "boxstyle": "round,pad=0.25"}
    axes.text(
        0.03,
        0.95,
        name,
        transform=axes.transAxes,
        va="top",
        color="white",
        size=size,
        weight="bold",
        bbox=box,
    )


def _draw_frustum(axes: Any, corners: Floats, colour: str) -> None:
    """Lines from the lens to the corners of the image, a frame around it, and a dot at the lens."""
    apex, base = corners[0], corners[1:]
    strokes = [np.stack([apex, corner]) for corner in base] + [np.concatenate([base, base[:1]])]
    axes.fill(base[:, 0], base[:, 1], color=colour, alpha=0.18, zorder=2, linewidth=0)
    for width, ink, layer in (
        (4.2, "white", 3),
        (1.9, colour, 4),
    ):  # a white rim keeps them apart from the points
        for stroke in strokes:
            axes.plot(
                stroke[:, 0], stroke[:, 1], color=ink, linewidth=width, zorder=layer, solid_capstyle="round"
            )
    axes.plot(
        *apex[:2], "o", color=colour, markersize=7, markeredgecolor="white", markeredgewidth=1.2, zorder=5
    )


def _scale_bar(axes: Any, window: tuple[float, float, float, float]) -> None:
    """A bar of about a sixth of the width, of 1, 2 or 5 times a power of ten metres."""
    width, height = window[1] - window[0], window[3] - window[2]
    power = 10.0 ** np.floor(np.log10(width / 6))
    length = float(max(step * power for step in (1, 2, 5) if step * power <= width / 6))
    x, y = window[1] - 0.02 * width - length, window[2] + 0.03 * height
    axes.plot([x, x + length], [y, y], color=INK, linewidth=2.5, solid_capstyle="butt", zorder=6)
    axes.text(
        x + length / 2,
        y + 0.012 * height,
        f"{length:g} m",
        ha="center",
        va="bottom",
        size=9,
        color=INK,
        zorder=6,
    )
