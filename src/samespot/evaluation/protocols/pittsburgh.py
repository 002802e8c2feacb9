"""Pittsburgh30k and 250k: photos looked up in street-view panoramas."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from samespot.evaluation.cases import Case
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.street_view import IN_REACH, KS, SPLITS, WITH_POSITIVE, street_case
from samespot.places import pittsburgh


def pittsburgh_test(root: Path, *, listing: str) -> list[Case]:
    """The queries and the map of a .mat file, or of the folders images/test/… of images named with @."""
    there = pittsburgh.parts(root)
    sides = (f"{listing}/query", f"{listing}/database")
    if sides[0] not in there and "images/test/queries" in there:
        sides = ("images/test/queries", "images/test/database")
    queries, places = (pittsburgh.read(root, side) for side in sides)
    return [street_case(listing, queries, places)]


PROTOCOLS = tuple(
    Protocol(
        f"pitts{size}-test",
        f"Pittsburgh{size}, test",
        "pittsburgh",
        queries=WITH_POSITIVE,
        positive=IN_REACH,
        exclusions="nothing",
        citation=f"Torii et al., Visual Place Recognition with Repetitive Structures, CVPR 2013; {SPLITS}",
        make=partial(pittsburgh_test, listing=f"pitts{size}_test"),
        ks=KS,
    )
    for size in ("30k", "250k")
)
