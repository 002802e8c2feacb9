"""How often is the place found? Recall over the list, over what counts as found, over dims, by condition; PR curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samespot.evaluation.results import Evaluation, Variant
from samespot.figures.report_runs import ReportRun
from samespot.figures.report_sections.looks import (
    MOST_BANDS,
    colours,
    dash_of,
    drawn_variants,
    evaluated,
    key_of,
    key_of_runs,
    layout,
    line_with_band,
    same_protocol,
    share_intervals,
    swatch_of,
    symbol_of,
    symbols,
)
from samespot.figures.report_sections.markup import KeyEntry, Plot, Section, esc, figure, several
from samespot.statistics.intervals import Interval, wilson

Lines = list[tuple[ReportRun, Evaluation, Variant]]
USUAL = {"distance": (25.0, "25 m"), "overlap": (0.5, "ψ 0.5")}  # the rules of most benchmarks and papers
MOST_CASES = 8  # panels of precision and recall
MOST_GROUPS = 24  # rows of a breakdown


def recall(runs: Sequence[ReportRun]) -> Section | None:
    if not evaluated(runs):
        return None
    alike = same_protocol(runs)
    lines = drawn_variants(alike)
    parts = [
        _over_k(lines, runs),
        _over_dims(alike, runs),
        _over_thresholds(lines, runs),
        *_by_group(alike, runs),
        _pairs(lines, runs),
    ]
    body = "".join(part for part in parts if part)
    return Section("recall", "Recall", body) if body else None


def recalls_at_each_k(evaluation: Evaluation, variant: Variant) -> dict[int, Interval]:
    """k -> recall with Wilson's interval, for every k up to the longest list of the protocol."""
    if "first_hit" not in variant.outcomes or not evaluation.protocol.get("ks"):
        return {}
    rank = np.asarray(variant.outcomes["first_hit"])[evaluation.queries.counted]
    longest = max(int(k) for k in evaluation.protocol["ks"])
    ks = range(1, longest + 1) if longest <= 20 else sorted(int(k) for k in evaluation.protocol["ks"])
    return {k: wilson(int(((rank > 0) & (rank <= k)).sum()), len(rank)) for k in ks} if len(rank) else {}


def population(evaluation: Evaluation) -> str:
    """Which queries a figure is about, in a few words of html."""
    counted = int(evaluation.queries.counted.sum())
    name = evaluation.protocol.get("title") or evaluation.protocol["name"]
    return f"{counted:,} queries ({esc(name)})"


def _over_k(lines: Lines, runs: Sequence[ReportRun]) -> str:
    shown, marks, data = colours(runs), symbols(runs), []
    drawn: Lines = []
    for run, evaluation, variant in lines:
        values = recalls_at_each_k(evaluation, variant)
        if not values:
            continue
        drawn.append((run, evaluation, variant))
        data += line_with_band(
            [float(k) for k in values],
            list(values.values()),
            colour=shown[run.name],
            dash=dash_of(variant, evaluation),
            symbol=symbol_of(variant, marks[run.name]),
            name=f"{run.name}, {variant.title}",
            banded=len(lines) <= MOST_BANDS,
        )
    if not drawn:
        return ""
    ks = sorted(recalls_at_each_k(drawn[0][1], drawn[0][2]))
    axis = (
        {"tickvals": ks}
        if ks[-1] <= 20
        else {"type": "log", "tickvals": ks, "ticktext": [str(k) for k in ks]}
    )
    axes = layout("k, number of matches", "recall@k [%]", xaxis=axis, hovermode="x unified")
    words = "Recall at k with 95 % bands: " + ", ".join(
        f"{run.name} {v.title}, R@1 {100 * recalls_at_each_k(e, v)[ks[0]].value:.1f} %" for run, e, v in drawn
    )
    caption = f"Share of {population(drawn[0][1])} with a right photo among the first k matches"
    caption += "; bands are 95 % intervals." if len(lines) <= MOST_BANDS else "."
    if any(variant.whitening for _, _, variant in drawn):
        caption += " Solid lines: as described; dashed and dotted lines: whitened."
    if any(variant.reranked_by for _, _, variant in drawn):
        caption += " Dash-dotted lines with open marks: re-ranked."
    return figure([Plot(data, axes, words, height=360)], caption, key_of(drawn, runs))


