"""TB-Places: a garden that is seen again a year later, or from paths that the map does not cover."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.positives import rows_of
from samespot.evaluation.protocol import AUTHORS_KS, Protocol
from samespot.overlap.classes import POSITIVE
from samespot.overlap.rules import Sectors
from samespot.places import tb_places
from samespot.places.catalogue import data_set, pose_frame
from samespot.places.table import Places
from samespot.places.wording import first_few

VIEW = Sectors(**(data_set("tb-places").labels or {}))
MAP_LIST, QUERY_LIST = "W18_map.json", "W18_query.json"  # as the authors' README calls their index files


def _w17_w18(root: Path, *, forward: str) -> list[Case]:
    return [_case("W18 in W17", _read(root, "W18", forward), _read(root, "W17", forward))]


def _w18(root: Path, *, forward: str, map_sequences: str | Iterable[str] | None) -> list[Case]:
    garden = _read(root, "W18", forward)
    if map_sequences is not None:
        in_map, said = _of_sequences(garden, map_sequences), "W18 divided by the option map_sequences"
        queried = ~in_map
    else:
        in_map, queried = _by_lists(root, garden)
        said = f"W18 divided by {MAP_LIST}"
    if not in_map.any() or not queried.any():
        raise InputError(
            f"{root}: W18 leaves no {'queries' if in_map.any() else 'map'} when divided like this"
        )
    return [_case("W18", garden.select(queried), garden.select(in_map), said)]


def _read(root: Path, part: str, forward: str) -> Places:
    return tb_places.read(root, part, frame=pose_frame(forward, "z", "y"))


def _case(name: str, queries: Places, places: Places, *notes: str) -> Case:
    labels = VIEW.label(queries, places)
    return Case(
        name, queries, places, rows_of(labels, POSITIVE), VIEW, labels=lambda progress: labels, notes=notes
    )


def _of_sequences(garden: Places, wanted: str | Iterable[str]) -> NDArray[np.bool_]:
    """Which images are of the named recordings: the folders that they lie in."""
    names = [word.strip() for word in wanted.split(",")] if isinstance(wanted, str) else list(wanted)
    sequence = garden.table["sequence"].astype(str)
    unknown = [name for name in names if name not in set(sequence)]
    if unknown:
        raise InputError(f"{garden.root}: W18 has no sequence {unknown[0]!r}; it has {_sequences(garden)}")
    return sequence.isin(names).to_numpy(dtype=bool)


def _sequences(garden: Places) -> str:
    counts = garden.table["sequence"].astype(str).value_counts(sort=False)
    return first_few([f"{name} ({count} images)" for name, count in counts.items()], 12)


def _by_lists(root: Path, garden: Places) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Map and queries by the authors' index files; without a list of queries they are the rest."""
    map_list, query_list = (_list_file(root, name) for name in (MAP_LIST, QUERY_LIST))
    if map_list is None:
        raise InputError(
            f"{root}: which images of W18 are the map is in {MAP_LIST} (and {QUERY_LIST}), with the authors' labels at"
            " doi.org/10.34894/W4LIGP; put them beside W18.json, or divide it yourself with map_sequences="
            f" of these: {_sequences(garden)}"
        )
    in_map = _listed(map_list, garden)
    if query_list is None:
        return in_map, ~in_map
    queried = _listed(query_list, garden)
    both = np.flatnonzero(in_map & queried)
    if len(both):
        raise InputError(
            f"{query_list}: {garden.table['image'].iloc[both[0]]} is also in {map_list.name}; keep it in one"
        )
    return in_map, queried


def _list_file(root: Path, name: str) -> Path | None:
    return next((path for path in (root / name, root / "W18" / name) if path.is_file()), None)


def _listed(path: Path, garden: Places) -> NDArray[np.bool_]:
    """Which images of the table a list names. The two may begin at different folders, but must end alike."""
    rows = {image: row for row, image in enumerate(garden.table["image"])}
    ends: dict[str, int] = {}  # end of a path -> row, -1 where several images end so
    for image, row in rows.items():
        for end in _ends(image):
            ends[end] = row if end not in ends else -1
    chosen = np.zeros(len(garden), dtype=bool)
    for number, name in enumerate(_names(path)):
        row = rows.get(name, ends.get(name, -1))
        if row < 0:
            row = next((rows[end] for end in _ends(name) if end in rows), -1)
        if row < 0:
            raise InputError(f"{path}: im_paths[{number}] {name!r} is not (or not just once) in W18.json")
        chosen[row] = True
    return chosen


def _names(path: Path) -> list[str]:
    try:
        index: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not valid json ({error}); fetch it again") from error
    names = index.get("im_paths") if isinstance(index, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{path}: no list im_paths in it, as W18.json has one; fetch it again")
    return [name.removeprefix("./").lstrip("/") for name in names]


def _ends(image: str) -> list[str]:
    """a/b/c.png, b/c.png, c.png."""
    words = PurePosixPath(image).parts
    return ["/".join(words[start:]) for start in range(len(words))]


_PROTOCOL = partial(
    Protocol,
    data_set="tb-places",
    positive="fields of view (sectors of 90°, 3.5 m) overlap by at least half",
    citation="M. Leyva-Vallina et al., TB-Places: A Data Set for Visual Place Recognition in Garden Environments,"
    " IEEE Access 2019",
    ks=AUTHORS_KS,
)
_FRAME_NOTE = "that cameras look along their z axis is our reading of the poses; forward=x says otherwise"

PROTOCOLS = (
    _PROTOCOL(
        name="tb-places-w17-w18",
        title="TB-Places, W18 in the map of W17",
        queries="all 23k images of W18 that have a positive in W17 (11k images, the training set)",
        exclusions="none",
        make=_w17_w18,
        options={"forward": "z"},
        notes=(_FRAME_NOTE, "the map is the set that models were trained on"),
    ),
    _PROTOCOL(
        name="tb-places-w18",
        title="TB-Places, W18 divided into map and queries",
        queries=f"images of W18 outside the map that have a positive in it (in the paper 17k against 6k); the map is"
        f" listed in {MAP_LIST}, or the recordings named by map_sequences",
        exclusions="none; no image is in both",
        make=_w18,
        options={"forward": "z", "map_sequences": None},
        defaults={"map_sequences": f"those listed in {MAP_LIST}"},
        notes=(
            _FRAME_NOTE,
            "the paper draws its division but gives no rule: only numbers made with the authors' lists are comparable",
        ),
    ),
)
