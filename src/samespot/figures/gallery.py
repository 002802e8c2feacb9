"""Answers to look at: a query a row, the photo, its best matches, what was predicted and what is true, and a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.figures.sectors import wedge
from samespot.figures.style import GREY, INK, house_style, save
from samespot.photo_files import open_photo

RIGHT, WRONG = "#00865f", "#d55e00"  # told apart with any colour vision; a tick or a cross says it again
PALE, PAPER = "#eceef1", "#f7f8fa"  # of a missing photo, of a map
TILE = 1.1  # [inch] side of the square a photo is fitted into
GAP, TEXT, CAPTION = 0.1, 0.2, 0.24  # [inch] between tiles, below a photo, above a row
HEAD, FOOT = 0.3, 0.46  # [inch]
MAP_SIDE = TILE + TEXT  # [inch]
DPI = 100
REACH = 2.5  # radii from the query up to which a match is drawn in its place; farther ones are an arrow
# colours of the palette a png is written with: the most that keep it small enough to send about
COLOURS = (192, 128, 96, 64)
MOST_BYTES = 300_000
LONGEST_NAME = 18

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
Position = tuple[float, float, float]  # easting, northing [m], heading [deg, NaN if unknown]


@dataclass(frozen=True)
class GalleryMatch:
    """A retrieved map image. None stands for what is not known."""

    image: Path
    position: Position
    distance: float  # of the descriptors
    is_positive: bool | None = None
    predicted: float | None = None  # overlap
    overlap: float | None = None  # the true one
    panorama: bool = False


@dataclass(frozen=True)
class GalleryRow:
    """A query and its matches, the best first."""

    image: Path
    position: Position
    matches: Sequence[GalleryMatch]
    caption: str = ""
    panorama: bool = False


def sample_rows(
    first_hit: ArrayLike, counted: ArrayLike | None = None, hits: int = 4, misses: int = 4, seed: int = 0
) -> Rows:
    """Which queries to show: first some whose best match is right, then some whose best match is wrong.

    first_hit: (q,) rank of the first right match from 1 on, 0 where none is in the list. counted: (q,) which
    queries have a right match at all; others are never shown. Of the misses, half were found further down the list
    and half not at all, if there are enough of each. The same seed gives the same queries, ascending
    within hits and misses.
    """
    rank = np.asarray(first_hit, dtype=np.int64)
    counts = np.ones(len(rank), dtype=bool) if counted is None else np.asarray(counted, dtype=bool)
    dice = np.random.default_rng(seed)
    right, later, never = (
        dice.permutation(np.flatnonzero(counts & kind)) for kind in (rank == 1, rank > 1, rank == 0)
    )
    from_later = min(len(later), max(misses - misses // 2, misses - len(never)))
    wrong = np.concatenate([later[:from_later], never[: misses - from_later]])
    return np.concatenate([np.sort(right[:hits]), np.sort(wrong)])


def gallery_figure(
    rows: Sequence[GalleryRow],
    path: str | Path,
    *,
    theta: float | None = 90.0,
    radius: float = 50.0,
    shown: int = 4,
    dpi: int = DPI,
) -> Path:
    """Draw a row a query: its photo, its first `shown` matches, and on a map, north up, who stood and looked where.

    theta [deg], radius [m]: the sector a camera sees; without theta cameras are dots. A panorama sees a disk, a
    camera of unknown heading is a dot. A photo that is not there or cannot be read leaves a grey tile with its name.
    """
    if not rows:
        raise InputError(f"{path}: no queries to show; is there one that has a right match in the map?")
    columns = max(1, min(shown, max(len(row.matches) for row in rows)))
    height = CAPTION + TILE + TEXT + GAP
    size = (_left(columns + 1) + GAP + MAP_SIDE + GAP, HEAD + len(rows) * height + FOOT)
    with house_style() as plt:
        figure = plt.figure(figsize=size, dpi=dpi)
        for i, row in enumerate(rows):
            _draw_row(figure, row, columns, size[1] - HEAD - i * height, theta, radius)
        _draw_head(figure, columns, {kind for row in rows for one in row.matches for kind, _ in _known(one)})
        return _save(figure, Path(path))


def _left(column: int) -> float:
    """[inch] where a column begins; the query stands a little apart."""
    return GAP + column * (TILE + GAP) + (GAP if column else 0)


def _draw_head(figure: Any, columns: int, shown: set[str]) -> None:
    """Names of the columns above; below, what the marks and letters that are shown mean."""
    width, height = figure.get_size_inches()
    names = ["query", *(f"match {i + 1}" for i in range(columns)), "map, north up"]
    for i, name in enumerate(names):
        middle = _left(i) + (TILE / 2 if i <= columns else GAP + MAP_SIDE / 2)
        figure.text(
            middle / width, 1 - 0.17 / height, name, ha="center", va="center", size=9.5, weight="bold"
        )
    key = ((RIGHT, "✓ the same place"), (WRONG, "✗ another place"), (INK, "query"))
    for i, (colour, words) in enumerate(key):
        figure.text((GAP + 1.3 * i) / width, 0.28 / height, words, size=8.5, color=colour, weight="bold")
    letters = [f"{name} {meaning}" for name, meaning in _LETTERS.items() if name in shown]
    figure.text(GAP / width, 0.1 / height, "     ".join(letters), size=8.5, color="#5b626c")


def _draw_row(
    figure: Any, row: GalleryRow, columns: int, top: float, theta: float | None, radius: float
) -> None:
    width, height = figure.get_size_inches()
    matches = list(row.matches)[:columns]
    figure.text(GAP / width, (top - 0.17) / height, row.caption, size=8.5, va="baseline", weight="bold")
    _draw_photo(figure, row.image, _left(0), top - CAPTION, INK)
    for i, match in enumerate(matches):
        colour = _colour(match.is_positive)
        x, y = _draw_photo(figure, match.image, _left(i + 1), top - CAPTION, colour)
        mark = {True: "✓", False: "✗", None: ""}[match.is_positive]
        figure.text(
            (x + 0.05) / width,
            (y - 0.05) / height,
            f"{i + 1}{mark}",
            size=9,
            weight="bold",
            color="white",
            va="top",
            zorder=6,
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 1.6},
        )
        middle, below = (_left(i + 1) + TILE / 2) / width, (top - CAPTION - TILE - 0.15) / height
        figure.text(middle, below, _words(match), size=7.5, ha="center", color=INK)
    left = _left(columns + 1) + GAP
    place = (left / width, (top - CAPTION - MAP_SIDE) / height, MAP_SIDE / width, MAP_SIDE / height)
    axes = figure.add_axes(place)
    _draw_map(axes, row, matches, theta, radius)


def _colour(is_positive: bool | None) -> str:
    return GREY if is_positive is None else (RIGHT if is_positive else WRONG)


def _words(match: GalleryMatch) -> str:
    return "   ".join(f"{name} {value:.2f}" for name, value in _known(match))


_LETTERS = {"d": "distance of descriptors", "ψ̂": "predicted overlap", "ψ": "true overlap"}


def _known(match: GalleryMatch) -> list[tuple[str, float]]:
    """The numbers below a match, by their letters."""
    values = zip(_LETTERS, (match.distance, match.predicted, match.overlap), strict=True)
    return [(name, value) for name, value in values if value is not None and np.isfinite(value)]


def _draw_photo(figure: Any, path: Path, left: float, top: float, colour: str) -> tuple[float, float]:
    """A photo in the middle of its tile with a frame about it; its upper left corner. left, top: of the tile [inch]."""
    width, height = figure.get_size_inches()
    picture = _thumbnail(path, round(TILE * figure.dpi))
    across, up = (
        (TILE, TILE) if picture is None else (picture.shape[1] / figure.dpi, picture.shape[0] / figure.dpi)
    )
    x, y = left + (TILE - across) / 2, top - TILE + (TILE - up) / 2
    axes = figure.add_axes((x / width, y / height, across / width, up / height))
    if picture is None:
        axes.set_facecolor(PALE)
        words = f"{_short(Path(path).name)}\n{'cannot be read' if Path(path).is_file() else 'is not here'}"
        axes.text(0.5, 0.5, words, ha="center", va="center", size=6.5, color="#5b626c")
    else:
        axes.imshow(picture, aspect="auto", interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linewidth=2.4)
    return x, y + up


def _thumbnail(path: Path, side: int) -> NDArray[np.uint8] | None:
    """The photo at the size it is shown at, upright; None where there is none, or a broken one."""
    try:
        return np.asarray(open_photo(path, side))
    except InputError:
        return None


def _short(name: str) -> str:
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


@dataclass(frozen=True)
class _Camera:
    """Who stood where on a row's map and looked where: metres from the query, its number, its colour."""

    at: Floats  # (2,) east, north of the query [m]
    heading: float  # [deg]
    opening: float  # [deg]; 0 is a dot
    name: str
    colour: str

    def outline(self, radius: float) -> Floats:
        """(n, 2) points about all it covers."""
        turns = np.deg2rad(self.heading + np.linspace(-0.5, 0.5, 33) * self.opening)
        reach = radius if self.opening else 0.2 * radius
        return np.concatenate(
            [self.at[None], self.at + reach * np.stack([np.sin(turns), np.cos(turns)], axis=1)]
        )

    def middle(self, radius: float) -> Floats:
        """(2,) where its number stands: well inside a sector, at the side of a dot."""
        turn = np.deg2rad(self.heading)
        ahead = np.array([np.sin(turn), np.cos(turn)])
        return self.at + (0.72 * radius * ahead if self.opening else 0.16 * radius)


