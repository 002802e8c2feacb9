"""The demo: a small generated town of places, labelled, with figures. Needs no data and no network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from samespot.figures.label_set import draw_label_set
from samespot.figures.street_map import draw_street_map
from samespot.overlap.task import LabelTask, Progress, Sectors, run_task
from samespot.places.table import Places

SPACING = 6.0  # metres between two photos of a drive
BLOCK = (70.0, 110.0)  # length of a street block [m], from and to
STREETS = 5  # in each direction
GPS_NOISE = 2.0  # standard deviation [m]
COMPASS_NOISE = 8.0  # [deg]


@dataclass(frozen=True)
class DemoResult:
    summary: dict[str, Any]
    files: list[Path]


def run_demo(out: str | Path, seed: int = 7, progress: Progress | None = None) -> DemoResult:
    """Two drives through the same streets, the second labelled against the first."""
    out = Path(out)
    first, second = drive(seed, 0), drive(seed, 1)
    files = [first.save(out / "map.csv"), second.save(out / "queries.csv")]
    done = run_task(LabelTask("town", second, first, Sectors()), out / "labels", progress)
    if progress is not None:
        progress("drawing figures", 0, 1)
    files += [out / "labels", draw_street_map(out / "figures" / "town.png", second, first, done.labels)]
    files += draw_label_set(done, out / "figures")
    return DemoResult(done.summary(), files)


def drive(seed: int, visit: int) -> Places:
    """The places of one drive along every street, both ways, as a car with a noisy GPS and compass notes them."""
    plan = np.random.default_rng(seed)  # the streets are the same on every visit
    lines = [np.concatenate([[0.0], np.cumsum(plan.uniform(*BLOCK, STREETS - 1))]) for _ in range(2)]
    slant = plan.uniform(-0.12, 0.12, (2, STREETS))  # streets are not quite parallel
    noise = np.random.default_rng((seed, visit))
    rows = []
    for direction in (0, 1):
        for street in range(STREETS):
            length = lines[1 - direction][-1]
            along = np.arange(noise.uniform(0, SPACING), length, SPACING)
            across = lines[direction][street] + slant[direction, street] * along
            course = np.rad2deg(np.arctan(slant[direction, street]))
            heading = 90.0 - course if direction == 1 else course
            where = (across, along) if direction == 0 else (along, across)
            rows += [(*where, heading), (*where, heading + 180.0)]
    easting = np.concatenate([r[0] for r in rows])
    northing = np.concatenate([r[1] for r in rows])
    heading = np.concatenate([np.full(len(r[0]), r[2]) for r in rows])
    n = len(easting)
    table = {
        "image": [f"visit{visit}/{i:05d}.jpg" for i in range(n)],
        "easting": easting + noise.normal(0, GPS_NOISE, n),
        "northing": northing + noise.normal(0, GPS_NOISE, n),
        "heading": (heading + noise.normal(0, COMPASS_NOISE, n)) % 360.0,
        "sequence": np.repeat(np.arange(len(rows)), [len(r[0]) for r in rows]),
    }
    note = "generated places: there are no photos"
    return Places.build(".", table, source=f"drive {visit}", notes=(note,), missing_images="ignore")
