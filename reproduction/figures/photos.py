"""The paper's figures of photos and places (1, 5, 6, 8, 14, 15, 18), from a run whose photos are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from reproduction.figures.curves import (
    CL,
    GARDEN,
    GCL,
    MOST_PANELS,
    by_protocol,
    loss_of,
    model_names,
    protocol_of,
)
from reproduction.figures.drawings import CM, COLUMN, bare, letter, paper_style, sectors_only
from samespot.figures.report_runs import Described, ReportRun
from samespot.figures.style import save
from samespot.model.naming import model_folder
from samespot.overlap.classes import POSITIVE
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import Sectors

PAIRS_SHOWN = 4  # of figure 15
MOST_DOTS = 1_500  # of a trajectory


def _first_described(runs: Sequence[ReportRun]) -> tuple[ReportRun, Described, Sectors] | None:
    """A run whose places are known, and how they were labelled."""
    return next(
        ((run, run.described[0], run.rule) for run in runs if run.described and run.rule is not None), None
    )


def _labels(case: Described, rule: Sectors) -> PairLabels:
    return replace(rule, unknown_heading="disk").label(case.queries, case.places)


def _photos_there(case: Described) -> bool:
    """Whether the photos can be shown; a table may have come without them."""
    return case.queries.images[0].is_file() and case.places.images[0].is_file()


def draw_degrees(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 1: a query that has matches close to the paper's three degrees of similarity."""
    from samespot.figures.activation import small_photo

    found = _first_described(runs)
    if found is None or not _photos_there(found[1]):
        return None
    _, case, rule = found
    labels = _labels(case, rule)
    chosen = query_with(labels, (0.86, 0.52))
    if chosen is None:
        return None
    query, matches = chosen
    matches = [*matches, _unlike(case, labels, query)]
    overlap = labels.lookup(np.full(len(matches), query), np.array(matches))
    photos = [case.queries.images[query], *(case.places.images[row] for row in matches)]
    words = ["Query", *(f"{100 * share:.0f}% overlap" for share in overlap)]
    with paper_style() as plt:
        figure, axes = plt.subplots(1, 4, figsize=(18 * CM, 4.2 * CM), layout="constrained")
        for i, (panel, photo) in enumerate(zip(axes, photos, strict=True)):
            panel.imshow(small_photo(photo), interpolation="none")
            panel.set_xlabel(f"{letter(i)} {words[i]}")
            bare(panel)
        return save(figure, path)