def _camera(
    one: GalleryRow | GalleryMatch, home: Position, name: str, colour: str, theta: float | None
) -> _Camera:
    easting, northing, heading = one.position
    known = theta is not None and np.isfinite(heading)
    opening = 360.0 if one.panorama else (float(theta or 0.0) if known else 0.0)
    at = np.array([easting - home[0], northing - home[1]], dtype=np.float64)
    return _Camera(at, float(np.nan_to_num(heading)), opening, name, colour)


def _draw_map(
    axes: Any, row: GalleryRow, matches: Sequence[GalleryMatch], theta: float | None, radius: float
) -> None:
    """Sectors of the query and of the matches near it. Matches that are too far off are arrows to the rim."""
    axes.set(xticks=[], yticks=[], facecolor=PAPER)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, linewidth=0.8)
    if not np.isfinite(row.position[:2]).all():
        axes.text(0.5, 0.5, "position unknown", ha="center", va="center", size=8, color="#5b626c")
        return
    query = _camera(row, row.position, "", INK, theta)
    found = [
        _camera(match, row.position, str(i + 1), _colour(match.is_positive), theta)
        for i, match in enumerate(matches)
        if np.isfinite(match.position[:2]).all()
    ]
    near: list[_Camera] = []
    far: list[_Camera] = []
    for camera in found:
        (near if np.hypot(*camera.at) <= REACH * radius else far).append(camera)
    low, side = map_window([query, *near], radius)
    axes.set(xlim=(low[0], low[0] + side), ylim=(low[1], low[1] + side))
    for camera in [*near[::-1], query]:
        _draw_camera(axes, camera, radius)
    page = _Page(low, side)
    _draw_scale(axes, page)
    tails = _draw_arrows(axes, far, page)
    for camera in (query, *near):
        page.take(camera.at, _Page.LETTER, _Page.LETTER)  # a dot
    for at, colour, words in _numbers(near, radius, 0.13 * side):
        _write(axes, page.free(at, words), words, colour)
    for camera, tail in zip(far, tails, strict=True):
        metres = float(np.hypot(*camera.at))
        words = f"{camera.name}: " + (f"{metres / 1000:.1f} km" if metres >= 1000 else f"{metres:.0f} m")
        _write(axes, page.free(tail, words), words, camera.colour)


