"""What all readers say in the same words: the first few of many names, and which parts there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from samespot.errors import InputError

if TYPE_CHECKING:
    from samespot.places.table import Places

LONGEST = 120  # letters of a name that are shown


def first_few(names: Sequence[object], count: int = 3) -> str:
    """`a, b, c, …`: enough of a list to recognise it by."""
    return ", ".join(_short(str(name)) for name in names[:count]) + (", …" if len(names) > count else "")


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[-LONGEST // 2 :]}"


def told_of(tables: Iterable[Places]) -> list[tuple[str, str]]:
    """What the readers had to say about these tables, each line once: ("note", line), and where no note says it already
    ("dropped", how many images and why)."""
    tables = list(tables)
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    dropped = dict.fromkeys((n, why) for table in tables for why, n in table.dropped.items())
    said = [("note", note) for note in notes]
    return said + [
        ("dropped", f"{n} images: {why}")
        for n, why in dropped
        if not any(why in note and f"{n} " in note for note in notes)
    ]


def unknown_part(root: Path, part: str, title: str, name: str, there: Sequence[str]) -> InputError:
    """The answer to a part that is not there; `name` is what `samespot datasets` calls the data set."""
    told = (
        f"the parts are {first_few(there, 6)}"
        if there
        else f"it has none here, and `samespot datasets --layout {name}` shows what is expected"
    )
    return InputError(f"{root}: no part {part!r} of {title}; {told}")
