"""Speed of the town: photos a second at 160 × 120, and pairs a second of true visual overlap.

Rivals: for photos, the same renderer with one thread; for overlap, the same measure in plain numpy, all pixels of
a pair at once. Both rivals must give the same numbers, or the comparison is void.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

from clock import fastest
from samespot.town.overlap import STEP, TOLERANCE, Views, true_overlap
from samespot.town.render import facing, intrinsics_of, render
from samespot.town.routes import shoot
from samespot.town.visits import make_visits
from samespot.town.world import make_town, on_visit


def measure(
    photos: int = 400, pairs: int = 20_000, size: tuple[int, int] = (120, 160), repeats: int = 3
) -> dict[str, Any]:
    """Photos of every condition of the default town, timed; then the overlap of random near pairs of them."""
    start = time.perf_counter()
    town = make_town(7)
    result: dict[str, Any] = {"size": list(size), "threads": numba.get_num_threads(), "photos": photos}
    result["make_town_s"] = time.perf_counter() - start
    ours, alone, kept = [], [], None
    for visit in make_visits(7, 4):
        scenery = on_visit(town, visit.number, visit.hour, visit.weather, visit.season)
        shots = shoot(town.plan, "train", visit, photos)
        poses, lens = facing(shots.heading, shots.pitch, shots.roll), intrinsics_of(visit.fov, size)
        things = (scenery.mesh, scenery.atlas, scenery.ground, scenery.light)

        def job(first: int = photos) -> Any:
            return render(*things, shots.centres[:first], poses[:first], lens, size, noise=visit.grain)  # noqa: B023

        job(2)  # compiles
        seconds, (images, depth) = fastest(job, repeats)
        numba.set_num_threads(1)
        slow, (same, _) = fastest(job, 1)
        numba.set_num_threads(result["threads"])
        if not np.array_equal(images, same):
            raise AssertionError("one thread and several give different photos")
        ours.append(seconds)
        alone.append(slow)
        kept = Views.make(np.where(depth <= 65.0, depth, 0.0), shots.centres, poses, lens)
        result[f"photos_per_s {visit.condition}"] = photos / seconds
    assert kept is not None
    result["photos_per_s"] = photos * len(ours) / sum(ours)
    result["photos_per_s_one_thread"] = photos * len(alone) / sum(alone)
    result["times_one_thread"] = sum(alone) / sum(ours)
    return result | measure_overlap(kept, pairs, repeats)


def measure_overlap(views: Views, pairs: int, repeats: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(views), (pairs, 2))
    true_overlap(views, chosen[:2])
    ours, overlap = fastest(lambda: true_overlap(views, chosen), repeats)
    few = chosen[: max(20, pairs // 200)]
    rival, expected = fastest(lambda: np.array([numpy_overlap(views, a, b) for a, b in few]), 1)
    if np.abs(expected - overlap[: len(few)]).max() > 1e-3:
        raise AssertionError("numpy and numba disagree about the overlap")
    return {
        "pairs": pairs,
        "pairs_per_s": pairs / ours,
        "pairs_per_s_numpy": len(few) / rival,
        "times_numpy": (rival / len(few)) / (ours / pairs),
    }


def numpy_overlap(views: Views, a: int, b: int) -> float:
    return 0.5 * (numpy_share(views, a, b) + numpy_share(views, b, a))


def numpy_share(views: Views, a: int, b: int) -> float:
    """Share of the pixels of a that b shows, as a careful user of numpy would write it."""
    h, w = views.depth.shape[1:]
    i, j = np.mgrid[STEP // 2 : h : STEP, STEP // 2 : w : STEP]
    z = views.depth[a][i, j].astype(np.float64)
    i, j, z = i[z > 0], j[z > 0], z[z > 0]
    if not len(z):
        return 0.0
    fx, fy, cx, cy = views.intrinsics[a]
    world = np.stack([(j + 0.5 - cx) / fx * z, (i + 0.5 - cy) / fy * z, z], axis=1) @ views.rotations[a].T
    x, y, far = ((world + views.centres[a] - views.centres[b]) @ views.rotations[b]).T
    fx, fy, cx, cy = views.intrinsics[b]
    with np.errstate(divide="ignore", invalid="ignore"):
        u, v = fx * x / far + cx, fy * y / far + cy
    ok = (far > 0.05) & (u >= -1e-6) & (v >= -1e-6) & (u < w + 1e-6) & (v < h + 1e-6)
    u, v, far = u[ok], v[ok], far[ok]
    near, deep = np.full(len(u), 1e9), np.zeros(len(u))
    for di in (0, 1):
        for dj in (0, 1):
            ii, jj = np.floor(v - 0.5).astype(int) + di, np.floor(u - 0.5).astype(int) + dj
            there = (ii >= 0) & (jj >= 0) & (ii < h) & (jj < w)
            depth = np.where(there, views.depth[b][np.clip(ii, 0, h - 1), np.clip(jj, 0, w - 1)], 0.0)
            near = np.where(depth > 0, np.minimum(near, depth), near)
            deep = np.maximum(deep, depth)
    met = (deep > 0) & (far >= near * (1 - TOLERANCE)) & (far <= deep * (1 + TOLERANCE))
    return float(met.sum() / len(z))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    result = measure(asked.photos, asked.pairs)
    for name, value in result.items():
        print(f"{name:32} {value:,.1f}" if isinstance(value, float) else f"{name:32} {value}")
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