class _Page:
    """A map's square, and what is written on it: no words may stand on others, or on the arrows and the scale."""

    LETTER, LINE = 0.05, 0.1  # width of a letter and height of a line, of the side

    def __init__(self, low: Floats, side: float) -> None:
        self.low, self.side = low, side
        self._taken: list[tuple[Floats, Floats]] = []  # middle and half sides of boxes, of the side

    def take(self, at: Floats, across: float, up: float) -> None:
        """Keep a box free of words. at: its middle [m]; across, up: its sides, of the map's side."""
        self._taken.append(((at - self.low) / self.side, np.array([across, up]) / 2))

    def free(self, at: Floats, words: str) -> Floats:
        """The middle of the free box for these words that is nearest to `at` [m]; `at` itself where none is free."""
        half = np.array([self.LETTER * len(words) + 0.03, self.LINE]) / 2
        wanted = (at - self.low) / self.side
        ticks = np.linspace(0.0, 1.0, 41)
        places = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        places = np.concatenate([wanted[None], places])
        inside = ((places >= half + 0.01) & (places <= 0.99 - half)).all(axis=1)
        for middle, other in self._taken:
            inside &= (np.abs(places - middle) >= half + other).any(axis=1)
        apart = np.hypot(*(places - wanted).T)
        best = places[np.where(inside, apart, np.inf).argmin()] if inside.any() else wanted
        self._taken.append((best, half))
        return np.asarray(self.low + self.side * best)


def map_window(cameras: Sequence[_Camera], radius: float) -> tuple[Floats, float]:
    """South-west corner and side [m from the query] of the square about all that these cameras see."""
    seen = np.concatenate([camera.outline(radius) for camera in cameras])
    least, most = seen.min(axis=0), seen.max(axis=0)
    side = 1.16 * max(float((most - least).max()), radius)
    return (least + most - side) / 2, side


