"""RobotCar Seasons and CMU Seasons: the pose of the best match is the estimate, and must lie near the true one.

Most true poses are secret. What is public can be scored here (`known_poses`); for the rest, the estimates go to the
benchmark's server in a file of `evaluation/submission.py`, under `server_names`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.protocol import POSE_LIMITS, Protocol
from samespot.options import check_choice
from samespot.places import cmu_seasons, robotcar
from samespot.places.table import Places
from samespot.places.wording import first_few

CAMERAS = ("left", "rear", "right")  # folders of RobotCar, which its server wants before the file name
NIGHT = ("night", "night-rain")  # the other conditions are "day-all"
Floats = NDArray[np.float64]


def pose_estimates(case: Case, rows_of_best: ArrayLike) -> tuple[Floats, Floats]:
    """The best matches' poses: (n, 3) centres [m] and (n, 4) camera-to-world quaternions.

    rows_of_best: (n,) map rows; where one is -1 nothing was found, and the estimate is NaN.
    """
    rows = np.asarray(rows_of_best, dtype=np.int64)
    found = (rows >= 0)[:, None]
    centres, quaternions = case.places.centres[rows], case.places.quaternions[rows]
    return np.where(found, centres, np.nan), np.where(found, quaternions, np.nan)


def known_poses(case: Case) -> NDArray[np.bool_]:
    """(q,) which queries have a public pose, and so can be scored here."""
    if not case.queries.has_pose:
        return np.zeros(len(case.queries), dtype=bool)
    known = np.isfinite(case.queries.centres).all(axis=1) & np.isfinite(case.queries.quaternions).all(axis=1)
    return np.asarray(known, dtype=bool)


def server_names(case: Case) -> list[str]:
    """The queries as the benchmark's server calls them: the file name, for RobotCar with its camera before it."""
    paths = [PurePosixPath(name) for name in case.query_names]
    return [f"{p.parent.name}/{p.name}" if p.parent.name in CAMERAS else p.name for p in paths]


def _robotcar(root: Path, *, split: str, cameras: str) -> list[Case]:
    check_choice("split", split, ("test", "train"))
    check_choice("cameras", cameras, ("all", *CAMERAS))
    queries, places = robotcar.read(root, split), robotcar.read(root, "reference")
    # the server scores rear images alone: the poses of the three cameras follow from each other
    queries = queries.select(queries.table["camera"] == "rear")
    if cameras != "all":
        places = places.select(places.table["camera"] == cameras)
    if not (len(queries) and len(places)):
        lacking = (
            f"queries of the rear camera in {split}" if not len(queries) else f"{cameras} reference images"
        )
        raise InputError(f"{root}: no {lacking}; see `samespot datasets --layout robotcar`")
    condition = queries.table["condition"].to_numpy(dtype=np.str_)
    light = np.where(np.isin(condition, NIGHT), "night-all", "day-all")
    return [
        Case(split, queries, places, groups={"light": light, "condition": condition}, notes=queries.notes)
    ]


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


_SATTLER = (
    "T. Sattler et al., Benchmarking 6DOF Outdoor Visual Localization in Changing Conditions, CVPR 2018;"
    " visuallocalization.net"
)
_POSITIVE = "the pose of the best match lies within .25 m and 2°, .5 m and 5°, 5 m and 10° of the query's"
_NO_RECALL = "R@k is not defined here: only the best match counts, and it has a pose, not a list of positives"
_CMU_SEARCH = (
    "search=slice looks in the query's own slice, as hloc does and as the benchmark's models are divided;"
    " search=all in every slice at once, as the code of the graded-similarity paper does"
)

PROTOCOLS = (
    Protocol(
        name="robotcar-seasons-v2",
        title="RobotCar Seasons v2",
        data_set="robotcar",
        queries="rear images of robotcar_v2_test.txt (1,872; poses secret), or with split=train of"
        " robotcar_v2_train.txt (1,906; poses public)",
        positive=_POSITIVE,
        exclusions="none; the map is the reference drive, by default all three cameras (about 21k images)",
        citation=f"{_SATTLER}; W. Maddern et al., 1 Year, 1000 km: The Oxford RobotCar Dataset, IJRR 2017",
        make=_robotcar,
        ks=(1,),
        truth="pose",
        limits=POSE_LIMITS,
        options={"split": "test", "cameras": "all"},
        notes=(
            _NO_RECALL,
            "one search over the whole reference drive, as the graded-similarity paper (21k map images are all three"
            " cameras) and Patch-NetVLAD do; hloc's listed result searched by location and camera (cameras=rear is"
            " half of that)",
            "day-all and night-all pool the images of all day and all night conditions, as the server does",
        ),
    ),
    Protocol(
        name="cmu-seasons-extended",
        title="Extended CMU Seasons",
        data_set="cmu-seasons",
        queries="of each slice those whose pose is secret (split=test, slices 2-6 and 13-21 of the release), public"
        " (split=train), or all",
        positive=_POSITIVE,
        exclusions="none; the map is the reference drive of the query's slice (search=slice) or of all (search=all)",
        citation=f"{_SATTLER}; H. Badino et al., Visual Topometric Localization, IV 2011",
        make=partial(_cmu, release="extended"),
        ks=(1,),
        truth="pose",
        limits=POSE_LIMITS,
        options={"split": "test", "slices": "all", "search": "slice"},
        notes=(_NO_RECALL, _CMU_SEARCH, "reported by area: urban, suburban, park"),
    ),
    Protocol(
        name="cmu-seasons",
        title="CMU Seasons",
        data_set="cmu-seasons",
        queries="all query images of each slice; their poses are secret",
        positive=_POSITIVE,
        exclusions="none; the map is the reference drive of the query's slice (search=slice) or of all (search=all)",
        citation=f"{_SATTLER}; H. Badino et al., Visual Topometric Localization, IV 2011",
        make=partial(_cmu, release="first"),
        ks=(1,),
        truth="pose",
        limits=POSE_LIMITS,
        options={"slices": "all", "search": "slice"},
        notes=(_NO_RECALL, _CMU_SEARCH, "reported by area: urban, suburban, park"),
    ),
)
