"""Train, map and query tables of one's own photos, so that what is measured was not learned.

| by       | train                     | map and queries                                       |
|----------|---------------------------|-------------------------------------------------------|
| area     | one side of a straight cut | the other side; photos near the cut are left out      |
| sequence | some sequences            | other sequences, whole ones each                      |
| time     | the earliest photos       | later ones are the map, the latest are the queries    |

By area nothing that is evaluated was seen in training; the others show the same streets to both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.options import check_choice
from samespot.places.table import Places

By = Literal["area", "sequence", "time"]
Masks = dict[str, NDArray[np.bool_]]


@dataclass(frozen=True)
class Split:
    """Three tables, and what to know about how they were cut."""

    train: Places
    map: Places
    query: Places
    notes: tuple[str, ...] = ()

    def save(self, folder: Path) -> list[Path]:
        return [getattr(self, name).save(folder / f"{name}.csv") for name in ("train", "map", "query")]


def split_places(
    places: Places,
    by: By = "area",
    *,
    train: float = 0.6,
    queries: float = 0.25,
    gap: float = 25.0,
    seed: int = 0,
) -> Split:
    """Cut a table into train, map and query.

    train: share of the photos to learn from; queries: share of the others that are looked up in the rest of them.
    gap [m]: by area, photos this near the cut are in no table. seed: which sequences go where.
    """
    for name, share in (("train", train), ("queries", queries)):
        if not 0 < share < 1:
            raise InputError(f"`{name}` {share:g} is not a share between 0 and 1")
    check_choice("by", by, get_args(By))
    cut = {"area": _by_area, "sequence": _by_sequence, "time": _by_time}[by]
    masks, notes = cut(places, train, queries, gap, seed)
    empty = [name for name, mask in masks.items() if not mask.any()]
    if empty:
        raise InputError(
            f"{places.root}: no photo is left for {' and '.join(empty)}; change `train`, `queries` or `gap`,"
            " or cut by another column"
        )
    return Split(**{name: places.select(mask) for name, mask in masks.items()}, notes=notes)


def _by_area(
    places: Places, train: float, queries: float, gap: float, seed: int
) -> tuple[Masks, tuple[str, ...]]:
    at = places.positions[:, :2]
    if np.isnan(at).any():
        raise InputError(f"{places.root}: {np.isnan(at).any(axis=1).sum()} photos have no position to cut by")
    axis = int(np.argmax(np.ptp(at, axis=0)))
    line = float(np.quantile(at[:, axis], train))
    learned, asked = at[:, axis] < line - gap / 2, at[:, axis] > line + gap / 2
    query, how = _queries_among(places, asked, queries, seed)
    way, side = (("easting", "west"), ("northing", "south"))[axis]
    left_out = int((~learned & ~asked).sum())
    notes = (
        f"cut at {way} {line:.1f}: {side} of it is train; {left_out} photos within {gap:g} m are left out",
        how,
    )
    return {"train": learned, "map": asked & ~query, "query": query}, notes


def _queries_among(
    places: Places, asked: NDArray[np.bool_], share: float, seed: int
) -> tuple[NDArray[np.bool_], str]:
    """Of some photos those that are looked up: of other sequences or times than the map, where the table tells."""
    rows = np.flatnonzero(asked)
    if "sequence" in places.table and places.table["sequence"].iloc[rows].nunique() > 1:
        names = places.table["sequence"].iloc[rows].astype(str).to_numpy()
        chosen, how = np.isin(names, _some(names, share, seed)), "queries are whole sequences"
    elif "time" in places.table and places.table["time"].iloc[rows].notna().all() and len(rows):
        chosen, how = _latest(places.table["time"].iloc[rows], share), "queries are the latest photos"
    else:
        chosen = np.zeros(len(rows), dtype=bool)
        chosen[:: max(2, round(1 / share))] = True
        how = "queries are single photos between those of the map, which is easy: the table has no sequence or time"
    query = np.zeros(len(places), dtype=bool)
    query[rows[chosen]] = True
    return query, how


def _by_sequence(
    places: Places, train: float, queries: float, gap: float, seed: int
) -> tuple[Masks, tuple[str, ...]]:
    if "sequence" not in places.table:
        raise InputError(f"{places.root}: the table has no column sequence to cut by; cut by area or time")
    names = places.table["sequence"].astype(str).to_numpy()
    if len(np.unique(names)) < 3:
        raise InputError(
            f"{places.root}: {len(np.unique(names))} sequences; three are needed, one for each table"
        )
    learned = np.isin(names, _some(names, train, seed))
    rest = np.flatnonzero(~learned)
    query = np.zeros(len(names), dtype=bool)
    query[rest] = np.isin(names[rest], _some(names[rest], queries, seed + 1))
    return {"train": learned, "map": ~learned & ~query, "query": query}, (
        "whole sequences; train may show the same places as map and query",
    )


def _by_time(
    places: Places, train: float, queries: float, gap: float, seed: int
) -> tuple[Masks, tuple[str, ...]]:
    if "time" not in places.table or places.table["time"].isna().any():
        raise InputError(f"{places.root}: not every photo has a time to cut by; cut by area or sequence")
    later = _latest(places.table["time"], 1 - train)
    query = np.zeros(len(places), dtype=bool)
    rows = np.flatnonzero(later)
    query[rows] = _latest(places.table["time"].iloc[rows], queries)
    return {"train": ~later, "map": later & ~query, "query": query}, (
        "train is earlier than map, map than query; they may show the same places",
    )


def _latest(times: pd.Series, share: float) -> NDArray[np.bool_]:
    order = times.astype(str).rank(method="first").to_numpy()
    return np.asarray(order > len(times) - max(1, round(share * len(times))))


def _some(names: NDArray[Any], share: float, seed: int) -> list[str]:
    """Sequences drawn at random until they hold about this share of the photos; at least one, never all."""
    kinds, counts = np.unique(names, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(kinds))
    held = np.cumsum(counts[order])
    number = int(np.argmin(np.abs(held - share * len(names)))) + 1
    return [str(kinds[i]) for i in order[: min(max(number, 1), max(len(kinds) - 1, 1))]]
