"""Visits to the town: when, in what weather and season, with which camera."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from samespot.errors import InputError
from samespot.town.light import HOURS

# hour, weather, season, day: neighbours in the list differ in all of them
PROGRAMME = (
    ("day", "clear", "summer", "2024-07-03"),
    ("day", "overcast", "autumn", "2024-10-16"),
    ("dusk", "rain", "spring", "2025-04-22"),
    ("night", "snow", "winter", "2025-01-14"),
    ("morning", "fog", "autumn", "2024-11-05"),
    ("dusk", "clear", "summer", "2025-06-12"),
    ("day", "snow", "winter", "2025-02-06"),
    ("night", "rain", "autumn", "2025-10-29"),
)
GRAIN = {"morning": 0.012, "day": 0.010, "dusk": 0.022, "night": 0.045}  # noise of the sensor, of full scale
WIDEST, NARROWEST = 82.0, 58.0  # horizontal field of view [deg]


@dataclass(frozen=True)
class Visit:
    """One drive through all streets."""

    number: int
    hour: str
    weather: str
    season: str
    start: str  # ISO date and time of the first photo
    height: float  # of the camera above the ground [m]
    fov: float  # horizontal [deg]
    pitch: float  # of the mounting, up [deg]
    exposure: float  # factor
    lateral: float  # [m] right of the centre line that the driver keeps

    @property
    def condition(self) -> str:
        return f"{self.hour} {self.weather} {self.season}"

    @property
    def grain(self) -> float:
        return GRAIN[self.hour]


def make_visits(seed: int, count: int) -> list[Visit]:
    """The first `count` visits; each has a camera of its own."""
    if not 2 <= count <= 64:
        raise InputError(f"{count} visits: give 2 to 64, so that there is a map and something to find in it")
    visits = []
    for number in range(count):
        hour, weather, season, day = PROGRAMME[number % len(PROGRAMME)]
        rng = np.random.default_rng((seed, 20, number))
        visits.append(
            Visit(
                number,
                hour,
                weather,
                season,
                f"{day}T{HOURS[hour].clock}:00",
                round(float(rng.uniform(1.5, 2.6)), 2),
                round(float(rng.uniform(NARROWEST, WIDEST)), 1),
                round(float(rng.normal(1.5, 1.2)), 2),
                round(float(np.exp(rng.normal(0.0, 0.16))), 3),
                round(float(rng.uniform(0.8, 1.6)), 2),
            )
        )
    return visits


def map_visits(count: int) -> int:
    """How many of the visits, the first ones, make the map of the test quarter; the others are the queries."""
    return 2 if count >= 4 else 1
