"""One look for a run on the whole page: graded blue, binary orange, whitened dashed; the layout all plots share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.results import Evaluation, Variant
from samespot.figures.gallery import RIGHT, WRONG
from samespot.figures.recall_curves import COLOURS
from samespot.figures.report_runs import ReportRun
from samespot.figures.report_sections.markup import KeyEntry
from samespot.figures.style import CLASSES, GREY, INK, MAP, QUERY, SHARED
from samespot.statistics.intervals import Interval, wilson

GRADED, BINARY = 0, 1  # of PALETTE
PALETTE = (*COLOURS, "#7a5c3a")  # one more, for eight runs
# the same hues, light enough to be read on a dark page
DARK = ("#4ba3dc", "#f08a4b", "#33c199", "#dd94bd", "#8ccdf2", "#f2bd4f", "#d7dbe0", "#c9a878")
# as the network gives it, whitened on the map, on another set, with a file
DASHES = ("solid", "dash", "dot", "longdash")
RERANKED = "dashdot"
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "pentagon")
MOST_LINES = 12
MOST_BANDS = 6  # more of them cover each other; an interval then shows at the pointer

THEMES: Mapping[str, Mapping[str, str]] = {
    "light": {
        "paper": "#ffffff",
        "panel": "#f6f7f9",
        "ink": INK,
        "muted": "#5b626c",
        "rule": "#e2e5ea",
        "grid": "#e6e9ee",
        "link": "#00568a",
        "low": "#c3c9d1",
        "middle": "#3f9aa3",
        "high": "#3a1a6e",
        **{f"c{i}": colour for i, colour in enumerate(PALETTE)},
        "query": QUERY,
        "map": MAP,
        "shared": SHARED,
        "right": RIGHT,
        "wrong": WRONG,
        "grey": GREY,
        **{name.replace(" ", "-"): colour for name, colour in CLASSES.items()},
    },
    "dark": {
        "paper": "#14171b",
        "panel": "#1d2126",
        "ink": "#e5e8ec",
        "muted": "#a2abb5",
        "rule": "#31373f",
        "grid": "#2a3037",
        "link": "#7cc0ee",
        "low": "#4b545f",
        "middle": "#2f9d9c",
        "high": "#fbe68a",
        **{f"c{i}": colour for i, colour in enumerate(DARK)},
        "query": "#ef6f65",
        "map": "#5b9fe0",
        "shared": "#da63c6",
        "right": "#2cbf92",
        "wrong": "#f0803c",
        "grey": "#8a8f98",
        "hard-negative": "#6a7480",
        "soft-negative": "#e0a64a",
        "positive": "#57b381",
        "hard-positive": "#9fd8b8",
    },
}


def colours(runs: Sequence[ReportRun]) -> dict[str, str]:
    """Run name -> name of its colour. The first graded run is blue and the first binary one orange, always."""
    first_graded = next((run for run in runs if not run.binary), None)
    first_binary = next((run for run in runs if run.binary), None)
    taken = {
        run.name: kind for run, kind in ((first_graded, GRADED), (first_binary, BINARY)) if run is not None
    }
    free = [i for i in range(len(PALETTE)) if i not in taken.values()]
    others = [run.name for run in runs if run.name not in taken]
    taken |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {run.name: f"c{taken[run.name]}" for run in runs}


def symbols(runs: Sequence[ReportRun]) -> dict[str, str]:
    return {run.name: SYMBOLS[i % len(SYMBOLS)] for i, run in enumerate(runs)}


def evaluated(runs: Sequence[ReportRun]) -> list[tuple[ReportRun, Evaluation]]:
    return [(run, run.evaluation) for run in runs if run.evaluation is not None]


def same_protocol(runs: Sequence[ReportRun]) -> list[tuple[ReportRun, Evaluation]]:
    """The runs whose numbers may stand in one plot: those of the first evaluation's protocol."""
    every = evaluated(runs)
    return [(run, one) for run, one in every if rule_of(one) == rule_of(every[0][1])]


def rule_of(evaluation: Evaluation) -> tuple[str, ...]:
    return tuple(str(evaluation.protocol.get(word)) for word in ("name", "positive", "queries", "options"))


