"""The map with its sectors, and a pair of photos to choose: both images, what they share, what each run says of it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.outcomes import POSE_PLACES
from samespot.evaluation.results import Evaluation
from samespot.figures.report_runs import Described, ReportRun
from samespot.figures.report_sections.gallery import chosen_queries, kinds_of, labelling_of, shown_runs
from samespot.figures.report_sections.looks import colours
from samespot.figures.report_sections.markup import Section, embedded, esc, remark
from samespot.figures.report_sections.photos import PhotoStore
from samespot.overlap.rules import Rule, Sectors
from samespot.places.table import Places

MOST_QUERIES, MOST_PLACES = 120, 240  # over all cases
MOST_CASES = 3
MOST_DOTS = 3000  # of all photos, drawn pale below the chosen ones
STEPS = 250  # of an overlap in one byte; UNKNOWN where there is none
UNKNOWN = 255
FINE = 20_000  # steps of a distance a unit, in two bytes
FAR = 65_535
Rows = NDArray[np.int64]
Runs = list[tuple[ReportRun, Evaluation]]


def explorer(runs: Sequence[ReportRun], photos: PhotoStore, seed: int = 0) -> Section | None:
    there = shown_runs(runs)
    if not there:
        return None
    rule, measured, shown = labelling_of(there), there[0][0].measured, colours(runs)
    largest = sorted(there[0][0].described, key=lambda case: -len(case.queries))[:MOST_CASES]
    shared = MOST_QUERIES // len(largest), MOST_PLACES // len(largest)
    cases = [_case(there, case, rule, measured, photos, shared, seed) for case in largest]
    facts = {
        "runs": [{"name": run.name, "colour": shown[run.name]} for run, _ in there],
        "rule": None if rule is None else {"theta": rule.theta, "radius": rule.radius},
        "cases": cases,
        "steps": STEPS,
        "fine": FINE,
    }
    body = (
        _intro(rule, measured is not None, any(one for case in cases for one in case["poses"]))
        + _furniture(cases, [run.name for run, _ in there], measured is not None, rule is not None)
        + f'<script type="application/json" id="explorer-data">{embedded(facts)}</script>'
        + _caption(cases, there[0][1])
    )
    return Section("pairs", "Map and pairs", body)


def _intro(rule: Sectors | None, truth: bool, posed: bool) -> str:
    seen = (
        "Each photo was taken at a place, facing some direction."
        if rule is None
        else f"A camera sees a sector of {rule.theta:g}° and {rule.radius:g} m; the label ψ of two photos is the"
        " share of it that they have in common."
    )
    true = " The true overlap counts the pixels that both photos show." if truth else ""
    return (
        f"<p>{seen}{true} Choose a query and a map photo, on the map or in the boxes, and compare what they share with"
        " what each run predicts from its descriptors (ψ̂, calibrated if the run has a calibration)."
        f"{' Triangles with a dashed line are the poses that were solved for the query.' if posed else ''}</p>"
    )


def _case(
    there: Runs,
    case: Described,
    rule: Sectors | None,
    measured: Rule | None,
    photos: PhotoStore,
    shared: tuple[int, int],
    seed: int,
) -> dict[str, Any]:
    queries = sample_queries(there, case, shared[0], seed)
    mine = [one for run, _ in there if (one := run.case(case.name)) is not None]
    label = None if rule is None else _overlap(rule, case.queries.select(queries), case.places)
    places = sample_places(case, mine, queries, label, shared[1], seed)
    asked, found = case.queries.select(queries), case.places.select(places)
    home = _home(case)
    apart = [one.distances(queries, places) for one in mine]
    return {
        "name": case.name,
        "queries": _side(asked, photos, home),
        "places": _side(found, photos, home),
        "dots": _dots(case, home),
        "label": None if label is None else overlap_bytes(label[:, places]),
        "truth": None if measured is None else overlap_bytes(_overlap(measured, asked, found)),
        "poses": [_poses(evaluation, case.first + queries, home) for _, evaluation in there],
        "distance": [distance_bytes(one) for one in apart],
        "predicted": [overlap_bytes(run.predicted(one)) for (run, _), one in zip(there, apart, strict=True)],
    }


def _poses(evaluation: Evaluation, queries: Rows, home: NDArray[np.float64]) -> list[Any] | None:
    """Of each query where its pose was solved to be, [east, north, heading, metres off, degrees off]; else None."""
    posed = next((one for one in evaluation.variants if one.posed_by is not None), None)
    if posed is None or POSE_PLACES[0] not in posed.outcomes:
        return None
    columns = (*POSE_PLACES, "metres", "degrees")
    values = np.array([np.asarray(posed.outcomes[name], dtype=np.float64)[queries] for name in columns]).T
    values[:, :2] -= home
    return [row.round(3).tolist() if np.isfinite(row[:3]).all() else None for row in values]


def _overlap(rule: Rule, queries: Places, places: Places) -> NDArray[np.float64]:
    """(q, m) by this rule; NaN where it does not know enough of a photo."""
    sides = [(table, _known(rule, table)) for table in (queries, places)]
    overlap = np.full((len(queries), len(places)), np.nan)
    if all(known.any() for _, known in sides):
        some = [table.select(known) for table, known in sides]
        overlap[np.ix_(*(known for _, known in sides))] = rule.label(*some).dense()
    return overlap


def _known(rule: Rule, table: Places) -> NDArray[np.bool_]:
    known = np.ones(len(table), dtype=bool)
    for lacking in rule.unknown(table).values():
        known &= ~lacking
    return known


def sample_queries(there: Runs, case: Described, most: int, seed: int) -> Rows:
    """Rows of the case: those of the gallery first, then others at random; ascending."""
    inside = range(case.first, case.first + len(case.queries))
    gallery = [
        int(row) - case.first
        for part in chosen_queries(kinds_of(there), seed=seed)
        for row in part
        if row in inside
    ]
    others = np.random.default_rng(seed).permutation(len(case.queries)).tolist()
    return np.sort(np.array(list(dict.fromkeys([*gallery, *others]))[:most], dtype=np.int64))


def sample_places(
    case: Described,
    runs: Sequence[Described],
    queries: Rows,
    label: NDArray[np.float64] | None,
    most: int,
    seed: int,
) -> Rows:
    """Rows of the map: the best answer of each run to each query, what shares most with it, then any; ascending."""
    wanted: list[int] = []
    answers = [one.matches.rows[queries, 0].tolist() for one in runs if one.matches is not None]
    for i in range(len(queries)):
        wanted += [rows[i] for rows in answers if rows[i] >= 0]
        if label is not None and np.nanmax(label[i], initial=0.0) > 0:
            wanted.append(int(np.nanargmax(label[i])))
    wanted += np.random.default_rng(seed).permutation(len(case.places)).tolist()
    return np.sort(np.array(list(dict.fromkeys(wanted))[:most], dtype=np.int64))


def _home(case: Described) -> NDArray[np.float64]:
    """(2,) the middle of the map: metres from it need fewer digits."""
    both = np.concatenate([case.queries.positions[:, :2], case.places.positions[:, :2]])
    known = both[np.isfinite(both).all(axis=1)]
    return np.round(known.mean(axis=0)) if len(known) else np.zeros(2)


def _side(table: Places, photos: PhotoStore, home: NDArray[np.float64]) -> dict[str, Any]:
    at = table.positions
    return {
        "name": table.table["image"].astype(str).tolist(),
        "photo": photos.add(table.images),
        "east": np.round(at[:, 0] - home[0], 2),
        "north": np.round(at[:, 1] - home[1], 2),
        "heading": np.round(at[:, 2], 1),
        "pano": table.panoramas.astype(int),
    }


def _dots(case: Described, home: NDArray[np.float64]) -> list[list[float]]:
    at = np.concatenate([case.queries.positions[:, :2], case.places.positions[:, :2]]) - home
    at = np.unique(np.round(at[np.isfinite(at).all(axis=1)], 1), axis=0)
    if len(at) > MOST_DOTS:
        at = at[np.random.default_rng(0).permutation(len(at))[:MOST_DOTS]]
    dots: list[list[float]] = at.tolist()
    return dots


def overlap_bytes(overlap: NDArray[np.float64]) -> str:
    """Overlaps in [0, 1], row by row, a byte each, as text; NaN is UNKNOWN."""
    steps = np.rint(STEPS * np.clip(overlap, 0, 1))
    return b64encode(np.where(np.isfinite(steps), steps, UNKNOWN).astype(np.uint8).tobytes()).decode()


def distance_bytes(distance: NDArray[np.float64]) -> str:
    """Distances in [0, 2], row by row, two bytes each, as text; NaN is FAR."""
    steps = np.rint(FINE * np.clip(distance, 0, 3))
    return b64encode(np.where(np.isfinite(steps), steps, FAR).astype("<u2").tobytes()).decode()


def _furniture(cases: Sequence[dict[str, Any]], names: Sequence[str], truth: bool, labelled: bool) -> str:
    choice = ""
    if len(cases) > 1:
        options = "".join(f'<option value="{i}">{esc(case["name"])}</option>' for i, case in enumerate(cases))
        choice = f'<label>Map <select id="pair-case">{options}</select></label>'
    modes = [("random", "Random pair")]
    if labelled:
        modes += [("missed", "Alike, but told apart"), ("mistaken", "Unlike, but taken for the same")]
    if labelled and len(names) > 1:
        modes.append(("disagree", "Runs disagree"))
    buttons = "".join(f'<button type="button" data-mode="{mode}">{words}</button>' for mode, words in modes)
    best = "".join(
        f'<button type="button" data-best="{i}">{esc(name)}</button>' for i, name in enumerate(names)
    )
    geometry = '<button type="button" data-best="label">the label</button>' if labelled else ""
    return f"""
