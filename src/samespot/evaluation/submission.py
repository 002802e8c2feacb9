"""Files for public benchmarks: MSLS predictions, and poses for visuallocalization.net. Written whole, read strictly."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case, Rows
from samespot.places.pose import inverse_poses, not_unit
from samespot.places.pose_files import open_text, read_rows, unit_quaternions
from samespot.places.wording import first_few

HEADER = "# query key, then predicted map keys, nearest first; the keys of a sequence are joined by commas\n"
POSE_LINE = "name qw qx qy qz tx ty tz"
Floats = NDArray[np.float64]


def keys_of(names: Sequence[str]) -> list[str]:
    """MSLS keys of images or of sequences (comma-joined images): file names without folder and ending."""
    return [",".join(PurePosixPath(image).stem for image in name.split(",")) for name in names]


@dataclass(frozen=True)
class Predictions:
    """The lines of a prediction file: names of all queries and map images, and (q, k) rows of the latter."""

    queries: list[str]
    places: list[str]
    rows: Rows
    notes: tuple[str, ...] = ()


def predictions_of(cases: Sequence[Case], found: Sequence[Rows], k: int) -> Predictions:
    """Several cities as one, every line with k map images (fewer where all maps together have fewer).

    found: (q, ≥ 1) rows of each city's map, best first, -1 for nothing. All lines of a prediction file are equally long
    and no image stands in one twice, so a list that is shorter (a small map, a query that could not be read) has to
    be filled. That is done with images of other cities, which are never right. Where there is no other city, it is
    the last images of the map that are not known to be right; where the truth is secret, one may be so by chance.
    """
    queries = [name for case in cases for name in case.query_names]
    places = [name for case in cases for name in case.place_names]
    starts = np.cumsum([0, *(case.place_count for case in cases)])
    k = min(k, len(places))
    lines, notes = [], []
    for case, listed, start, stop in zip(cases, found, starts[:-1], starts[1:], strict=True):
        elsewhere = np.concatenate([np.arange(start), np.arange(stop, len(places))])[:k]
        filled = _filled(case, listed[:, :k], int(start), elsewhere, k)
        lines += filled
        if short := int(((listed[:, :k] >= 0).sum(axis=1) < k).sum()):
            enough = len(elsewhere) == k
            what = "images of other cities, which are never right" if enough else "the last images of the map"
            chance = "" if enough or case.positives is not None else ", which may be right by chance"
            notes.append(
                f"predictions of {short} of {case.query_count} queries of {case.name} are fewer than {k} and end"
                f" with {what}{chance}"
            )
    return Predictions(queries, places, np.array(lines, dtype=np.int64).reshape(-1, k), tuple(notes))


def _filled(case: Case, listed: Rows, start: int, elsewhere: Rows, k: int) -> list[Rows]:
    lines = []
    for query, row in enumerate(listed):
        mine = row[row >= 0]
        if len(mine) < k and len(elsewhere) < k:  # the map itself has to give
            right = np.zeros(0, np.int64) if case.positives is None else case.positives[query]
            others = np.arange(case.place_count)[::-1]
            wrong, rest = others[~np.isin(others, right)], others[np.isin(others, right)]
            fill = np.concatenate([wrong, rest])
            fill = np.concatenate([elsewhere, fill[~np.isin(fill, mine)] + start])
        else:
            fill = elsewhere
        lines.append(np.concatenate([mine + start, fill])[:k])
    return lines


def write_predictions(
    path: str | Path, query_names: Sequence[str], place_names: Sequence[str], rows: ArrayLike
) -> Path:
    """Write the (q, k) retrieved map rows as MSLS takes them, nearest first; a `.zip` holds the one csv."""
    path, found = Path(path), np.asarray(rows)
    queries, places = keys_of(query_names), np.array(keys_of(place_names), dtype=object)
    _refuse_repeated_keys("queries", queries)
    _refuse_repeated_keys("map images", list(places))
    if found.ndim != 2 or len(found) != len(queries) or not found.shape[1]:
        raise ValueError(f"rows of shape {found.shape} for {len(queries)} queries; expected (queries, k)")
    short = np.flatnonzero((found < 0).any(axis=1))
    if len(short):
        left = int((found[short] >= 0).sum(axis=1).min())
        raise InputError(
            f"{path}: query {queries[short[0]]} has fewer than {found.shape[1]} predictions, and all lines must be"
            f" equally long; ask for {left} or fewer"
        )
    lines = [" ".join([key, *places[row]]) + "\n" for key, row in zip(queries, found, strict=True)]
    text = (HEADER + "".join(lines)).encode()
    _put(path, _zipped(f"{path.stem}.csv", text) if path.suffix == ".zip" else text)
    return path


def read_predictions(
    path: str | Path,
    query_keys: Sequence[str],
    place_keys: Sequence[str],
    *,
    ignore_unknown_queries: bool = False,
) -> Rows:
    """(q, k) map rows that a prediction file names for each query, in the order of `query_keys`.

    Every query must have one line, and every line the same number of different map images. Lines of other queries
    are refused, or passed over as the official script does with `ignore_unknown_queries`.
    """
    path = Path(path)
    query_row = {key: row for row, key in enumerate(query_keys)}
    place_row = {key: row for row, key in enumerate(place_keys)}
    seen: dict[str, int] = {}  # query -> its line
    found, width = np.empty((0, 0), dtype=np.int64), None
    for number, words in _prediction_lines(path):
        at, (query, *predicted) = f"{path} line {number}", words
        if query in seen:
            raise InputError(f"{at}: query {query} was already on line {seen[query]}; keep one of them")
        seen[query] = number
        if query not in query_row:
            if ignore_unknown_queries:
                continue
            raise InputError(
                f"{at}: {query} is not a query of this protocol; delete the line, or ignore unknown queries"
            )
        if width is None:
            width = len(predicted)
            found = np.full((len(query_keys), width), -1, dtype=np.int64)
        _check_predicted(at, predicted, width, place_row)
        found[query_row[query]] = [place_row[key] for key in predicted]
    missing = [key for key in query_keys if key not in seen]
    if missing:
        raise InputError(
            f"{path}: ends at line {max(seen.values(), default=0)} without {len(missing)} of {len(query_keys)} queries"
            f" ({first_few(missing)}); add their lines"
        )
    return found


def _check_predicted(at: str, predicted: list[str], width: int, known: dict[str, int]) -> None:
    if not predicted:
        raise InputError(f"{at}: no predictions after the query; a line is: query key, then map keys")
    if len(predicted) != width:
        raise InputError(
            f"{at}: {len(predicted)} predictions, but {width} in the first line; make them equally many"
        )
    unknown = [key for key in predicted if key not in known]
    if unknown:
        raise InputError(
            f"{at}: {unknown[0]} is not a map image of this protocol (a panorama, or another city?)"
        )
    if len(set(predicted)) != width:
        twice = next(key for i, key in enumerate(predicted) if key in predicted[:i])
        raise InputError(f"{at}: {twice} is predicted twice; keep the first")


def _prediction_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and words of each line that is neither blank nor a `#` comment."""
    if path.suffix == ".zip":
        lines = _unzipped(path).splitlines()
    else:
        with open_text(path) as file:
            lines = file.read().splitlines()
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