def _draw_camera(axes: Any, camera: _Camera, radius: float) -> None:
    if camera.opening:
        shape = camera.at, camera.heading, camera.opening, radius
        axes.add_patch(wedge(*shape, facecolor=camera.colour, alpha=0.12, edgecolor="none"))
        axes.add_patch(wedge(*shape, facecolor="none", edgecolor=camera.colour, linewidth=1.3))
    size = 4.5 if camera.opening else 7
    axes.plot(*camera.at, "o", color=camera.colour, markersize=size, markeredgecolor="white", zorder=4)


def _numbers(cameras: Sequence[_Camera], radius: float, close: float) -> list[tuple[Floats, str, str]]:
    """Where to write which numbers in which colour; those of one colour that would overlap stand together."""
    written: list[tuple[Floats, str, str]] = []
    for camera in cameras:
        at = camera.middle(radius)
        for i, (there, colour, words) in enumerate(written):
            if colour == camera.colour and np.hypot(*(there - at)) < close:
                written[i] = (there, colour, f"{words} {camera.name}")
                break
        else:
            written.append((at, camera.colour, camera.name))
    return written


def _write(axes: Any, at: Floats, words: str, colour: str) -> None:
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.6}
    look = {"size": 7, "weight": "bold", "color": colour, "bbox": box, "zorder": 6}
    axes.text(*at, words, ha="center", va="center", **look)


def _draw_arrows(axes: Any, cameras: Sequence[_Camera], page: _Page) -> list[Floats]:
    """On the rim an arrow towards each of these; the ends that they start from."""
    tails: list[Floats] = []
    for camera in cameras:
        with np.errstate(divide="ignore"):
            to_rim = float(np.maximum(page.low / camera.at, (page.low + page.side) / camera.at).min())
        tip = 0.99 * to_rim * camera.at
        tail = tip - 0.12 * page.side * camera.at / np.hypot(*camera.at)
        arrow = {"arrowstyle": "-|>", "color": camera.colour, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=tip, xytext=tail, arrowprops=arrow, zorder=7)
        across, up = np.abs(tip - tail) / page.side + 0.05  # its head is wider than its line
        page.take((tip + tail) / 2, across, up)
        tails.append(tail)
    return tails


def _draw_scale(axes: Any, page: _Page) -> None:
    """A bar of a round number of metres, about a quarter of the map."""
    side = page.side
    step = 10.0 ** np.floor(np.log10(0.35 * side))
    length = max(factor * step for factor in (1, 2, 5) if factor * step <= 0.35 * side)
    left, bottom = page.low + 0.04 * side
    bar = {"color": INK, "linewidth": 2, "solid_capstyle": "butt", "zorder": 7}
    axes.plot([left, left + length], [bottom, bottom], **bar)
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.6}
    words = {"size": 6.5, "color": INK, "va": "bottom", "bbox": box, "zorder": 7}
    axes.text(left, bottom + 0.025 * side, f"{length:g} m", **words)
    page.take(np.array([left + length / 2, bottom + 0.05 * side]), max(length / side, 0.22), 0.16)


def _save(figure: Any, path: Path) -> Path:
    """As the house saves; but a png with a palette, in which the frames keep their exact colours."""
    if path.suffix.lower() != ".png":
        return save(figure, path)
    import matplotlib.pyplot as plt

    figure.canvas.draw()
    drawn = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    path.parent.mkdir(parents=True, exist_ok=True)
    for colours in COLOURS:
        content = _png(drawn, colours)
        if len(content) <= MOST_BYTES:
            break
    path.write_bytes(content)
    plt.close(figure)
    return path


def _png(drawn: NDArray[np.uint8], colours: int) -> bytes:
    """(h, w, 3) as a png of the colours that occur most, and those of frames and paper exactly."""
    from matplotlib.colors import to_rgb
    from PIL import Image

    exact = np.array([to_rgb(colour) for colour in (RIGHT, WRONG, INK, GREY, PALE, PAPER, "white")])
    exact = np.rint(255 * exact).astype(np.uint8)
    # of every 16th pixel, since a good choice of colours takes long
    chosen = Image.fromarray(np.ascontiguousarray(drawn[::4, ::4])).quantize(colours, kmeans=2)
    palette = np.resize(np.array(chosen.getpalette(), dtype=np.uint8), 3 * colours)
    chosen.putpalette(palette.tobytes())
    which = np.array(Image.fromarray(drawn).quantize(palette=chosen, dither=Image.Dither.NONE))
    for i, colour in enumerate(exact):
        which[(drawn == colour).all(axis=2)] = colours + i
    indexed = Image.fromarray(which)  # a palette turns grey levels into indices
    indexed.putpalette(np.concatenate([palette, exact.ravel()]).tobytes())
    file = BytesIO()
    indexed.save(file, "png", optimize=True)
    return file.getvalue()
