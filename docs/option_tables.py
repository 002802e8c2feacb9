"""Puts a table of options where a page says `<!-- options package.module.Class -->`: mkdocs calls it for every page.

The table is made from the class itself, as `--help` is, so it cannot disagree with either.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from samespot.options import About, about

MARK = re.compile(r"<!-- options ([\w.]+)\.(\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return MARK.sub(lambda found: table(getattr(import_module(found[1]), found[2])), markdown)


def table(cls: Any) -> str:
    """One row for each option, under the headings of `--help`."""
    panels: dict[str, list[str]] = {}
    for one in fields(cls):
        if (known := about(one)) is not None:
            row = f"| `{one.name}` | {_default(one, known)} | {_cell(known.help)} |"
            panels.setdefault(known.panel, [f"| **{known.panel}** | | |"] if known.panel else []).append(row)
    head = ["| option | default | what |", "|---|---|---|"]
    return "\n".join([*head, *(row for rows in panels.values() for row in rows)])


def _default(one: Field[Any], known: About) -> str:
    if known.default is not None:
        return _cell(known.default)
    if one.default is MISSING:
        return "required"
    if one.default in (None, "", ()):
        return "none"
    value = str(one.default) if isinstance(one.default, str | Path) else repr(one.default)
    return f"`{_cell(value)}`"


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