def _over_dims(alike: Sequence[tuple[ReportRun, Evaluation]], runs: Sequence[ReportRun]) -> str:
    shown, marks, data, key = colours(runs), symbols(runs), [], []
    k = _usual_k(alike)
    every: set[int] = set()
    for run, evaluation in alike:
        sources = list(dict.fromkeys(variant.whitening for variant in evaluation.variants))
        for source in sources if len(alike) <= 4 else sources[:2]:
            sizes = sorted(
                (
                    one
                    for one in evaluation.variants
                    if one.whitening == source and one.as_found and k in one.metrics
                ),
                key=lambda one: one.dims,
            )
            if not sizes or (source is not None and len(sizes) < 2):
                continue
            every |= {one.dims for one in sizes}
            name = f"{run.name}, {'as described' if source is None else f'whitened {source}'}"
            dash = dash_of(sizes[-1], evaluation)
            key.append(KeyEntry(name, shown[run.name], "star" if source is None else swatch_of(dash)))
            data += line_with_band(
                [float(one.dims) for one in sizes],
                [one.metrics[k] for one in sizes],
                colour=shown[run.name],
                dash=dash,
                symbol=marks[run.name],
                name=name,
                banded=2 * len(alike) <= MOST_BANDS,
            )
            if source is None:
                data[-1] |= _bars([one.metrics[k] for one in sizes], shown[run.name])
    if len(every) < 2:
        return ""
    ticks = sorted(every)
    axes = layout(
        "dimensions of the descriptor",
        f"recall@{k[2:]} [%]",
        xaxis={"type": "log", "tickvals": ticks, "ticktext": [str(dims) for dims in ticks]},
        hovermode="closest",
    )
    words = f"Recall@{k[2:]} against the dimensions of the descriptor, from {ticks[0]} to {ticks[-1]}"
    caption = (
        f"What a shorter descriptor costs: recall@{k[2:]} of {population(alike[0][1])} over the dimensions that"
        " whitening keeps. Stars are the descriptors as described; whiskers and bands are 95 % intervals."
    )
    return figure([Plot(data, axes, words, height=320)], caption, key)


def _usual_k(alike: Sequence[tuple[ReportRun, Evaluation]]) -> str:
    """R@5 as in the paper, or else the first recall there is."""
    metrics = alike[0][1].variant().metrics
    return "R@5" if "R@5" in metrics else next((name for name in metrics if name.startswith("R@")), "R@1")


def _bars(intervals: Sequence[Interval], colour: str) -> dict[str, Any]:
    """Error bars, for a point that stands alone and so has no band."""
    return {
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [100 * (one.high - one.value) for one in intervals],
            "arrayminus": [100 * (one.value - one.low) for one in intervals],
            "color": f"@{colour}",
            "thickness": 1.3,
            "width": 4,
        },
        "marker": {"symbol": "star", "size": 12, "color": f"@{colour}"},
    }


def _over_thresholds(lines: Lines, runs: Sequence[ReportRun]) -> str:
    plots, drawn, usual = [], [], []
    for axis, label, title in (
        ("distance", "found means: no farther than … [m]", "By distance"),
        ("overlap", "found means: overlap ψ of more than …", "By overlap"),
    ):
        there = [line for line in lines if axis in line[2].curves]
        if there:
            plots.append(_threshold_plot(there, runs, axis, label, title))
            drawn = there
            usual += [USUAL[axis][1]] if _usual_is_within(there, axis) else []
    if not plots:
        return ""
    k = drawn[0][2].curves["distance" if "distance" in drawn[0][2].curves else "overlap"]["k"]
    caption = (
        f"Recall@{k} of {population(drawn[0][1])} as the rule for “found” gets stricter or looser: if a model is"
        " better at one threshold only, the threshold is the reason. A query with no such map photo does not count,"
        " so strict rules leave fewer queries."
    )
    key = key_of(drawn, runs)
    if usual:
        key.append(KeyEntry(f"usual rule: {several(usual)}", "grey", "dots"))
        caption += " The vertical dotted line marks the usual rule."
    return figure(plots, caption, key)


def _usual_is_within(lines: Lines, axis: str) -> bool:
    thresholds = lines[0][2].curves[axis]["thresholds"]
    return bool(min(thresholds) < USUAL[axis][0] < max(thresholds))


def _threshold_plot(lines: Lines, runs: Sequence[ReportRun], axis: str, label: str, title: str) -> Plot:
    shown, marks, data = colours(runs), symbols(runs), []
    for run, evaluation, variant in lines:
        curve = variant.curves[axis]
        data += line_with_band(
            [float(one) for one in curve["thresholds"]],
            share_intervals(curve["recall"], curve["queries"]),
            colour=shown[run.name],
            dash=dash_of(variant, evaluation),
            symbol=symbol_of(variant, marks[run.name]),
            name=f"{run.name}, {variant.title}",
            banded=len(lines) <= MOST_BANDS,
        )
    first = lines[0][2].curves[axis]
    axes = layout(label, f"recall@{first['k']} [%]", hovermode="closest")
    if _usual_is_within(lines, axis):
        at = {"x0": USUAL[axis][0], "x1": USUAL[axis][0], "y0": 0, "y1": 1, "yref": "paper"}
        axes["shapes"] = [{"type": "line", **at, "line": {"color": "@grey", "width": 1, "dash": "dot"}}]
    return Plot(data, axes, f"{title}: recall over thresholds of {axis}", height=290, title=title)


