"""Tables of one's own: any queries and any map, found by distance and angle, by frame number or by overlap."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case, Rows
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.positives import graded_truth, rows_allowed, rows_of, rows_within
from samespot.evaluation.protocol import Protocol
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import RADIUS, THETA, Rule, Sectors, Within
from samespot.places.catalogue import as_places
from samespot.places.options import as_map
from samespot.places.table import Places
from samespot.retrieval import exclusion

WITHIN = Within()  # what is right where nothing was said
CLOCK = r"\d{1,2}:\d{2}(:\d{2})?"


def own_tables(asked: EvaluateOptions) -> tuple[Protocol, list[Case]]:
    """The tables that were given, paths or `Places`, and in words what was asked of them."""
    how = asked.reading
    places = as_map(asked.map, **{**how, "part": asked.map_part})
    queries = places if asked.queries is None else as_places(asked.queries, **how, onto=places.projection)
    by_default = asked.frames is None and asked.overlap is None
    within = asked.within or (WITHIN if by_default else None)
    case = table_case(
        queries,
        places,
        within=within,
        frames=asked.frames,
        min_overlap=asked.overlap,
        theta=asked.theta,
        radius=asked.radius,
        time_gap=None if asked.time_gap is None else np.timedelta64(round(1000 * asked.time_gap), "ms"),
    )
    never = ["the query itself"] if asked.queries is None else []
    if asked.time_gap is not None:
        never.append(f"what was taken within {asked.time_gap:g} s of the query")
    protocol = Protocol(
        name="own-tables",
        title="Your own tables",
        data_set="places",
        queries="those with at least one positive",
        positive=_positive(asked, within),
        exclusions=", ".join(never),
        citation="",
        make=lambda root: [],
        options={"theta": asked.theta, "radius": asked.radius},
    )
    return protocol, [case]


def _positive(asked: EvaluateOptions, within: Within | None) -> str:
    if within is not None:
        return f"within {within.limits()}"
    if asked.frames is not None:
        return f"at most {asked.frames} frames away in the aligned sequence"
    sector = f"θ = {asked.theta:g}°, r = {asked.radius:g} m"
    return f"shares at least {asked.overlap:g} of the view ({sector})"


def table_case(
    queries: Places,
    places: Places,
    *,
    within: Within | None = None,
    frames: int | None = None,
    min_overlap: float | None = None,
    theta: float = THETA,
    radius: float = RADIUS,
    exclude_self: bool = True,
    time_gap: np.timedelta64 | None = None,
    name: str = "table",
) -> Case:
    """Found is one of: what lies `within` a distance and angle; what is at most `frames` frame numbers away
    (`rows_by_frame`); what shares at least `min_overlap` of the view (opening angle theta [deg], radius [m]).

    exclude_self: a query that is in the map itself does not find itself, nor is it its own positive. time_gap: nor
    is anything taken less than that before or after it; where a time is unknown nothing is left out.
    """
    if sum(rule is not None for rule in (within, frames, min_overlap)) != 1:
        raise InputError(
            "say what counts as found by one of `within=25m,40deg`, `frames=5` and `overlap=0.5`"
        )
    view = Sectors(theta, radius)
    rule, notes = graded_truth(name, queries, places, view)
    labels: PairLabels | None = None
    positives: list[Rows]
    if within is not None:
        positives = rows_within(queries, places, within.metres, within.degrees)
    elif frames is not None:
        positives, how = rows_by_frame(queries, places, frames)
        notes += (how,)
    else:
        assert min_overlap is not None
        labels = _labels(rule, queries, places, notes, min_overlap)
        positives = rows_of(labels, min_overlap)
    never: list[exclusion.Exclusion] = []
    if exclude_self:
        files = [_files(table) for table in (queries, places)]
        if themselves := int(files[0].isin(files[1]).sum()):
            never.append(exclusion.same_name(*files))
            notes += (f"{themselves} of {len(queries)} queries are in the map; none of them can find itself",)
    if time_gap is not None:
        never.append(exclusion.time_gap(*_times(queries, places), time_gap))
    excluded = exclusion.any_of(*never) if never else None
    if excluded is not None:
        positives = rows_allowed(positives, excluded)
    return Case(
        name,
        queries,
        places,
        positives,
        rule,
        excluded,
        groups=_groups(queries),
        reach=view.reach if within is not None else None,
        labels=None if labels is None else lambda progress: labels,
        notes=notes,
    )


def rows_by_frame(queries: Places, places: Places, frames: int) -> tuple[list[Rows], str]:
    """For each query the map rows at most so many frame numbers away, and in words what was compared.

    Meant for rides along one route whose frames are aligned, as winter and summer of Nordland: frame 117 shows the
    same place in both. Where the column `sequence` has names that occur in both tables, a name is a route, and only
    frames of the same route match. Otherwise names are of rides (winter, summer), and the frame number says it all.
    """
    if frames < 0:
        raise InputError(f"`frames` {frames}: give 0 or more frame numbers")
    ours, theirs = _frame_numbers(queries, "query"), _frame_numbers(places, "map")
    route, routes = np.zeros(len(ours), np.int64), np.zeros(len(theirs), np.int64)
    how = "frame numbers are compared across all sequences"
    if all("sequence" in table.table for table in (queries, places)):
        names, map_names = (table.table["sequence"].astype(str) for table in (queries, places))
        if set(names) & set(map_names):
            codes = pd.factorize(pd.concat([names, map_names]))[0].astype(np.int64)
            route, routes = codes[: len(ours)], codes[len(ours) :]
            how = "frame numbers are compared within sequences of the same name"
    found: list[Rows] = [np.zeros(0, np.int64)] * len(ours)
    for one in np.unique(route):
        here = np.flatnonzero(routes == one)
        here = here[np.argsort(theirs[here], kind="stable")]
        mine = np.flatnonzero(route == one)
        first = np.searchsorted(theirs[here], ours[mine] - frames, side="left")
        last = np.searchsorted(theirs[here], ours[mine] + frames, side="right")
        for query, start, stop in zip(mine, first, last, strict=True):
            found[query] = np.sort(here[start:stop])
    return found, how


def _frame_numbers(table: Places, role: str) -> NDArray[np.float64]:
    if "frame" not in table.table:
        raise InputError(
            f"{table.root}: the {role} table has no column frame, which `frames` compares; add it"
        )
    numbers = pd.to_numeric(table.table["frame"], errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        value = table.table["frame"].iloc[bad[0]]
        raise InputError(f"{table.root}: {role} table row {bad[0] + 1}: frame {value} is not a number")
    return numbers


def _labels(
    rule: Rule | None, queries: Places, places: Places, notes: tuple[str, ...], min_overlap: float
) -> PairLabels:
    if not 0 < min_overlap <= 1:
        raise InputError(f"`overlap` {min_overlap:g} is not in (0, 1]")
    if rule is None:
        raise InputError(f"`overlap` {min_overlap:g}: {notes[0]}; use `within=25m`")
    return rule.label(queries, places)


def _files(table: Places) -> pd.Series:
    """The path of each image, alike for the same file in whichever table it stands."""
    return f"{table.root.resolve()}/" + table.table["image"].astype(str)


def _times(queries: Places, places: Places) -> tuple[pd.Series, pd.Series]:
    """When images were taken: seconds, a date with or without the time, or the time of one day as 15:03."""
    told = []
    for role, table in (("query", queries), ("map", places)):
        if "time" not in table.table:
            raise InputError(
                f"{table.root}: the {role} table has no column time, which a time gap needs; add it"
            )
        told.append(table.table["time"])
    of_day = [column.astype(str).str.strip().str.fullmatch(CLOCK) for column in told]
    if of_day[0].any() != of_day[1].any():
        raise InputError(
            "one table has times of day and the other dates: no time gap can be taken between them"
        )
    on_one_day = ("1970-01-01T" + column.astype(str).str.strip().str.zfill(5) for column in told)
    ours, theirs = (
        column.mask(clock, timed) for column, clock, timed in zip(told, of_day, on_one_day, strict=True)
    )
    return ours, theirs


def _groups(queries: Places) -> dict[str, NDArray[np.str_]]:
    if "condition" not in queries.table:
        return {}
    return {"condition": queries.table["condition"].fillna("").to_numpy(dtype=str)}
