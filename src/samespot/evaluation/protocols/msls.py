"""Mapillary Street-Level Sequences: the rule of its own script, and the other query sets that are in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case, Rows
from samespot.evaluation.msls_key_lists import find_key_lists, rows_of_keys
from samespot.evaluation.positives import graded_truth, rows_within, sequences_found
from samespot.evaluation.protocol import Protocol
from samespot.options import check_choice
from samespot.overlap.labels import PairLabels, tables_meta
from samespot.overlap.rules import Sectors
from samespot.places import msls
from samespot.places.catalogue import data_set
from samespot.places.table import Places
from samespot.progress import Progress

METRES, DEGREES = 25.0, 40.0
TASKS = ("im2im", "im2seq", "seq2im", "seq2seq")  # query to map
VIEW = Sectors(**(data_set("msls").labels or {}))  # of the graded truth, as in the labels of training
NO_SEQUENCE_OVERLAP = "graded truth is of images; there is none of sequences"


def city_cases(
    root: Path,
    *,
    subtask: str,
    task: str,
    seq_length: int | str,
    cities: str,
    degrees: float | None = None,
    secret: bool = False,
) -> list[Case]:
    """One case a city. Cities without queries or without a map in the subtask are left out, with a note."""
    check_choice("subtask", subtask, msls.SUBTASKS)
    lengths = _lengths(task, seq_length)
    cases: list[Case] = []
    empty: list[str] = []
    for city in _named_cities(root, cities, secret):
        sides = [
            _images_of(*_subtask_frames(root, city, side, subtask, length, secret))
            for side, length in zip(("query", "database"), lengths, strict=True)
        ]
        if all(len(table) for table, _ in sides):
            cases.append(_city_case(city, *sides[0], *sides[1], degrees, secret))
        else:
            empty.append(city)
    if not cases:
        raise InputError(f"{root}: no queries or no map of {subtask}, {task} in {', '.join(empty)}")
    left_out = tuple(f"{city}: left out, without queries or without a map in {subtask}" for city in empty)
    return [_with_notes(case, left_out) for case in cases]


def _lengths(task: str, seq_length: int | str) -> tuple[int, int]:
    """Frames of a query and of a map item."""
    check_choice("task", task, TASKS)
    try:
        length = int(seq_length)
    except ValueError:
        raise InputError(f"seq_length {seq_length!r} is not a number of frames") from None
    if length < 1 or length % 2 == 0:
        raise InputError(f"seq_length {length}: give an odd number, so that a sequence has a middle frame")
    if task != "im2im" and length == 1:
        raise InputError(
            f"seq_length 1: {task} needs sequences of 3 frames or more; im2im takes single images"
        )
    ours, theirs = task.split("2")
    return length if ours == "seq" else 1, length if theirs == "seq" else 1


def _named_cities(root: Path, cities: str, secret: bool) -> list[str]:
    """The cities of a comma list, checked: of the split that the protocol is for, and on this machine."""
    names = list(dict.fromkeys(word.strip() for word in cities.split(",") if word.strip()))
    if not names:
        raise InputError("cities is empty; name some, e.g. cph,sf")
    there = msls.parts(root)
    for city in names:
        is_test = msls.official_split(city) == "test"
        if is_test != secret:
            wrong = "its truth is secret; use msls-test" if is_test else "it is not a test city; use msls-val"
            raise InputError(f"city {city!r}: {wrong}")
        for side in ("query", "database"):
            if (part := f"{_folder(city)}/{side}") not in there:
                here = [name for name in names if f"{_folder(name)}/{side}" in there]
                advice = f", or take those that are with `cities={','.join(here)}`" if here else ""
                raise InputError(f"{root}: no {part} here; unpack metadata.zip of MSLS there{advice}")
    return names


def _folder(city: str) -> str:
    return f"{'test' if msls.official_split(city) == 'test' else 'train_val'}/{city}"


def _subtask_frames(
    root: Path, city: str, side: str, subtask: str, length: int, secret: bool
) -> tuple[Places, Rows]:
    """A side of a city, and its windows whose middle frame is of the subtask and no panorama."""
    table = msls.read(root, f"{_folder(city)}/{side}")
    column = f"subtask_{subtask}"
    if column not in table.table:
        listed = root / _folder(city) / side / "subtask_index.csv"
        raise InputError(f"{listed} line 1: no column {subtask}; unpack metadata.zip of MSLS again")
    counts = table.table[column].to_numpy(dtype=bool)
    if not secret:
        counts = counts & ~table.panoramas
    frames = windows(table, length)
    return table, frames[counts[frames[:, length // 2]]]


def windows(table: Places, length: int) -> Rows:
    """(n, length) runs of rows, in order, of one sequence and with consecutive frame numbers."""
    if len(table) < length:
        return np.zeros((0, length), dtype=np.int64)
    rows = np.lib.stride_tricks.sliding_window_view(np.arange(len(table), dtype=np.int64), length)
    if length == 1:
        return rows
    sequence = pd.factorize(table.table["sequence"])[0]
    frame = table.table["frame"].to_numpy()
    goes_on = (np.diff(sequence) == 0) & (
        np.diff(frame) == 1
    )  # whether each row's successor is its next frame
    found: Rows = rows[goes_on[rows[:, :-1]].all(axis=1)]
    return found


def _images_of(table: Places, frames: Rows) -> tuple[Places, Rows | None]:
    """Only the images that take part, and the sequences as rows of them; None where each is one image."""
    used, place = np.unique(frames, return_inverse=True)
    return table.select(used), None if frames.shape[1] == 1 else place.reshape(frames.shape)


def _city_case(
    city: str,
    queries: Places,
    query_frames: Rows | None,
    places: Places,
    place_frames: Rows | None,
    degrees: float | None,
    secret: bool,
) -> Case:
    in_sequence = query_frames is not None or place_frames is not None
    groups = _groups(queries, query_frames)
    if secret:
        return Case(
            city, queries, places, groups=groups, query_frames=query_frames, place_frames=place_frames
        )
    positives: list[Rows] = rows_within(queries, places, METRES, degrees, unknown_heading="never")
    rule, notes = (None, (NO_SEQUENCE_OVERLAP,)) if in_sequence else graded_truth(city, queries, places, VIEW)
    if in_sequence:
        positives = sequences_found(positives, _frames(queries, query_frames), _frames(places, place_frames))
    return Case(
        city,
        queries,
        places,
        positives,
        rule,
        groups=groups,
        query_frames=query_frames,
        place_frames=place_frames,
        reach=VIEW.reach,
        notes=notes,
    )


def _frames(table: Places, frames: Rows | None) -> Rows:
    return np.arange(len(table), dtype=np.int64)[:, None] if frames is None else frames


def _groups(queries: Places, frames: Rows | None) -> dict[str, NDArray[np.str_]]:
    """Day or night of each query, of a sequence by its middle frame; nothing where it is not told."""
    if "condition" not in queries.table:
        return {}
    centre = _frames(queries, frames)
    return {"condition": queries.table["condition"].to_numpy(dtype=str)[centre[:, centre.shape[1] // 2]]}


def _with_notes(case: Case, notes: tuple[str, ...]) -> Case:
    return replace(case, notes=(*case.notes, *notes))


def listed_case(root: Path, *, keys: str) -> list[Case]:
    """The queries and the map that lists of keys name, both validation cities in one map."""
    lists = find_key_lists(root, keys)
    cities = _named_cities(root, ",".join(msls.VAL_CITIES), secret=False)
    queries = [msls.read(root, f"{_folder(city)}/query") for city in cities]
    places = [msls.read(root, f"{_folder(city)}/database") for city in cities]
    chosen = rows_of_keys(lists.queries, queries)
    notes = lists.notes
    if lists.places is None:
        in_map = [np.flatnonzero(~table.panoramas) for table in places]
        notes += ("the map is every database image that is not a panorama, for want of a list",)
    else:
        in_map = rows_of_keys(lists.places, places)
    return [
        _pooled_case("+".join(cities), _selected(queries, chosen), _selected(places, in_map), cities, notes)
    ]


def every_image_case(root: Path) -> list[Case]:
    """Every image of the validation cities that is not a panorama, whatever its subtask, in one map."""
    cities = _named_cities(root, ",".join(msls.VAL_CITIES), secret=False)
    queries, places = (_without_panoramas(root, cities, side) for side in ("query", "database"))
    return [_pooled_case("+".join(cities), queries, places, cities, ())]


def _without_panoramas(root: Path, cities: list[str], side: str) -> list[Places]:
    tables = [msls.read(root, f"{_folder(city)}/{side}") for city in cities]
    return [table.select(~table.panoramas) for table in tables]


def _selected(tables: Sequence[Places], rows: Sequence[Rows]) -> list[Places]:
    return [table.select(chosen) for table, chosen in zip(tables, rows, strict=True)]


def _pooled_case(
    name: str, queries: list[Places], places: list[Places], cities: list[str], notes: tuple[str, ...]
) -> Case:
    """All cities in one map. Metres of one city mean nothing in another, so truth is made city by city."""
    offsets = np.cumsum([0, *(len(table) for table in places)])
    positives: list[Rows] = []
    known = True
    for city, ours, theirs, offset in zip(cities, queries, places, offsets[:-1], strict=True):
        if len(ours) and len(theirs):
            positives += [rows + offset for rows in rows_within(ours, theirs, METRES)]
            truth, why = graded_truth(city, ours, theirs, VIEW)
            known &= truth is not None
            notes += why
        else:
            positives += [np.zeros(0, np.int64)] * len(ours)
    pooled = _pooled(queries), _pooled(places)

    def labels(progress: Progress | None) -> PairLabels:
        parts = [_city_labels(*both, progress) for both in zip(queries, places, strict=True)]
        return _joined_labels(parts, *pooled)

    groups = {
        "condition": pooled[0].table["condition"].to_numpy(dtype=str),
        "city": pooled[0].table["city"].to_numpy(dtype=str),
    }
    truth, made = (VIEW, labels) if known else (None, None)
    return Case(name, *pooled, positives, truth, groups=groups, reach=VIEW.reach, labels=made, notes=notes)


def _pooled(tables: list[Places]) -> Places:
    rows = pd.concat([table.table for table in tables], ignore_index=True)
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    return Places(tables[0].root, rows, None, {}, notes)


def _city_labels(queries: Places, places: Places, progress: Progress | None) -> PairLabels:
    if len(queries) and len(places):
        return VIEW.label(queries, places, progress=progress)
    nothing = np.zeros(0, np.int32), np.zeros(0, np.float32)
    return PairLabels(np.zeros(len(queries) + 1, np.int64), *nothing, (len(queries), len(places)))


def _joined_labels(labels: Sequence[PairLabels], queries: Places, places: Places) -> PairLabels:
    """Labels of cities as those of one table: rows below each other, columns moved behind each other's."""
    pairs = np.cumsum([0, *(part.nonzero for part in labels)])
    columns = np.cumsum([0, *(part.shape[1] for part in labels)])
    starts = [part.indptr[1:] + before for part, before in zip(labels, pairs[:-1], strict=True)]
    moved = [part.columns + np.int32(by) for part, by in zip(labels, columns[:-1], strict=True)]
    meta = {**next((part.meta for part in labels if part.meta), {}), **tables_meta(queries, places)}
    return PairLabels(
        np.concatenate([np.zeros(1, np.int64), *starts]),
        np.concatenate(moved),
        np.concatenate([part.similarity for part in labels]),
        (len(queries), len(places)),
        meta,
    )