def _by_group(alike: Sequence[tuple[ReportRun, Evaluation]], runs: Sequence[ReportRun]) -> list[str]:
    """Recall by condition, city …: whatever the evaluation was broken down by."""
    shown, marks = colours(runs), symbols(runs)
    first = alike[0][1]
    figures = []
    for column, values in first.variant().by.items():
        kinds = list(values)[:MOST_GROUPS]
        k = "R@1" if "R@1" in first.variant().metrics else next(iter(first.variant().metrics), "R@1")
        data = []
        for number, (run, evaluation) in enumerate(alike):
            there = evaluation.variant().by.get(column, {})
            known = [kind for kind in kinds if k in there.get(kind, {})]
            if not known:
                continue
            one = [there[kind][k] for kind in known]
            offset = 0.5 * (number - (len(alike) - 1) / 2) / max(2, len(alike))
            data.append(
                {
                    "x": [100 * score.value for score in one],
                    "y": [len(kinds) - 1 - kinds.index(kind) - offset for kind in known],
                    "mode": "markers",
                    "name": run.name,
                    "marker": {"symbol": marks[run.name], "size": 9, "color": f"@{shown[run.name]}"},
                    "error_x": {
                        "type": "data",
                        "symmetric": False,
                        "array": [100 * (score.high - score.value) for score in one],
                        "arrayminus": [100 * (score.value - score.low) for score in one],
                        "color": f"@{shown[run.name]}",
                        "thickness": 1.4,
                        "width": 0,
                    },
                    "text": [
                        f"{kind}: {score.percent()} %, {score.n:,} queries"
                        for kind, score in zip(known, one, strict=True)
                    ],
                    "hovertemplate": "%{text}",
                }
            )
        if not data:
            continue
        places = {
            "tickvals": list(range(len(kinds)))[::-1],
            "ticktext": [str(kind) or "none" for kind in kinds],
        }
        axes = layout(
            f"{k} [%]",
            "",
            xaxis={"rangemode": "tozero"},
            yaxis={**places, "range": [-0.6, len(kinds) - 0.4], "automargin": True, "showgrid": False},
            hovermode="closest",
        )
        words = f"{k} by {column} with 95 % intervals"
        caption = (
            f"{esc(k)} by {esc(column)}, descriptors as described: {population(first)}; whiskers are 95 %"
            " intervals."
        )
        drawn = Plot(data, axes, words, height=90 + 30 * len(kinds))
        figures.append(figure([drawn], caption, key_of_runs([run for run, _ in alike], runs)))
    return figures


def _pairs(lines: Lines, runs: Sequence[ReportRun]) -> str:
    there = [line for line in lines if line[2].curves.get("pairs")]
    if not there:
        return ""
    cases = list(dict.fromkeys(case for _, _, variant in there for case in variant.curves["pairs"]))
    plots = [_pair_plot(case, there, runs) for case in cases[:MOST_CASES]]
    caption = (
        "Precision against recall over all pairs of a query and a map photo, not only the retrieved ones, as the"
        " accepted distance grows. AP is average precision, the area under the curve."
    )
    return figure(plots, caption, key_of(there, runs))


def _pair_plot(case: str, lines: Lines, runs: Sequence[ReportRun]) -> Plot:
    shown, data, said = colours(runs), [], []
    for run, evaluation, variant in lines:
        curve = variant.curves["pairs"].get(case)
        if curve is None:
            continue
        ap = curve["average precision"]
        area = "" if ap is None else f", AP {100 * ap:.1f} %"
        said.append(f"{run.name} {variant.title}{area}")
        data.append(
            {
                "x": [100 * one for one in curve["recall"]],
                "y": [100 * one for one in curve["precision"]],
                "mode": "lines",
                "name": said[-1],
                "line": {
                    "color": f"@{shown[run.name]}",
                    "dash": dash_of(variant, evaluation),
                    "width": 2,
                    "shape": "vh",
                },
            }
        )
    axes = layout(
        "recall [%]",
        "precision [%]",
        xaxis={"range": [0, 101]},
        yaxis={"range": [0, 102]},
        hovermode="closest",
    )
    words = f"Precision and recall over all pairs of {case}: {'; '.join(said)}"
    return Plot(data, axes, words, height=290, title=case)
