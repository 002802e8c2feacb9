"""How far are poses off? The share of queries within a distance of the true pose, for each way to poses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samespot.evaluation.outcomes import NOWHERE, median_pose
from samespot.evaluation.results import Variant
from samespot.figures.pose_errors import DEGREES, METRES, cumulative
from samespot.figures.report_runs import ReportRun
from samespot.figures.report_sections.looks import (
    colours,
    evaluated,
    layout,
    same_protocol,
    swatch_of,
)
from samespot.figures.report_sections.markup import KeyEntry, Plot, Section, esc, figure


def poses(runs: Sequence[ReportRun]) -> Section | None:
    """Only where some run solved for poses."""
    if not evaluated(runs):
        return None
    lines = [
        (run, evaluation, variant)
        for run, evaluation in same_protocol(runs)
        for variant in evaluation.variants
        if median_pose(variant) is not None and (variant.posed_by is not None or variant.whitening is None)
    ]
    if not any(variant.posed_by for _, _, variant in lines):
        return None
    shown = colours(runs)
    plots = []
    for column, ends, unit in (("metres", METRES, "m"), ("degrees", DEGREES, "°")):
        data = []
        for run, _, variant in lines:
            at, share = cumulative(np.asarray(variant.outcomes[column], dtype=np.float64), ends)
            data.append(
                {
                    "x": at.round(4).tolist(),
                    "y": (100 * share).round(2).tolist(),
                    "mode": "lines",
                    "line": {
                        "color": f"@{shown[run.name]}",
                        "dash": _dash(variant),
                        "shape": "hv",
                        "width": 2,
                    },
                    "name": f"{run.name}, {variant.title}",
                    "hovertemplate": f"%{{y:.0f}} % within %{{x:.2f}} {unit}<extra>%{{fullData.name}}</extra>",
                }
            )
        axis = {"type": "log", "range": [float(np.log10(end)) for end in ends]}
        axes = layout(f"within … {unit} of the true pose", "queries [%]", xaxis=axis)
        plots.append(Plot(data, axes, f"Share of queries whose pose is within so many {column}", height=320))
    medians = "; ".join(
        f"{esc(run.name)}, {esc(variant.title)}: {_far(*found)}"
        for run, _, variant in lines
        if (found := median_pose(variant)) is not None
    )
    key = [
        KeyEntry(f"{run.name}, {variant.title}", shown[run.name], swatch_of(_dash(variant)))
        for run, _, variant in lines
    ]
    caption = (
        "Share of queries whose pose lies so near to the true one. Solid: solved from matched photos; dotted: the pose"
        f" of the best match. Medians: {medians}."
    )
    return Section("poses", "Poses", figure(plots, caption, key))


def _dash(variant: Variant) -> str:
    return "dot" if variant.posed_by is None else "solid"


def _far(metres: float, degrees: float) -> str:
    far = f"{100 * metres:.1f} cm" if metres < 1 else f"{metres:.1f} m"
    return f"{far}, {degrees:.1f}°" if metres < NOWHERE else "none"