def main_variants(evaluation: Evaluation, most: int = len(DASHES)) -> list[Variant]:
    """As the network gives it, and of each whitening the largest; then whatever was re-ranked, which is one at most."""
    largest: dict[str | None, Variant] = {}
    for variant in evaluation.variants:
        known = largest.get(variant.whitening)
        if variant.as_found and (known is None or variant.dims > known.dims):
            largest[variant.whitening] = variant
    reranked = [variant for variant in evaluation.variants if variant.reranked_by is not None]
    return [*list(largest.values())[:most], *reranked]


def dash_of(variant: Variant, evaluation: Evaluation) -> str:
    if variant.reranked_by is not None:
        return RERANKED
    sources = list(dict.fromkeys(one.whitening for one in evaluation.variants))
    return DASHES[min(sources.index(variant.whitening), len(DASHES) - 1)]


def symbol_of(variant: Variant, symbol: str) -> str:
    """The symbol of its run, open where the lists are re-ranked."""
    return symbol if variant.as_found else f"{symbol}-open"


def drawn_variants(
    runs: Sequence[tuple[ReportRun, Evaluation]],
) -> list[tuple[ReportRun, Evaluation, Variant]]:
    """What a plot with a line for each can bear: fewer whitenings where there are many runs."""
    each = max(1, min(len(DASHES), MOST_LINES // max(1, len(runs))))
    return [(run, one, variant) for run, one in runs for variant in main_variants(one, each)]


def key_of(
    lines: Sequence[tuple[ReportRun, Evaluation, Variant]], runs: Sequence[ReportRun]
) -> list[KeyEntry]:
    shown = colours(runs)
    return [
        KeyEntry(f"{run.name}, {variant.title}", shown[run.name], swatch_of(dash_of(variant, evaluation)))
        for run, evaluation, variant in lines
    ]


def key_of_runs(runs: Sequence[ReportRun], every: Sequence[ReportRun]) -> list[KeyEntry]:
    shown = colours(every)
    return [KeyEntry(run.name, shown[run.name]) for run in runs]


def swatch_of(dash: str) -> str:
    """How a legend shows a line."""
    return {"solid": "line", "dash": "dash", "dot": "dots", "longdash": "long", RERANKED: "dashdot"}[dash]


def layout(x: str, y: str, **more: Any) -> dict[str, Any]:
    """What the plots have in common but for colours, which the page knows. more: e.g. xaxis={"type": "log"}."""
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}
    for name, axis in axes.items():
        axis.update(more.pop(name, {}))
    return {**axes, "margin": {"l": 54, "r": 12, "t": 8, "b": 46}, **more}


def line_with_band(
    x: Sequence[float],
    intervals: Sequence[Interval],
    *,
    colour: str,
    dash: str,
    symbol: str,
    name: str,
    banded: bool = True,
) -> list[dict[str, Any]]:
    """Percent over x with its 95 % band; where an interval is NaN the line has a gap."""
    value, low, high = (
        np.array([100 * getattr(one, part) for one in intervals]) for part in ("value", "low", "high")
    )
    known = np.isfinite(value)
    at = np.asarray(x, dtype=np.float64)[known]
    words = [
        f"{v:.1f} % [{a:.1f}, {b:.1f}]" for v, a, b in zip(value[known], low[known], high[known], strict=True)
    ]
    band = {
        "x": np.concatenate([at, at[::-1]]),
        "y": np.concatenate([high[known], low[known][::-1]]),
        "fill": "toself",
        "fillcolor": f"@{colour}/0.12",
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
    }
    line = {
        "x": at,
        "y": value[known],
        "mode": "lines+markers",
        "name": name,
        "line": {"color": f"@{colour}", "dash": dash, "width": 2},
        "marker": {"symbol": symbol, "size": 7, "color": f"@{colour}"},
        "text": words,
        "hovertemplate": "%{text}",
    }
    return [band, line] if banded else [line]


def share_intervals(share: Sequence[float | None], counts: Sequence[int]) -> list[Interval]:
    """Wilson's for each share of so many queries."""
    found = []
    for one, n in zip(share, counts, strict=True):
        value = np.nan if one is None else float(one)
        found.append(wilson(round(value * n), int(n)) if np.isfinite(value) and n else wilson(0, 0))
    return found


def smoothed(values: NDArray[np.float64], over: float) -> NDArray[np.float64]:
    """A moving average that forgets over about so many values, not drawn towards zero at the start."""
    keep, total, weight = 1.0 - 1.0 / max(1.0, over), 0.0, 0.0
    out = np.empty(len(values))
    for i, value in enumerate(values.tolist()):
        total, weight = keep * total + value, keep * weight + 1.0
        out[i] = total / weight
    return out
