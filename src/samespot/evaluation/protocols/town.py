"""The built-in town, by its exact poses: the graded truth is what two photos really share, measured on their depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.positives import rows_within
from samespot.evaluation.protocol import Protocol
from samespot.overlap.labels import PairLabels, tables_meta
from samespot.overlap.rules import label_within
from samespot.places.table import Places
from samespot.progress import Progress

METRES, DEGREES = 10.0, 40.0
REACH = 130.0  # [m] depth reaches 65 m, so photos farther apart share nothing
AT_ONCE = 200_000  # pairs measured between two words of progress


def town_case(root: Path) -> list[Case]:
    """Queries and map of the test quarter."""
    from samespot.town.build import REACH as DEPTH_REACH
    from samespot.town.truth import exact_places, read_description

    read_description(root)  # says what to do where there is no town
    photos = exact_places(Places.read(root / "places.csv"))
    split = photos.table["split"].to_numpy(dtype=str)
    queries, places = (photos.select(split == name) for name in ("query", "map"))
    if not len(queries) or not len(places):
        raise InputError(f"{root}: a town of one visit has no queries; build it with --visits 2 or more")
    assert REACH == 2 * DEPTH_REACH
    measured: list[PairLabels] = []

    def overlap(progress: Progress | None) -> PairLabels:
        if not measured:  # several models may be evaluated on one case
            measured.append(shared_view(queries, places, progress))
        return measured[0]

    return [
        Case(
            "town",
            queries,
            places,
            rows_within(queries, places, METRES, DEGREES),
            overlap=overlap,
            pair_overlap=_SharedViews(),
            groups={"condition": queries.table["condition"].to_numpy(dtype=np.str_)},
            reach=REACH,
        )
    ]


class _SharedViews:
    """The same for pairs of rows of another table, asked for descriptor after descriptor: its depth is read once."""

    def __init__(self) -> None:
        self._kept: tuple[str, Any] | None = None

    def __call__(self, places: Places, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
        from samespot.town.overlap import Views, true_overlap

        digest = places.digest()
        if self._kept is None or self._kept[0] != digest:
            self._kept = digest, Views.read(places)
        return true_overlap(self._kept[1], pairs)


def shared_view(queries: Places, places: Places, progress: Progress | None = None) -> PairLabels:
    """True visual overlap of every pair that is near enough to share anything; photos need their depth."""
    from samespot.town.overlap import Views, true_overlap

    near = label_within(queries, places, REACH)
    rows = np.repeat(np.arange(len(queries)), np.diff(near.indptr))
    pairs = np.stack([rows, len(queries) + near.columns.astype(np.int64)], axis=1)
    views = Views.read(_stacked(queries, places))
    shared = np.empty(len(pairs), dtype=np.float32)
    for start in range(0, len(pairs), AT_ONCE):
        part = slice(start, min(start + AT_ONCE, len(pairs)))
        shared[part] = true_overlap(views, pairs[part])
        if progress is not None:
            progress("measuring shared views", part.stop, len(pairs))
    kept = shared > 0
    counts = np.bincount(rows[kept], minlength=len(queries))
    meta = {"measure": "shared view", "kind": "true visual overlap", **tables_meta(queries, places)}
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return PairLabels(indptr, near.columns[kept], shared[kept], near.shape, meta)


def _stacked(queries: Places, places: Places) -> Places:
    import pandas as pd

    return Places(queries.root, pd.concat([queries.table, places.table], ignore_index=True))


PROTOCOLS = (
    Protocol(
        "town",
        "The built-in town, test quarter",
        "town",
        queries="photos of the later visits that have a positive",
        positive=f"a map photo within {METRES:g} m and {DEGREES:g}° by the exact poses",
        exclusions="nothing; map and queries are of different visits",
        citation="samespot",
        make=town_case,
        notes=("Graded truth: the share of the view that is really common, by reprojected depth.",),
    ),
)
