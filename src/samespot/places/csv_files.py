"""Tables as people have them: csv with any delimiter, encoding and column names, or parquet.

| what                         | is read as                                                                    |
|------------------------------|-------------------------------------------------------------------------------|
| `;`, tab or `|` as delimiter | what the header line has most of; with `;` also the decimal comma             |
| BOM, UTF-16                  | by the first bytes of the file                                                |
| `lat`, `Filename`, `yaw`, …  | the column of `ALIASES` that it must mean, if no column has that name itself  |
"""

from __future__ import annotations

import csv
import difflib
import gzip
import lzma
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pandas as pd

from samespot.errors import InputError

TEXT = ("image", "key", "pano_id")  # names that may be all digits, as 000829 is; never read as numbers
DELIMITERS = ",;\t|"
ALIASES = {
    "image": ("filename", "file", "filepath", "imagepath", "imagename", "img", "photo", "path", "image"),
    "latitude": ("lat", "gpslatitude", "latitude"),
    "longitude": ("lon", "lng", "long", "gpslongitude", "longitude"),
    "easting": ("utmeasting", "utmeast", "east", "easting"),
    "northing": ("utmnorthing", "utmnorth", "north", "northing"),
    "heading": (
        "yaw",
        "bearing",
        "azimuth",
        "compass",
        "compassangle",
        "gpsimgdirection",
        "headingdeg",
        "heading",
    ),
}
_GAPS = (  # pandas' own words for a missing value
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"),
    *("N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
_PACKED = (".bz2", ".xz", ".zip", ".zst")  # pandas opens them, csv does not


def load_table(path: Path) -> pd.DataFrame:
    """A csv (also .csv.gz) or parquet file as it stands, or an `InputError` that names the broken line."""
    parquet = path.suffix == ".parquet"
    try:
        table = pd.read_parquet(path) if parquet else _read_csv(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text in UTF-8 (byte {error.start}); save it as UTF-8") from error
    except pd.errors.EmptyDataError:
        raise InputError(
            f"{path}: the file is empty; a table of places has a header line with the names of its columns"
        ) from None
    # pandas' parser errors and pyarrow's are ValueErrors; a cut-off .gz ends in an EOFError; .zst needs a package
    except (
        ValueError,
        OSError,
        EOFError,
        ImportError,
        zlib.error,
        lzma.LZMAError,
        zipfile.BadZipFile,
    ) as error:
        if isinstance(error, InputError):
            raise
        kind = "parquet" if parquet else "csv"
        fault = first_line(error).removeprefix("Error tokenizing data. C error: ")
        raise InputError(
            f"{path}: cannot be read as {kind}: {fault}; fix the file, or save it again as .csv"
        ) from error
    return table


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _read_csv(path: Path) -> pd.DataFrame:
    if path.suffix in _PACKED:
        return _parsed(path, ",", ".", "utf-8", list(TEXT))
    encoding = _encoding(path)
    with _opened(path, encoding) as lines:
        first, some = lines.readline(), [line for _, line in zip(range(20), lines, strict=False)]
    delimiter = max(DELIMITERS, key=first.count)
    header = next(csv.reader([first], delimiter=delimiter), [])
    _refuse_repeated(header, path)
    # a comma inside the fields of a table whose delimiter is another one can only be a decimal one
    numbers = (field for line in some for field in line.strip().split(delimiter)) if delimiter != "," else ()
    decimal = "," if any(re.fullmatch(r'"?-?\d+,\d+"?', field) for field in numbers) else "."
    texts = [name for name in header if _plain(name) in {*map(_plain, TEXT), *ALIASES["image"]}]
    table = _parsed(path, delimiter, decimal, encoding, texts)
    _refuse_uneven_lines(table, path, delimiter, encoding)
    return table


def _opened(path: Path, encoding: str) -> Any:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    return opened(path, "rt", encoding=encoding, newline="")


def _encoding(path: Path) -> str:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        start = file.read(4096)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if b"\0" in start:
        raise InputError(f"{path}: binary data, not the text of a table; save it as .csv or .parquet")
    return "utf-8-sig"


def _parsed(path: Path, delimiter: str, decimal: str, encoding: str, texts: list[str]) -> pd.DataFrame:
    # pandas before 3.1 is off in the last bit unless asked, and the digest would change on the way
    older = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    exact: dict[str, Any] = {"float_precision": "round_trip"} if older else {}
    more: dict[str, Any] = {"sep": delimiter, "encoding": encoding, "skipinitialspace": True}
    # of a photo such a word may be the name, of any other column it is a gap
    gaps = {
        name: "" if _plain(str(name)) in ALIASES["image"] else _GAPS
        for name in pd.read_csv(path, nrows=0, **more).columns
    }
    table: pd.DataFrame = pd.read_csv(
        path,
        decimal=decimal,
        dtype=dict.fromkeys(texts, str),
        na_values=gaps,
        keep_default_na=False,
        low_memory=False,
        **more,
        **exact,
    )
    return table


def _plain(name: str) -> str:
    """A column's name without case, spaces, underscores and units: "GPS Latitude [deg]" is gpslatitude."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"[\[(].*?[\])]", "", name.lower()))


def _refuse_repeated(header: list[str], path: Path) -> None:
    names = [name.strip() for name in header]
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(
                f"{path} line 1: the column {name} appears {names.count(name)} times; keep one of them"
            )


def _refuse_uneven_lines(table: pd.DataFrame, path: Path, delimiter: str, encoding: str) -> None:
    """pandas fills a line that is cut short with NaN, and shifts columns when every line is too long."""
    with _opened(path, encoding) as lines:
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        header = next(reader)
        full = table.iloc[:, -1:].notna().all(axis=None)  # then no line is short, and one look will do
        for fields in reader:
            if fields and len(fields) != len(header):
                raise InputError(
                    f"{path} line {reader.line_num}: {len(fields)} fields where the header has {len(header)};"
                    " fix the line, an unknown value is an empty field"
                )
            if full and fields:
                return


def named_columns(table: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table with our names for the columns that must mean them, and a note of which those are."""
    table = table.rename(columns=lambda name: str(name).strip())
    renamed: dict[str, str] = {}
    for ours, others in ALIASES.items():
        if ours in table:
            continue
        meant = [name for name in table.columns if _plain(name) in others]
        if len(meant) == 1:
            renamed[meant[0]] = ours
    if not renamed:
        return table, ()
    said = ", ".join(f"{theirs} as {ours}" for theirs, ours in renamed.items())
    return table.rename(columns=renamed), (f"{path}: read the columns {said}",)


def missing_columns(table: pd.DataFrame, lacking: list[str], source: str, needed: str) -> InputError:
    """The line about columns that are not there: which are, and which of them come near."""
    found = ", ".join(map(str, table.columns[:12])) + (", …" if len(table.columns) > 12 else "")
    guesses = []
    words = {_plain(str(column)): str(column) for column in table.columns}
    degrees = {"northing": "latitude", "easting": "longitude"}
    for name in (other for one in lacking for other in (one, degrees.get(one, one))):
        near = [
            n for word in ALIASES.get(name, (name,)) for n in difflib.get_close_matches(word, words, 1, 0.75)
        ]
        if near and words[near[0]] != name:
            guesses.append(f"is {words[near[0]]} the {name}?")
    guess = f" ({' '.join(dict.fromkeys(guesses))})" if guesses else ""
    return InputError(
        f"{source}: missing column{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}; it has {found}{guess};"
        f" needed: {needed}"
    )
