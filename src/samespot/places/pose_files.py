"""Text files of poses, one image a line: the pose lists and NVM models that several data sets come with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.places.pose import conjugate, not_unit

Floats = NDArray[np.float64]
NVM_NUMBERS = 10  # focal, qw qx qy qz, cx cy cz, radial distortion, 0


@dataclass(frozen=True)
class NamedRows:
    """Lines of a name and some numbers: names, (n, k) numbers, and where each stood in the file (from 1)."""

    path: Path
    names: list[str]
    numbers: Floats
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)

    def at(self, row: int) -> str:
        """`file line 7`, the start of an error message about that row."""
        return f"{self.path} line {self.lines[row]}"


def read_rows(path: Path, count: int, form: str, *, more: bool = False) -> NamedRows:
    """Lines of an image name and `count` numbers; blank lines and `#` comments are passed over.

    `form` is how such a line looks, for the error message. more: what follows the numbers is passed over, too.
    """
    with open_text(path) as file:
        return parse_rows(path, enumerate(file, start=1), count, form, more=more)


def read_names(path: Path) -> list[str]:
    """The first word of each line: a list of images, with or without more after the name."""
    with open_text(path) as file:
        return [line.split()[0] for line in file if _has_content(line)]


def parse_rows(
    path: Path, numbered: Iterable[tuple[int, str]], count: int, form: str, *, more: bool = False
) -> NamedRows:
    names, fields, lines = [], [], []
    for number, line in numbered:
        if not _has_content(line):
            continue
        name, *rest = line.split()
        rest = rest[:count] if more else rest
        if len(rest) != count:
            raise InputError(
                f"{path} line {number}: {len(rest)} numbers after {name}, not {count}; expected: {form}"
            )
        names.append(name)
        fields.append(rest)
        lines.append(number)
    return NamedRows(path, names, _floats(path, fields, lines, count), np.asarray(lines, dtype=np.int64))


def unit_quaternions(rows: NamedRows, first: int = 0) -> Floats:
    """(n, 4) of the numbers from column `first` on, at exactly unit length; refused when far from it."""
    q = rows.numbers[:, first : first + 4]
    length, bad = np.linalg.norm(q, axis=1), not_unit(q)
    if len(bad):
        words = " ".join(f"{v:g}" for v in q[bad[0]])
        raise InputError(f"{rows.at(bad[0])}: quaternion {words} has length {length[bad[0]]:.3g}, not 1")
    unit: Floats = q / length[:, None]
    return unit


def read_nvm_cameras(path: Path) -> tuple[NamedRows, Floats, Floats]:
    """The cameras of a VisualSFM `.nvm` model: rows, (n, 3) centres and (n, 4) camera-to-world quaternions.

    The file holds the world-to-camera rotation and the camera centre. The points after the cameras can be
    gigabytes and are not read.
    """
    form = "name focal qw qx qy qz cx cy cz distortion 0"
    with open_text(path) as file:
        numbered = ((n, line) for n, line in enumerate(file, start=1) if line.strip())
        number, line = next(numbered, (1, ""))
        if not line.startswith("NVM_V3"):
            raise InputError(
                f"{path} line {number}: an NVM model starts with NVM_V3, not {line.strip()[:20]!r}"
            )
        number, line = next(numbered, (number + 1, ""))
        if not line.strip().isdigit():
            raise InputError(
                f"{path} line {number}: expected the number of cameras, not {line.strip()[:20]!r}"
            )
        count = int(line)
        rows = parse_rows(path, islice(numbered, count), NVM_NUMBERS, form)
    if len(rows) != count:
        raise InputError(
            f"{path}: {count} cameras announced, {len(rows)} found; the file is cut short, fetch it again"
        )
    return rows, rows.numbers[:, 5:8], conjugate(unit_quaternions(rows, 1))


def open_text(path: Path) -> TextIO:
    """The file opened as text, or an InputError; bytes that are no UTF-8 surface later as broken fields."""
    try:
        return path.open(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def _has_content(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")


def _floats(path: Path, fields: list[list[str]], lines: list[int], count: int) -> Floats:
    try:
        values = np.array(fields, dtype=np.float64).reshape(len(fields), count)
    except ValueError:
        values = np.array([[_float_or_nan(f) for f in row] for row in fields]).reshape(len(fields), count)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise InputError(f"{path} line {lines[row]}: {fields[row][column]!r} is not a finite number")
    return values


def _float_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
