"""How long until a command answers? Help, and mistakes that are told without a network.

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
from typing import Any

from clock import fastest

RIVAL = "import torch"
COMMANDS = (
    "--help",
    "evaluate --help",
    "evaluate samespot-lite no-such-protocol",
    "evaluate samespot-lite msls-val --root nowhere",
    "describe samespot-lite nowhere.csv",
    "train nowhere.csv --labels nowhere",
    "index nowhere --out map",
    "locate nowhere query.jpg",
    "report nowhere",
)


def seconds(words: list[str], code: int) -> float:
    def run() -> None:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        assert done.returncode == code, (words, done.stderr)

    return fastest(run, 1)[0]


def measure(rounds: int) -> dict[str, Any]:
    ways = {words: (["-m", "samespot", *words.split()], 0 if "help" in words else 2) for words in COMMANDS}
    ways[RIVAL] = ["-c", RIVAL], 0
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(seconds(*way))
    best = {name: min(found) for name, found in times.items()}
    return {name: {"seconds": taken, "over the rival": taken / best[RIVAL]} for name, taken in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = measure(asked.rounds)
    print("| | seconds | over the rival |\n|---|---|---|")
    for name, one in found.items():
        print(f"| `{name}` | {one['seconds']:.2f} | {one['over the rival']:.2f} |")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
