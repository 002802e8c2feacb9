"""Where does the time of `make test` go? CPU seconds by kind of process, while it runs.

    python benchmarks/suite.py [--json FILE] [COMMAND...]        by default: make test

A process counts if it was started by the command, however far down, and lives for half a second or more: each inherits
a mark in its environment. There is no rival: the best that so many cores could do is CPU time over cores, which is told
beside the time that it took.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
EVERY = 0.5  # [s]
KINDS = (  # words of a command, and what it is; the first that fits counts
    ("exec(eval(sys.stdin", "test processes"),
    ("forkserver", "processes forked from a warm one"),
    ("ray::", "Ray"),
    ("/ray/", "Ray"),
    ("ray.scripts", "Ray"),
    ("milvus", "Milvus"),
    ("chromium", "Chromium"),
    ("playwright", "Chromium"),
    ("samespot", "commands of their own"),
    ("torch.distributed", "commands of their own"),
)


def sampled(mark: bytes, seen: dict[tuple[str, str], tuple[str, float]]) -> None:
    """Command and CPU seconds so far of every process that has the mark, by number and start."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        here = Path("/proc") / process
        try:
            numbers = (here / "stat").read_text(errors="replace").rpartition(")")[2].split()
            key, spent = (process, numbers[19]), (int(numbers[11]) + int(numbers[12])) / TICKS
            command = (here / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if key in seen or mark in (here / "environ").read_bytes():
                seen[key] = (command or seen.get(key, ("", 0.0))[0], spent)
        except OSError:  # it has ended
            continue


def kind_of(command: str) -> str:
    return next((kind for words, kind in KINDS if words in command), "the rest")


def measure(command: list[str]) -> dict[str, Any]:
    name, value = "SAMESPOT_MEASURED", uuid.uuid4().hex
    seen: dict[tuple[str, str], tuple[str, float]] = {}
    begun = time.monotonic()
    with subprocess.Popen(command, env={**os.environ, name: value}) as running:
        while running.poll() is None:
            sampled(f"{name}={value}".encode(), seen)
            time.sleep(EVERY)
    spent = dict[str, float]()
    for words, seconds in seen.values():
        spent[kind_of(words)] = spent.get(kind_of(words), 0.0) + seconds
    return {
        "command": " ".join(command),
        "exit code": running.returncode,
        "cores": os.cpu_count(),
        "seconds": time.monotonic() - begun,
        "CPU seconds": dict(sorted(spent.items(), key=lambda one: -one[1])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: make test")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = measure(asked.command or ["make", "test"])
    print("| | CPU seconds |\n|---|---|")
    for kind, seconds in found["CPU seconds"].items():
        print(f"| {kind} | {seconds:.0f} |")
    total = sum(found["CPU seconds"].values())
    print(f"| all | {total:.0f} |")
    print(f"\n{found['seconds']:.0f} s; {found['cores']} cores could do it in {total / found['cores']:.0f} s")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
