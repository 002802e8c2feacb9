"""Answers to look at: the same query asked of each run, where all find it, where one does, and where none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.evaluation.protocols.town import SharedView
from samespot.evaluation.results import Evaluation
from samespot.figures.report_runs import Described, ReportRun
from samespot.figures.report_sections.looks import colours, same_protocol
from samespot.figures.report_sections.markup import Section, embedded, esc, remark, several
from samespot.figures.report_sections.photos import ABSENT, PhotoStore
from samespot.overlap.rules import Sectors
from samespot.places.table import Places

TITLE = "Hits and misses"
MATCHES = 4  # shown of each of the first two runs; of further ones the best
EACH = 3  # queries of each kind
Bools = NDArray[np.bool_]
Runs = list[tuple[ReportRun, Evaluation]]


@dataclass(frozen=True)
class Match:
    """A map photo that a run returned. None stands for what is not known."""

    place: int  # row of the map
    distance: float
    right: bool | None
    predicted: float
    label: float | None  # overlap by the rule of the labels
    true: float | None  # overlap that was measured


@dataclass(frozen=True)
class Kind:
    """Queries that went alike: in words, and which they are."""

    name: str
    queries: NDArray[np.int64]  # rows of the evaluation


def shown_runs(runs: Sequence[ReportRun]) -> Runs:
    """The runs whose photos are at hand and that were asked the very same: those of the first such run."""
    if not any(run.evaluation is not None for run in runs):
        return []
    there = [(run, one) for run, one in same_protocol(runs) if run.described]
    return [(run, one) for run, one in there if _asked(run, one) == _asked(*there[0])]


def _asked(run: ReportRun, evaluation: Evaluation) -> tuple[Any, ...]:
    tables = [case["digests"] for case in evaluation.cases]
    return str(tables), [case.name for case in run.described]


def labelling_of(there: Runs) -> Sectors | None:
    """The sectors of the labels: those of the first run that has any."""
    return next((run.rule for run, _ in there if run.rule is not None), None)


def kinds_of(runs: Runs) -> list[Kind]:
    """How the queries went. Two runs: both right, only the first, only the second, neither; else right and wrong.

    With more than two runs it is the first two that are told apart.
    """
    counted = runs[0][1].queries.counted & _with_photos(runs[0])
    if not all("first_hit" in one.variant().outcomes for _, one in runs[:2]):
        return [Kind("answers", np.flatnonzero(_with_photos(runs[0])))]
    right = [np.asarray(one.variant().outcomes["first_hit"]) == 1 for _, one in runs[:2]]
    if len(runs) == 1:
        masks = {"found": right[0], "missed": ~right[0]}
    else:
        a, b = runs[0][0].name, runs[1][0].name
        masks = {
            f"only {a} finds it": right[0] & ~right[1],
            f"only {b} finds it": ~right[0] & right[1],
            "both find it": right[0] & right[1],
            "neither finds it": ~right[0] & ~right[1],
        }
    return [Kind(name, np.flatnonzero(mask & counted)) for name, mask in masks.items()]


def _with_photos(run: tuple[ReportRun, Evaluation]) -> Bools:
    there = np.zeros(len(run[1].queries), dtype=bool)
    for case in run[0].described:
        there[case.first : case.first + len(case.queries)] = True
    return there


def chosen_queries(kinds: Sequence[Kind], each: int = EACH, seed: int = 0) -> list[NDArray[np.int64]]:
    """Of each kind some at random, the same for the same seed."""
    dice = np.random.default_rng(seed)
    each = each if len(kinds) > 2 else 2 * each
    return [np.sort(dice.permutation(kind.queries)[:each]) for kind in kinds]


def matches_of(run: ReportRun, case: Described, query: int, rule: Sectors | None) -> list[Match]:
    """The best matches of a query (row of the case), as the evaluation kept them."""
    kept = case.matches
    assert kept is not None
    ranks = np.flatnonzero(kept.rows[query, :MATCHES] >= 0)
    places, apart = kept.rows[query, ranks].astype(np.int64), kept.distances[query, ranks]
    nothing = [None] * len(ranks)
    recorded = nothing if kept.overlap is None else kept.overlap[query, ranks].tolist()
    right = nothing if kept.hits is None else kept.hits[query, ranks].tolist()
    label, true = recorded, nothing
    if run.truth.get("kind") == SharedView.KIND:
        label, true = _labels(rule, case, query, places), recorded
    told = zip(
        places.tolist(), apart.tolist(), right, run.predicted(apart).tolist(), label, true, strict=True
    )
    return [Match(*one) for one in told]


def _labels(rule: Sectors | None, case: Described, query: int, places: NDArray[np.int64]) -> list[Any]:
    if rule is None or not len(places):
        return [None] * len(places)
    label: list[Any] = rule.of_pairs(
        case.queries, case.places, np.stack([np.full_like(places, query), places], 1)
    ).tolist()
    return label


def gallery(runs: Sequence[ReportRun], photos: PhotoStore, seed: int = 0) -> Section | None:
    every = shown_runs(runs)
    there = [(run, one) for run, one in every if all(case.matches is not None for case in run.described)]
    if not every:
        return None
    lacking = _without_matches([run for run, _ in every if run not in [kept for kept, _ in there]])
    if not there:
        return Section("gallery", TITLE, lacking)
    kinds = kinds_of(there)
    chosen = chosen_queries(kinds, seed=seed)
    rows = [
        _row(there, int(query), number, kind, photos, colours(runs))
        for number, (kind, queries) in enumerate(zip(kinds, chosen, strict=True))
        for query in queries
    ]
    rows = [row for row in rows if row]
    if not rows:
        return None
    body = (
        _intro(there)
        + _filter(kinds, chosen)
        + f'<div class="answers">{"".join(rows)}</div>'
        + _caption(there)
        + lacking
    )
    return Section("gallery", TITLE, body)


def _without_matches(runs: Sequence[ReportRun]) -> str:
    if not runs:
        return ""
    names = several([esc(run.name) for run in runs])
    return remark(f"The evaluation of {names} did not keep its matches: evaluate again to see them here.")


def _intro(there: Runs) -> str:
    names = [f"<strong>{esc(run.name)}</strong>" for run, _ in there]
    if len(names) == 1:
        return f"<p>Random queries and the best matches of {names[0]}: some found, some missed.</p>"
    return (
        f"<p>The same queries answered by {names[0]} and {names[1]}: where only one of them finds the place, where"
        " both do, and where neither does. The counts are over all queries; the examples are drawn at random.</p>"
    )


def _filter(kinds: Sequence[Kind], chosen: Sequence[NDArray[np.int64]]) -> str:
    if len(kinds) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" data-kind="{number}" aria-pressed="false">{esc(kind.name)}'
        f' <span class="count">{len(kind.queries):,}</span></button>'
        for number, (kind, queries) in enumerate(zip(kinds, chosen, strict=True))
        if len(queries)
    )
    first = '<button type="button" data-kind="" aria-pressed="true">all</button>'
    return (
        f'<div class="buttons filter" role="group" aria-label="Which queries to show">{first}{buttons}</div>'
    )


def _row(
    there: Runs,
    query: int,
    number: int,
    kind: Kind,
    photos: PhotoStore,
    shown: Mapping[str, str],
) -> str:
    first, evaluation = there[0]
    rule = labelling_of(there)
    case = next(one for one in first.described if one.first <= query < one.first + len(one.queries))
    local, name = query - case.first, evaluation.queries.names[query]
    answers = [
        (run, mine, matches_of(run, mine, local, rule))
        for run, _ in there
        if (mine := run.case(case.name)) is not None
    ]
    if not any(matches for _, _, matches in answers):
        return ""
    strips, cameras = [], [_camera(case.queries, local, case.queries.positions[local], "", "ink", rule)]
    for i, (run, mine, matches) in enumerate(answers):
        matches = matches if i < 2 else matches[:1]
        letter = ascii_lowercase[i] if len(answers) > 1 else ""
        strips.append(_strip(run, mine, matches, letter, photos, shown))
        drawn = matches[:1] if len(answers) > 1 else matches
        for rank, match in enumerate(drawn, 1):
            colour = {True: "right", False: "wrong", None: "grey"}[match.right]
            home = case.queries.positions[local]
            cameras.append(_camera(mine.places, match.place, home, f"{letter}{rank}", colour, rule))
    (photo,) = photos.add([case.queries.image(local)])
    near = [one for one in cameras if one is not None]
    map_of_it = ""
    if cameras[0] is not None:
        facts = embedded({"cameras": near, "radius": rule.radius if rule else None})
        map_of_it = (
            f'<svg class="sector-map" role="img" aria-label="{esc(_map_words(near))}"></svg>'
            f'<script type="application/json" class="sector-spec">{facts}</script>'
        )
    head = f'<header><span class="kind">{esc(kind.name)}</span> <code>{esc(name)}</code></header>'
    query_photo = _photo(photo, f"query {name}", "ink", "query")
    asked = f'<div class="asked">{query_photo}<div class="where">{map_of_it}</div></div>'
    body = f'{head}{asked}<div class="strips">{"".join(strips)}</div>'
    return f'<article class="answer" data-kind="{number}">{body}</article>'


def _strip(
    run: ReportRun,
    case: Described,
    matches: Sequence[Match],
    letter: str,
    photos: PhotoStore,
    shown: Mapping[str, str],
) -> str:
    numbers = photos.add([case.places.image(match.place) for match in matches])
    tiles = "".join(
        _tile(match, photo, rank, str(case.place_names[match.place]))
        for rank, (match, photo) in enumerate(zip(matches, numbers, strict=True), 1)
    )
    tag = f'<span class="letter">{letter}</span> ' if letter else ""
    head = f'<h4 class="run" style="--swatch:var(--{shown[run.name]})">{tag}{esc(run.name)}</h4>'
    return f'<div class="strip">{head}<div class="tiles">{tiles or "<p>nothing found</p>"}</div></div>'


def _tile(match: Match, photo: int, rank: int, name: str) -> str:
    colour, mark, words = {
        True: ("right", "✓", "right"),
        False: ("wrong", "✗", "wrong"),
        None: ("grey", "", "not judged"),
    }[match.right]
    facts = [f"d {match.distance:.2f}", f"ψ̂ {match.predicted:.2f}"]
    facts += [f"ψ {match.label:.2f}"] if match.label is not None and math.isfinite(match.label) else []
    facts += [f"true {match.true:.2f}"] if match.true is not None else []
    told = "".join(f"<span>{one}</span>" for one in facts)
    picture = _photo(photo, f"match {rank}, {words}: {name}", colour, f"{rank} {mark}".strip())
    return f'<div class="match">{picture}<p class="facts-line">{told}</p></div>'


def _photo(photo: int, alt: str, colour: str, tag: str) -> str:
    image = (
        f'<span class="no-photo">{esc(alt)}</span>'
        if photo == ABSENT
        else f'<img data-photo="{photo}" alt="{esc(alt)}">'
    )
    return f'<div class="framed" style="--swatch:var(--{colour})">{image}<span class="tag">{esc(tag)}</span></div>'


def _camera(
    table: Places, row: int, home: NDArray[np.float64], name: str, colour: str, rule: Sectors | None
) -> list[Any] | None:
    """Metres east and north of the query, heading, opening [deg, 0 a dot], name, colour; None: nobody knows where."""
    easting, northing, heading = (float(value) for value in table.positions[row])
    if not (math.isfinite(easting) and math.isfinite(northing) and np.isfinite(home[:2]).all()):
        return None
    opening = 0.0
    if rule is not None and (math.isfinite(heading) or bool(table.panoramas[row])):
        opening = float(rule.openings(table.select([row]))[0])
    east, north = round(easting - home[0], 2), round(northing - home[1], 2)
    return [east, north, heading if math.isfinite(heading) else 0.0, opening, name, colour]


def _map_words(cameras: Sequence[Sequence[Any]]) -> str:
    far = [
        f"{name or 'match'} {math.hypot(east, north):.0f} m away"
        for east, north, _, _, name, _ in cameras[1:]
    ]
    return f"Map, north up: the query, {', '.join(far)}" if far else "Map, north up: the query"


def _caption(there: Runs) -> str:
    judged = all(
        case.matches is None or case.matches.hits is not None for run, _ in there for case in run.described
    )
    marks = (
        "Green frames with ✓ are right by the protocol, orange frames with ✗ are wrong."
        if judged
        else "The protocol does not say which matches are right."
    )
    true = "; true: the measured overlap" if there[0][0].truth.get("kind") == SharedView.KIND else ""
    letters = " Letters on the maps mark the best match of each run." if len(there) > 1 else ""
    return remark(
        f"{marks} d: distance between the descriptors; ψ̂: predicted overlap; ψ: label{true}. On the maps, north is"
        " up and the query has the colour of the text; arrows point to matches too far away to draw."
        f"{letters}"
    )
