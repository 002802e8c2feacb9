"""Which similarities does a run get to see? The pairs of its batches, drawn again and counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samespot.files import read_json, write_json
from samespot.training.batches import batches_of
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet

PAIRS = 10_000
BINS = np.linspace(0.0, 1.0, 21)
Counts = tuple[int, NDArray[np.int64]]  # pairs with ψ = 0; (20,) pairs with ψ > 0 in bins of width 0.05


def drawn_similarities(
    sets: list[LabelledSet],
    strategy: str,
    pairs: int = PAIRS,
    seed: int = 0,
    *,
    options: TrainingOptions | None = None,
) -> NDArray[np.float32]:
    """(pairs,) similarities of drawn pairs, batch after batch: those of a run with these `options` from its first
    step on (their seed, not `seed`), or else of the default ones."""
    chosen = (options or TrainingOptions(seed=seed)).with_changes(batches=strategy)
    batches = batches_of(chosen, sets)
    steps = -(-pairs // chosen.batch_pairs)
    return np.concatenate([batches(step).similarity for step in range(steps)])[:pairs]


def counts(similarity: NDArray[np.float32]) -> Counts:
    above = similarity[similarity > 0]
    return len(similarity) - len(above), np.histogram(above, bins=BINS)[0]


def save_counts(
    sets: list[LabelledSet],
    path: Path,
    strategies: Sequence[str],
    pairs: int = PAIRS,
    *,
    options: TrainingOptions | None = None,
) -> Path:
    """Write `batches.json`, for the report: of each strategy the pairs with ψ = 0, then those in each bin."""
    drawn = {name: counts(drawn_similarities(sets, name, pairs, options=options)) for name in strategies}
    found = {name: [zero, *above.tolist()] for name, (zero, above) in drawn.items()}
    return write_json(path, {"bins": BINS.round(4).tolist(), "strategies": found}, indent=None)


def read_counts(path: Path) -> dict[str, Counts]:
    """By strategy."""
    kept = read_json(path, "train again")["strategies"]
    return {name: (numbers[0], np.array(numbers[1:], dtype=np.int64)) for name, numbers in kept.items()}
