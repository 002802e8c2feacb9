"""Speed of re-ranking by Patch-NetVLAD with RANSAC, as a ratio to a call for each pair of photos and size.

    python benchmarks/reranking.py                       50 queries, the first 100 of each, half a minute
    python benchmarks/reranking.py --cells 30x40 --dims 512 --device cuda        what VGG16 makes of 480 × 640

Made-up features of a map on disk, ten photos of each place: each query's list holds those of its place, seen from a
few cells aside and with noise, and 90 of other places. Both ways read the same file and must give the same scores.
The rival gathers 16 candidates at a time, copies them to the device, matches size by size, and asks
`homography_inliers` for each pair in a pool of threads. The better of two runs, after one that compiles; the ways
take turns, since other work on the machine comes and goes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from samespot import PlaceNet
from samespot.matching.mutual import mutual_nearest
from samespot.matching.options import PatchOptions as Options
from samespot.matching.patch_netvlad import WITHIN, PatchNetVLAD, fused, learn_projection
from samespot.matching.spatial_scoring import homography_inliers

VIEWS = 10  # map photos of a place
STRIDE = 32  # of the network
ASIDE = 4  # [cells] two views of a place are shifted at most
NOISE = 1.5  # times a feature's own length: about a third of the squares of two views are still matched
AT_ONCE = 16


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--queries", type=int, default=50)
    arguments.add_argument("--top", type=int, default=100)
    arguments.add_argument("--cells", default="14x14", help="of the feature map, at least 8x8")
    arguments.add_argument("--dims", type=int, default=64)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--json", type=Path, help="write the numbers here")
    given = arguments.parse_args()
    cells = tuple(int(side) for side in given.cells.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.queries, given.top, cells, given.dims, given.device, Path(folder))
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


def measure(
    queries: int, top: int, cells: tuple[int, ...], dims: int, device: str, folder: Path
) -> dict[str, Any]:
    by = reranker(cells, dims, device)
    asked, there = features(by, queries, folder)
    lists = candidates(queries, top, len(there))
    rival = OneByOne(by)
    ways: dict[str, Callable[..., Any]] = {"samespot": by.scores, "a call for each pair": rival.scores}
    seconds = dict.fromkeys(ways, float("inf"))
    given: dict[str, Any] = {}
    for _ in range(3):  # the first compiles, and is slower
        for name, scores in ways.items():
            start = time.perf_counter()
            given[name] = np.array([scores(asked[query], there, lists[query]) for query in range(queries)])
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    ours, theirs = given.values()
    return {
        "queries": queries,
        "top": lists.shape[1],
        "cells": list(cells),
        "dims": dims,
        "device": device,
        "seconds": seconds,
        "ratio": seconds["a call for each pair"] / seconds["samespot"],
        "same scores": float((ours == theirs).mean()),
    }


def reranker(cells: tuple[int, ...], dims: int, device: str) -> PatchNetVLAD:
    """Around an untrained network with a feature map of that size."""
    clusters = 2 + dims // 96  # of 96 numbers each
    net = PlaceNet(
        "test_resnet.r160_in1k",
        f"netvlad{clusters}",
        pretrained=False,
        image_size=(STRIDE * cells[0], STRIDE * cells[1]),
    ).eval()
    vectors = np.random.default_rng(0).normal(size=(dims + 50, clusters * 96)).astype(np.float32)
    return PatchNetVLAD(net, learn_projection(vectors, "noise"), Options(dims=dims), device)


def features(by: PatchNetVLAD, queries: int, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Of one photo of each place, and of ten others of each, on disk."""
    rng = np.random.default_rng(1)
    asked = np.empty((queries, by.width), np.float16)
    there = np.lib.format.open_memmap(
        folder / "map.npy", mode="w+", dtype=np.float16, shape=(queries * VIEWS, by.width)
    )
    for place in range(queries):
        views = photos_of_a_place(by, rng)
        asked[place], there[place * VIEWS : (place + 1) * VIEWS] = views[0], views[1:]
    there.flush()
    return asked, np.load(folder / "map.npy", mmap_mode="r")


def photos_of_a_place(by: PatchNetVLAD, rng: np.random.Generator) -> np.ndarray:
    shifts = rng.integers(0, ASIDE + 1, (1 + VIEWS, 2))
    parts = []
    for size in by.options.sizes:
        height, width = (side - size + 1 for side in by.cells)
        wide = rng.standard_normal((height + ASIDE, width + ASIDE, by.dims), dtype=np.float32)
        views = np.stack([wide[y : y + height, x : x + width] for y, x in shifts])
        views += NOISE * rng.standard_normal(views.shape, dtype=np.float32)
        parts.append((views / np.linalg.norm(views, axis=3, keepdims=True)).reshape(len(views), -1))
    return np.concatenate(parts, axis=1).astype(np.float16)


def candidates(queries: int, top: int, photos: int) -> np.ndarray:
    """(queries, top) rows: those of the query's place, then of others."""
    rng = np.random.default_rng(2)
    lists = []
    for query in range(queries):
        own = np.arange(query * VIEWS, (query + 1) * VIEWS)
        lists.append(np.concatenate([own, rng.permutation(np.setdiff1d(np.arange(photos), own))])[:top])
    return np.array(lists)


class OneByOne:
    """The rival: what is asked of a `PatchNetVLAD`, a pair of photos and a size at a time."""

    def __init__(self, by: PatchNetVLAD) -> None:
        self._by = by
        self._threads = ThreadPoolExecutor()

    def scores(self, query: np.ndarray, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        by_size = np.empty((len(rows), len(self._by.options.sizes)))
        asked = self._patches(query[None])
        for start in range(0, len(rows), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            for at, (mine, theirs) in enumerate(zip(asked, self._patches(places[rows[some]]), strict=True)):
                matches = mutual_nearest(mine[0], theirs).cpu().numpy()
                by_size[some, at] = list(self._threads.map(self._inliers, [at] * len(matches), matches))
        return fused(by_size, self._by.options.weights)

    def _patches(self, values: np.ndarray) -> tuple[torch.Tensor, ...]:
        squares = torch.from_numpy(np.array(values)).to(self._by.device).view(len(values), -1, self._by.dims)
        return squares.split(self._by.counts, dim=1)

    def _inliers(self, at: int, matches: np.ndarray) -> float:
        grid = self._by._grids[at]
        here = matches >= 0
        return float(homography_inliers(grid[here], grid[matches[here]], WITHIN).sum()) / len(grid)


def table(found: dict[str, Any]) -> str:
    pairs = found["queries"] * found["top"]
    lines = [
        f"re-ranking on the {found['device']}: {pairs:,} pairs, feature map {found['cells'][0]} × {found['cells'][1]}, "
        f"{found['dims']} dims",
        *(f"{name:<24}{seconds:>8.2f} s" for name, seconds in found["seconds"].items()),
        f"samespot is faster by {found['ratio']:.1f}; {100 * found['same scores']:.2f} % of the scores are the same",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
