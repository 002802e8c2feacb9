"""What does the network get to see? Similarities of the pairs that each batch strategy draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from samespot.figures.style import CLASSES, house_style, save
from samespot.overlap.classes import HARD_POSITIVE, POSITIVE
from samespot.training.drawn import BINS, PAIRS, Counts, counts, drawn_similarities
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet

_NAMES = {
    "A": "A: 50 % positive, 25 % soft, 25 % hard negative",
    "B": "B: 25 % each of hard, soft positive, soft, hard negative",
    "C": "C: thirds of positive, soft, hard negative",
    "D": "D: 50 % positive, 50 % any negative",
}


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
    drawn = {
        name: counts(drawn_similarities(sets, name, pairs, seed, options=options)) for name in strategies
    }
    return plot_histograms(drawn, out)


def plot_histograms(drawn: Mapping[str, Counts], out: str | Path) -> Path:
    """One panel a strategy, on a log scale as in the paper; ψ = 0 has a bar of its own left of the others."""
    with house_style() as plt:
        columns = min(2, len(drawn))
        rows = -(-len(drawn) // columns)
        figure, axes = plt.subplots(
            rows, columns, figsize=(4.8 * columns, 2.9 * rows), sharex=True, sharey=True, squeeze=False
        )
        for axis in axes.flat[len(drawn) :]:
            axis.set_visible(False)
        for axis, (name, counted) in zip(axes.flat, drawn.items(), strict=False):
            _panel(axis, name, counted)
        for axis in axes[:, 0]:
            axis.set_ylabel("pairs")
        for axis in axes[-1]:
            axis.set_xlabel("similarity ψ")
        handles, names = axes[0, 0].get_legend_handles_labels()
        figure.tight_layout(rect=(0, 0.06, 1, 1))
        figure.legend(handles, names, loc="lower center", ncols=len(names))
        return save(figure, out)


def _panel(axis: Any, name: str, counted: Counts) -> None:
    at_zero, above = counted
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
