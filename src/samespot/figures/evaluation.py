"""The figures of one evaluation: recalls, calibration, acceptance, and a gallery of hits and misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from samespot.evaluation.cases import Case
from samespot.evaluation.results import Evaluation, Variant
from samespot.evaluation.run import Evaluated
from samespot.figures.calibration import acceptance_figure, reliability_figure
from samespot.figures.gallery import GalleryMatch, GalleryRow, gallery_figure, sample_rows
from samespot.figures.options import EvaluationFigureOptions
from samespot.figures.pair_curves import pair_curve_figure
from samespot.figures.pose_errors import pose_error_figure
from samespot.figures.recall_curves import recall_at_k_figure, recall_over_dims_figure, recall_over_figure
from samespot.overlap.rules import THETA, Points, Sectors, rule_of
from samespot.progress import Progress
from samespot.retrieval.search import Found
from samespot.statistics.acceptance import AcceptanceCurve
from samespot.statistics.intervals import Interval
from samespot.statistics.reliability import Reliability

SHOWN = 4  # matches of a query in the gallery
STREET, ROOM = 30.0, 2.0  # [m] how far the gallery's sectors reach where the truth is not one of sectors


def draw_evaluation(
    done: Evaluated,
    out: Path,
    *,
    gallery: int = EvaluationFigureOptions.gallery,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Path]:
    """Every figure that can be drawn of an evaluation, into the folder `out`; so many hits and misses of each."""
    tell = progress or (lambda what, done, total: None)
    tell("figures", 0, 1)
    files = _figures(done, out)
    if done.evaluation.protocol["truth"] == "positives" and gallery:
        files += _gallery(done, out / "gallery.png", gallery, seed)
    tell("figures", 1, 1)
    return files


def _figures(done: Evaluated, out: Path) -> list[Path]:
    evaluation, plain = done.evaluation, done.evaluation.variant()
    files = []
    again = {
        v.title: replace(v, reranked_by=None, posed_by=None).title
        for v in evaluation.variants
        if not v.as_found
    }
    listed = [v for v in evaluation.variants if v.posed_by is None]  # poses are solved from the same lists
    recalls = {v.title: _recalls(v) for v in listed}
    if recalls[plain.title]:
        files.append(recall_at_k_figure(_few(recalls, again), out / "recall.png", again))
    sizes = _over_dims(evaluation)
    if sizes and recalls[plain.title]:
        k = 5 if 5 in recalls[plain.title] else min(recalls[plain.title])
        series = {name: {d: one[k] for d, one in by.items()} for name, by in sizes.items()}
        files.append(recall_over_dims_figure(series, out / "recall-over-dimensions.png", k))
    for axis in ("distance", "overlap"):
        if axis in plain.curves:
            curve = plain.curves[axis]
            series_over = {v.title: v.curves[axis]["recall"] for v in listed}
            path, few = out / f"recall-over-{axis}.png", _few(series_over, again)
            files.append(recall_over_figure(few, curve["thresholds"], path, axis, curve["k"], again))
    if len(listed) < len(evaluation.variants):
        off = {v.title: (v.outcomes["metres"], v.outcomes["degrees"]) for v in evaluation.variants}
        files.append(pose_error_figure(_few(off, again), out / "pose-errors.png", again))
    curves = _reliabilities(evaluation)
    if curves:
        files.append(reliability_figure(curves, out / "calibration.png"))
    if "acceptance" in plain.curves:
        facts = plain.curves["acceptance"]
        asked = float(evaluation.settings["precision for acceptance"])
        files.append(acceptance_figure(AcceptanceCurve.from_dict(facts), out / "acceptance.png", asked))
    if plain.name in done.pair_curves:
        files.append(pair_curve_figure(done.pair_curves[plain.name], out / "precision-recall.png"))
    return files


def _few(series: dict[str, Any], again: Mapping[str, str]) -> dict[str, Any]:
    """At most six lines: the plain one, and of many sizes the first, some between and the last.

    Besides, re-ranked lists and those that they were made of, which `again` names: whoever asked wants to see both.
    """
    names = [name for name in series if name not in again]
    if len(names) > 6:
        names = [names[0], *(names[round(i)] for i in np.linspace(1, len(names) - 1, 5))]
    chosen = {*names, *again, *again.values()}
    return {name: values for name, values in series.items() if name in chosen}


def _recalls(variant: Variant) -> dict[int, Interval]:
    return {int(name[2:]): one for name, one in variant.metrics.items() if name.startswith("R@")}


def _over_dims(evaluation: Evaluation) -> dict[str, dict[int, dict[int, Interval]]]:
    """Whitening in words -> dims -> recalls; only where there is more than one size."""
    found: dict[str, dict[int, dict[int, Interval]]] = {}
    for variant in evaluation.variants:
        if variant.whitening is not None and variant.as_found:
            found.setdefault(f"whitened {variant.whitening}", {})[variant.dims] = _recalls(variant)
    return {name: sizes for name, sizes in found.items() if len(sizes) > 1}


def _reliabilities(evaluation: Evaluation) -> dict[str, Reliability]:
    plain, words = evaluation.variant(), {"calibration": "1 − d/τ", "calibration, isotonic": "isotonic"}
    curves = {
        text: Reliability.from_dict(plain.curves[name])
        for name, text in words.items()
        if name in plain.curves
    }
    return {text: curve for text, curve in curves.items() if curve.pairs}


def _gallery(done: Evaluated, path: Path, each: int, seed: int) -> list[Path]:
    """Hits and misses of the plain descriptors."""
    evaluation, plain, cases = done.evaluation, done.evaluation.variant(), done.cases
    chosen = sample_rows(plain.outcomes["first_hit"], evaluation.queries.counted, each, each, seed)
    ranks = plain.outcomes["first_hit"].astype(int).tolist()
    starts = np.cumsum([0, *(case.query_count for case in cases)])
    rows = []
    for query in chosen.tolist():
        number = int(np.searchsorted(starts, query, side="right")) - 1
        case, found = cases[number], done.found[plain.name][number]
        if case.query_frames is not None or case.place_frames is not None:
            return []  # sequences are not shown
        rows.append(_gallery_row(done, number, case, found, query - int(starts[number]), ranks[query]))
    if not rows:
        return []
    facts = evaluation.settings["overlap"] or {}
    rule = rule_of(facts)
    if isinstance(rule, Sectors):
        theta, radius = rule.theta, rule.radius
    else:
        theta, radius = THETA, ROOM if facts.get("kind") == Points.KIND else STREET
    return [gallery_figure(rows, path, theta=theta, radius=radius, shown=SHOWN)]


def _gallery_row(done: Evaluated, number: int, case: Case, found: Found, query: int, rank: int) -> GalleryRow:
    assert case.positives is not None
    labels, calibrated = done.labels[number], done.calibrations.get(done.evaluation.variant().name)
    margin = float(done.evaluation.model.get("margin", 0.5))
    matches = []
    for place, distance in zip(
        found.rows[query, :SHOWN].tolist(), found.distances[query, :SHOWN].tolist(), strict=True
    ):
        if place < 0:
            continue
        guess = max(0.0, 1 - distance / margin) if calibrated is None else float(calibrated(distance))
        matches.append(
            GalleryMatch(
                case.places.image(place),
                _position(case.places.positions[place]),
                distance,
                bool(np.isin(place, case.positives[query])),
                guess,
                None if labels is None else float(labels.lookup(np.array(query), np.array(place))),
                bool(case.places.panoramas[place]),
            )
        )
    return GalleryRow(
        case.queries.image(query),
        _position(case.queries.positions[query]),
        matches,
        f"{case.query_names[query]}: {_in_words(rank)}",
        bool(case.queries.panoramas[query]),
    )


def _in_words(rank: int) -> str:
    if rank == 1:
        return "found"
    return f"found at rank {rank}" if rank else "not found"


def _position(row: Any) -> tuple[float, float, float]:
    return float(row[0]), float(row[1]), float(row[2])
