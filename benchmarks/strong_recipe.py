"""Is the strong recipe ahead of mined triplets on campus? From the answers of both, query by query.

    python benchmarks/strong_recipe.py

`docs/results/strong_recipe.json` says for each seed which of the 523 queries are found among the first five. The runs
took a GPU: `samespot train campus --preset campus --recipe strong --steps 600`, and for the triplets the options that
the file names. Both were described at one size (224 x 224) and at several.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from samespot.statistics.intervals import paired_bootstrap_runs

ANSWERS = Path(__file__).parents[1] / "docs" / "results" / "strong_recipe.json"

OURS, ONE = "strong, four sizes, all dims, damping 1", "strong, one size, all dims, damping 1"
COMPARED = (
    (OURS, "triplets, one size, all dims, damping 1"),
    (OURS, "triplets, sizes 176, 224, 288, all dims, damping 1"),
    (OURS, "triplets, sizes 224, 288, 352, all dims, damping 1"),
    (ONE, "triplets, one size, all dims, damping 1"),
)


def main() -> None:
    found = {
        name: np.array([[float(digit) for digit in seed] for seed in seeds])
        for name, seeds in json.loads(ANSWERS.read_text())["hits"].items()
    }
    print("| descriptor | R@5 by seed | mean |\n|---|---|---|")
    for name, hits in found.items():
        print(
            f"| {name} | {', '.join(f'{100 * seed.mean():.1f}' for seed in hits)} | {100 * hits.mean():.1f} |"
        )
    for ours, rival in COMPARED:
        print(f"{ours} − {rival}: {paired_bootstrap_runs(found[ours], found[rival]).points()}")


if __name__ == "__main__":
    main()
