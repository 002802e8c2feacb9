"""How far are poses off? The share of queries within a distance, and within an angle, of the true pose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samespot.figures.recall_curves import looks, refuse_empty
from samespot.figures.style import GREY, house_style, save

SIZE = (8.4, 4.0)  # [inch]
METRES, DEGREES = (0.01, 20.0), (0.1, 60.0)  # ends of the axes
Errors = tuple[NDArray[np.float64], NDArray[np.float64]]  # [m], [deg] of each query


def pose_error_figure(
    series: Mapping[str, Errors], path: str | Path, again: Mapping[str, str] | None = None
) -> Path:
    """Cumulative errors, one line a way to poses: `series` is name -> metres and degrees, huge where there is none.

    again: which of them were solved for, and from whose lists, see `looks`.
    """
    refuse_empty(series, path)
    with house_style() as plt:
        figure, axes = plt.subplots(1, 2, figsize=SIZE, layout="constrained", sharey=True)
        for name, look in looks(series, again).items():
            line = {key: value for key, value in look.items() if not key.startswith("marker")}
            for number, (panel, ends) in enumerate(zip(axes, (METRES, DEGREES), strict=True)):
                at, share = cumulative(series[name][number], ends)
                panel.step(at, 100 * share, where="post", label=name, **line)
        for panel, ends, what in zip(axes, (METRES, DEGREES), ("metres", "degrees"), strict=True):
            panel.set_xscale("log")
            panel.set_xlim(*ends)
            panel.xaxis.set_major_formatter("{x:g}")
            panel.set_ylim(0, 100)
            panel.set_xlabel(f"within so many {what} of the true pose")
            panel.grid(color=GREY, alpha=0.25)
        axes[0].set_ylabel("queries [%]")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False)
        return save(figure, path)


def cumulative(
    errors: NDArray[np.float64], ends: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the share of errors grows, and to what; from one end of an axis to the other."""
    known = np.sort(errors[~np.isnan(errors)])
    share = np.arange(1, len(known) + 1) / max(len(known), 1)
    inside = (known > ends[0]) & (known < ends[1])
    first, last = float((known <= ends[0]).mean()), float((known < ends[1]).mean())
    return np.r_[ends[0], known[inside], ends[1]], np.r_[first, share[inside], last]
