"""How long until a command answers? Help, lists, and mistakes that are told without a network.

    python benchmarks/start.py [--rounds 5] [--json FILE]

The rival is what these commands once waited for: a process that does nothing but load torch. Each runs in turn, in a
process of its own; the best of some rounds counts. Goal: one second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

import samespot
from clock import fastest

RIVAL = "import torch"
COMMANDS = (
    "--help",
    "evaluate --help",
    "models",
    "evaluate samespot-lite no-such-protocol",
    "evaluate samespot-lite msls-val --root nowhere",
    "evaluate samespot-lite --map broken.csv",
    "evaluate samespot-lite --map photos.csv --ray 127.0.0.1:1",
    "describe samespot-lite nowhere.csv",
    "describe samespot-lite photos.csv --device tpu",
    "train nowhere.csv --labels nowhere",
    "train photos.csv --labels nowhere",
    "train photos.csv --labels nowhere --model nothing",
    "index nowhere --out map",
    "index broken.csv --out new",
    "index photos.csv --out new --model nothing",
    "index photos.csv --out new --engine milvus",
    "index photos.csv --out new --engine milvus --uri nowhere/map.db",
    "index photos.csv --out new --ray 127.0.0.1:1",
    "locate nowhere query.jpg",
    "locate map nowhere.jpg",
    "locate map query.png --since yesterday",
    "serve map --keys nowhere",
    "serve map --host 192.0.2.1 --no-auth",
    "report nowhere",
    "report map",
)
RIGHT = ("--help", "evaluate --help", "models")  # that are no mistakes
MOST = 12  # photos of the map


def prepare(folder: Path) -> None:
    """What the commands are given: a small map, and tables of photos that are not there."""
    dice = np.random.default_rng(0)
    photos = folder / "photos"
    photos.mkdir()
    rows = [f"{number}.png,{20 * number},0,90" for number in range(MOST)]
    for number in range(MOST):
        Image.fromarray(dice.integers(0, 255, (96, 128, 3), dtype=np.uint8)).save(photos / f"{number}.png")
    head = "image,easting,northing,heading"
    (photos / "places.csv").write_text("\n".join([head, *rows, ""]))
    (folder / "photos.csv").write_text("\n".join([head, *rows, ""]))
    (folder / "broken.csv").write_text("\n".join([head, *rows, "last.png,east,0,90", ""]))
    (folder / "query.png").write_bytes((photos / "0.png").read_bytes())
    samespot.build_map(photos / "places.csv", out=folder / "map", verify=False)


def seconds(words: list[str], code: int, folder: Path) -> float:
    def run() -> None:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder)
        assert done.returncode == code, (words, done.stderr)

    return fastest(run, 1)[0]


def measure(rounds: int, folder: Path) -> dict[str, Any]:
    prepare(folder)
    ways = {words: (["-m", "samespot", *words.split()], 0 if words in RIGHT else 2) for words in COMMANDS}
    ways[RIVAL] = ["-c", RIVAL], 0
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(seconds(*way, folder))
    best = {name: min(found) for name, found in times.items()}
    return {name: {"seconds": taken, "over the rival": taken / best[RIVAL]} for name, taken in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        found = measure(asked.rounds, Path(folder))
    print("| | seconds | over the rival |\n|---|---|---|")
    for name, one in found.items():
        print(f"| `{name}` | {one['seconds']:.2f} | {one['over the rival']:.2f} |")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
