"""The built-in town, by its exact poses: the graded truth is what two photos really share, measured on their depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case, Rows
from samespot.evaluation.positives import rows_within
from samespot.evaluation.protocol import Protocol
from samespot.overlap.labels import PairLabels, tables_meta
from samespot.overlap.rules import Rule, label_within
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
    if not {"query", "map"} <= set(photos.table["split"]):
        raise InputError(f"{root}: a town of one visit has no queries; build it with `visits=2` or more")
    queries, places = photos.of_split("query"), photos.of_split("map")
    assert REACH == 2 * DEPTH_REACH
    return [
        Case(
            "town",
            queries,
            places,
            rows_within(queries, places, METRES, DEGREES),
            SharedView(),
            groups={"condition": queries.table["condition"].to_numpy(dtype=np.str_)},
            reach=REACH,
        )
    ]


class SharedView(Rule):
    """The share of the view that two photos of a town really have in common, measured on their depth images."""

    KIND = "true visual overlap"

    def __init__(self) -> None:
        self._kept: tuple[tuple[str, str], Any] | None = None

    def label(
        self,
        queries: Places,
        places: Places,
        *,
        out: str | Path | None = None,
        progress: Progress | None = None,
    ) -> PairLabels:
        """Of every pair that is near enough to share anything."""
        near = label_within(queries, places, REACH)
        rows = np.repeat(np.arange(len(queries)), np.diff(near.indptr))
        pairs = np.stack([rows, near.columns.astype(np.int64)], axis=1)
        shared = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(pairs), AT_ONCE):
            part = slice(start, min(start + AT_ONCE, len(pairs)))
            shared[part] = self.of_pairs(queries, places, pairs[part])
            if progress is not None:
                progress("measuring shared views", part.stop, len(pairs))
        kept = shared > 0
        counts = np.bincount(rows[kept], minlength=len(queries))
        block = counts, near.columns[kept], shared[kept]
        meta = {**self.to_dict(), **tables_meta(queries, places)}
        return PairLabels.from_blocks(iter([block]), near.shape, meta, out)

    def of_pairs(self, queries: Places, places: Places, pairs: Rows) -> NDArray[np.float64]:
        """Asked for descriptor after descriptor, so the depth images of the last two tables are kept."""
        from samespot.town.overlap import Views, true_overlap

        tables = queries.digest(), places.digest()
        same = tables[0] == tables[1]
        if self._kept is None or self._kept[0] != tables:
            self._kept = tables, Views.read(queries if same else _stacked(queries, places))
        return true_overlap(self._kept[1], pairs if same else pairs + np.array([0, len(queries)]))

    def unknown(self, table: Places) -> dict[str, NDArray[np.bool_]]:
        if "depth" not in table.table:
            return {"depth image": np.ones(len(table), dtype=bool)}
        lacking = table.table["depth"].isna().to_numpy(dtype=bool)
        return {"depth image": lacking} if lacking.any() else {}

    def words(self) -> str:
        return "the share of the view in common, measured on depth images"

    def to_dict(self) -> dict[str, Any]:
        return {"measure": "shared view", "kind": self.KIND}


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
