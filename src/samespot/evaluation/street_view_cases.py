"""Pittsburgh and Tokyo: photos looked up in street-view panoramas, by the 25 m rule of NetVLAD's splits."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.positives import rows_allowed, rows_within
from samespot.evaluation.protocol import Protocol
from samespot.places import pittsburgh, tokyo
from samespot.places.table import Places
from samespot.retrieval import exclusion

METRES = 25.0
REACH = 100.0  # [m] two photos farther apart are taken to share nothing
# queries and map images of the published test sets
PUBLISHED = {
    "pitts30k_test": (6_816, 10_000),
    "pitts250k_test": (8_280, 83_952),
    "tokyo247": (315, 75_984),
}
NO_OVERLAP = "headings are not known, so there is no graded truth"


def pittsburgh_test(root: Path, *, listing: str) -> list[Case]:
    """The queries and the map of a .mat file, or of the folders images/test/… of images named with @."""
    there = pittsburgh.parts(root)
    sides = (f"{listing}/query", f"{listing}/database")
    if sides[0] not in there and "images/test/queries" in there:
        sides = ("images/test/queries", "images/test/database")
    queries, places = (pittsburgh.read(root, side) for side in sides)
    return [_street_case(listing, queries, places)]


def tokyo_247(root: Path) -> list[Case]:
    """Phone photos by day, at sunset and at night."""
    queries, places = (tokyo.read(root, f"tokyo247/{side}") for side in ("query", "database"))
    condition = queries.table["condition"].to_numpy(dtype=str)
    return [_street_case("tokyo247", queries, places, groups={"condition": condition})]


def tokyo_tm_val(root: Path) -> list[Case]:
    """Panoramas of one place at many times: the query's own month is neither retrieved nor a positive."""
    queries, places = (tokyo.read(root, f"tokyoTM_val/{side}") for side in ("query", "database"))
    excluded = exclusion.months_apart(_months(queries, root), _months(places, root), at_least=1)
    positives = rows_allowed(rows_within(queries, places, METRES), excluded)
    return [
        Case("tokyoTM_val", queries, places, positives, excluded=excluded, reach=REACH, notes=(NO_OVERLAP,))
    ]


def _months(table: Places, root: Path) -> list[str]:
    if "time" not in table.table:
        raise InputError(
            f"{root}: tokyoTM_val.mat has no time stamps, by which months are told apart; fetch it anew"
        )
    return [str(month) for month in table.table["time"]]


def _street_case(name: str, queries: Places, places: Places, **more: Any) -> Case:
    published, here = PUBLISHED[name], (len(queries), len(places))
    notes: tuple[str, ...] = (NO_OVERLAP,)
    if here != published:
        counts = "{:,} queries and {:,} map images"
        notes += (f"{counts.format(*here)}, where the published set has {counts.format(*published)}",)
    return Case(name, queries, places, rows_within(queries, places, METRES), reach=REACH, notes=notes, **more)


_SPLITS = "splits of Arandjelović et al., NetVLAD, CVPR 2016"
_WITH_POSITIVE = "every query with a positive in the map"
_IN_REACH = "a map image at most 25 m away; headings do not matter"
_KS = (1, 5, 10, 20)

PROTOCOLS = (
    *(
        Protocol(
            f"pitts{size}-test",
            f"Pittsburgh{size}, test",
            "pittsburgh",
            queries=_WITH_POSITIVE,
            positive=_IN_REACH,
            exclusions="nothing",
            citation=f"Torii et al., Visual Place Recognition with Repetitive Structures, CVPR 2013; {_SPLITS}",
            make=partial(pittsburgh_test, listing=f"pitts{size}_test"),
            ks=_KS,
        )
        for size in ("30k", "250k")
    ),
    Protocol(
        "tokyo247",
        "Tokyo 24/7",
        "tokyo",
        queries=_WITH_POSITIVE,
        positive=_IN_REACH,
        exclusions="nothing",
        citation=f"Torii et al., 24/7 Place Recognition by View Synthesis, CVPR 2015; {_SPLITS}",
        make=tokyo_247,
        ks=_KS,
        notes=("All views of a panorama stay in the ranking: there is no spatial non-maximum suppression.",),
    ),
    Protocol(
        "tokyotm-val",
        "Tokyo Time Machine, validation",
        "tokyo",
        queries=_WITH_POSITIVE,
        positive="a map image at most 25 m away and of another month than the query",
        exclusions="map images of the query's own month",
        citation=(
            "Arandjelović et al., NetVLAD, CVPR 2016; the month rule as in Leyva-Vallina et al., Data-Efficient"
            " Large Scale Place Recognition With Graded Similarity Supervision, CVPR 2023"
        ),
        make=tokyo_tm_val,
        ks=_KS,
        notes=(
            "A query whose only positives are of its own month does not count; the code of the CVPR 2023 paper"
            " bars those images from the ranking and takes its truth from a file.",
        ),
    ),
)
