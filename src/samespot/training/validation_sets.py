"""What a run is validated on: queries, a map, and what counts as found in it; of presets, sets held out. No torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.overlap.rules import Within
from samespot.overlap.task import LabelTask, preset_named
from samespot.places.table import Places

KS = (1, 5, 10)


@dataclass(frozen=True)
class Validation:
    """Queries, the map to find them in, and for each query the rows of the map that count as found."""

    queries: Places
    places: Places
    positives: Sequence[NDArray[np.integer[Any]]]
    ks: tuple[int, ...] = KS

    def __post_init__(self) -> None:
        if len(self.positives) != len(self.queries):
            raise InputError(
                f"{len(self.positives)} lists of positives for {len(self.queries)} validation queries"
            )
        if not any(len(rows) for rows in self.positives):
            raise InputError("no validation query has a positive in the map; widen the distance or the angle")
        if not self.ks or min(self.ks) < 1 or max(self.ks) > len(self.places):
            raise InputError(f"recall at {list(self.ks)} needs 1 <= k <= {len(self.places)} map images")

    @classmethod
    def within(
        cls,
        queries: Places,
        places: Places,
        metres: float = 25.0,
        degrees: float | None = None,
        ks: tuple[int, ...] = KS,
    ) -> Validation:
        """Found is what lies within a distance and, if given, an angle."""
        labels = Within(metres, degrees).label(queries, places)
        ks = tuple(k for k in ks if k <= len(places)) or (1,)
        return cls(queries, places, [np.array(labels.row(i)[0]) for i in range(len(queries))], ks)

    def digest(self) -> str:
        """Short name of what is looked for, where, and what counts as found."""
        h = hashlib.sha256(f"{self.queries.digest()} {self.places.digest()} {self.ks}".encode())
        for rows in self.positives:
            h.update(np.asarray(rows, dtype=np.int64).tobytes() + b";")
        return h.hexdigest()[:16]

    def facts(self) -> dict[str, Any]:
        """As a run's config.json holds it."""
        return {"queries": len(self.queries), "places": len(self.places), "digest": self.digest()}


def preset_validation(preset: str, tasks: list[LabelTask]) -> Validation | None:
    """The held-out sets of a preset as one map; None where it has none, or its record does not say what is found.

    Metres of one city mean nothing in another, so truth is made set by set. Panoramas are left out where the preset
    does not learn from them, and what the reader's `may_match` says no to is not found.
    """
    known = preset_named(preset)
    if not tasks or known.found is None:
        return None
    may_match = getattr(known.reader, "may_match", None)
    tables: list[tuple[Places, Places]] = []
    positives: list[NDArray[Any]] = []
    offset = 0
    for task in tasks:
        queries, places = (
            table if known.training.get("panoramas", True) else table.select(~table.panoramas)
            for table in (task.queries, task.places)
        )
        near = Validation.within(queries, places, *known.found).positives
        if may_match is not None:
            near = [rows[may_match(queries, places, i, rows)] for i, rows in enumerate(near)]
        positives += [rows + offset for rows in near]
        offset += len(places)
        tables.append((queries, places))
    queries, places = (_joined([pair[side] for pair in tables]) for side in (0, 1))
    return Validation(queries, places, positives, tuple(k for k in KS if k <= len(places)))


def _joined(tables: list[Places]) -> Places:
    if len(tables) == 1:
        return tables[0]
    rows = pd.concat([t.table for t in tables], ignore_index=True)
    return Places(tables[0].root, rows, None, {}, tuple(dict.fromkeys(n for t in tables for n in t.notes)))
