"""The page's figures: differences of every claim, robustness, dims, soft negatives, cost, reliability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.comparators import measured
from reproduction.experiment import Floats, Result, read
from reproduction.judgement import FAILS, HOLDS, UNSURE, Judged, Line, Results, Verdict
from reproduction.scores import curve, mean_of, over_distances, over_overlaps, per_query, stacked
from samespot.evaluation.metrics import DISTANCES, OVERLAPS
from samespot.figures.recall_curves import recall_over_dims_figure
from samespot.figures.style import GREY, INK, house_style, save
from samespot.statistics.intervals import Interval

COLOURS = {HOLDS: "#1f7a4d", FAILS: "#c8352b", UNSURE: GREY}
GRADED, BINARY = "#a3248f", "#2a6fb0"
SOFT = {
    0.0: "vgg16-gem-soft-0",
    0.125: "vgg16-gem-soft-0.125",
    0.25: "vgg16-gem-graded",
    0.5: "vgg16-gem-soft-0.5",
}
MAIN = {"graded": "campus/vgg16-gem-graded", "binary": "campus/vgg16-gem-binary"}
LARGE = 7  # of groups of more comparisons the average alone is drawn
SPANNED = 0.9  # of a network's dims, at least, by any map that is no toy
DPI = 110  # a page of figures should stay light


@dataclass(frozen=True)
class Picture:
    file: str
    words: str  # what it shows, for those who do not see it
    section: str  # of the page: claims, comparators or details


def draw_pictures(judged: Judged, folder: Path) -> list[Picture]:
    """Those that the results are enough for."""
    drawn = []
    for picture, draw in _PICTURES:
        if draw(judged, folder / picture.file):
            drawn.append(picture)
    return drawn


# ---- differences ----


def _differences(judged: Judged, path: Path) -> bool:
    """A row a comparison, grouped by claim: where its interval lies from 0. Averages are diamonds."""
    groups = [
        (v.claim.words, [line for line in _drawn(v) if line.interval is not None]) for v in judged.verdicts
    ]
    groups = [(words, lines) for words, lines in groups if lines]
    if not groups:
        return False
    rows = sum(1 + len(lines) for _, lines in groups)
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(9.0, 0.6 + 0.19 * rows), layout="constrained")
        at, ticks = 0, []
        for words, lines in groups:
            axes.text(
                0.0, -at, words, transform=axes.get_yaxis_transform(), size=7.5, weight="bold", va="center"
            )
            at += 1
            for line in lines:
                _interval(axes, line, -at, "D" if line.members else "o")
                ticks.append((-at, line.words))
                at += 1
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks([y for y, _ in ticks], [words for _, words in ticks], size=6.5)
        axes.set_ylim(-at + 0.3, 0.8)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("difference [points] with its 95 % interval; diamonds are averages")
        _save(figure, path)
    return True


def _drawn(verdict: Verdict) -> list[Line]:
    """Comparisons and averages; of large groups the average alone."""
    large = {(one.group, one.measure) for one in verdict.averages if one.members > LARGE}
    return [line for line in verdict.judged if (line.group, line.measure) not in large] + [*verdict.averages]


def _interval(axes: Any, line: Line, y: float, marker: str) -> None:
    assert line.interval is not None
    low, value, high = (100 * x for x in (line.interval.low, line.interval.value, line.interval.high))
    axes.plot([low, high], [y, y], color=COLOURS[line.word], linewidth=1.6, solid_capstyle="butt")
    axes.plot(value, y, marker, color=COLOURS[line.word], markersize=3.5)


# ---- thresholds, dims, soft negatives ----


def _thresholds(judged: Judged, path: Path) -> bool:
    """R@5 of the graded and the binary loss over what counts as found."""
    runs = {name: judged.results.get(key, ()) for name, key in MAIN.items()}
    if not all(runs.values()) or not all("metres" in run.truth for some in runs.values() for run in some):
        return False
    with house_style() as plt:
        figure, both = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained", sharey=True)
        for (name, some), colour in zip(runs.items(), (GRADED, BINARY), strict=True):
            curves: tuple[list[Floats], list[Floats]] = ([], [])
            for run in some:
                columns = run.plain().columns
                curves[0].append(curve(*over_distances(columns["metres"], run.truth["metres"])))
                curves[1].append(curve(*over_overlaps(columns["shared"], run.truth["shared"])))
            for axes, at, seeds in zip(both, (DISTANCES, OVERLAPS), curves, strict=True):
                axes.plot(
                    at, 100 * np.mean(seeds, axis=0), color=colour, marker="o", markersize=4, label=name
                )
                for one in seeds:
                    axes.plot(at, 100 * one, color=colour, linewidth=0.6, alpha=0.5)
        for axes, words in zip(both, ("nearer than … [m]", "more overlap than …"), strict=True):
            axes.set_xlabel(f"found means: {words}")
        both[0].set_ylabel("R@5 [%]")
        both[0].legend()
        _save(figure, path)
    return True


def _dims(judged: Judged, path: Path) -> bool:
    series = {
        f"{trunk}, {kind}": _by_dims(judged.results.get(f"campus/{trunk}-gem-{kind}", ()))
        for trunk in ("vgg16", "lite0")
        for kind in ("graded", "binary")
    }
    series = {name: values for name, values in series.items() if len(values) > 1}
    if not series:
        return False
    recall_over_dims_figure(series, path, k=5)
    _lighten(path)
    return True


def _by_dims(runs: Sequence[Result]) -> dict[int, Interval]:
    """R@5 of each size, whitened on the map.

    The full size stands at the network's own, also where the map spans a little less, with each seed another.
    """
    sizes = [
        sorted(
            (one for one in run.answers.values() if one.whitened_on == "the map"), key=lambda one: one.dims
        )
        for run in runs
    ]
    if len({len(some) for some in sizes}) != 1:
        return {}
    dims, full = [one.dims for one in sizes[0]], runs[0].plain().dims
    dims = [full if SPANNED * full <= size else size for size in dims]
    recalls = [mean_of(stacked(runs, answers, "R@5")) for answers in zip(*sizes, strict=True)]
    return dict(zip(dims, recalls, strict=True)) if recalls else {}


def _soft(judged: Judged, path: Path) -> bool:
    points = {share: _recall(judged.results, f"campus/{name}") for share, name in SOFT.items()}
    known = {share: one for share, one in points.items() if one is not None}
    if len(known) < 3:
        return False
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(5.4, 3.4), layout="constrained")
        x, y = list(known), [100 * one.value for one in known.values()]
        spread = [[100 * (one.value - one.low) for one in known.values()],
                  [100 * (one.high - one.value) for one in known.values()]]  # fmt: skip
        axes.errorbar(x, y, yerr=spread, color=GRADED, marker="o", capsize=3)
        axes.set_xticks(x, ["0", "1/8", "1/4", "1/2"][: len(x)] if len(x) == 4 else [f"{one:g}" for one in x])
        axes.set_xlabel("share of soft negatives in a batch, beside one half of positives")
        axes.set_ylabel("R@5 [%]")
        _save(figure, path)
    return True


def _recall(results: Results, key: str) -> Interval | None:
    runs = results.get(key, ())
    return mean_of(np.stack([per_query(run, run.plain(), "R@5") for run in runs])) if runs else None


# ---- cost, reliability ----


def _cost(judged: Judged, path: Path) -> bool:
    """What each comparator reached, and the photos that went through the network for it."""
    rows = [one for one in measured(judged.results) if one.cost.passes][::-1]
    if len(rows) < 2:
        return False
    at = np.arange(len(rows))
    learned, mined = (
        np.array([getattr(one.cost, name) / 1000 for one in rows])
        for name in ("learning_images", "mining_images")
    )
    with house_style() as plt:
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9.0, 0.8 + 0.27 * len(rows)), layout="constrained", sharey=True
        )
        for y, one in enumerate(rows):
            recall = one.recall["R@5"]
            left.plot([100 * recall.low, 100 * recall.high], [y, y], color=GRADED, linewidth=1.6)
            left.plot(100 * recall.value, y, "o", color=GRADED, markersize=4.5)
        right.barh(at, learned, color=GRADED, height=0.6, label="learned from")
        right.barh(at, mined, left=learned, color=BINARY, height=0.6, label="mined among")
        left.set_yticks(at, [f"{one.comparator.words}, {one.dims:,} dims" for one in rows], size=7)
        left.set_xlabel("R@5 [%]")
        right.set_xlabel("photos through the trained part [thousands]")
        right.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
        for axes in (left, right):
            axes.grid(axis="y", visible=False)
        _save(figure, path)
    return True


def _reliability(judged: Judged, path: Path) -> bool:
    """Predicted overlap of retrieved pairs against the true one, first seed."""
    runs = {name: judged.results.get(key, ()) for name, key in MAIN.items()}
    drawn = [(f"{name}, {words}", run[0].calibration[how], colour, dash)
             for (name, run), colour in zip(runs.items(), (GRADED, BINARY), strict=True)
             for how, words, dash in (("calibration", "1 − d/τ", "-"), ("calibration, isotonic", "learned", "--"))
             if run and how in run[0].calibration]  # fmt: skip
    if not drawn:
        return False
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (2, 3)))
        for words, numbers, colour, dash in drawn:
            said, true = read(numbers["predicted"]), read(numbers["true"])
            there = np.isfinite(said)
            label = f"{words}: ECE {numbers['ece']:.2f}"
            axes.plot(said[there], true[there], dash, color=colour, marker="o", markersize=4, label=label)
        axes.set_xlabel("predicted overlap")
        axes.set_ylabel("true overlap")
        axes.legend(fontsize=7)
        _save(figure, path)
    return True


def _save(figure: Any, path: Path) -> None:
    figure.set_dpi(DPI)
    import matplotlib as mpl

    with mpl.rc_context({"savefig.dpi": DPI}):
        save(figure, path)
    _lighten(path)


def _lighten(path: Path) -> None:
    """With a palette: a third of the bytes, and nobody sees it."""
    from PIL import Image

    with Image.open(path) as image:
        few = image.convert("RGB").quantize(256)
    few.save(path, optimize=True)


_PICTURES: tuple[tuple[Picture, Callable[[Judged, Path], bool]], ...] = (
    (
        Picture(
            "reproduce_differences.png", "Differences of every comparison with their intervals", "claims"
        ),
        _differences,
    ),
    (Picture("reproduce_cost.png", "Recall against photos through the network", "comparators"), _cost),
    (
        Picture(
            "reproduce_thresholds.png", "Recall over distances and overlaps, graded and binary", "details"
        ),
        _thresholds,
    ),
    (Picture("reproduce_dims.png", "Recall over dims of whitened descriptors", "details"), _dims),
    (Picture("reproduce_soft.png", "Recall over the share of soft negatives", "details"), _soft),
    (Picture("reproduce_reliability.png", "Predicted against true overlap", "details"), _reliability),
)
