"""What presets are validated on during training: sets held out of it, and what counts as found in them."""

from __future__ import annotations

from typing import Any

import pandas as pd
from numpy.typing import NDArray

from samespot.overlap.task import LabelTask, preset_named
from samespot.places.table import Places
from samespot.training.validation import KS, Validation


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
