"""How fast labels are made, each figure as a ratio to a named rival or to another size, measured in one run.

    python benchmarks/labels.py [--json FILE] [--only sector|map|points] [--small]

sector  one thread, the same pairs: sector_overlap against Shapely 2 (vectorised, 32-segment arcs)
map     a street-view map of 259,040 views against itself, a quarter, a half and the whole of it
points  3D: bit sets of 1,000 cameras × 200,000 points against numpy's matrix products
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
DATA = Path(os.environ.get("SAMESPOT_DATA", HERE.parents[2] / "shared" / "data"))
YAWS = np.arange(8) * 45.0  # each panorama gives eight views


def measure_sector(pairs: int, rounds: int = 3) -> dict[str, float]:
    """Pairs a second on one thread; the polygons of the rival are made beforehand and not timed."""
    import numba
    import shapely

    from samespot import sector_overlap

    rng = np.random.default_rng(0)
    a, b = (np.column_stack([rng.uniform(0, 60, (pairs, 2)), rng.uniform(0, 360, pairs)]) for _ in range(2))
    cores = numba.get_num_threads()
    numba.set_num_threads(1)
    sector_overlap(a[:10], b[:10])  # compile
    some = slice(0, pairs // 8)
    polygons = [_polygons(x[some], 90.0, 50.0, 32) for x in (a, b)]
    ours, theirs = [], []
    for _ in range(rounds):  # alternating, so that a busy machine slows both
        start = time.perf_counter()
        shares = sector_overlap(a, b)
        ours.append(pairs / (time.perf_counter() - start))
        start = time.perf_counter()
        clipped = shapely.area(shapely.intersection(*polygons))
        theirs.append(len(polygons[0]) / (time.perf_counter() - start))
    numba.set_num_threads(cores)
    error = np.abs(shares[some] - clipped / (np.pi * 50**2 / 4)).max()
    return {
        "pairs": pairs,
        "share of pairs that overlap": float((shares > 0).mean()),
        "samespot pairs/s": max(ours),
        "shapely pairs/s": max(theirs),
        "ratio": max(ours) / max(theirs),
        "largest difference (Shapely's arcs are polygons)": float(error),
    }


def _polygons(poses: np.ndarray, theta: float, radius: float, segments: int) -> np.ndarray:
    import shapely

    ray = np.deg2rad(90 - poses[:, 2:] + theta * np.linspace(-0.5, 0.5, segments + 1))
    arc = poses[:, None, :2] + radius * np.stack([np.cos(ray), np.sin(ray)], axis=-1)
    return shapely.polygons(np.concatenate([poses[:, None, :2], arc, poses[:, None, :2]], axis=1))


def measure_map(whole: float) -> dict[str, Any]:
    """Time and peak memory of labelling a map against itself; each size in a process of its own."""
    _run_part(0.02)  # compile the kernels into the cache
    rows = [_run_part(whole * share) for share in (0.25, 0.5, 1.0)]
    return {
        "source": rows[-1].pop("source"),
        "sizes": rows,
        "seconds for the whole over half": rows[2]["seconds"] / rows[1]["seconds"],
        "seconds for half over a quarter": rows[1]["seconds"] / rows[0]["seconds"],
        "pairs > 0 for the whole over half": rows[2]["pairs > 0"] / rows[1]["pairs > 0"],
        "pairs > 0 for half over a quarter": rows[1]["pairs > 0"] / rows[0]["pairs > 0"],
    }


def _run_part(share: float) -> dict[str, float]:
    command = [sys.executable, str(HERE), "--map-part", str(share)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def daejeon_views(count: int | None = None) -> tuple[Any, str]:
    """Eight views from each of the westernmost panoramas of Daejeon, `count` in all, and where they come from."""
    import pandas as pd

    from samespot import Places

    listing = DATA / "geometry" / "daejeon520_database.csv.gz"
    if listing.is_file():
        from samespot.places.geodesy import to_metres

        panoramas = pd.read_csv(listing, header=None, names=["id", "latitude", "longitude"])
        x, y, _ = to_metres(panoramas["latitude"], panoramas["longitude"])
        source = "Daejeon520, 32,380 panoramas"
    else:
        streets = np.random.default_rng(0).uniform(0, 9000, (32_380, 2))
        streets[::2, 0] = np.round(streets[::2, 0] / 150) * 150
        streets[1::2, 1] = np.round(streets[1::2, 1] / 150) * 150
        x, y = streets.T
        source = "generated streets (Daejeon520 is not on this machine)"
    n = len(x) if count is None else min(len(x), count // len(YAWS))
    west = np.argsort(x)[:n]
    table = {
        "image": [f"{i}" for i in range(len(YAWS) * n)],
        "easting": np.repeat(np.asarray(x)[west], len(YAWS)),
        "northing": np.repeat(np.asarray(y)[west], len(YAWS)),
        "heading": np.tile(YAWS, n),
    }
    return Places.build(".", table, missing_images="ignore"), source


def label_map_part(share: float) -> dict[str, Any]:
    """Label a part of the map, the westernmost `share` of its panoramas, against itself."""
    from samespot import label_pairs

    views, source = daejeon_views(round(share * 8 * 32_380))
    few = views.select(slice(0, 64))
    label_pairs(few, few)  # load the compiled kernels
    with tempfile.TemporaryDirectory() as scratch:
        start, worked = time.perf_counter(), time.process_time()
        labels = label_pairs(views, views, theta=90.0, radius=50.0, out=Path(scratch) / "labels")
        seconds, worked = time.perf_counter() - start, time.process_time() - worked
        return {
            "source": source,
            "views": len(views),
            "pairs > 0": labels.nonzero,
            "seconds": seconds,
            "processor seconds": worked,  # of all cores; on a busy machine the truer figure
            "pairs > 0 per second": labels.nonzero / seconds,
            "peak memory [MB]": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def measure_points(images: int) -> dict[str, Any]:
    sys.path.insert(0, str(HERE.parent))
    from visibility import measure

    return measure(cameras=images, points=200 * images)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=["sector", "map", "points"])
    parser.add_argument(
        "--small", action="store_true", help="a tenth of the pairs, of the map, of the images"
    )
    parser.add_argument("--map-part", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.map_part is not None:
        print(json.dumps(label_map_part(asked.map_part)))
        return
    results: dict[str, Any] = {"cores": os.cpu_count()}
    share = 0.1 if asked.small else 1.0
    ways: dict[str, Callable[[], dict[str, Any]]] = {
        "sector": lambda: measure_sector(round(400_000 * share)),
        "map": lambda: measure_map(share),
        "points": lambda: measure_points(round(1000 * share)),
    }
    for name, measure in ways.items():
        if asked.only in (None, name):
            print(f"== {name}")
            results[name] = measure()
            _print(results[name])
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")


def _print(values: Any, indent: str = "  ") -> None:
    for name, value in values.items() if isinstance(values, dict) else enumerate(values):
        if isinstance(value, dict | list):
            print(f"{indent}{name}")
            _print(value, indent + "  ")
        else:
            print(f"{indent}{name}: {value:,.4g}" if isinstance(value, float) else f"{indent}{name}: {value}")


if __name__ == "__main__":
    main()
