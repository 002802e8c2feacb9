"""Is the strong recipe ahead of mined triplets on campus? From the answers of both, query by query.

    python benchmarks/strong_recipe.py

`docs/results/strong_recipe.json` says for each seed which of the 523 queries are found among the first five. The runs
took a GPU: `samespot train campus --preset campus --recipe strong --steps 400` (with other options where a row names
them), and `python -m reproduction claims`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from samespot.statistics.intervals import paired_bootstrap_runs

ANSWERS = Path(__file__).parents[1] / "docs" / "results" / "strong_recipe.json"


def main() -> None:
    found = {
        name: np.array([[float(digit) for digit in seed] for seed in seeds])
        for name, seeds in json.loads(ANSWERS.read_text())["hits"].items()
    }
    print("| descriptor | R@5 by seed |\n|---|---|")
    for name, hits in found.items():
        print(f"| {name} | {', '.join(f'{100 * seed.mean():.1f}' for seed in hits)} |")
    rival = "triplets, 512"
    for name, hits in found.items():
        if not name.startswith("triplets"):
            print(f"{name} − {rival}: {paired_bootstrap_runs(hits, found[rival]).points()}")


if __name__ == "__main__":
    main()
