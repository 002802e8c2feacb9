"""How often is the place found? Recall against the length of the list, against what counts as found, against dims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.figures.style import GREY, house_style, save

if TYPE_CHECKING:
    from samespot.statistics.intervals import Interval

Floats = NDArray[np.float64]
Axis = Literal["distance", "overlap"]

SIZE = (6.6, 4.2)  # [inch]
# Okabe and Ito's colours, told apart with any colour vision; markers and dashes say it again in print
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#22262b")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":")
_AXES: dict[str, tuple[str, float, str]] = {
    "distance": ("found means: no farther than … [m]", 25.0, "usual: 25 m"),
    "overlap": ("found means: overlap ψ of more than …", 0.5, "usual: 0.5"),
}


def looks(names: Iterable[str], again: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes of each series, different for the first 21 of them.

    again: name of a re-ranked series -> name of the one whose lists it has in another order. The two share colour
    and marker; the re-ranked one is dashed, and its marks are open.
    """
    names, again = list(names), again or {}
    first = [name for name in names if again.get(name) not in names]
    found: dict[str, dict[str, Any]] = {
        name: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i // len(COLOURS) % len(DASHES)],
        }
        for i, name in enumerate(first)
    }
    for name in (one for one in names if one in again):
        look = found.get(again[name]) or found[name]
        found[name] = {
            **look,
            "linestyle": "--",
            "markerfacecolor": "white",
            "markeredgecolor": look["color"],
            "zorder": 3,  # above the others: what lies below shows between its dashes
        }
    return {name: found[name] for name in names}


def recall_at_k_figure(
    series: Mapping[str, Mapping[int, Interval]], path: str | Path, again: Mapping[str, str] | None = None
) -> Path:
    """Recall at each k with its 95 % band, one line a model: `series` is name -> {k: interval}.

    again: which of them are re-ranked, and of what, see `looks`.
    """
    refuse_empty(series, path)
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
        every = sorted({k for values in series.values() for k in values})
        for name, look in looks(series, again).items():
            _band(axes, f"{name}, R@{min(series[name])}", series[name], look)
        if every[-1] > 20:
            axes.set_xscale("log")
        _ticks(axes, every)
        axes.set_xlabel("k: a place counts as found among the first k matches")
        _percent(axes, "recall@k [%]")
        _legend(axes, len(series))
        return save(figure, path)


def recall_over_dims_figure(
    series: Mapping[str, Mapping[int, Interval]], path: str | Path, k: int = 1
) -> Path:
    """What a shorter descriptor costs: `series` is name -> {dims: interval of recall@k}."""
    refuse_empty(series, path)
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
        for name, look in looks(series).items():
            _band(axes, f"{name}, {max(series[name])} dims", series[name], look, at=-1)
        axes.set_xscale("log", base=2)
        _ticks(axes, sorted({dims for values in series.values() for dims in values}))
        axes.set_xlabel("dimensions of the descriptor")
        _percent(axes, f"recall@{k} [%]")
        _legend(axes, len(series))
        return save(figure, path)


def recall_over_figure(
    series: Mapping[str, Sequence[float] | Sequence[Interval] | Floats],
    thresholds: Sequence[float] | Floats,
    path: str | Path,
    axis: Axis = "distance",
    k: int = 5,
    again: Mapping[str, str] | None = None,
) -> Path:
    """Recall@k when "found" means something stricter or laxer than usual: the paper's figure of robustness.

    `series` is name -> recall at each threshold, in metres or as overlap by `axis`; with bands where intervals are
    given. NaN where no query has such a map image. again: which are re-ranked, and of what, see `looks`.
    """
    refuse_empty(series, path)
    label, usual, words = _AXES[axis]
    at = np.asarray(thresholds, dtype=np.float64)
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
        if at.min() < usual < at.max():
            axes.axvline(usual, color=GREY, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
            at_top = axes.get_xaxis_transform()
            axes.text(usual, 1.02, words, transform=at_top, color="#5b626c", size=8, ha="center")
        for name, look in looks(series, again).items():
            value, low, high = _columns(series[name])
            if len(value) != len(at):
                raise InputError(
                    f"{path}: {name} has {len(value)} recalls for {len(at)} thresholds; give one for each"
                )
            _line(axes, name, at, value, low, high, look)
        axes.set_xlabel(label)
        _percent(axes, f"recall@{k} [%]")
        _legend(axes, len(series))
        return save(figure, path)


def refuse_empty(series: Mapping[str, Any], path: str | Path) -> None:
    if not series or not all(len(values) for values in series.values()):
        raise InputError(f"{path}: nothing to draw; give at least one series with a value in it")


def _band(
    axes: Any, label: str, values: Mapping[int, Interval], look: Mapping[str, Any], at: int = 0
) -> None:
    """A line with its band; the legend names the value at the first or the last point."""
    x = np.array(sorted(values), dtype=np.float64)
    value, low, high = _columns([values[int(position)] for position in x])
    _line(axes, f"{label}: {100 * value[at]:.1f}", x, value, low, high, look)


def _columns(values: Sequence[float] | Sequence[Interval] | Floats) -> tuple[Floats, Floats, Floats]:
    """Value, low and high; a plain number is its own interval."""
    rows = [
        (one, one, one) if isinstance(one, (int, float, np.number)) else (one.value, one.low, one.high)
        for one in values
    ]
    columns = np.array(rows, dtype=np.float64).T
    return columns[0], columns[1], columns[2]


def _line(
    axes: Any, label: str, x: Floats, value: Floats, low: Floats, high: Floats, look: Mapping[str, Any]
) -> None:
    axes.fill_between(x, 100 * low, 100 * high, color=look["color"], alpha=0.14, linewidth=0)
    drawn = {"markersize": 5.5, "markeredgecolor": "white", "linewidth": 1.8, **look}
    axes.plot(x, 100 * value, label=label, **drawn)


def _ticks(axes: Any, values: list[int]) -> None:
    """A tick at each value that was measured, as a plain number, and none between."""
    from matplotlib.ticker import NullLocator

    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:g}" for value in values])


def _percent(axes: Any, label: str) -> None:
    axes.set_ylabel(label)
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -2), min(high, 101.5))


def _legend(axes: Any, lines: int) -> None:
    """In the corner the curves leave free; beside the axes where there are too many lines for it."""
    long = {"handlelength": 3.2}  # [letters] so that dashes show
    if lines <= 5:
        axes.legend(loc="best", frameon=True, framealpha=0.85, edgecolor="none", **long)
        return
    legend = axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), **long)
    # long names must not take the room of the curves
    wide = legend.get_window_extent().width / axes.figure.dpi
    axes.figure.set_size_inches(SIZE[0] + wide, SIZE[1])
