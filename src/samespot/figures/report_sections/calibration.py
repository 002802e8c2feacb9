"""Can a single answer be believed? Predicted against true overlap, and what accepting up to a distance brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samespot.evaluation.results import Evaluation
from samespot.figures.report_runs import ReportRun
from samespot.figures.report_sections.looks import (
    colours,
    evaluated,
    key_of_runs,
    layout,
    same_protocol,
    symbols,
)
from samespot.figures.report_sections.markup import KeyEntry, Plot, Section, esc, figure, unbroken
from samespot.figures.report_sections.recall import population
from samespot.statistics.acceptance import AcceptanceCurve, promise_in_words, promised
from samespot.statistics.reliability import Reliability

MOST_POINTS = 400
KINDS = {"calibration": ("1 − d/τ", "solid"), "calibration, isotonic": ("isotonic", "dot")}
SWATCHES = {"calibration": "line-and-bar", "calibration, isotonic": "dots-and-pale-bar"}
Runs = Sequence[tuple[ReportRun, Evaluation]]


def calibration(runs: Sequence[ReportRun]) -> Section | None:
    if not evaluated(runs):
        return None
    alike = same_protocol(runs)
    body = _reliability(alike, runs) + _acceptance(alike, runs)
    return Section("calibration", "Can an answer be trusted?", body) if body else None


def _reliability(alike: Runs, runs: Sequence[ReportRun]) -> str:
    shown, marks = colours(runs), symbols(runs)
    curves = [
        (run, name, Reliability.from_dict(evaluation.variant().curves[name]))
        for run, evaluation in alike
        for name in KINDS
        if name in evaluation.variant().curves
    ]
    curves = [(run, name, one) for run, name, one in curves if one.pairs]
    if not curves:
        return ""
    diagonal = {
        "x": [0, 1],
        "y": [0, 1],
        "mode": "lines",
        "line": {"color": "@grey", "width": 1.2, "dash": "5px,4px"},
        "hoverinfo": "skip",
    }
    lines: list[dict[str, Any]] = [diagonal]
    bars: list[dict[str, Any]] = []
    for run, name, one in curves:
        lines.append(_promise(run, name, one, shown[run.name], marks[run.name]))
        bars.append(_counts(run, name, one, shown[run.name]))
    full = {"range": [-0.02, 1.02]}
    above = layout("predicted overlap ψ̂", "true overlap ψ, mean", xaxis=full, yaxis=full, hovermode="closest")
    below = layout(
        "predicted overlap ψ̂",
        "pairs",
        xaxis=full,
        yaxis={"type": "log", "dtick": 1},
        barmode="group",
        hovermode="closest",
    )
    words = "; ".join(
        f"{run.name} {KINDS[name][0]}: expected calibration error {one.ece:.3f}" for run, name, one in curves
    )
    plots = [
        Plot(
            lines,
            above,
            f"Reliability of the predicted overlap. {words}",
            height=360,
            title="Is the prediction right?",
        ),
        Plot(
            bars,
            below,
            "Number of pairs in each bin of predicted overlap",
            height=360,
            title="How often is it predicted?",
        ),
    ]
    key = [
        KeyEntry(f"{run.name}, {KINDS[name][0]}, ECE {one.ece:.3f}", shown[run.name], SWATCHES[name])
        for run, name, one in curves
    ]
    pairs = curves[0][2].pairs
    caption = (
        f"True against predicted overlap of the {pairs:,} pairs retrieved for {esc(population_words(alike))}."
        " On the dashed diagonal the prediction is right; below it the model is overconfident. Whiskers are 95 %"
        " intervals. ECE, the expected calibration error, is the mean distance from the diagonal."
    )
    if any(name != "calibration" for _, name, _ in curves):
        caption += (
            " Solid lines and bars: overlap predicted as 1 − d/τ from the distance d and the margin τ. Dotted lines"
            " and pale bars: predicted by a curve from distance to overlap that was fitted on other places"
            " (isotonic)."
        )
    return figure(plots, caption, key)


def population_words(alike: Runs) -> str:
    evaluation = alike[0][1]
    name = evaluation.protocol.get("title") or evaluation.protocol["name"]
    return f"{len(evaluation.queries):,} queries ({name})"


def _promise(run: ReportRun, name: str, one: Reliability, colour: str, symbol: str) -> dict[str, Any]:
    full = one.counts > 0
    return {
        "x": one.predicted[full],
        "y": one.true[full],
        "mode": "lines+markers",
        "name": run.name,
        "line": {"color": f"@{colour}", "width": 2, "dash": KINDS[name][1]},
        "marker": {
            "symbol": symbol + ("" if KINDS[name][1] == "solid" else "-open"),
            "size": 8,
            "color": f"@{colour}",
        },
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": (one.high - one.true)[full].clip(0),
            "arrayminus": (one.true - one.low)[full].clip(0),
            "color": f"@{colour}/0.6",
            "thickness": 1.2,
            "width": 0,
        },
        "text": [f"{count:,} pairs" for count in one.counts[full]],
        "hovertemplate": "ψ̂ %{x:.2f}, true %{y:.2f}, %{text}",
    }


def _counts(run: ReportRun, name: str, one: Reliability, colour: str) -> dict[str, Any]:
    solid = KINDS[name][1] == "solid"
    return {
        "type": "bar",
        "x": 0.5 * (one.edges[:-1] + one.edges[1:]),
        "y": [int(count) or None for count in one.counts],
        "name": f"{run.name}, {KINDS[name][0]}",
        "marker": {
            "color": f"@{colour}" if solid else f"@{colour}/0.25",
            "line": {"color": f"@{colour}", "width": 0 if solid else 1.2},
        },
        "hovertemplate": "%{y:,} pairs",
    }


def _acceptance(alike: Runs, runs: Sequence[ReportRun]) -> str:
    there = [
        (run, AcceptanceCurve.from_dict(facts), dict(facts.get("at") or {}))
        for run, evaluation in alike
        if (facts := evaluation.variant().curves.get("acceptance")) and facts["thresholds"]
    ]
    if not there:
        return ""
    plots = [
        _share_plot(there, runs, "precision", "Right, of all accepted answers"),
        _share_plot(there, runs, "recall", "Answered correctly, of all in the map"),
        _share_plot(there, runs, "false_accepts", "Accepted, of all not in the map"),
    ]
    asked = next((at["asked"] for _, _, at in there if at.get("asked")), 0.95)
    caption = (
        f"What happens if the best match is accepted up to a distance d: {population(alike[0][1])}, each asked"
        " again with its surroundings taken out of the map, so that the right answer is “not in the map”."
    )
    if any(promised(at) for _, _, at in there):
        caption += f" Rings mark the largest distance where at least {100 * asked:g} % of accepted answers are right."
    return figure(
        [one for one in plots if one is not None],
        caption,
        key_of_runs([run for run, _, _ in there], runs),
        note=_chosen(there),
    )


def _share_plot(
    there: Sequence[tuple[ReportRun, AcceptanceCurve, dict[str, Any]]],
    runs: Sequence[ReportRun],
    share: str,
    title: str,
) -> Plot | None:
    shown, data = colours(runs), []
    for run, curve, at in there:
        thin = curve.thinned(MOST_POINTS)
        values = getattr(thin, share)
        if not np.isfinite(values).any():
            continue
        data.append(
            {
                "x": thin.thresholds,
                "y": 100 * values,
                "mode": "lines",
                "name": run.name,
                "line": {"color": f"@{shown[run.name]}", "width": 2, "shape": "hv"},
                "hovertemplate": "%{y:.1f} %",
            }
        )
        if promised(at) and at.get(share) is not None:
            ring = {
                "symbol": "circle-open",
                "size": 13,
                "color": f"@{shown[run.name]}",
                "line": {"width": 2.5},
            }
            data.append(
                {
                    "x": [at["distance"]],
                    "y": [100 * at[share]],
                    "mode": "markers",
                    "name": f"{run.name}, chosen",
                    "marker": ring,
                    "hovertemplate": "accept up to %{x:.3f}: %{y:.1f} %",
                }
            )
    if not data:
        return None
    axes = layout("accepted up to distance d", "share [%]", yaxis={"range": [-2, 103]}, hovermode="closest")
    return Plot(data, axes, f"{title}, against the accepted distance", height=250, title=title)


def _chosen(there: Sequence[tuple[ReportRun, AcceptanceCurve, dict[str, Any]]]) -> str:
    lines = []
    for run, _, at in there:
        if not at:
            continue
        lines.append(f"<li><strong>{esc(run.name)}</strong>: {esc(promise_in_words(at))}</li>")
    return unbroken(f'<ul class="notes">{"".join(lines)}</ul>') if lines else ""
