"""campus-east: phone photos of a part of a campus that training never saw."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from samespot.evaluation.cases import Case
from samespot.evaluation.positives import graded_truth, rows_only, rows_within
from samespot.evaluation.protocol import Protocol
from samespot.overlap.rules import Sectors
from samespot.overlap.task import preset_named, preset_tasks
from samespot.places import campus


def campus_east(root: Path) -> list[Case]:
    """The photos of split `query` in the map of split `map`."""
    known = preset_named("campus")
    assert known.found is not None
    (task,) = (task for task in preset_tasks("campus", root) if task.name == "east")
    near = rows_within(task.queries, task.places, *known.found)
    positives = rows_only(near, partial(campus.may_match, task.queries, task.places))
    assert isinstance(task.rule, Sectors)
    rule, notes = graded_truth(task.name, task.queries, task.places, task.rule)
    reach = task.rule.reach
    return [Case(task.name, task.queries, task.places, positives, rule, reach=reach, notes=notes)]


PROTOCOLS = (
    Protocol(
        "campus-east",
        "Campus, east",
        "campus",
        queries="photos of split query that have a positive; 523 of 524 do",
        positive="a map photo within 15 m and 30° that was taken in another minute",
        exclusions="nothing; photos of the query's own minute stay in the map and count as wrong",
        citation="photos of the public IIIT-H location challenge; split and rule are samespot's",
        make=campus_east,
        notes=("Graded truth: field-of-view overlap, θ = 90°, r = 30 m.",),
    ),
)
