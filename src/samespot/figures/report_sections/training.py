"""How it was trained: the similarities of the pairs it was shown, the loss, and recall on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.figures.report_runs import ReportRun
from samespot.figures.report_sections.looks import colours, key_of_runs, layout, smoothed, symbols
from samespot.figures.report_sections.markup import KeyEntry, Plot, Section, figure
from samespot.figures.style import CLASSES
from samespot.overlap.classes import HARD_POSITIVE, POSITIVE

MOST_POINTS = 600  # of a curve
STRATEGIES = {
    "A": "A: half positive, a quarter each soft and hard negative",
    "B": "B: a quarter each hard positive, soft positive, soft and hard negative",
    "C": "C: a third each positive, soft and hard negative",
    "D": "D: half positive, half any negative",
    "binary": "binary: half positive, half negative, ψ rounded to 0 or 1",
}
AT_ZERO = -0.05  # where the bar of ψ = 0 stands


def label_histograms(runs: Sequence[ReportRun]) -> Section | None:
    drawn = _strategies(runs)
    if not drawn:
        return None
    most = max(max(counts) for _, counts in drawn.values())
    plots = [_histogram(name, bins, counts, most) for name, (bins, counts) in drawn.items()]
    key = [KeyEntry(_class_words(name), name.replace(" ", "-"), "box") for name in CLASSES]
    caption = (
        "Labels ψ of the training pairs that each batch strategy draws, on a logarithmic scale: graded strategies"
        " fill the middle, binary ones have nothing between 0 and 1."
        if any(name.startswith("binary") for name in drawn)
        else "Labels ψ of the training pairs that each batch strategy draws, on a logarithmic scale."
    )
    return Section("labels", "Labels in the batches", figure(plots, caption, key))


def _class_words(name: str) -> str:
    limits = {
        "hard negative": "ψ = 0",
        "soft negative": f"below {POSITIVE:g}",
        "positive": f"from {POSITIVE:g}",
        "hard positive": f"from {HARD_POSITIVE:g}",
    }
    return f"{name}, {limits[name]}"


def _strategies(runs: Sequence[ReportRun]) -> dict[str, tuple[list[float], list[float]]]:
    """Strategy -> bins and counts. Two runs that drew differently by one name each get a panel."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for run in runs:
        bins = [float(edge) for edge in run.batches.get("bins", ())]
        for name, counts in dict(run.batches.get("strategies", {})).items():
            one = (bins, [float(count) for count in counts])
            if not one[1] or max(one[1]) <= 0 or len(one[1]) not in (len(bins) - 1, len(bins)):
                continue
            known = found.get(str(name))
            found[str(name) if known in (None, one) else f"{name}, {run.name}"] = one
    return found


def _histogram(name: str, bins: list[float], counts: list[float], most: float) -> Plot:
    """Counts one longer than the bins begin with the pairs of ψ = 0, which then have a bar of their own."""
    edges = np.array(bins)
    at, width = 0.5 * (edges[:-1] + edges[1:]), np.diff(edges)
    apart = len(counts) == len(edges)
    if apart:
        at, width = np.concatenate([[AT_ZERO], at]), np.concatenate([width[:1], width])
    kinds = [_kind(one, i == 0 and apart) for i, one in enumerate(at.tolist())]
    bars = {
        "type": "bar",
        "x": at,
        "y": [count if count > 0 else None for count in counts],
        "width": 0.92 * width,
        "marker": {"color": [f"@{kind.replace(' ', '-')}" for kind in kinds], "line": {"width": 0}},
        "text": [f"{count:,.0f} pairs, {kind}" for count, kind in zip(counts, kinds, strict=True)],
        "textposition": "none",
        "hovertemplate": "ψ %{x:.2f}: %{text}<extra></extra>",
    }
    axes = layout(
        "label ψ",
        "pairs",
        xaxis={"range": [-0.1 if apart else -0.02, 1.02], "tickvals": [0, 0.25, 0.5, 0.75, 1]},
        yaxis={"type": "log", "range": [-0.2, float(np.log10(most)) + 0.15], "dtick": 1},
    )
    words = (
        f"Histogram of the labels of the pairs that strategy {name} draws, {sum(counts):,.0f} pairs in all"
    )
    return Plot([bars], axes, words, height=230, title=STRATEGIES.get(name, name))