def query_with(labels: PairLabels, wanted: Sequence[float]) -> tuple[int, list[int]] | None:
    """The query whose matches come closest to the wanted similarities, and those matches; None without pairs."""
    best: tuple[float, int, list[int]] | None = None
    step = max(1, len(labels) // 2_000)
    for query in range(0, len(labels), step):
        columns, similarity = labels.row(query)
        if len(columns) < len(wanted):
            continue
        away = np.abs(similarity[None, :] - np.array(wanted)[:, None])
        cost = float(away.min(axis=1).sum())
        if best is None or cost < best[0]:
            best = cost, query, [int(columns[i]) for i in away.argmin(axis=1)]
    return None if best is None else (best[1], best[2])


def _unlike(case: Described, labels: PairLabels, query: int) -> int:
    """The nearest map photo that shares nothing with a query: it looks another way, as in the paper."""
    rows = np.arange(len(case.places))
    apart = labels.lookup(np.full(len(rows), query), rows) == 0
    metres = np.hypot(*(case.places.positions[:, :2] - case.queries.positions[query, :2]).T)
    return int(np.where(apart, metres, np.inf).argmin())


def _hard_negative(case: Described, labels: PairLabels, used: set[int]) -> tuple[int, int]:
    """A query that is not shown yet, and the nearest map photo that shares nothing with it; the closest such pair."""
    asked = np.unique(np.linspace(0, len(case.queries) - 1, 50).round().astype(int)).tolist()
    pairs = [
        (query, _unlike(case, labels, query))
        for query in asked
        if query not in used or len(asked) <= len(used)
    ]
    here, there = case.queries.positions[:, :2], case.places.positions[:, :2]
    return min(pairs, key=lambda pair: float(np.hypot(*(here[pair[0]] - there[pair[1]]))))


def draw_examples(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 5: a pair a column, with what the two cameras see on the ground."""
    return _examples(runs, path, (0.755, 0.5031, 0.1678), hard_negative=True, pairs_in="columns")


def draw_garden_examples(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 6: a pair a row, of TB-Places."""
    garden = [run for run in runs if protocol_of(run).startswith(GARDEN)]
    return _examples(garden, path, (0.74, 0.41), hard_negative=False, pairs_in="rows")


def _examples(
    runs: Sequence[ReportRun],
    path: Path,
    wanted: tuple[float, ...],
    hard_negative: bool,
    pairs_in: Literal["rows", "columns"],
) -> Path | None:
    from samespot.figures.label_set import example_pairs

    found = _first_described(runs)
    if found is None or not _photos_there(found[1]):
        return None
    _, case, rule = found
    labels = _labels(case, rule)
    pairs = list(example_pairs(labels, wanted).values())
    if not pairs:
        return None
    if hard_negative:
        pairs.append(_hard_negative(case, labels, {query for query, _ in pairs}))
    with paper_style() as plt:
        shape = (len(pairs), 3) if pairs_in == "rows" else (3, len(pairs))
        size = (4.5 * CM * shape[1], 3.9 * CM * shape[0])
        figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
        lines = axes if pairs_in == "rows" else axes.T
        for i, (line, pair) in enumerate(zip(lines, pairs, strict=True)):
            _example(line, case, rule, pair, float(labels.lookup(np.array(pair[0]), np.array(pair[1]))))
            for j, panel in enumerate(line):
                number = 3 * i + j if pairs_in == "rows" else len(pairs) * j + i
                panel.set_xlabel(f"{letter(number)} {panel.get_xlabel()}")
        return save(figure, path)


def _example(axes: Any, case: Described, rule: Sectors, pair: tuple[int, int], share: float) -> None:
    from samespot.figures.activation import small_photo

    kind = (
        "Positive match"
        if share >= POSITIVE
        else "Soft negative match"
        if share > 0
        else "Hard negative match"
    )
    photos = (case.queries.images[pair[0]], case.places.images[pair[1]])
    for panel, photo, words in zip(axes, photos, ("Query", kind), strict=False):
        panel.imshow(small_photo(photo), interpolation="none")
        panel.set_xlabel(words)
        bare(panel)
    tables = ((case.queries, pair[0]), (case.places, pair[1]))
    opening = tuple(float(rule.openings(table)[row]) for table, row in tables)
    ends = [table.positions[row].tolist() for table, row in tables]
    sectors_only(axes[2], ends[0], ends[1], opening, rule.radius)
    axes[2].set_xlabel(f"FoV overlap {100 * share:.1f}%")


def draw_trajectories(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 8: map blue and queries orange; TB-Places where there is a run on it, or else what there is."""
    garden = [run for run in runs if protocol_of(run).startswith(GARDEN)]
    shown: dict[str, Described] = {}
    for run in garden if any(run.described for run in garden) else runs:
        for case in run.described:
            shown.setdefault(f"{_title(run)}: {case.name}" if len(run.described) > 1 else _title(run), case)
    known = {title: case for title, case in shown.items() if np.isfinite(case.places.positions[:, :2]).all()}
    panels = list(known.items())[:MOST_PANELS]
    if not panels:
        return None
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    with paper_style() as plt:
        size = (columns * 0.6 * COLUMN, lines * 0.6 * COLUMN + 0.2)
        figure, axes = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained")
        for panel in axes.flat[len(panels) :]:
            panel.set_visible(False)
        for i, (panel, (title, case)) in enumerate(zip(axes.flat, panels, strict=False)):
            for table, colour, name in (
                (case.places, "tab:blue", "map"),
                (case.queries, "tab:orange", "query"),
            ):
                at = table.positions[:: max(1, len(table) // MOST_DOTS), :2] - case.places.positions[
                    :, :2
                ].min(axis=0)
                panel.plot(*at.T, ".", color=colour, markersize=2, label=name)
            panel.set(aspect="equal", ylabel="m" if i % columns == 0 else "")
            panel.set_xlabel(f"m\n{letter(i)} {title}")
        handles, words = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, words, markerscale=3, loc="outside upper center", ncols=2)
        return save(figure, path)


def _title(run: ReportRun) -> str:
    return "" if run.evaluation is None else str(run.evaluation.protocol.get("title") or protocol_of(run))


def one_of_each_loss(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The first binary and the first graded run of the protocol that has both, or as many of them as there are.

    Where nothing was trained, the first run.
    """
    found: list[ReportRun] = []
    for some in by_protocol(runs).values():
        first = [next((run for run in some if loss_of(run) == loss), None) for loss in (CL, GCL)]
        trained = [run for run in first if run is not None]
        found = trained if len(trained) > len(found) else found
    return found or list(runs[:1])


def draw_pair_differences(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 14: the same pairs of the first case in both models."""
    from samespot.figures.pair_differences import FEWEST, pair_differences, pair_differences_figure

    some = one_of_each_loss([run for run in runs if run.described and run.rule is not None])
    names = model_names(some)
    shown = {}
    for i, run in enumerate(some):
        case, rule = run.described[0], run.rule
        assert rule is not None
        labels = _labels(case, rule)
        if labels.shape[0] * labels.shape[1] >= FEWEST:
            title = f"{letter(i)} {names[run.name]}"
            shown[title] = pair_differences(case.query_vectors, case.place_vectors, labels)
    return pair_differences_figure(shown, path) if shown else None


def draw_activations(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 15: pairs of a query and the map photo most like it, in columns; models in rows."""
    from samespot.figures.activation import activation_figure, activation_maps
    from samespot.model.network import PlaceNet

    def fits(run: ReportRun) -> bool:
        return (
            model_folder(run.folder) is not None and bool(run.described) and _photos_there(run.described[0])
        )

    some = one_of_each_loss([run for run in runs if fits(run) and run.rule is not None])
    if not some or some[0].rule is None:
        return None
    case = some[0].described[0]
    pairs = _matching_pairs(_labels(case, some[0].rule), PAIRS_SHOWN)
    photos = [image for q, m in pairs for image in (case.queries.images[q], case.places.images[m])]
    if not photos:
        return None
    names = model_names(some)
    maps = {}
    for run in some:
        folder = model_folder(run.folder)
        assert folder is not None
        maps[names[run.name]] = activation_maps(PlaceNet.load(folder), photos)
    titles = ["query", "map"] * len(pairs)
    return activation_figure(photos, maps, path, titles=titles, photos_in="columns")


def _matching_pairs(labels: PairLabels, most: int) -> list[tuple[int, int]]:
    """Queries spread evenly over those with a positive, each with the map photo most like it."""
    best = []
    for query in range(len(labels)):
        columns, similarity = labels.row(query)
        if len(columns) and similarity.max() >= POSITIVE:
            best.append((query, int(columns[similarity.argmax()])))
    if not best:
        return []
    return [best[i] for i in np.unique(np.linspace(0, len(best) - 1, most).round().astype(int))]


def draw_overlap_relation(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 18: the overlap of pairs within reach against their distance and turn."""
    from samespot.figures.similarity import draw_relation, sample_pairs

    found = _first_described(runs)
    if found is None:
        return None
    _, case, rule = found
    sample = sample_pairs(_labels(case, rule), case.queries, case.places, within=rule.reach)
    return draw_relation(path, sample) if len(sample.distance) else None
