"""Lists of MSLS keys that say which images are queries and which are the map, as they circulate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Rows
from samespot.places.table import Places

# of GSV-Cities and what came after it: paths of images, and which of the queries have a positive
QUERY_ARRAY, QUERY_ROWS, MAP_ARRAY = "msls_val_qImages.npy", "msls_val_qIdx.npy", "msls_val_dbImages.npy"
QUERY_TEXTS = ("msls_val_queries.txt", "key_mslsval.txt")
MAP_TEXT = "msls_val_map.txt"
FOLDERS = ("", "msls_val", "datasets/msls_val")  # of the root


@dataclass(frozen=True)
class KeyList:
    """Keys in the order of the file they are from."""

    source: Path
    keys: list[str]


@dataclass(frozen=True)
class KeyLists:
    """Which images are queries and which are the map; without a list of the map it is left to the caller."""

    queries: KeyList
    places: KeyList | None
    notes: tuple[str, ...] = ()


def find_key_lists(root: Path, keys: str = "") -> KeyLists:
    """The lists in a folder `keys`, or in the files `keys` ("queries.txt,map.txt"); by default under the root."""
    named = [_path(root, word) for word in keys.split(",") if word.strip()]
    if not named:
        folders = [root / folder for folder in FOLDERS]
    elif len(named) == 1 and named[0].is_dir():
        folders = named
    elif len(named) <= 2:
        return _with_notes(*(_read_list(path) for path in named))
    else:
        raise InputError(
            f"keys {keys!r}: give a folder, or one file of queries and one of the map, as a.txt,b.txt"
        )
    for folder in folders:
        for query_name, map_name in ((QUERY_ARRAY, MAP_ARRAY), *((text, MAP_TEXT) for text in QUERY_TEXTS)):
            if (folder / query_name).is_file():
                there = [folder / name for name in (query_name, map_name) if (folder / name).is_file()]
                return _with_notes(*(_read_list(path) for path in there))
    raise InputError(
        f"{folders[0]}: no {QUERY_ARRAY} with {MAP_ARRAY} here, nor {QUERY_TEXTS[0]} with {MAP_TEXT};"
        " fetch the lists of GSV-Cities, or name yours with keys=queries.txt,map.txt"
    )


def _path(root: Path, word: str) -> Path:
    """As named, or under the root where it is only there."""
    path = Path(word.strip())
    return root / path if not path.exists() and (root / path).exists() else path


def _with_notes(queries: KeyList, places: KeyList | None = None) -> KeyLists:
    again = [(lst.source, len(lst.keys) - len(set(lst.keys))) for lst in (queries, places) if lst is not None]
    notes = (f"{source}: {n} keys stand there again and are taken once" for source, n in again if n)
    return KeyLists(queries, places, tuple(notes))


def _read_list(path: Path) -> KeyList:
    if not path.is_file():
        raise InputError(f"{path}: no such list of keys")
    if path.suffix == ".npy":
        names = _names_in_array(path)
    else:
        try:
            names = path.read_text(encoding="utf-8").split()
        except UnicodeDecodeError:
            raise InputError(f"{path}: not a text file; give keys or paths of images, one a line") from None
    if not names:
        raise InputError(f"{path}: the list is empty")
    return KeyList(path, [_key(name) for name in names])


def _names_in_array(path: Path) -> list[str]:
    names = _load(path)
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise InputError(
            f"{path}: holds {names.dtype} of shape {names.shape} where a list of paths is expected"
        )
    beside = path.with_name(QUERY_ROWS)
    if path.name == QUERY_ARRAY and beside.is_file():
        rows = _load(beside)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not ((rows >= 0) & (rows < len(names))).all():
            raise InputError(f"{beside}: not a list of rows of the {len(names)} paths in {QUERY_ARRAY}")
        names = names[rows]
    return [str(name) for name in names.astype(str)]


def _load(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        fault = "is a pickle, which is never opened" if "pickle" in str(error) else "cannot be read"
        raise InputError(f"{path}: {fault}; save the paths as an array of text, or as a .txt") from error
    return array


def _key(name: str) -> str:
    """The key in train_val/cph/query/images/<key>.jpg, or the key itself."""
    return re.sub(r"\.(jpe?g|png)$", "", re.split(r"[/\\]", name)[-1], flags=re.IGNORECASE)


def rows_of_keys(listed: KeyList, tables: Sequence[Places]) -> list[Rows]:
    """For each table, of a city, its rows that are listed, in the order of the list and each once."""
    where = {
        key: (city, row) for city, table in enumerate(tables) for row, key in enumerate(table.table["key"])
    }
    rows: list[dict[int, None]] = [{} for _ in tables]
    for number, key in enumerate(listed.keys, 1):
        if key not in where:
            cities = ", ".join(str(table.table["city"].iloc[0]) for table in tables)
            side = "queries" if tables[0].table["split"].iloc[0] == "query" else "map images"
            raise InputError(
                f"{listed.source}: its key {number}, {key!r}, is not among the {side} of {cities}"
            )
        city, row = where[key]
        rows[city].setdefault(row)
    return [np.array(list(chosen), dtype=np.int64) for chosen in rows]
