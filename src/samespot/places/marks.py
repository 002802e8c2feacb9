"""Marks of photos: a few kilobytes by which a later table is recognised to hold photos of an earlier one.

A mark is a number drawn from the name of a photo's file and where it was taken. Of many photos the smallest marks are
kept: whatever part of them a later table holds, about that part of its small marks is among them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.places.table import Places

KEPT = 1024
BYTES = 5  # of a mark: two tables of a million photos are not mistaken for one another


def photo_facts(tables: Sequence[Places]) -> dict[str, Any]:
    """What is to be remembered about some photos: digests of their tables, how many they are, the smallest marks."""
    every = np.unique(np.concatenate([np.zeros(0, np.uint64), *(_marks(table) for table in tables)]))
    small = np.ascontiguousarray(every[:KEPT].astype(">u8")).view(np.uint8).reshape(-1, 8)[:, -BYTES:]
    return {
        "digests": sorted({table.digest() for table in tables}),
        "photos": len(every),
        "marks": base64.b64encode(small.tobytes()).decode(),
    }


def photos_in_common(table: Places, facts: Mapping[str, Any]) -> tuple[int, bool]:
    """How many photos of a table are among those that the facts are of, and whether that is exact or an estimate."""
    if table.digest() in facts.get("digests", ()):
        return len(table), True
    marks, photos = _unpacked(facts.get("marks", "")), int(facts.get("photos", 0))
    if not len(marks):
        return 0, False
    mine = _marks(table)
    exact = photos <= len(marks)
    small = mine if exact else mine[mine <= marks[-1]]
    shared = int(np.isin(small, marks).sum())
    return (shared, True) if exact else (round(len(mine) * shared / max(len(small), 1)), False)


def _marks(table: Places) -> NDArray[np.uint64]:
    """(n,) of each photo: alike for the same file in whichever folder, at the same place to the centimetre."""
    files = table.table["image"].astype(str).str.rsplit("/", n=1).str[-1]
    at = np.round(table.positions[:, :2], 2) + 0.0
    words = files + " " + pd.Series(at[:, 0]).astype(str) + " " + pd.Series(at[:, 1]).astype(str)
    hashed: NDArray[np.uint64] = pd.util.hash_array(words.to_numpy(dtype=object), categorize=False)
    return hashed >> np.uint64(64 - 8 * BYTES)


def _unpacked(marks: str) -> NDArray[np.uint64]:
    """Ascending; none where the text is not ours."""
    try:
        packed = np.frombuffer(base64.b64decode(marks, validate=True), dtype=np.uint8).reshape(-1, BYTES)
    except (ValueError, TypeError):
        return np.zeros(0, np.uint64)
    whole = np.zeros((len(packed), 8), dtype=np.uint8)
    whole[:, -BYTES:] = packed
    return whole.view(">u8").ravel().astype(np.uint64)
