"""What does a sequence gain over photos one by one? Three visits to a town are the map, a fourth is asked.

    python benchmarks/tracks.py [--json FILE] [--tiny]

The fourth visit is a snowy night. Its photos are asked one by one, as a sequence from the past alone (`live`), and as a
whole. A photo is right within 25 m of where it was truly taken; the map's own positions are off by its GPS.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import samespot
from samespot.maps.answer import Answer
from samespot.maps.map import Map, open_map
from samespot.places.table import Places
from samespot.town.build import build_town

SEED, VISITS = 31, 4  # no seed that the shipped model learned from
SPEED, EVERY = 15.0, 8.0  # [m/s], [s]: a photo every 20 to 30 m


def measure(town: Places, folder: Path) -> dict[str, dict[str, float]]:
    last = (town.table["visit"] == VISITS - 1).to_numpy()
    samespot.build_map(town.select(~last), out=folder / "map")
    there, asked = open_map(folder / "map"), town.select(last)
    walks = [asked.select(rows) for rows in asked.table.groupby("sequence").indices.values()]
    moving: dict[str, Any] = {"speed": SPEED, "every": EVERY}
    return {
        "one by one": _outcome(there, walks, lambda walk: there.locate_many(walk.images)),
        "live": _outcome(there, walks, lambda walk: there.track(walk.images, live=True, **moving)),
        "as a whole": _outcome(there, walks, lambda walk: there.track(walk.images, **moving)),
    }


def _outcome(there: Map, walks: list[Places], ask: Any) -> dict[str, float]:
    found: list[bool] = []
    errors: list[float] = []
    for walk in walks:
        for answer, truth in zip(ask(walk), walk.centres[:, :2], strict=True):
            assert isinstance(answer, Answer)
            assert answer.position is not None
            found.append(answer.found)
            errors.append(
                float(np.hypot(answer.position.easting - truth[0], answer.position.northing - truth[1]))
            )
    error: NDArray[np.float64] = np.array(errors)
    told, right = np.array(found), error <= there.within
    return {
        "photos": len(error),
        "right": float(right.mean()),
        "found": float(told.mean()),
        "right of those found": float(right[told].mean()) if told.any() else float("nan"),
        "median error of those found [m]": float(np.median(error[told])) if told.any() else float("nan"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="few small photos, to see that it runs")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    size, photos = ((60, 80), 12) if asked.tiny else ((240, 320), 150)
    with tempfile.TemporaryDirectory() as folder:
        town = build_town(Path(folder) / "town", SEED, VISITS, size=size, photos_per_visit=photos)
        found = measure(town, Path(folder))
    names = list(next(iter(found.values())))
    print(f"| | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for way, facts in found.items():
        print(f"| {way} | {' | '.join(f'{facts[name]:.3g}' for name in names)} |")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
