"""Light and air of a visit: sun and its shadows, sky, haze, street lamps and lit windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from samespot.town.plan import Plan, inside

Floats = NDArray[np.float64]
Rgb = tuple[float, float, float]

CELL = 0.5  # [m] of the height field that casts shadows
LAMP_CELL = 12.0  # [m] of the grid by which a point finds the lamps near it
LAMP_RANGE = 26.0  # [m] beyond which a lamp gives no light
SODIUM: Rgb = (1.0, 0.72, 0.40)


@dataclass(frozen=True)
class Hour:
    """A time of day in clear weather."""

    clock: str
    sun_height: float  # [deg] above the horizon
    sun_from: float  # [deg] clockwise from north
    sun: Rgb
    zenith: Rgb
    horizon: Rgb
    lit_windows: float  # share
    shops: float  # power of shop windows
    lamps: float  # power of street lamps
    headlight: float
    gain: float  # of the camera, which opens its shutter longer in the dark


HOURS = {
    "morning": Hour(
        "08:20", 24.0, 105.0, (2.1, 1.75, 1.35),
        (0.34, 0.52, 0.86), (0.80, 0.84, 0.88),
        0.04, 0.1, 0.0, 0.0, 1.05,
    ),
    "day": Hour(
        "13:10", 48.0, 195.0, (2.2, 2.05, 1.85),
        (0.27, 0.46, 0.90), (0.72, 0.82, 0.94),
        0.02, 0.15, 0.0, 0.0, 0.95,
    ),
    "dusk": Hour(
        "20:40", 6.0, 285.0, (1.0, 0.46, 0.20),
        (0.20, 0.24, 0.46), (0.92, 0.54, 0.36),
        0.30, 1.0, 0.55, 0.0, 1.35,
    ),
    "night": Hour(
        "22:50", -30.0, 0.0, (0.0, 0.0, 0.0),
        (0.010, 0.014, 0.030), (0.050, 0.046, 0.052),
        0.36, 0.9, 1.0, 0.5, 2.6,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Weather:
    """What weather does to the light."""

    sun: float  # share of the sun that comes through
    grey: float  # how far the sky turns grey
    clouds: float  # share of the sky that is covered
    haze: float  # [1/m]
    wet: float
    rain: float  # streaks in the picture
    snow: float  # share of the ground that is white


WEATHERS = {
    "clear": Weather(1.0, 0.0, 0.25, 0.0012, 0.0, 0.0, 0.0),
    "overcast": Weather(0.05, 0.85, 1.0, 0.0025, 0.0, 0.0, 0.0),
    "rain": Weather(0.0, 0.75, 1.0, 0.0045, 1.0, 1.0, 0.0),
    "fog": Weather(0.03, 0.95, 1.0, 0.024, 0.3, 0.0, 0.0),
    "snow": Weather(0.25, 0.75, 0.9, 0.0045, 0.0, 0.0, 1.0),
}


class Air(NamedTuple):
    """The numbers of a visit's light: numba hands them on at no cost, which arrays are not."""

    to_sun: Rgb  # unit vector
    sun: Rgb  # what reaches a surface that faces it
    zenith: Rgb
    horizon: Rgb
    clouds: float
    haze: float
    wet: float
    rain: float
    snow: float
    lit_windows: float
    shops: float
    lamps: float
    headlight: float
    gain: float
    visit: int
    west: float
    south: float
    lamp_columns: int


class Light(NamedTuple):
    """All the renderer asks about a visit, besides what stands where."""

    air: Air
    lamp_at: Floats  # (k, 3)
    lamp_first: NDArray[np.int64]  # (cells + 1,) first entry in lamp_list
    lamp_list: NDArray[np.int64]
    shade: NDArray[np.float32]  # (rows, columns) height below which the sun does not come [m]
    skyline: Floats  # (360,) slope of the hills on the horizon, by degree


def height_field(plan: Plan, heights: Floats) -> NDArray[np.float32]:
    """(rows, columns) height of houses and trees [m] in cells of CELL, from south to north."""
    columns, rows = (int(np.ceil(s / CELL)) for s in plan.size)
    field = np.zeros((rows, columns), dtype=np.float32)
    for lot, height in zip(plan.lots, heights, strict=True):
        low = np.maximum(0, ((lot.corners.min(axis=0) - plan.west_south) / CELL).astype(int))
        high = ((lot.corners.max(axis=0) - plan.west_south) / CELL).astype(int) + 1
        j, i = np.meshgrid(np.arange(low[0], min(high[0], columns)), np.arange(low[1], min(high[1], rows)))
        at = plan.west_south + (np.stack([j.ravel(), i.ravel()], axis=1) + 0.5) * CELL
        within = inside(at, lot.corners)
        field[i.ravel()[within], j.ravel()[within]] = height - 1.0  # about the middle of a roof's slope
    for x, y, height, _ in plan.trees:
        radius = 0.24 * height
        j0, i0 = ((np.array([x, y]) - radius - plan.west_south) / CELL).astype(int)
        span = int(2 * radius / CELL) + 1
        i, j = np.mgrid[max(0, i0) : min(rows, i0 + span), max(0, j0) : min(columns, j0 + span)]
        offset = np.hypot(
            plan.west_south[0] + (j + 0.5) * CELL - x, plan.west_south[1] + (i + 0.5) * CELL - y
        )
        crown = offset < radius
        field[i[crown], j[crown]] = np.maximum(field[i[crown], j[crown]], 0.85 * height)
    return field