def _kind(middle: float, at_zero: bool) -> str:
    if at_zero or middle <= 0:
        return "hard negative"
    if middle < POSITIVE:
        return "soft negative"
    return "positive" if middle < HARD_POSITIVE else "hard positive"


def training_curves(runs: Sequence[ReportRun]) -> Section | None:
    trained = [run for run in runs if run.metrics]
    if not trained:
        return None
    panels = [
        _curves(trained, runs, ("loss",), "loss", "mean loss of a batch", 1.0),
        _curves(trained, runs, ("zero_losses",), "pairs with zero loss", "share of pairs [%]", 100.0),
        _recalls(trained, runs),
    ]
    plots = [panel for panel in panels if panel is not None]
    if not plots:
        return None
    steps = max(int(run.metrics[-1]["step"]) for run in trained)
    caption = (
        f"Training over {steps:,} steps: thin lines show the logged values, thick lines a moving average. The losses"
        " of graded and binary batches cannot be compared, because their labels differ. A pair with zero loss"
        " teaches the network nothing."
    )
    key = key_of_runs(trained, runs)
    return Section("training", "Training", figure(plots, caption, key))


def _series(run: ReportRun, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and values; of very many, evenly some."""
    pairs = [(record["step"], record[name]) for record in run.metrics if _is_number(record.get(name))]
    if not pairs:
        return np.zeros(0), np.zeros(0)
    steps, values = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    return steps, values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _curves(
    trained: Sequence[ReportRun],
    runs: Sequence[ReportRun],
    names: tuple[str, ...],
    title: str,
    y: str,
    scale: float,
) -> Plot | None:
    shown, data = colours(runs), []
    for run in trained:
        for name in names:
            steps, values = _series(run, name)
            if not len(steps):
                continue
            some = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_POINTS)).round().astype(int))
            thick = smoothed(values, max(3.0, len(values) / 25))
            for drawn, alpha, width in ((values, "/0.3", 1), (thick, "", 2.2)):
                data.append(
                    {
                        "x": steps[some],
                        "y": scale * drawn[some],
                        "mode": "lines" if len(some) > 1 else "markers",  # a line of one point is not seen
                        "marker": {"color": f"@{shown[run.name]}"},
                        "name": run.name,
                        "line": {"color": f"@{shown[run.name]}{alpha}", "width": width},
                        "hoverinfo": "skip" if alpha else "x+y+name",
                    }
                )
    if not data:
        return None
    words = f"{title} over the steps of {', '.join(run.name for run in trained)}"
    return Plot(
        data, layout("step", y, yaxis={"rangemode": "tozero"}), words, height=250, title=title.capitalize()
    )


def _recalls(trained: Sequence[ReportRun], runs: Sequence[ReportRun]) -> Plot | None:
    """Recall of the validation during training, at the smallest and the largest k."""
    ks = sorted(
        {int(name[7:]) for run in trained for record in run.metrics for name in _recall_names(record)}
    )
    if not ks:
        return None
    shown, marks, data = colours(runs), symbols(runs), []
    for run in trained:
        for k, dash in zip(dict.fromkeys((ks[0], ks[-1])), ("solid", "dot"), strict=False):
            steps, values = _series(run, f"recall@{k}")
            data.append(
                {
                    "x": steps,
                    "y": 100 * values,
                    "mode": "lines+markers",
                    "name": f"{run.name}, R@{k}",
                    "line": {"color": f"@{shown[run.name]}", "dash": dash, "width": 2},
                    "marker": {"symbol": marks[run.name], "size": 6},
                    "hovertemplate": "%{y:.1f} %",
                }
            )
    title = f"Recall@{ks[0]}" + (f"; dotted: recall@{ks[-1]}" if len(ks) > 1 else "")
    words = f"Recall of the validation queries during training, {', '.join(run.name for run in trained)}"
    return Plot(
        data, layout("step", "recall [%]", yaxis={"rangemode": "tozero"}), words, height=250, title=title
    )


def _recall_names(record: Mapping[str, Any]) -> list[str]:
    return [name for name in record if name.startswith("recall@") and name[7:].isdigit()]
