"""What does the network get to see? Similarities of the pairs that each batch strategy draws."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.figures.style import CLASSES, house_style, save
from samespot.overlap.classes import HARD_POSITIVE, POSITIVE
from samespot.training.batches import batches_of
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet

PAIRS = 10_000
BINS = np.linspace(0.0, 1.0, 21)
_NAMES = {
    "A": "A: 50 % positive, 25 % soft, 25 % hard negative",
    "B": "B: 25 % each of hard, soft positive, soft, hard negative",
    "C": "C: thirds of positive, soft, hard negative",
    "D": "D: 50 % positive, 50 % any negative",
}


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


def counts(similarity: NDArray[np.float32]) -> tuple[int, NDArray[np.int64]]:
    """Pairs with ψ = 0, and the pairs with ψ > 0 in each of 20 bins of width 0.05, (20,)."""
    above = similarity[similarity > 0]
    return len(similarity) - len(above), np.histogram(above, bins=BINS)[0]


def batch_histogram(
    sets: list[LabelledSet],
    out: str | Path,
    strategies: Sequence[str] = ("A", "B", "C", "D"),
    pairs: int = PAIRS,
    seed: int = 0,
    *,
    options: TrainingOptions | None = None,
) -> Path:
    """Draw `pairs` pairs with each strategy and write the figure (png, pdf or svg by the name's ending)."""
    drawn = {name: drawn_similarities(sets, name, pairs, seed, options=options) for name in strategies}
    return plot_histograms(drawn, out)


def plot_histograms(drawn: Mapping[str, NDArray[np.float32]], out: str | Path) -> Path:
    """One panel a strategy, on a log scale as in the paper; ψ = 0 has a bar of its own left of the others."""
    with house_style() as plt:
        columns = min(2, len(drawn))
        rows = -(-len(drawn) // columns)
        figure, axes = plt.subplots(
            rows, columns, figsize=(4.8 * columns, 2.9 * rows), sharex=True, sharey=True, squeeze=False
        )
        for axis in axes.flat[len(drawn) :]:
            axis.set_visible(False)
        for axis, (name, similarity) in zip(axes.flat, drawn.items(), strict=False):
            _panel(axis, name, similarity)
        for axis in axes[:, 0]:
            axis.set_ylabel("pairs")
        for axis in axes[-1]:
            axis.set_xlabel("similarity ψ")
        handles, names = axes[0, 0].get_legend_handles_labels()
        figure.tight_layout(rect=(0, 0.06, 1, 1))
        figure.legend(handles, names, loc="lower center", ncols=len(names))
        return save(figure, out)


def _panel(axis: Any, name: str, similarity: NDArray[np.float32]) -> None:
    at_zero, above = counts(similarity)
    middles, width = 0.5 * (BINS[:-1] + BINS[1:]), 0.92 * (BINS[1] - BINS[0])
    axis.bar([-0.045], [at_zero], width=width, color=CLASSES["hard negative"], label="hard negative, ψ = 0")
    for kind, low, high in (
        ("soft negative", 0.0, POSITIVE),
        ("positive", POSITIVE, HARD_POSITIVE),
        ("hard positive", HARD_POSITIVE, 1.0),
    ):
        part = (middles > low) & (middles < high)
        axis.bar(middles[part], above[part], width=width, color=CLASSES[kind], label=kind)
    axis.set_yscale("log")
    axis.grid(visible=False, axis="x")
    axis.set_xticks([-0.045, 0.25, 0.5, 0.75, 1.0], ["0", "0.25", "0.5", "0.75", "1"])
    axis.set_title(_NAMES.get(name, name), fontsize=9)


def save_histograms(
    sets: list[LabelledSet],
    out: str | Path,
    strategies: Sequence[str],
    pairs: int = PAIRS,
    *,
    options: TrainingOptions | None = None,
) -> Path:
    """The same as numbers, for the report: the pairs with ψ = 0, then those in each bin."""
    drawn = {name: counts(drawn_similarities(sets, name, pairs, options=options)) for name in strategies}
    found = {name: [zero, *above.tolist()] for name, (zero, above) in drawn.items()}
    path = Path(out)
    path.write_text(json.dumps({"bins": BINS.round(4).tolist(), "strategies": found}) + "\n")
    return path
