"""Can the numbers be believed? Predicted against true overlap, and what an acceptance threshold costs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from samespot.errors import InputError
from samespot.figures.recall_curves import COLOURS, looks
from samespot.figures.style import GREY, INK, house_style, save
from samespot.statistics.acceptance import AcceptanceCurve, Threshold
from samespot.statistics.reliability import Reliability


def reliability_figure(curves: Mapping[str, Reliability], path: str | Path) -> Path:
    """Mean true overlap in each bin of predicted overlap, with 95 % bars; below, how many pairs each bin has.

    On the diagonal a promise is kept; below it the model promises too much.
    """
    if not any(curve.pairs for curve in curves.values()):
        raise InputError(f"{path}: no pairs to draw; give at least one reliability with pairs in it")
    from matplotlib.ticker import NullLocator

    with house_style() as plt:
        figure, (axes, below) = plt.subplots(
            2, 1, figsize=(5.6, 6.4), layout="constrained", sharex=True, height_ratios=[4.4, 1]
        )
        kept = {"color": GREY, "linewidth": 1.2, "linestyle": (0, (4, 3)), "zorder": 1}
        for i, (name, look) in enumerate(looks(curves).items()):
            _reliability_line(axes, name, curves[name], look)
            _count_bars(below, curves[name], look["color"], i, len(curves))
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), ylabel="true overlap ψ (mean)")
        axes.plot([0, 1], [0, 1], label="predicted = true", **kept)
        axes.legend(loc="upper left", frameon=True, framealpha=0.85, edgecolor="none")
        below.set_yscale("log")
        below.set_ylim(bottom=0.7)
        below.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        below.yaxis.set_minor_locator(NullLocator())
        below.grid(visible=False, axis="x")
        below.set_ylabel("pairs")
        below.set_xlabel("predicted overlap ψ̂")
        return save(figure, path)


def _reliability_line(axes: Any, name: str, curve: Reliability, look: Mapping[str, Any]) -> None:
    full = curve.counts > 0
    x, y = curve.predicted[full], curve.true[full]
    bars = np.stack([y - curve.low[full], curve.high[full] - y]).clip(0)
    label = f"{name}, ECE {curve.ece:.3f}"
    axes.errorbar(x, y, bars, fmt="none", ecolor=look["color"], elinewidth=1.1, alpha=0.6)
    axes.plot(x, y, label=label, markersize=6, markeredgecolor="white", linewidth=1.8, **look)


def _count_bars(axes: Any, curve: Reliability, colour: str, which: int, of: int) -> None:
    """The bars of several curves stand side by side within each bin."""
    room = 0.86 * np.diff(curve.edges)
    left = curve.edges[:-1] + 0.07 * np.diff(curve.edges) + which * room / of
    axes.bar(left, curve.counts, width=room / of, align="edge", color=colour, linewidth=0)


def acceptance_figure(curve: AcceptanceCurve, path: str | Path, precision: float = 0.95) -> Path:
    """What accepting best matches up to a distance brings, and the largest distance of the wanted precision."""
    if not len(curve.thresholds):
        raise InputError(f"{path}: no query has a match, so there is nothing to accept or to draw")
    chosen = curve.threshold_for(precision)
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
        drawn = {
            "right, of all accepted (precision)": (curve.precision, COLOURS[0], "-"),
            "found, of all in the map (recall)": (curve.recall, COLOURS[2], "--"),
            "accepted, of all not in the map": (curve.false_accepts, COLOURS[1], ":"),
        }
        for name, (share, colour, dashes) in drawn.items():
            if np.isfinite(share).any():
                look = {"color": colour, "linestyle": dashes, "linewidth": 2.0}
                axes.step(curve.thresholds, 100 * share, where="post", label=name, **look)
        if chosen.reached:
            _mark(axes, chosen, [colour for _, colour, _ in drawn.values()])
        axes.set(ylim=(-2, 103), xlabel="accept the best match up to distance", ylabel="share of queries [%]")
        axes.margins(x=0.01)
        axes.set_title(_words(chosen), fontsize=10)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8.5, columnspacing=1.2)
        return save(figure, path)


def _mark(axes: Any, chosen: Threshold, colours: list[str]) -> None:
    """A line at the threshold, and the three shares there as dots with their numbers."""
    axes.axvline(chosen.distance, color=INK, linewidth=1)
    shares = np.array([chosen.precision, chosen.recall, chosen.false_accepts])
    heights = _apart(100 * shares, 5.5)
    for share, colour, height in zip(shares, colours, heights, strict=True):
        if np.isfinite(share):
            axes.plot(chosen.distance, 100 * share, "o", color=colour, markeredgecolor="white", zorder=5)
            axes.annotate(
                f"{100 * share:.1f} %",
                (chosen.distance, height),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                color=colour,
                weight="bold",
                bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1},
            )


def _apart(heights: Any, gap: float) -> Any:
    """Heights moved up as little as keeps them `gap` apart, so that numbers beside dots stay readable."""
    moved = np.array(heights, dtype=np.float64)
    order = [i for i in np.argsort(moved) if np.isfinite(moved[i])]
    for lower, upper in pairwise(order):
        moved[upper] = max(moved[upper], moved[lower] + gap)
    return moved


def _words(chosen: Threshold) -> str:
    if not chosen.reached:
        return str(chosen)[:1].upper() + str(chosen)[1:]
    low, high = 100 * chosen.interval.low, 100 * chosen.interval.high
    return (
        f"Accepting up to {chosen.distance:.3f}: {chosen.interval.n:,} answers, "
        f"{100 * chosen.precision:.1f} % right [{low:.1f}, {high:.1f}]"
    )