<div class="explorer" id="explorer">
  <div class="buttons" role="group" aria-label="Next pair">{buttons}</div>
  <div class="choices">
    {choice}
    <label><span class="dot query" aria-hidden="true"></span>Query <select id="pair-query"></select></label>
    <label><span class="dot map" aria-hidden="true"></span>Map photo <select id="pair-place"></select></label>
  </div>
  <div class="pair">
    <div class="pair-photos">
      <div class="framed" style="--swatch:var(--query)">
        <img id="photo-query" alt=""><span class="tag">query</span></div>
      <div class="framed" style="--swatch:var(--map)">
        <img id="photo-place" alt=""><span class="tag">map photo</span></div>
    </div>
    <div class="buttons small" role="group" aria-label="Best match in this sample">
      <span>Nearest to the query by</span>{best}{geometry}
    </div>
    <div class="pair-facts">
      <svg class="sector-map" id="pair-sectors" role="img" aria-label="Sectors of both photos"></svg>
      <div id="pair-readout" aria-live="polite"></div>
    </div>
  </div>
  <div class="town">
    <svg id="pair-map" role="img" aria-label="Map of the photos; the boxes above choose the same photos by name"></svg>
    <div class="buttons small zoom" role="group" aria-label="Map view">
      <button type="button" data-zoom="in" aria-label="Zoom in">+</button>
      <button type="button" data-zoom="out" aria-label="Zoom out">−</button>
      <button type="button" data-zoom="all">whole map</button>
      <label class="check"><input type="checkbox" id="all-sectors"> all sectors</label>
    </div>
    <ul class="key"><li><span class="dot query" aria-hidden="true"></span>queries (round)</li>
    <li><span class="dot map" aria-hidden="true"></span>map photos (square)</li></ul>
  </div>
</div>"""


def _caption(cases: Sequence[dict[str, Any]], evaluation: Evaluation) -> str:
    queries, places = (sum(len(case[side]["name"]) for case in cases) for side in ("queries", "places"))
    total = (
        sum(int(case["queries"]) for case in evaluation.cases),
        sum(int(case["map images"]) for case in evaluation.cases),
    )
    return remark(
        f"A sample of {queries:,} of {total[0]:,} queries and {places:,} of {total[1]:,} map photos: for each query"
        " the best match of every run and the photo that shares most with it, as far as there is room. Grey dots"
        " are all photos."
    )
