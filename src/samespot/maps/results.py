"""Answers in a file: json, GeoJSON, GPX, csv, or parquet for as many as there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.files import whole_file, write_whole
from samespot.maps.answer import Answer, Trouble, geojson, gpx, row_of

AT_ONCE = 1_000  # lines of a parquet file that are held in memory
Outcome = Answer | Trouble


def refuse_other_suffix(path: Path) -> None:
    """Raise for a file that no answers are written to."""
    if path.suffix not in (*_WHOLE, *_TABLES):
        raise InputError(f"{path}: answers are written as {', '.join((*_WHOLE, *_TABLES))}")


def refuse_without_degrees(path: Path, projection: str | None) -> None:
    """Raise for a format of degrees where the map knows only metres."""
    if projection is None and path.suffix in (".gpx", ".geojson"):
        raise InputError(
            f"{path}: this map knows only metres, and {path.suffix[1:]} only degrees; write .json, .csv or .parquet, or"
            " index the photos with `projection`"
        )


def write_answers(outcomes: Iterable[Outcome], path: Path, track: bool = False) -> Path:
    """Every answer as it comes. A table also has a line for each photo that could not be read.

    track: the photos are one sequence, so that GPX gets a track of them
    """
    refuse_other_suffix(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in _TABLES:
        with whole_file(path) as partial:
            _TABLES[path.suffix](outcomes, partial)
    else:
        write_whole(path, _WHOLE[path.suffix](list(outcomes), track).encode())
    return path


def _json(outcomes: list[Outcome], track: bool) -> str:
    return json.dumps([one.to_dict() for one in outcomes], indent=1) + "\n"


def _geojson(outcomes: list[Outcome], track: bool) -> str:
    return geojson(one for one in outcomes if isinstance(one, Answer)) + "\n"


def _gpx(outcomes: list[Outcome], track: bool) -> str:
    return gpx((one for one in outcomes if isinstance(one, Answer)), track)


def _parquet(outcomes: Iterable[Outcome], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), int: pa.int32()}
    schema = pa.schema([(name, types[type(value)]) for name, value in row_of(Trouble("", "")).items()])
    with pq.ParquetWriter(path, schema) as writer:
        lines: list[dict[str, Any]] = []
        for outcome in outcomes:
            lines.append(row_of(outcome))
            if len(lines) == AT_ONCE:
                writer.write_table(pa.Table.from_pylist(lines, schema))
                lines.clear()
        writer.write_table(pa.Table.from_pylist(lines, schema))


def _csv(outcomes: Iterable[Outcome], path: Path) -> None:
    import csv

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row_of(Trouble("", ""))))
        writer.writeheader()
        for outcome in outcomes:
            writer.writerow(row_of(outcome))


_WHOLE: dict[str, Callable[[list[Outcome], bool], str]] = {".json": _json, ".geojson": _geojson, ".gpx": _gpx}
_TABLES: dict[str, Callable[[Iterable[Outcome], Path], None]] = {".parquet": _parquet, ".csv": _csv}