def _refuse_repeated_keys(what: str, keys: list[str]) -> None:
    repeated = _first_repeated(keys)
    if repeated is not None:
        raise InputError(
            f"two {what} have the key {keys[repeated]}; a prediction file cannot tell them apart"
        )


def write_poses(path: str | Path, names: Sequence[str], centres: ArrayLike, quaternions: ArrayLike) -> int:
    """Write estimated poses as visuallocalization.net takes them, and return how many.

    centres (n, 3) [m] and quaternions (n, 4) are camera-to-world; the file holds the world-to-camera rotation R and
    t = -R c. A query without an estimate (NaN) gets no line: the server counts it as not localised.
    """
    path, c, q = Path(path), np.asarray(centres, np.float64), np.asarray(quaternions, np.float64)
    if c.shape != (len(names), 3) or q.shape != (len(names), 4):
        raise ValueError(f"{len(names)} names, centres {c.shape}, quaternions {q.shape}")
    repeated = _first_repeated(names)
    if repeated is not None:
        raise InputError(f"{path}: {names[repeated]} has two poses; a file holds one an image")
    blank = next((name for name in names if not name or name.split() != [name]), None)
    if blank is not None:
        raise InputError(f"{path}: image name {blank!r} has a blank in it, which ends a name in this file")
    there = np.flatnonzero(np.isfinite(c).all(axis=1) & np.isfinite(q).all(axis=1))
    if len(bad := not_unit(q[there])):
        raise InputError(f"{path}: the quaternion of {names[int(there[bad[0]])]} is not of unit length")
    moves, turns = inverse_poses(c[there], q[there])
    numbers = np.hstack([turns, moves]).tolist()
    text = "".join(
        f"{names[int(row)]} {' '.join(map(repr, pose))}\n" for row, pose in zip(there, numbers, strict=True)
    )
    _put(path, text.encode())
    return len(there)


def read_poses(path: str | Path) -> tuple[list[str], Floats, Floats]:
    """Names, (n, 3) camera centres and (n, 4) camera-to-world quaternions of a pose file.

    Numbers after the seven of a pose, as some programs write them, are passed over.
    """
    rows = read_rows(Path(path), 7, POSE_LINE, more=True)
    turns = unit_quaternions(rows)
    repeated = _first_repeated(rows.names)
    if repeated is not None:
        first = rows.names.index(rows.names[repeated])
        raise InputError(
            f"{rows.at(repeated)}: {rows.names[repeated]} was already on line {rows.lines[first]}; keep one of them"
        )
    centres, quaternions = inverse_poses(rows.numbers[:, 4:7], turns)
    return rows.names, centres, quaternions


def _first_repeated(names: Sequence[str]) -> int | None:
    seen: set[str] = set()
    for row, name in enumerate(names):
        if name in seen:
            return row
        seen.add(name)
    return None


def _zipped(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED
        )  # no clock in it: same bytes again
    return packed.getvalue()


def _unzipped(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                raise InputError(f"{path}: {len(names)} files in it; the server wants a single csv")
            return archive.read(names[0]).decode("utf-8-sig", errors="replace")
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def _put(path: Path, content: bytes) -> None:
    from samespot.files import write_whole

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
