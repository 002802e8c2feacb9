"""`samespot report`: runs in, one html page out; what the page needs of the networks themselves is made here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samespot.figures.activation import activation_maps
from samespot.figures.pair_differences import pair_differences
from samespot.figures.report import write_report
from samespot.figures.report_runs import (
    ActivationRow,
    Described,
    ReportRun,
    RunDifferences,
    TrueOverlap,
    load_runs,
    model_folder,
)
from samespot.model.network import PlaceNet
from samespot.overlap.rules import label_pairs
from samespot.places.table import Places
from samespot.progress import Progress

PHOTOS = 4  # whose activation maps are shown
PAIRS = 600  # of the t-SNE


def make_report(
    folders: Sequence[Path], out: Path, *, title: str | None = None, progress: Progress | None = None
) -> Path:
    """The page about these runs, with t-SNE and activation maps where models, photos and descriptors are there."""
    runs = load_runs(folders)
    return write_report(
        runs,
        out,
        title=title,
        true_overlap=_town_truth(runs),
        differences=_differences(runs, progress),
        activations=_activations(runs, progress),
        progress=progress,
    )


def _town_truth(runs: Sequence[ReportRun]) -> TrueOverlap | None:
    """Measured overlap, if all photos are of towns with depth."""
    tables = [table for run in runs for case in run.described for table in (case.queries, case.places)]
    if not tables or not all(
        (table.root / "town.json").is_file() and "depth" in table.table for table in tables
    ):
        return None

    def measured(queries: Places, places: Places) -> Any:
        from samespot.evaluation.protocols.town import shared_view

        return shared_view(queries, places).dense().astype(np.float64)

    return measured


def _first_case(runs: Sequence[ReportRun]) -> str | None:
    """The case that most runs have described, so that they can be compared on it."""
    names = [case.name for run in runs for case in run.described]
    return max(dict.fromkeys(names), key=names.count, default=None)


def _described(runs: Sequence[ReportRun]) -> list[tuple[ReportRun, Described]]:
    name = _first_case(runs)
    found = [(run, run.case(name)) for run in runs if name is not None]
    return [(run, case) for run, case in found if case is not None]


def _differences(runs: Sequence[ReportRun], progress: Progress | None) -> list[RunDifferences]:
    rule = next((run.rule for run in runs if run.rule is not None), None)
    described = _described(runs)
    if rule is None or not described:
        return []
    first = described[0][1]
    labels = label_pairs(
        first.queries, first.places, rule.theta, rule.radius, rule.measure, unknown_heading="disk"
    )
    found = []
    for number, (run, case) in enumerate(described):
        if progress is not None:
            progress("t-SNE of pairs", number, len(described))
        if (len(case.queries), len(case.places)) == labels.shape and labels.nonzero > PAIRS // 4:
            laid = pair_differences(case.query_vectors, case.place_vectors, labels, PAIRS)
            found.append(RunDifferences(laid.points, laid.overlap, run.name))
    return found


def _activations(runs: Sequence[ReportRun], progress: Progress | None) -> list[ActivationRow]:
    """Maps of the same few queries by each run whose model is at hand."""
    described = [(run, case) for run, case in _described(runs) if model_folder(run) is not None]
    if not described:
        return []
    queries = described[0][1].queries
    rows = np.linspace(0, len(queries) - 1, PHOTOS + 2).round().astype(int)[1:-1]
    photos = [queries.images[row] for row in rows if queries.images[row].is_file()]
    if not photos:
        return []
    maps: dict[str, Any] = {}
    for number, (run, _) in enumerate(described):
        if progress is not None:
            progress("activation maps", number, len(described))
        folder = model_folder(run)
        assert folder is not None
        maps[run.name] = activation_maps(PlaceNet.load(folder), photos)
    return [
        ActivationRow(photo, {name: made[i] for name, made in maps.items()}) for i, photo in enumerate(photos)
    ]
