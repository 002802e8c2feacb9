"""What Pittsburgh and Tokyo share: photos looked up in street-view panoramas, by the 25 m rule of NetVLAD's splits."""

from __future__ import annotations

from typing import Any

from samespot.evaluation.cases import Case
from samespot.evaluation.positives import rows_within
from samespot.places.table import Places

METRES = 25.0
REACH = 100.0  # [m] two photos farther apart are taken to share nothing
# queries and map images of the published test sets
PUBLISHED = {
    "pitts30k_test": (6_816, 10_000),
    "pitts250k_test": (8_280, 83_952),
    "tokyo247": (315, 75_984),
}
NO_OVERLAP = "headings are not known, so there is no graded truth"
SPLITS = "splits of Arandjelović et al., NetVLAD, CVPR 2016"
WITH_POSITIVE = "every query with a positive in the map"
IN_REACH = "a map image at most 25 m away; headings do not matter"
KS = (1, 5, 10, 20)


def street_case(name: str, queries: Places, places: Places, **more: Any) -> Case:
    published, here = PUBLISHED[name], (len(queries), len(places))
    notes: tuple[str, ...] = (NO_OVERLAP,)
    if here != published:
        counts = "{:,} queries and {:,} map images"
        notes += (f"{counts.format(*here)}, where the published set has {counts.format(*published)}",)
    return Case(name, queries, places, rows_within(queries, places, METRES), reach=REACH, notes=notes, **more)
