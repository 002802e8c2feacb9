"""What a report asks of the networks themselves: differences of pairs laid out by t-SNE, and where they look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from samespot.figures.activation import activation_maps
from samespot.figures.pair_differences import pair_differences
from samespot.figures.report_runs import ActivationRow, Described, ReportRun, RunDifferences
from samespot.model.naming import model_folder
from samespot.model.network import PlaceNet
from samespot.progress import Progress

PHOTOS = 4  # whose activation maps are shown
PAIRS = 600  # of the t-SNE


def _described(runs: Sequence[ReportRun]) -> list[tuple[ReportRun, Described]]:
    """The case that most runs have described, so that they can be compared on it."""
    names = [case.name for run in runs for case in run.described]
    name = max(dict.fromkeys(names), key=names.count, default="")
    found = [(run, run.case(name)) for run in runs]
    return [(run, case) for run, case in found if case is not None]


def differences_of(runs: Sequence[ReportRun], progress: Progress | None = None) -> list[RunDifferences]:
    """The same pairs of photos by each run, coloured by their label."""
    rule = next((run.rule for run in runs if run.rule is not None), None)
    described = _described(runs)
    if rule is None or not described:
        return []
    first = described[0][1]
    rule = replace(rule, unknown_heading="disk")
    if any(rule.unknown(table) for table in (first.queries, first.places)):  # positions that are kept secret
        return []
    labels = rule.label(first.queries, first.places)
    found = []
    for number, (run, case) in enumerate(described):
        if progress is not None:
            progress("t-SNE of pairs", number, len(described))
        if (len(case.queries), len(case.places)) == labels.shape and labels.nonzero > PAIRS // 4:
            laid = pair_differences(case.query_vectors, case.place_vectors, labels, PAIRS)
            found.append(RunDifferences(laid.points, laid.overlap, run.name))
    return found


def activations_of(runs: Sequence[ReportRun], progress: Progress | None = None) -> list[ActivationRow]:
    """Maps of the same few queries by each run whose model is at hand."""
    there = [(run, case, model_folder(run.folder)) for run, case in _described(runs)]
    known = [(run, case, folder) for run, case, folder in there if folder is not None]
    if not known:
        return []
    queries = known[0][1].queries
    rows = np.linspace(0, len(queries) - 1, PHOTOS + 2).round().astype(int)[1:-1]
    photos = [queries.image(row) for row in rows if queries.image(row).is_file()]
    if not photos:
        return []
    maps: dict[str, Any] = {}
    for number, (run, _, folder) in enumerate(known):
        if progress is not None:
            progress("activation maps", number, len(known))
        maps[run.name] = activation_maps(PlaceNet.load(folder), photos)
    return [
        ActivationRow(photo, {name: made[i] for name, made in maps.items()}) for i, photo in enumerate(photos)
    ]