def make_light(
    plan: Plan, field: NDArray[np.float32], lamps: Floats, hour: str, weather: str, visit: int
) -> Light:
    """The light of one visit."""
    time, air = HOURS[hour], WEATHERS[weather]
    up, around = np.deg2rad(time.sun_height), np.deg2rad(time.sun_from)
    to_sun = np.array([np.cos(up) * np.sin(around), np.cos(up) * np.cos(around), np.sin(up)])
    zenith, horizon = np.array(time.zenith), np.array(time.horizon)
    grey = 0.5 * (zenith.mean() + horizon.mean())
    zenith = zenith + air.grey * (0.92 * grey - zenith)
    horizon = horizon + air.grey * (1.05 * grey - horizon)
    sunny = time.sun_height > 0 and air.sun > 0.1
    shade = cast_shadows(field, to_sun) if sunny else np.zeros((2, 2), dtype=np.float32)
    first, entries, columns = _lamp_grid(plan, lamps)
    dark = 1.0 if time.lamps > 0.3 else 0.0
    hills = np.random.default_rng((plan.seed, 9))
    numbers = Air(
        _three(to_sun),
        _three(np.array(time.sun) * air.sun),
        _three(zenith),
        _three(horizon),
        clouds=air.clouds,
        haze=air.haze,
        wet=air.wet,
        rain=air.rain,
        snow=air.snow,
        lit_windows=min(1.0, time.lit_windows + 0.10 * air.grey * (1.0 - dark)),
        shops=max(time.shops, 0.35 * air.grey),
        lamps=time.lamps,
        headlight=time.headlight,
        gain=time.gain * (1.0 + 0.25 * air.grey * (1.0 - dark)) * (1.0 - 0.22 * air.snow),
        visit=visit,
        west=float(plan.west_south[0]),
        south=float(plan.west_south[1]),
        lamp_columns=columns,
    )
    return Light(numbers, lamps, first, entries, shade, _hills(hills))


def _three(values: Floats) -> Rgb:
    a, b, c = values.tolist()
    return a, b, c


def _hills(rng: np.random.Generator) -> Floats:
    turn = np.deg2rad(np.arange(360))
    waves = sum(
        rng.uniform(0.2, 1.0) / k * np.sin(k * turn + rng.uniform(0, 2 * np.pi)) for k in (1, 2, 3, 5, 8, 13)
    )
    slopes: Floats = 0.075 + 0.045 * waves / np.abs(waves).max()
    return slopes


def _lamp_grid(plan: Plan, lamps: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    columns, rows = (int(np.ceil(s / LAMP_CELL)) for s in plan.size)
    x = plan.west_south[0] + (np.arange(columns) + 0.5) * LAMP_CELL
    y = plan.west_south[1] + (np.arange(rows) + 0.5) * LAMP_CELL
    cells = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    near = np.hypot(*(cells[:, None] - lamps[None, :, :2]).transpose(2, 0, 1)) < LAMP_RANGE + 0.71 * LAMP_CELL
    first = np.concatenate([[0], np.cumsum(near.sum(axis=1))]).astype(np.int64)
    return first, np.nonzero(near)[1].astype(np.int64), columns


@njit(cache=True, parallel=True)
def _cast(field, dx, dy, fall, steps, out):  # type: ignore[no-untyped-def]
    rows, columns = field.shape
    for i in prange(rows):
        for j in range(columns):
            highest = 0.0
            for k in range(1, steps):
                y, x = int(i + 0.5 + k * dy), int(j + 0.5 + k * dx)
                if y < 0 or x < 0 or y >= rows or x >= columns:
                    break
                highest = max(highest, field[y, x] - k * fall)
            out[i, j] = highest


def cast_shadows(field: NDArray[np.float32], to_sun: Floats) -> NDArray[np.float32]:
    """(rows, columns) the height below which each cell lies in shadow [m]."""
    level = float(np.hypot(to_sun[0], to_sun[1]))
    fall = CELL * to_sun[2] / level  # a ray comes down so much from one cell to the next
    steps = int(min(400, float(field.max()) / fall + 2))
    out = np.zeros_like(field)
    _cast(field, to_sun[0] / level, to_sun[1] / level, fall, steps, out)
    return out
