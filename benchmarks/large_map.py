"""Memory and time of a map of 100,000 photos: made, asked for again, brought up to date, opened.

    python benchmarks/large_map.py                       100,000 photos, 5 GB of disk, minutes
    python benchmarks/large_map.py --photos 2000 --json large_map.json

The photos are generated, and so is what a network and a matcher would make of them, at the sizes of the default
options; all else is as in `samespot index`: files are looked at, segments and generations written, a whitening fitted.
Each step runs in a process of its own, which reports its seconds and its peak memory: resident in all, and its own,
without pages of files. The rival is a program that holds in memory what is kept of all photos, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

KEYPOINTS, NUMBERS, THUMBNAIL = 512, 64, 6_000  # of XFeat; bytes
STREETS, APART = 100, 8.0  # photos lie along streets, so many metres from one another
LINKS = 30_000  # names of one file, at most: file systems limit them
MB = 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), asked.photos)
    for name, step in found["steps"].items():
        peaks = f"{step['peak_bytes'] / MB:8,.0f} MB, its own {step['own_bytes'] / MB:8,.0f} MB"
        print(f"{name:24} {step['seconds']:8.1f} s   peak memory {peaks}")
    print(f"{'all in memory (rival)':24} {found['rival_bytes'] / MB:33,.0f} MB")
    print(f"on disk: {found['bytes_per_photo'] / 1e3:.1f} kB a photo, in {found['segments']} segments")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


def measure(folder: Path, photos: int) -> dict[str, Any]:
    table = take_photos(folder / "photos", photos)
    steps: dict[str, Any] = {"bare process": in_a_process(imported)}
    steps["index"] = in_a_process(index, table, folder / "map")
    steps["index, nothing changed"] = in_a_process(index, table, folder / "map")
    table = take_photos(folder / "photos", photos + 100)
    steps["index, 100 more"] = in_a_process(index, table, folder / "map")
    steps["open"] = in_a_process(opened, folder / "map")
    meta = json.loads((folder / "map" / "meta.json").read_text())
    assert meta["photos"] == photos + 100
    kept = sum(one["bytes"] for one in meta["segments"]) + sum(meta["files"].values())
    return {
        "photos": photos,
        "steps": steps,
        "bytes_per_photo": kept / meta["photos"],
        "rival_bytes": kept,
        "segments": len(meta["segments"]),
    }


def take_photos(root: Path, count: int) -> Path:
    """Files under many names, and the table of where they were taken."""
    import pandas as pd
    from PIL import Image

    root.mkdir(exist_ok=True)
    names = [f"{i // 1000:03d}/{i:06d}.jpg" for i in range(count)]
    for i, name in enumerate(names):
        base, path = root / f".{i // LINKS}", root / name
        if not base.exists():
            Image.new("RGB", (8, 8)).save(base, "JPEG")
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            os.link(base, path)
    at = np.arange(count)
    columns = {
        "image": names,
        "easting": at % STREETS * 100.0,
        "northing": at // STREETS * APART,
        "heading": 0.0,
    }
    pd.DataFrame(columns).to_csv(root / "places.csv", index=False)
    return root / "places.csv"


def in_a_process(job: Callable[..., None], *words: Any) -> dict[str, float]:
    """Seconds and peak memory of a job in a fresh process."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_report, args=(theirs, job, *words))
    process.start()
    theirs.close()
    try:
        found: dict[str, float] = mine.recv()
    except EOFError:
        raise SystemExit(f"{job.__name__} failed") from None
    process.join()
    return found


def _report(to: Any, job: Callable[..., None], *words: Any) -> None:
    start, own = time.perf_counter(), [0]
    threading.Thread(target=_watch, args=(own,), daemon=True).start()
    job(*words)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    to.send({"seconds": time.perf_counter() - start, "peak_bytes": peak, "own_bytes": own[0]})


def _watch(own: list[int]) -> None:
    """The most memory of the process that is not of files, looked at twenty times a second."""
    while True:
        told = Path("/proc/self/status").read_text()
        own[0] = max(own[0], int(told.partition("RssAnon:")[2].split()[0]) * 1024)
        time.sleep(0.05)


def imported() -> None:
    """What the libraries alone take."""
    import importlib

    importlib.import_module("samespot.maps.build")


def index(table: Path, out: Path) -> None:
    """As `samespot index`, but no photo is looked at."""
    from samespot.maps import build
    from samespot.matching import verification

    build.describer_for = lambda *_: Invented()  # type: ignore[assignment, attr-defined]
    build._Work._calibration = lambda *_: None  # type: ignore[assignment, method-assign]
    build.looks = lambda how, paths, workers: map(invented, paths)  # type: ignore[attr-defined]
    verification.verifier_named = lambda *_: Features()  # type: ignore[assignment]
    build.update_map(table, out, reading={"missing_images": "ignore"})


def opened(folder: Path) -> None:
    from samespot.maps.folder import open_generation

    generation = open_generation(folder)
    row = len(generation) // 2
    assert len(generation.thumbnail(row)) == THUMBNAIL
    assert generation.keypoints(row) is not None


class Invented:
    """In place of a `Describer`: a photo's number is in its first pixels."""

    batch_size, in_torch = 16, False

    def __init__(self) -> None:
        import torch

        self.device = torch.device("cpu")

    def __call__(self, pixels: Any) -> Any:
        import torch

        made = torch.empty((len(pixels), 1888))
        for row, one in zip(made, pixels, strict=True):
            row.normal_(generator=torch.Generator().manual_seed(int(one[0, 0, 0])))
        return torch.nn.functional.normalize(made, dim=1)


def invented(path: Path) -> Any:
    """A `Look`, of the size that those of real photos have."""
    import torch

    from samespot.maps.looking import Look
    from samespot.matching.keypoints import Keypoints

    dice = np.random.default_rng(int(path.stem))
    xy = (dice.random((KEYPOINTS, 2), dtype=np.float32) * 639).astype(np.float32)
    local = dice.integers(-127, 128, (KEYPOINTS, NUMBERS), dtype=np.int8)
    pixels = torch.full((3, 2, 2), int(path.stem), dtype=torch.int64)
    return Look(pixels, dice.bytes(THUMBNAIL), Keypoints(xy, local, (480, 640)))


class Features:
    """In place of a `Verifier`."""

    name = "invented"

    def facts(self) -> dict[str, Any]:
        return {"keypoints": KEYPOINTS}

    def extract(self, image: Any) -> Any:
        raise AssertionError("no photo is looked at")


if __name__ == "__main__":
    main()
