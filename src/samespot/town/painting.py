"""The walls of houses as pictures: windows, doors, shops, signs, brick and timber, painted from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

TEXEL = 0.08  # [m] of wall a texel
SHOP_LIGHT, SIGN_LIGHT = 252, 254  # values of the light channel: lit in the evening, lit at night
LAST_WINDOW = 250  # a window's value is 1 … 250, and the visit decides which of them are lit

Colour = tuple[float, float, float]
PLASTER: tuple[Colour, ...] = (
    (0.86, 0.80, 0.66), (0.80, 0.62, 0.48), (0.72, 0.76, 0.70), (0.90, 0.88, 0.82), (0.84, 0.72, 0.42),
    (0.66, 0.72, 0.80), (0.78, 0.50, 0.44), (0.60, 0.66, 0.54), (0.88, 0.74, 0.70), (0.54, 0.56, 0.60),
    (0.46, 0.58, 0.66), (0.92, 0.84, 0.56),
)  # fmt: skip
BRICK: tuple[Colour, ...] = (
    (0.56, 0.30, 0.24),
    (0.48, 0.27, 0.23),
    (0.62, 0.42, 0.30),
    (0.40, 0.32, 0.30),
    (0.68, 0.58, 0.44),
)
STONE: tuple[Colour, ...] = ((0.68, 0.64, 0.56), (0.58, 0.57, 0.54), (0.74, 0.70, 0.62))
PANEL: tuple[Colour, ...] = ((0.62, 0.64, 0.66), (0.42, 0.46, 0.50), (0.78, 0.78, 0.76), (0.52, 0.40, 0.32))
TRIM: tuple[Colour, ...] = (
    (0.94, 0.93, 0.90),
    (0.30, 0.24, 0.20),
    (0.80, 0.78, 0.72),
    (0.22, 0.28, 0.26),
    (0.50, 0.20, 0.16),
)
VIVID: tuple[Colour, ...] = (
    (0.78, 0.14, 0.12), (0.10, 0.34, 0.62), (0.08, 0.46, 0.28), (0.93, 0.72, 0.10), (0.40, 0.16, 0.46),
    (0.95, 0.48, 0.10), (0.10, 0.52, 0.56), (0.20, 0.20, 0.24), (0.86, 0.36, 0.52),
)  # fmt: skip
GLASS: Colour = (0.16, 0.20, 0.25)


@dataclass(frozen=True)
class Style:
    """What the houses of one builder have in common; towns repeat a few of them."""

    material: str  # plaster, brick, stone, timber, panel
    storey: float  # [m]
    bay: float  # [m] from window to window
    window: tuple[float, float]  # [m] width, height
    panes: tuple[int, int]
    trim: Colour
    arched: bool
    shutters: bool
    bands: bool  # a string course below every storey


def make_style(rng: np.random.Generator) -> Style:
    material = str(
        rng.choice(["plaster", "brick", "stone", "timber", "panel"], p=[0.42, 0.25, 0.11, 0.11, 0.11])
    )
    modern = material == "panel"
    window = (float(rng.uniform(1.5, 2.2)), float(rng.uniform(1.2, 1.7))) if modern else (
        float(rng.uniform(0.8, 1.3)), float(rng.uniform(1.3, 2.0)))  # fmt: skip
    return Style(
        material,
        float(rng.uniform(2.8, 3.6)),
        window[0] + float(rng.uniform(0.5, 1.5)),
        window,
        (int(rng.integers(1, 4)), int(rng.integers(1, 4))),
        TRIM[rng.integers(len(TRIM))],
        bool(rng.random() < 0.2 and not modern),
        bool(rng.random() < 0.35 and material == "plaster"),
        bool(rng.random() < 0.5),
    )


class Canvas:
    """A wall in metres from its lower left corner. `light` says what shines after dark."""

    def __init__(self, width: float, height: float, colour: Colour) -> None:
        self.width, self.height = width, height
        shape = (max(2, round(height / TEXEL)), max(2, round(width / TEXEL)))
        self.paint = np.empty((*shape, 3), dtype=np.float32)
        self.paint[:] = colour
        self.light = np.zeros(shape, dtype=np.uint8)

    def _cells(self, x0: float, y0: float, x1: float, y1: float) -> tuple[slice, slice]:
        rows, columns = self.light.shape
        left, right = (min(columns, max(0, round(x / TEXEL))) for x in (x0, x1))
        top, bottom = (min(rows, max(0, rows - round(y / TEXEL))) for y in (y1, y0))
        return slice(top, bottom), slice(left, right)

    def rect(self, x0: float, y0: float, x1: float, y1: float, colour: Colour, light: int = 0) -> None:
        cells = self._cells(x0, y0, x1, y1)
        self.paint[cells] = colour
        self.light[cells] = light

    def shade(self, x0: float, y0: float, x1: float, y1: float, factor: float) -> None:
        self.paint[self._cells(x0, y0, x1, y1)] *= factor

    def disc(self, x: float, y: float, radius: float, colour: Colour, light: int = 0) -> None:
        cells = self._cells(x - radius, y - radius, x + radius, y + radius)
        rows, columns = (np.arange(s.start, s.stop) for s in cells)
        up = (self.light.shape[0] - rows[:, None] - 0.5) * TEXEL - y
        round_ = np.hypot(up, (columns[None] + 0.5) * TEXEL - x) <= radius
        self.paint[cells][round_] = colour
        self.light[cells][round_] = light

    def stroke(self, x0: float, y0: float, x1: float, y1: float, width: float, colour: Colour) -> None:
        """A slanted beam."""
        for t in np.linspace(0.0, 1.0, max(2, round(np.hypot(x1 - x0, y1 - y0) / TEXEL))):
            x, y = x0 + t * (x1 - x0), y0 + t * (y1 - y0)
            self.rect(x - width / 2, y - width / 2, x + width / 2, y + width / 2, colour)

    def texels(self, rng: np.random.Generator, grain: float) -> NDArray[np.uint8]:
        """(rows, columns, 4) with stains and grain on top, which make one wall differ from the next."""
        shape = self.light.shape
        stains = 1.0 + 0.10 * smooth_noise(rng, shape, 24) + 0.05 * smooth_noise(rng, shape, 7)
        foot = 1.0 - 0.16 * np.exp(-np.arange(shape[0])[::-1, None] * TEXEL / 0.7)
        plain = self.light == 0
        factor = np.where(plain, stains * foot * (1.0 + grain * rng.standard_normal(shape)), 1.0)
        painted = np.clip(self.paint * factor[..., None].astype(np.float32), 0.0, 1.0)
        return np.dstack([np.rint(painted * 255.0).astype(np.uint8), self.light])


def smooth_noise(rng: np.random.Generator, shape: tuple[int, int], cell: int) -> NDArray[np.float32]:
    """Noise of about unit spread that changes over `cell` texels."""
    rows, columns = shape
    knots = rng.standard_normal((rows // cell + 2, columns // cell + 2)).astype(np.float32)
    y, x = np.arange(rows, dtype=np.float32) / cell, np.arange(columns, dtype=np.float32) / cell
    i, j = y.astype(np.intp), x.astype(np.intp)
    ty, tx = (y - i)[:, None], x - j
    wide = knots[:, j] * (1 - tx) + knots[:, j + 1] * tx
    smooth: NDArray[np.float32] = (wide[i] * (1 - ty) + wide[i + 1] * ty).astype(np.float32)
    return smooth


# ---- walls -----------------------------------------------------------------------------------------------


def wall_colour(rng: np.random.Generator, style: Style) -> Colour:
    choices = {"plaster": PLASTER, "brick": BRICK, "stone": STONE, "timber": PLASTER[:5], "panel": PANEL}
    base = np.array(choices[style.material][rng.integers(len(choices[style.material]))])
    r, g, b = np.clip(base * rng.uniform(0.88, 1.08) + rng.uniform(-0.03, 0.03, 3), 0.05, 0.97)
    return float(r), float(g), float(b)


def paint_front(
    rng: np.random.Generator,
    style: Style,
    colour: Colour,
    width: float,
    floors: int,
    ground: float,
    height: float,
    use: str,
) -> tuple[NDArray[np.uint8], Colour]:
    """The street side of a house: its texels, and the colour that its sign or door has."""
    canvas = Canvas(width, height, colour)
    accent = VIVID[rng.integers(len(VIVID))]
    _material(canvas, rng, style, colour)
    if style.bands:
        for floor in range(1, floors):
            y = ground + (floor - 1) * style.storey
            canvas.rect(0, y - 0.1, width, y + 0.12, style.trim)
    _windows(canvas, rng, style, ground, floors, accent)
    {"shop": _shop, "house": _house, "garage": _garage, "arcade": _arcade}[use](
        canvas, rng, style, ground, accent
    )
    _cornice(canvas, rng, style)
    if use != "shop" and rng.random() < 0.07:
        _mural(canvas, rng, ground)
    if rng.random() < 0.12:
        _ivy(canvas, rng)
    return canvas.texels(rng, 0.05 if style.material in ("brick", "stone") else 0.025), accent


def paint_side(
    rng: np.random.Generator,
    style: Style,
    colour: Colour,
    width: float,
    floors: int,
    ground: float,
    height: float,
) -> NDArray[np.uint8]:
    """A side wall: the same material with a few windows, if any."""
    canvas = Canvas(width, height, colour)
    _material(canvas, rng, style, colour)
    columns = int(rng.integers(0, 4))
    for column in range(columns):
        x = width * (column + 0.5 + 0.3 * float(rng.uniform(-0.5, 0.5))) / columns
        for floor in range(floors):
            if rng.random() < 0.8:
                y = (ground + (floor - 1) * style.storey if floor else ground - style.storey) + 0.9
                _window(canvas, rng, style, x, max(0.8, y), style.window[0], min(style.window[1], 1.5))
    if rng.random() < 0.2:
        _mural(canvas, rng, ground)
    if rng.random() < 0.2:
        _ivy(canvas, rng)
    return canvas.texels(rng, 0.05 if style.material in ("brick", "stone") else 0.025)


def _material(canvas: Canvas, rng: np.random.Generator, style: Style, colour: Colour) -> None:
    rows, columns = canvas.light.shape
    if style.material in ("brick", "stone"):
        tall, long = (2, 4) if style.material == "brick" else (5, 10)
        course = np.arange(rows) // tall
        number = (np.arange(columns)[None] + (course[:, None] % 2) * (long // 2)) // long
        shades = 1.0 + (0.11 if style.material == "brick" else 0.09) * rng.standard_normal(
            (rows // tall + 1, columns // long + 2)
        )
        canvas.paint *= shades[course[:, None], number][..., None].astype(np.float32)
        if style.material == "stone":
            canvas.paint[np.arange(rows) % tall == 0] *= 0.86
    elif style.material == "timber":
        beam = tuple(0.3 * c for c in (0.9, 0.62, 0.45))
        for y in np.arange(0.0, canvas.height + 0.1, style.storey):
            canvas.rect(0, y - 0.12, canvas.width, y + 0.12, beam)  # type: ignore[arg-type]
        posts = np.linspace(0.0, canvas.width, max(3, round(canvas.width / style.bay) + 1))
        for k, x in enumerate(posts):
            canvas.rect(x - 0.1, 0, x + 0.1, canvas.height, beam)  # type: ignore[arg-type]
            if k + 1 < len(posts) and rng.random() < 0.5:
                floor = int(rng.integers(1, max(2, int(canvas.height / style.storey))))
                ends = (x, posts[k + 1]) if rng.random() < 0.5 else (posts[k + 1], x)
                canvas.stroke(ends[0], floor * style.storey, ends[1], (floor + 1) * style.storey, 0.18, beam)  # type: ignore[arg-type]
    elif style.material == "panel":
        for x in np.arange(0.0, canvas.width, style.bay):
            canvas.shade(x - 0.04, 0, x + 0.04, canvas.height, 0.75)
        for y in np.arange(0.0, canvas.height, style.storey):
            canvas.shade(0, y - 0.04, canvas.width, y + 0.04, 0.75)


def _window(
    canvas: Canvas, rng: np.random.Generator, style: Style, x: float, y: float, w: float, h: float
) -> None:
    """A window with its sill, frame and panes; x is its middle, y its foot."""
    trim, light = style.trim, int(rng.integers(1, LAST_WINDOW + 1))
    canvas.shade(x - w / 2 - 0.16, y - 0.3, x + w / 2 + 0.16, y, 0.82)  # below a sill the wall is stained
    canvas.rect(x - w / 2 - 0.12, y - 0.12, x + w / 2 + 0.12, y + h + 0.12, trim)
    glass: Any = tuple(np.clip(np.array(GLASS) * rng.uniform(0.6, 1.5), 0, 1))
    if style.arched:
        canvas.disc(x, y + h, w / 2 + 0.12, trim)
        canvas.disc(x, y + h, w / 2, glass, light)
    canvas.rect(x - w / 2, y, x + w / 2, y + h, glass, light)
    if rng.random() < 0.35:  # a curtain or a blind
        drop = h * float(rng.uniform(0.2, 0.8))
        canvas.rect(x - w / 2, y + h - drop, x + w / 2, y + h, tuple(rng.uniform(0.55, 0.85, 3)), light)
    for k in range(1, style.panes[0]):
        at = x - w / 2 + w * k / style.panes[0]
        canvas.rect(at - 0.04, y, at + 0.04, y + h, trim)
    for k in range(1, style.panes[1]):
        at = y + h * k / style.panes[1]
        canvas.rect(x - w / 2, at - 0.04, x + w / 2, at + 0.04, trim)


def _windows(
    canvas: Canvas, rng: np.random.Generator, style: Style, ground: float, floors: int, accent: Colour
) -> None:
    columns = max(1, int((canvas.width - 0.6) / style.bay))
    bay = canvas.width / columns
    rhythm = rng.random(columns) < 0.93  # here and there a column is walled up
    balcony = int(rng.integers(0, columns)) if rng.random() < 0.35 else -1
    shutter: Colour = accent if rng.random() < 0.6 else TRIM[3]
    for floor in range(1, floors):
        foot = ground + (floor - 1) * style.storey + 0.75
        tall = style.window[1] * (0.8 if floor == floors - 1 else 1.0)
        for column in range(columns):
            x = (column + 0.5) * bay
            if not rhythm[column]:
                continue
            if column == balcony:
                _window(canvas, rng, style, x, foot - 0.5, style.window[0] + 0.2, tall + 0.5)
                canvas.rect(x - bay * 0.48, foot - 0.72, x + bay * 0.48, foot - 0.5, (0.5, 0.5, 0.5))
                for rail in np.arange(x - bay * 0.46, x + bay * 0.46, 0.24):
                    canvas.rect(rail, foot - 0.5, rail + 0.08, foot + 0.35, (0.12, 0.12, 0.13))
                continue
            _window(canvas, rng, style, x, foot, style.window[0], tall)
            if style.shutters:
                reach, leaf = style.window[0] / 2 + 0.12, min(0.45, 0.5 * (bay - style.window[0]) - 0.14)
                for left in (x - reach - leaf, x + reach):
                    canvas.rect(left, foot, left + leaf, foot + tall, shutter)
            if rng.random() < 0.1:  # flowers
                canvas.rect(
                    x - style.window[0] / 2,
                    foot - 0.05,
                    x + style.window[0] / 2,
                    foot + 0.2,
                    VIVID[rng.integers(len(VIVID))],
                )


def _letters(
    canvas: Canvas, rng: np.random.Generator, x0: float, x1: float, y: float, tall: float, colour: Colour
) -> None:
    """A word of made-up letters, 3 × 5 strokes each."""
    dot = tall / 5.0
    count = min(int(rng.integers(4, 10)), int((x1 - x0) / (4 * dot)))
    x = 0.5 * (x0 + x1) - 2.0 * dot * count
    for _ in range(count):
        glyph = rng.random((5, 3)) < 0.55
        glyph[:, 0] |= rng.random() < 0.6
        for row, column in np.argwhere(glyph):
            canvas.rect(
                x + column * dot,
                y + tall - (row + 1) * dot,
                x + (column + 1) * dot,
                y + tall - row * dot,
                colour,
                SIGN_LIGHT,
            )
        x += 4 * dot


def _door(
    canvas: Canvas, rng: np.random.Generator, x: float, wide: float, tall: float, colour: Colour, trim: Colour
) -> None:
    canvas.rect(x - wide / 2 - 0.16, 0, x + wide / 2 + 0.16, tall + 0.16, trim)
    canvas.rect(x - wide / 2, 0, x + wide / 2, tall, colour)
    canvas.rect(x - wide / 2, tall - 0.5, x + wide / 2, tall - 0.08, GLASS, int(rng.integers(1, 120)))
    canvas.shade(x - 0.04, 0, x + 0.04, tall - 0.5, 0.6)
    canvas.rect(x - wide / 2, 0, x + wide / 2, 0.16, (0.55, 0.54, 0.52))


def _shop(canvas: Canvas, rng: np.random.Generator, style: Style, ground: float, accent: Colour) -> None:
    w, frame = canvas.width, TRIM[rng.integers(len(TRIM))]
    top = ground - 0.95
    canvas.rect(0.25, 0, w - 0.25, ground - 0.15, accent if rng.random() < 0.6 else frame)
    door = float(rng.uniform(1.2, w - 1.2)) if rng.random() < 0.5 else w / 2
    panes = np.linspace(0.45, w - 0.45, int(rng.integers(3, 7)))
    for left, right in pairwise(panes):
        canvas.rect(left + 0.08, 0.55, right - 0.08, top, (0.30, 0.30, 0.29), SHOP_LIGHT)
        for _ in range(5):  # goods behind the glass
            x, wide, high = rng.uniform(left + 0.1, right - 0.4), rng.uniform(0.2, 0.6), rng.uniform(0.2, 1.1)
            goods = tuple(0.65 * c for c in VIVID[rng.integers(len(VIVID))])
            canvas.rect(x, 0.6, min(x + wide, right - 0.1), 0.6 + high, goods, SHOP_LIGHT)  # type: ignore[arg-type]
    _door(canvas, rng, door, 1.0, 2.3, (0.25, 0.22, 0.2), frame)
    board = VIVID[rng.integers(len(VIVID))]
    inset = float(rng.uniform(0.3, 0.25 * w))
    canvas.rect(inset, top + 0.15, w - inset, ground - 0.1, board)
    ink: Colour = (0.97, 0.95, 0.88) if sum(board) < 1.6 else (0.08, 0.08, 0.1)
    _letters(canvas, rng, inset + 0.2, w - inset - 0.2, top + 0.24, 0.5, ink)


def _house(canvas: Canvas, rng: np.random.Generator, style: Style, ground: float, accent: Colour) -> None:
    columns = max(1, int((canvas.width - 0.6) / style.bay))
    bay, door = canvas.width / columns, int(rng.integers(0, columns))
    if rng.random() < 0.5:
        r, g, b = (0.72 * canvas.paint[-1, 0]).tolist()
        canvas.rect(0, 0, canvas.width, 0.8, (r, g, b))
    for column in range(columns):
        x = (column + 0.5) * bay
        if column == door:
            _door(canvas, rng, x, 1.05, 2.3, accent, style.trim)
            canvas.rect(x + 0.75, 1.6, x + 1.0, 1.85, (0.9, 0.9, 0.95))  # the number
        elif rng.random() < 0.9:
            _window(canvas, rng, style, x, 1.0, style.window[0], min(style.window[1], ground - 1.5))


def _garage(canvas: Canvas, rng: np.random.Generator, style: Style, ground: float, accent: Colour) -> None:
    wide = min(3.2, canvas.width - 1.6)
    left = float(rng.uniform(0.4, max(0.45, canvas.width - wide - 0.4)))
    canvas.rect(left - 0.15, 0, left + wide + 0.15, 2.75, style.trim)
    canvas.rect(left, 0, left + wide, 2.6, accent)
    for y in np.arange(0.3, 2.6, 0.4):
        canvas.shade(left, y, left + wide, y + 0.08, 0.7)
    x = left - 1.2 if left > canvas.width / 2 else left + wide + 1.2
    if 0.8 < x < canvas.width - 0.8:
        _door(canvas, rng, x, 0.95, 2.2, (0.3, 0.25, 0.2), style.trim)


def _arcade(canvas: Canvas, rng: np.random.Generator, style: Style, ground: float, accent: Colour) -> None:
    count = max(2, int(canvas.width / 3.0))
    bay = canvas.width / count
    for k in range(count):
        x, r = (k + 0.5) * bay, 0.36 * bay
        spring = ground - 0.4 - r
        canvas.disc(x, spring, r + 0.16, style.trim)
        canvas.rect(x - r - 0.16, 0, x + r + 0.16, spring, style.trim)
        canvas.disc(x, spring, r, (0.14, 0.13, 0.13), SHOP_LIGHT if k % 2 else 0)
        canvas.rect(x - r, 0, x + r, spring, (0.14, 0.13, 0.13), SHOP_LIGHT if k % 2 else 0)


def _cornice(canvas: Canvas, rng: np.random.Generator, style: Style) -> None:
    w, h = canvas.width, canvas.height
    canvas.rect(0, h - 0.32, w, h, style.trim)
    canvas.shade(0, h - 0.5, w, h - 0.32, 0.7)
    if rng.random() < 0.35:  # quoins
        for y in np.arange(0.0, h - 0.5, 0.8):
            for left, right in ((0.0, 0.5), (w - 0.5, w)):
                canvas.rect(left, y, right, y + 0.4, style.trim)
    canvas.shade(0, 0, 0.08, h, 0.6)  # the joint between two houses
    if rng.random() < 0.4:
        pipe = 0.3 if rng.random() < 0.5 else w - 0.45
        canvas.rect(pipe, 0, pipe + 0.16, h - 0.3, (0.35, 0.36, 0.36))


def _mural(canvas: Canvas, rng: np.random.Generator, ground: float) -> None:
    for _ in range(9):
        x, y = (
            rng.uniform(0.5, canvas.width - 0.5),
            rng.uniform(0.4, max(1.0, min(canvas.height - 1.0, 2.2 * ground))),
        )
        colour = VIVID[rng.integers(len(VIVID))]
        if rng.random() < 0.5:
            canvas.disc(x, y, float(rng.uniform(0.3, 1.3)), colour)
        else:
            canvas.stroke(
                x, y, x + rng.uniform(-3, 3), y + rng.uniform(-2, 2), float(rng.uniform(0.15, 0.5)), colour
            )


def _ivy(canvas: Canvas, rng: np.random.Generator) -> None:
    shape = canvas.light.shape
    up = np.linspace(1.2, -0.6, shape[0])[::-1, None]
    leaves = smooth_noise(rng, shape, 14) + 0.6 * smooth_noise(rng, shape, 4) > 0.35 + up
    canvas.paint[leaves] = np.array([0.16, 0.27, 0.10], dtype=np.float32) * rng.uniform(
        0.7, 1.3, (int(leaves.sum()), 1)
    )
    canvas.light[leaves] = 0


# ---- roofs and other plain textures ----------------------------------------------------------------------


def paint_tiles(rng: np.random.Generator, colour: Colour, row: int = 4, tile: int = 3) -> NDArray[np.uint8]:
    """A roof of tiles, 64 × 64 texels, that continues to all sides."""
    canvas = Canvas(64 * TEXEL, 64 * TEXEL, colour)
    course, number = (
        np.arange(64) // row,
        (np.arange(64)[None] + (np.arange(64)[:, None] // row % 2) * 2) // tile,
    )
    shades = 1.0 + 0.13 * rng.standard_normal((17, 24))
    canvas.paint *= shades[course[:, None], number][..., None].astype(np.float32)
    canvas.paint[np.arange(64) % row == 0] *= 0.72
    return np.dstack([np.rint(np.clip(canvas.paint, 0, 1) * 255).astype(np.uint8), canvas.light])
