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
    """One row for each option, in the order of the class, under the headings of `--help`."""
    lines, panel = ["| option | default | what |", "|---|---|---|"], ""
    for one in fields(cls):
        known = about(one)
        if known is None:
            continue
        if known.panel != panel:
            panel = known.panel
            lines.append(f"| **{panel}** | | |")
        lines.append(f"| `{one.name}` | {_default(one, known)} | {_cell(known.help)} |")
    return "\n".join(lines)


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
