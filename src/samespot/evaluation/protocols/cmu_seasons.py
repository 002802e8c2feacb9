"""CMU Seasons, the first release and the extended one: localised slice by slice, or in all slices at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.poses import NEAR_ENOUGH, NO_RECALL, POSE_LIMITS, SATTLER
from samespot.evaluation.protocol import Protocol
from samespot.options import check_choice
from samespot.places import cmu_seasons
from samespot.places.table import Places
from samespot.places.wording import first_few


def _cmu(
    root: Path, *, release: str, slices: str | int | Iterable[int], search: str, split: str = "all"
) -> list[Case]:
    check_choice("search", search, ("slice", "all"))
    check_choice("split", split, ("test", "train", "all"))
    _refuse_other_release(root, release)
    chosen = list(_slices(root, slices))
    queries = {k: _of_split(cmu_seasons.read(root, f"slice{k}/query"), split) for k in chosen}
    places = {k: cmu_seasons.read(root, f"slice{k}/database") for k in chosen}
    queries = {k: table for k, table in queries.items() if len(table)}
    if not queries:
        kind = {"test": "a secret", "train": "a public", "all": "any"}[split]
        raise InputError(
            f"{root}: no query with {kind} pose in slices {first_few(chosen, 30)}; try another split"
        )
    if search == "slice":
        return [_cmu_case(f"slice{k}", table, places[k]) for k, table in queries.items()]
    return [_cmu_case("all slices", _stacked(root, queries.values()), _stacked(root, places.values()))]


def _cmu_case(name: str, queries: Places, places: Places) -> Case:
    groups = {column: queries.table[column].to_numpy(dtype=np.str_) for column in ("area", "condition")}
    return Case(name, queries, places, groups=groups, notes=queries.notes)


def _refuse_other_release(root: Path, release: str) -> None:
    """The two releases share slices but not their lists, and a number must name the right one."""
    layouts = {"first": root / "images", "extended": root}
    there = [name for name, folder in layouts.items() if any(folder.glob("slice*/"))]
    if there and release not in there:
        protocol = {"first": "cmu-seasons", "extended": "cmu-seasons-extended"}[there[0]]
        raise InputError(
            f"{root}: this is the {there[0]} release of CMU Seasons; use the protocol {protocol}"
        )


def _slices(root: Path, wanted: str | int | Iterable[int]) -> Iterator[int]:
    """The slices with both a map and queries, of those wanted: "all", "2-6,18" or numbers."""
    parts = Counter(part.split("/")[0] for part in cmu_seasons.parts(root))
    there = [int(name.removeprefix("slice")) for name, count in parts.items() if count == 2]
    if not there:
        raise InputError(
            f"{root}: no slice with both database and queries;"
            " `samespot datasets --layout cmu-seasons` shows what is expected"
        )
    if wanted == "all":
        yield from there
        return
    for k in _numbers(wanted):
        if k not in there:
            raise InputError(
                f"{root}: no slice {k} with database and queries; there are {first_few(there, 30)}"
            )
        yield k


def _numbers(wanted: str | int | Iterable[int]) -> list[int]:
    if isinstance(wanted, int):
        return [wanted]
    if not isinstance(wanted, str):
        return sorted({int(k) for k in wanted})
    numbers: set[int] = set()
    for word in wanted.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", word)
        if not found:
            raise InputError(f"slices {wanted!r}: give all, or numbers and ranges as in 2-6,18")
        numbers.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return sorted(numbers)


def _of_split(queries: Places, split: str) -> Places:
    """`train` are the queries whose pose is public, `test` the others."""
    if split == "all":
        return queries
    public = queries.table["easting"].notna().to_numpy()
    return queries.select(public if split == "train" else ~public)


def _stacked(root: Path, tables: Iterable[Places]) -> Places:
    """Several slices as one table; a query without a pose keeps NaN in its columns."""
    tables = list(tables)
    dropped = sum((Counter(places.dropped) for places in tables), Counter())
    notes = tuple(dict.fromkeys(note for places in tables for note in places.notes))
    table = pd.concat([places.table for places in tables], ignore_index=True)
    return Places(root, table, None, dict(dropped), notes)


_SEARCH = (
    "search=slice looks in the query's own slice, as hloc does and as the benchmark's models are divided;"
    " search=all in every slice at once, as the code of the graded-similarity paper does"
)

PROTOCOLS = (
    Protocol(
        name="cmu-seasons-extended",
        title="Extended CMU Seasons",
        data_set="cmu-seasons",
        queries="of each slice those whose pose is secret (split=test, slices 2-6 and 13-21 of the release), public"
        " (split=train), or all",
        positive=NEAR_ENOUGH,
        exclusions="none; the map is the reference drive of the query's slice (search=slice) or of all (search=all)",
        citation=f"{SATTLER}; H. Badino et al., Visual Topometric Localization, IV 2011",
        make=partial(_cmu, release="extended"),
        ks=(1,),
        truth="pose",
        limits=POSE_LIMITS,
        options={"split": "test", "slices": "all", "search": "slice"},
        notes=(NO_RECALL, _SEARCH, "reported by area: urban, suburban, park"),
    ),
    Protocol(
        name="cmu-seasons",
        title="CMU Seasons",
        data_set="cmu-seasons",
        queries="all query images of each slice; their poses are secret",
        positive=NEAR_ENOUGH,
        exclusions="none; the map is the reference drive of the query's slice (search=slice) or of all (search=all)",
        citation=f"{SATTLER}; H. Badino et al., Visual Topometric Localization, IV 2011",
        make=partial(_cmu, release="first"),
        ks=(1,),
        truth="pose",
        limits=POSE_LIMITS,
        options={"slices": "all", "search": "slice"},
        notes=(NO_RECALL, _SEARCH, "reported by area: urban, suburban, park"),
    ),
)
