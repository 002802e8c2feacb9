"""Which pairs must never be retrieved: an image itself, what was taken about the same time, panoramas.

An exclusion answers for a block of queries and map images at a time, so that no full matrix is ever held.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError

_MONTH = re.compile(r"(\d{4})-(\d{2})(?!\d)")


class Exclusion(Protocol):
    """(q, m) True where a map image must not be returned for a query. Slices are of query and map rows."""

    def __call__(self, queries: slice, places: slice, /) -> NDArray[np.bool_]: ...


def any_of(*exclusions: Exclusion) -> Exclusion:
    """Out is what any of them keeps out."""
    if not exclusions:
        raise InputError("any_of: give at least one exclusion, or search without")

    def out(queries: slice, places: slice) -> NDArray[np.bool_]:
        combined = exclusions[0](queries, places)
        for exclusion in exclusions[1:]:
            combined = combined | exclusion(queries, places)
        return combined

    return out


def same_name(queries: ArrayLike, places: ArrayLike) -> Exclusion:
    """The query itself: map images of the same name. An image without a name is like no other."""
    names, others = (np.asarray(table, dtype=object) for table in (queries, places))
    # numbers in place of names: blocks of millions of pairs are compared
    codes, _ = pd.factorize(np.concatenate([names, others]))
    a, b = codes[: len(names)], codes[len(names) :]
    return lambda q, m: (a[q, None] == b[None, m]) & (a[q, None] >= 0)


def time_gap(
    queries: ArrayLike, places: ArrayLike, at_least: float | timedelta | np.timedelta64
) -> Exclusion:
    """What was taken less than `at_least` before or after the query.

    Times: seconds as numbers, or ISO 8601 text ("2017-05-03 12:30:00", without a zone as UTC). `at_least`: seconds
    or a time delta; one of numpy's months or years compares calendar months (see `months_apart`). Exactly that far
    apart is far enough. An image of unknown time (NaN, None or empty text) is never excluded, and as a query
    excludes nothing: nothing says that it was taken at about the same time.
    """
    if isinstance(at_least, np.timedelta64) and np.datetime_data(at_least.dtype)[0] in ("M", "Y"):
        return months_apart(queries, places, at_least=int(at_least / np.timedelta64(1, "M")))
    gap, a, b = _seconds(at_least), _times(queries, "query"), _times(places, "map")

    def out(q: slice, m: slice) -> NDArray[np.bool_]:
        apart: NDArray[np.float64] = np.abs(a[q, None] - b[None, m])
        too_near: NDArray[np.bool_] = apart < gap  # never so of NaN, an unknown time
        return too_near

    return out


def _seconds(gap: float | timedelta | np.timedelta64) -> float:
    if isinstance(gap, timedelta | np.timedelta64):
        gap = pd.Timedelta(gap).total_seconds()
    if not gap >= 0:
        raise InputError(f"a time gap of {gap} s is not a length of time")
    return float(gap)


def _times(times: ArrayLike, role: str) -> NDArray[np.float64]:
    """Seconds, of text since 1970; NaN where unknown."""
    column = pd.Series(np.asarray(times))
    if column.dtype.kind in "iuf":
        return np.asarray(column, dtype=np.float64)
    unknown = column.map(_unknown).to_numpy(dtype=bool)
    stamps = pd.to_datetime(column.astype(str).where(~unknown), format="ISO8601", utc=True, errors="coerce")
    bad = np.flatnonzero(stamps.isna() & ~unknown)
    if len(bad):
        raise InputError(
            f"{role} row {bad[0]}: time {column.iloc[bad[0]]!r} is neither seconds nor ISO 8601; "
            "write it as 2017-05-03T12:30:00"
        )
    return np.asarray((stamps - pd.Timestamp(0, tz="UTC")).dt.total_seconds(), dtype=np.float64)


def _unknown(time: Any) -> bool:
    return bool(pd.isna(time)) or str(time).strip() in ("", "nan", "NaN", "NaT", "None")


def months_apart(queries: ArrayLike, places: ArrayLike, at_least: int = 1) -> Exclusion:
    """What was taken less than `at_least` calendar months before or after the query: with 1, in the same month.

    Months: "YYYY-MM"; what follows in longer ISO text is not looked at, so 2014-12-31 and 2015-01-01 are a month
    apart. An image of unknown month (empty, NaN or None) is never excluded, and as a query excludes nothing.
    """
    if at_least < 0:
        raise InputError(f"at_least = {at_least} months: give 0 or more")
    a, b = _months(queries, "query"), _months(places, "map")

    def out(q: slice, m: slice) -> NDArray[np.bool_]:
        gap: NDArray[np.float64] = np.abs(a[q, None] - b[None, m])
        too_near: NDArray[np.bool_] = gap < at_least  # never so of NaN, an unknown month
        return too_near

    return out


def _months(times: ArrayLike, role: str) -> NDArray[np.float64]:
    """Months since the year 0; NaN where unknown."""
    return np.array([_month(time, row, role) for row, time in enumerate(np.asarray(times, dtype=object))])


def _month(time: Any, row: int, role: str) -> float:
    if _unknown(time):
        return float("nan")
    match = _MONTH.match(str(time).strip())
    if match is None or not 1 <= int(match[2]) <= 12:
        raise InputError(f"{role} row {row}: time {time!r} is not a month; write it as 2014-12")
    return 12.0 * int(match[1]) + int(match[2]) - 1


def panoramas(mask: ArrayLike) -> Exclusion:
    """Map images that are out for every query. mask: (m,) True for a panorama."""
    out = np.asarray(mask)
    if out.ndim != 1 or out.dtype != np.bool_:
        raise InputError(
            f"the mask of panoramas is {out.dtype} {out.shape}; expected one True or False per map row"
        )

    def block(q: slice, m: slice) -> NDArray[np.bool_]:
        columns = out[m]
        return np.broadcast_to(columns, (q.stop - q.start, len(columns)))

    return block


def pairs(indptr: ArrayLike, rows: ArrayLike, shape: tuple[int, int]) -> Exclusion:
    """Given pairs: for query i the map rows `rows[indptr[i]:indptr[i + 1]]`. shape: queries, map images.

    With the true matches of a query as its list, it is as if the query were not in the map.
    """
    starts, columns = (np.asarray(array, dtype=np.int64) for array in (indptr, rows))
    if (
        starts.shape != (shape[0] + 1,)
        or starts[0] != 0
        or starts[-1] != len(columns)
        or (np.diff(starts) < 0).any()
    ):
        raise InputError(
            f"excluded pairs: indptr must rise from 0 to {len(columns)} in {shape[0] + 1} steps, one more than queries"
        )
    if len(columns) and not (columns.min() >= 0 and columns.max() < shape[1]):
        raise InputError(
            f"excluded pairs: map rows {columns.min()} to {columns.max()} are not all in a map of {shape[1]} images"
        )

    def out(q: slice, m: slice) -> NDArray[np.bool_]:
        bounds = starts[q.start : q.stop + 1]
        owner = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        listed = columns[bounds[0] : bounds[-1]]
        inside = (listed >= m.start) & (listed < m.stop)
        block = np.zeros((len(bounds) - 1, min(m.stop, shape[1]) - m.start), dtype=np.bool_)
        block[owner[inside], listed[inside] - m.start] = True
        return block

    return out
