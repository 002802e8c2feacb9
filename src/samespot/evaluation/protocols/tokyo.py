"""Tokyo 24/7 and Tokyo Time Machine: photos looked up in street-view panoramas."""

from __future__ import annotations

from pathlib import Path

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.positives import rows_allowed, rows_within
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.street_view import (
    IN_REACH,
    KS,
    METRES,
    NO_OVERLAP,
    REACH,
    SPLITS,
    WITH_POSITIVE,
    street_case,
)
from samespot.places import tokyo
from samespot.places.table import Places
from samespot.retrieval import exclusion


def tokyo_247(root: Path) -> list[Case]:
    """Phone photos by day, at sunset and at night."""
    queries, places = (tokyo.read(root, f"tokyo247/{side}") for side in ("query", "database"))
    condition = queries.table["condition"].to_numpy(dtype=str)
    return [street_case("tokyo247", queries, places, groups={"condition": condition})]


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
            f"{root}: tokyoTM_val.mat has no time stamps, by which months are told apart; fetch it again"
        )
    return [str(month) for month in table.table["time"]]


PROTOCOLS = (
    Protocol(
        "tokyo247",
        "Tokyo 24/7",
        "tokyo",
        queries=WITH_POSITIVE,
        positive=IN_REACH,
        exclusions="nothing",
        citation=f"Torii et al., 24/7 Place Recognition by View Synthesis, CVPR 2015; {SPLITS}",
        make=tokyo_247,
        ks=KS,
        notes=("All views of a panorama stay in the ranking: there is no spatial non-maximum suppression.",),
    ),
    Protocol(
        "tokyotm-val",
        "Tokyo Time Machine, validation",
        "tokyo",
        queries=WITH_POSITIVE,
        positive="a map image at most 25 m away and of another month than the query",
        exclusions="map images of the query's own month",
        citation=(
            "Arandjelović et al., NetVLAD, CVPR 2016; the month rule as in Leyva-Vallina et al., Data-Efficient"
            " Large Scale Place Recognition With Graded Similarity Supervision, CVPR 2023"
        ),
        make=tokyo_tm_val,
        ks=KS,
        notes=(
            "A query whose only positives are of its own month does not count; the code of the CVPR 2023 paper"
            " bars those images from the ranking and takes its truth from a file.",
        ),
    ),
)
