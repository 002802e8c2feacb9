"""Every benchmark that needs neither a GPU nor data of yours, small and quick: `python benchmarks`, or `make bench`.

    python benchmarks [NAME...] [--out FOLDER]

The numbers of such a run say that a benchmark works and roughly how it compares with its rival on this machine. Those
in docs/benchmarks.md are of the full sizes, by the commands that stand there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
TINY_NET = "test_resnet.r160_in1k"
QUICK = {
    "labels": "--small",
    "visibility": "--cameras 200 --points 20000",
    "search": "--rows 200000",
    "engines": "--photos 1000 --queries 5",
    "describe": f"--device cpu --backbone {TINY_NET} --images 96 --size 96,128",
    "cluster": f"--backbone {TINY_NET} --photos 64 --size 96,128 --views 2000 --rows 20000",
    "training": "--tiny",
    "locate": "--tiny",
    "start": "--rounds 1",
    "tracks": "--tiny",
    "reranking": "--queries 10 --top 50",
    "large_map": "--photos 1000",
    "town": "--photos 40 --pairs 2000",
    "town_labels": "--photos-per-visit 60 --other-towns= --draws 2",
    "town_training": "--seeds 0 --steps 2 --photos-per-visit 180",
}
CAMPUS = "needs the campus photos and VGG16's weights"
SHARED = ("clock", "label_agreement", "seeds")  # modules, no benchmarks
LEFT_OUT = {
    "service": "needs a map and query photos (--map, --photos)",
    "poses": "needs redkitchen, or a town with depth (--kitchen, --town)",
    "campus": CAMPUS,
    "first_steps": CAMPUS,
    "trust": "finds the keypoints of thousands of photos: a quarter of an hour",
    "ground_pose": "needs a town or the campus photos (--town, --campus)",
    "whitening": CAMPUS,
    "planet": "needs the campus photos and the panoramas of Daejeon (--data)",
    "suite": "runs the whole of make test",
    "strong_recipe": "measures nothing anew: it compares answers that are kept",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(QUICK)}; default: all")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for one json each")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(QUICK))
    if unknown:
        parser.error(f"{unknown[0]}: {LEFT_OUT.get(unknown[0], 'no such benchmark')}")
    asked.out.mkdir(parents=True, exist_ok=True)
    failed = [name for name in asked.names or QUICK if not run(name, asked.out)]
    for name, why in {} if asked.names else LEFT_OUT.items():
        print(f"== {name} left out: {why} (see python benchmarks/{name}.py --help)")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(name: str, out: Path) -> bool:
    """In a process of its own, so that none warms up, or slows down, another."""
    words = [*QUICK[name].split(), "--json", str(out / f"{name}.json")]
    print(f"== python benchmarks/{name}.py {' '.join(words)}", flush=True)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *words])
    print(f"   {time.perf_counter() - start:.0f} s", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    main()