_WARBURG = (
    "Warburg et al., Mapillary Street-Level Sequences: A Dataset for Lifelong Place Recognition, CVPR 2020"
)
_SCRIPT = f"{_WARBURG}; rule of evaluate.py in github.com/mapillary/mapillary_sls"
_OF_SUBTASK = (
    "per city: images of the subtask that are not panoramas and have a positive;"
    " of a sequence, the middle frame is the query"
)
_NEAR = "a map image at most 25 m away; of sequences, any frame at most 25 m from any frame"
_MAP = "panoramas and images outside the subtask are not in the map; each city is a map of its own"
_VIEW_NOTE = "Graded truth: field-of-view overlap, θ = 90°, r = 50 m; images only, not sequences."
_KS = (1, 5, 10, 20)
_OPTIONS = {"subtask": "all", "task": "im2im", "seq_length": 3}
_POOLED = "both cities are one map"

PROTOCOLS = (
    Protocol(
        "msls-val",
        "MSLS, validation",
        "msls",
        queries=_OF_SUBTASK,
        positive=f"{_NEAR}; headings do not matter",
        exclusions=_MAP,
        citation=_SCRIPT,
        make=city_cases,
        ks=_KS,
        options={**_OPTIONS, "cities": ",".join(msls.VAL_CITIES)},
        notes=(
            "Subtask all of the full release is said to have 747 queries, of which 740 count, and 18,871 map images.",
            _VIEW_NOTE,
        ),
    ),
    Protocol(
        "msls-val-40deg",
        "MSLS, validation, 25 m and 40°",
        "msls",
        queries=_OF_SUBTASK,
        positive=(
            "a map image at most 25 m away and turned by at most 40°; of sequences, any frame so to any frame;"
            " an image without a compass angle matches nothing"
        ),
        exclusions=_MAP,
        citation=f"{_SCRIPT}; with an angle, as the strict rule of training has it",
        make=partial(city_cases, degrees=DEGREES),
        ks=_KS,
        options={**_OPTIONS, "cities": ",".join(msls.VAL_CITIES)},
        notes=("Queries that only see the other way count in msls-val and not here.", _VIEW_NOTE),
    ),
    Protocol(
        "msls-val-740",
        "MSLS, validation, the 740 queries",
        "msls",
        queries="the queries of a list, usually the 740 that circulate with GSV-Cities, that have a positive",
        positive="a map image of the same city at most 25 m away; headings do not matter",
        exclusions=f"what the list of the map leaves out, usually panoramas; {_POOLED}",
        citation=f"{_WARBURG}; lists of Ali-bey et al., GSV-Cities, Neurocomputing 2022",
        make=listed_case,
        ks=_KS,
        options={"keys": ""},
        defaults={"keys": "the lists found in the data set's folder"},
        notes=("Positives are worked out again: the circulating list of them is a pickle.", _VIEW_NOTE),
    ),
    Protocol(
        "msls-val-11k",
        "MSLS, validation, all queries",
        "msls",
        queries="every query of cph and sf that is not a panorama and has a positive, about 11,000",
        positive="a map image of the same city at most 25 m away; headings do not matter",
        exclusions=f"panoramas are not in the map; {_POOLED}",
        citation=f"{_WARBURG}; query set of Berton et al., Deep Visual Geo-localization Benchmark, CVPR 2022",
        make=every_image_case,
        ks=_KS,
        notes=(
            "That benchmark takes raw GPS positions and counts queries without a positive as missed;"
            " here they are the corrected positions, and such queries do not count.",
            _VIEW_NOTE,
        ),
    ),
    Protocol(
        "msls-test",
        "MSLS, test",
        "msls",
        queries="per city: images of the subtask; of a sequence, the middle frame is the query",
        positive="secret; the prediction file is judged by the benchmark's server",
        exclusions="images outside the subtask; panoramas are not marked there, so they stay in",
        citation=_SCRIPT,
        make=partial(city_cases, secret=True),
        ks=_KS,
        truth="secret",
        options={**_OPTIONS, "cities": ",".join(msls.TEST_CITIES)},
    ),
)
