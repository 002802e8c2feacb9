"""Where was a photo taken, in a map of which only GPS and compass are known? Three ways, on the same found photos.

    samespot town --out town --seed 3005 --size 240x320 --photos-per-visit 400 --no-depth
    python benchmarks/ground_pose.py --town town --campus ../shared/data/campus --out ground [--every 2] [--json FILE]

Of a town, the first two visits are the map and the others are asked; the truth is exact. With the noisy positions and
headings of the table, and with the exact ones; with the cameras' fields of view, and with the assumed one. On campus
the splits `map` and `query`, never answered by a photo of the same minute; truth is as noisy as the map, and no camera
is known. Counted are photos that the map says it has found, and that it has (the best match within 25 m): the best
match's own position and heading; the mean of the matches, weighted by their verified pairs, and the first match's
heading with the shift of the pairs; and two-view geometry (`samespot.poses.two_view`). Maps and what was seen of the
queries are kept in --out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import samespot
from samespot.maps.candidates import Candidates
from samespot.maps.estimate import assumed_camera, heading_of, position_of
from samespot.maps.limits import Limits, Rules
from samespot.maps.map import Map, Seen
from samespot.maps.standing import sights_of
from samespot.matching.keypoints import Keypoints
from samespot.places.camera import camera_of
from samespot.places.table import Places
from samespot.poses.two_view import Sight, pose_on_ground
from samespot.statistics.intervals import paired_bootstrap
from samespot.town.truth import exact_places

Floats = NDArray[np.float64]
WAYS = ("best match", "mean of matches", "two views")
AT_LEAST = 0.5  # probability of a found photo
SHARES = {
    "50 %": (1.386, 0.455),
    "90 %": (4.605, 2.706),
}  # of chi square with two degrees of freedom, and with one


def seen_by(there: Map, queries: Places, kept: Path) -> list[Seen]:
    """The queries as the map compares them; kept, since looking takes longest."""
    if not kept.is_file():
        looked = [there.look(path) for path in queries.images]
        points = [one.keypoints for one in looked if one.keypoints is not None]
        np.savez(
            kept,
            vectors=np.array([one.vector for one in looked]),
            xy=np.concatenate([one.xy for one in points]),
            descriptors=np.concatenate([one.descriptors for one in points]),
            sizes=np.array([one.size for one in points]),
            ends=np.cumsum([len(one) for one in points]),
        )
    file = np.load(kept)
    xy, descriptors = (np.split(file[name], file["ends"][:-1]) for name in ("xy", "descriptors"))
    sizes = [(int(h), int(w)) for h, w in file["sizes"]]
    return [
        Seen(vector, Keypoints(at, local, size))
        for vector, at, local, size in zip(file["vectors"], xy, descriptors, sizes, strict=True)
    ]


def found_by(there: Map, queries: Places, seen: list[Seen], moment: str | None) -> list[Candidates | None]:
    """The candidates of each query; None where it is not found."""
    times = None if moment is None else there.generation.places.table[moment].to_numpy()
    found: list[Candidates | None] = []
    for row, one in enumerate(seen):
        limits = None
        if times is not None:
            limits = Limits(Rules(), times != queries.table[moment].iloc[row])
        listed = there.candidates(one, limits)
        sure = float(there.trust.probability(listed.evidence[None], 0.5)[0]) >= AT_LEAST
        found.append(listed if sure else None)
    return found


def turned(a: float, b: float) -> float:
    return abs((a - b + 180.0) % 360.0 - 180.0)


def measure(
    there: Map,
    queries: Places,
    truth: Floats,
    seen: list[Seen],
    found: list[Candidates | None],
    cameras: Floats,
    known: bool,
) -> dict[str, Any]:
    """Errors of the three ways. cameras: (n, 3) positions and headings of the map; known: whether its cameras are."""
    off: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    inside: list[tuple[float, float]] = []
    agreed, took, nothing = [], 0.0, 0
    for row, (one, listed) in enumerate(zip(seen, found, strict=True)):
        if listed is None or one.keypoints is None:
            continue
        here, facing = truth[row, :2], float(truth[row, 2])
        at, first = cameras[listed.rows, :2], int(listed.rows[0])
        if np.hypot(*(at[0] - here)) > there.within:
            continue
        match, agreement = there.generation.keypoints(first), listed.agreements[0]
        assert match is not None
        assert agreement is not None
        own = float(cameras[first, 2])
        mean = position_of(at, listed.inliers, there.within)
        shifted = heading_of(own, one.keypoints, match, agreement.pairs)
        camera = camera_of(queries.table, row, one.keypoints.size) if known else None
        asked = Sight(one.keypoints, camera or assumed_camera(one.keypoints.size))
        began = time.perf_counter()
        matches = sights_of(there.generation, cameras, listed, there.within, known)
        pose = pose_on_ground(asked, matches, mean)
        took += time.perf_counter() - began
        answers = {WAYS[0]: (at[0], own), WAYS[1]: (mean, own if shifted is None else shifted)}
        answers[WAYS[2]] = answers[WAYS[1]] if pose is None else (pose.position, pose.heading)
        for way, (position, heading) in answers.items():
            off[way].append((float(np.hypot(*(position - here))), turned(heading, facing)))
        if pose is None:
            nothing += 1
            continue
        wrong = pose.position - here
        far = float(wrong @ np.linalg.solve(pose.covariance, wrong))
        inside.append((far, (turned(pose.heading, facing) / pose.heading_deviation) ** 2))
        agreed.append(pose.agreed)
    return _summary(off, np.array(inside).reshape(-1, 2)) | {
        "queries": len(seen),
        "found": len(off[WAYS[0]]),
        "no two-view answer": nothing,
        "matches that agreed": float(np.mean(agreed)),
        "two views [s/query]": took / max(len(off[WAYS[0]]), 1),
    }


def _summary(off: dict[str, list[tuple[float, float]]], inside: Floats) -> dict[str, Any]:
    errors = {way: np.array(one) for way, one in off.items()}
    told: dict[str, Any] = {}
    for column, name in enumerate(("position [m]", "heading [deg]")):
        told[name] = {
            way: np.quantile(one[:, column], [0.25, 0.5, 0.75]).tolist() for way, one in errors.items()
        }
        told[f"{name}, two views less"] = {
            way: vars(paired_bootstrap(errors[WAYS[2]][:, column], errors[way][:, column]))
            for way in WAYS[:2]
        }
        told[f"{name}, truth inside"] = {
            share: float((inside[:, column] <= ends[column]).mean()) for share, ends in SHARES.items()
        }
    return told


def town_results(folder: Path, out: Path, every: int) -> dict[str, Any]:
    places = Places.read(folder / "places.csv")
    visit = places.table["visit"].to_numpy()
    held, queries = (places.select(np.flatnonzero(rows)) for rows in (visit < 2, visit >= 2))
    queries = queries.select(np.arange(0, len(queries), every))
    there = samespot.build_map(held, out=out / f"{folder.name}-map")
    seen = seen_by(there, queries, out / f"{folder.name}-{every}.npz")
    found = found_by(there, queries, seen, None)
    exact, truth = exact_places(held).positions, exact_places(queries).positions
    ways = {
        "GPS and compass, cameras assumed": (held.positions, False),
        "GPS and compass, cameras known": (held.positions, True),
        "exact, cameras assumed": (exact, False),
        "exact, cameras known": (exact, True),
    }
    return {
        f"{folder.name}, {name}": measure(there, queries, truth, seen, found, *way)
        for name, way in ways.items()
    }


def campus_results(folder: Path, out: Path, every: int) -> dict[str, Any]:
    places = Places.read(folder / "places.csv")
    split = places.table["split"].to_numpy()
    held, queries = (places.select(np.flatnonzero(split == name)) for name in ("map", "query"))
    queries = queries.select(np.arange(0, len(queries), every))
    there = samespot.build_map(held, out=out / "campus-map")
    seen = seen_by(there, queries, out / f"campus-{every}.npz")
    found = found_by(there, queries, seen, "time")
    return {"campus": measure(there, queries, queries.positions, seen, found, held.positions, False)}


def table(results: dict[str, Any]) -> str:
    lines = []
    for name, one in results.items():
        lines.append(f"{name}: {one['found']} of {one['queries']} found")
        for kind in ("position [m]", "heading [deg]"):
            for way in WAYS:
                low, middle, high = one[kind][way]
                line = f"  {kind:<14}{way:<17}{middle:6.2f}  [{low:.2f}, {high:.2f}]"
                if (less := one[f"{kind}, two views less"].get(way)) is not None:
                    line += (
                        f"   two views less: {less['value']:+.2f} [{less['low']:+.2f}, {less['high']:+.2f}]"
                    )
                lines.append(line)
            share = one[f"{kind}, truth inside"]
            lines.append(f"  {'':<14}truth inside 50 %: {share['50 %']:.0%}, 90 %: {share['90 %']:.0%}")
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--town", type=Path, nargs="*", default=[], help="folders of `samespot town`")
    arguments.add_argument("--campus", type=Path, help="folder of the campus photos")
    arguments.add_argument("--every", type=int, default=1, help="ask one query in so many")
    arguments.add_argument("--out", type=Path, default=Path("ground"), help="maps, and what was seen")
    arguments.add_argument("--json", type=Path, help="add the numbers to this file")
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    tasks: list[tuple[Callable[[Path, Path, int], dict[str, Any]], Path]] = [
        (town_results, folder) for folder in given.town
    ]
    tasks += [(campus_results, given.campus)] if given.campus else []
    for task, folder in tasks:
        results = task(folder, given.out, given.every)
        print(table(results), flush=True)
        if given.json:
            old = json.loads(given.json.read_text()) if given.json.is_file() else {}
            given.json.write_text(json.dumps({**old, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
