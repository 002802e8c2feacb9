"""Precision against recall over all pairs of queries and map images, with the average precision."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from samespot.figures.recall_curves import looks, refuse_empty
from samespot.figures.style import house_style, save

if TYPE_CHECKING:
    from samespot.evaluation.pair_curve import PairCurve

DRAWN = 2_000  # points of a curve that a figure can show; over 10⁸ pairs there are millions


def pair_curve_figure(curves: Mapping[str, PairCurve], path: str | Path) -> Path:
    """One line a model or scene, the best average precision first in the legend."""
    named = {name: curve.recall for name, curve in curves.items()}
    refuse_empty(named, path)
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(6.0, 4.8), layout="constrained")
        shown = looks(curves)
        for name in sorted(curves, key=lambda name: -np.nan_to_num(curves[name].average_precision)):
            curve = curves[name].thinned(DRAWN)
            look = {**shown[name], "marker": ""}
            label = f"{name}, AP {100 * curve.average_precision:.1f} %"
            # recall falls along the curve; as in the sum that AP is, a precision holds down to the next recall
            axes.step(curve.recall, curve.precision, where="post", label=label, linewidth=1.8, **look)
        axes.set(xlim=(0, 1.005), ylim=(0, 1.02), xlabel="recall: share of all true pairs that are accepted")
        axes.set_ylabel("precision: share of the accepted pairs that are true")
        axes.set_aspect("equal", adjustable="box")
        beside = len(curves) > 4
        axes.legend(
            loc="upper left" if beside else "best",
            bbox_to_anchor=(1.0, 1.0) if beside else None,
            frameon=True,
            framealpha=0.85,
            edgecolor="none",
        )
        return save(figure, path)
