"""What presets are validated on during training: sets held out of it, and what counts as found in them."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from samespot.overlap.task import LabelTask, Within
from samespot.places import msls
from samespot.places.table import Places
from samespot.training.validation import KS, Validation

# campus-east: found is a photo within 15 m and 30° that was taken in another minute than the query
CAMPUS_EAST = Within(15.0, 30.0)
MSLS_POSITIVE = Within(25.0, None)


def held_out(preset: str, name: str) -> bool:
    """Whether a set of a preset is evaluated on, not trained on."""
    if preset == "msls":
        return msls.official_split(name) != "train"
    return {"campus": name == "east", "7scenes": name.endswith("-test")}.get(preset, False)


def preset_validation(preset: str, tasks: list[LabelTask]) -> Validation | None:
    """The validation of a preset from its held-out sets; None where it has none."""
    rules: dict[str, Callable[[list[LabelTask]], Validation | None]] = {
        "campus": campus_east,
        "msls": msls_val,
    }
    return rules[preset](tasks) if tasks and preset in rules else None


def campus_east(tasks: list[LabelTask]) -> Validation:
    """Queries and map of the campus's east; a photo of the query's own minute is not a finding."""
    (task,) = tasks
    near = Validation.within(task.queries, task.places, CAMPUS_EAST.metres, CAMPUS_EAST.degrees)
    minute, minutes = (table.table["time"].to_numpy(dtype=str) for table in (task.queries, task.places))
    positives = [rows[minutes[rows] != minute[i]] for i, rows in enumerate(near.positives)]
    return Validation(task.queries, task.places, positives)


def msls_val(tasks: list[LabelTask]) -> Validation | None:
    """The validation cities as one map, panoramas left out, distance only, as in the official script."""
    tables: list[tuple[Places, Places]] = []
    positives = []
    offset = 0
    for task in (t for t in tasks if msls.official_split(t.name) == "val"):
        queries, places = (table.select(~table.panoramas) for table in (task.queries, task.places))
        near = Validation.within(queries, places, MSLS_POSITIVE.metres)
        positives += [rows + offset for rows in near.positives]
        offset += len(places)
        tables.append((queries, places))
    if not tables:
        return None
    queries, places = (_joined([pair[side] for pair in tables]) for side in (0, 1))
    return Validation(queries, places, positives, tuple(k for k in KS if k <= len(places)))


def _joined(tables: list[Places]) -> Places:
    rows = pd.concat([t.table for t in tables], ignore_index=True)
    return Places(tables[0].root, rows, None, {}, tuple(dict.fromkeys(n for t in tables for n in t.notes)))
