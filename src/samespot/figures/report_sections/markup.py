"""The html that sections are written in: everything that comes from data is escaped here, once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from samespot.statistics.intervals import Interval


@dataclass(frozen=True)
class Section:
    """A chapter of the page: its anchor, what the table of contents calls it, its html."""

    anchor: str
    title: str
    body: str


@dataclass(frozen=True)
class Plot:
    """Traces and layout of plotly. A colour "@name" is that of the page's theme, "@name/0.2" a paler one.

    `words` say what it shows to those who cannot see it.
    """

    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    words: str
    height: int = 300  # [px]
    title: str = ""


@dataclass(frozen=True)
class KeyEntry:
    """A line of a legend: name, colour of the theme, and how it is drawn.

    As a line, dash, dots, long (dashes), dashdot (in turn), star or box; line-and-bar, dots-and-pale-bar where the
    same entry stands for both.
    """

    name: str
    colour: str
    how: str = "line"


def esc(value: object) -> str:
    """Text as html, also inside quotes."""
    return escape(str(value), quote=True)


def embedded(value: Any) -> str:
    """A value as json that may stand inside a script element: nothing in it can end the element."""
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _plain(value: Any) -> Any:
    """Without NaN and infinity, which json does not know, and with no more digits than can be seen."""
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def plot(drawn: Plot) -> str:
    head = f'<h4 class="plot-title">{esc(drawn.title)}</h4>' if drawn.title else ""
    spec = embedded(_as_text({"data": list(drawn.data), "layout": dict(drawn.layout)}))
    return (
        f'<div class="plot-box">{head}<div class="plot" role="img" aria-label="{esc(drawn.words)}"'
        f' style="height:{drawn.height}px"></div>'
        f'<script type="application/json" class="plot-spec">{spec}</script></div>'
    )


def _as_text(value: Any, key: str = "") -> Any:
    """Plotly reads some html in what it writes; of ours none is meant as such."""
    if isinstance(value, Mapping):
        return {name: _as_text(inner, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(inner, key) for inner in value]
    return (
        escape(value, quote=False)
        if isinstance(value, str) and key in ("name", "text", "ticktext")
        else value
    )


def figure(plots: Sequence[Plot] | str, caption: str, key: Sequence[KeyEntry] = (), note: str = "") -> str:
    """Plots side by side where there is room, their legend above, their caption below. caption, note: html."""
    body = plots if isinstance(plots, str) else "".join(plot(one) for one in plots)
    count = "" if isinstance(plots, str) else f' data-plots="{len(plots)}"'
    return (
        f"<figure>{legend(key)}<div class='plots'{count}>{body}</div>"
        f"<figcaption>{unbroken(caption)}</figcaption>{note}</figure>"
    )


def remark(html: str) -> str:
    """The words below a table or a group of photos."""
    return f'<p class="caption">{unbroken(html)}</p>'


def unbroken(html: str) -> str:
    """No line break between a number and its percent sign."""
    return html.replace(" %", "\u00a0%")


def legend(entries: Sequence[KeyEntry]) -> str:
    if not entries:
        return ""
    items = "".join(
        f'<li><span class="swatch {entry.how}" style="--swatch:var(--{entry.colour})" aria-hidden="true"></span>'
        f"{esc(entry.name)}</li>"
        for entry in entries
    )
    return f'<ul class="key">{items}</ul>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, words: str, kind: str = "") -> str:
    """Cells are html; the first of a row is its heading. words: what the table is, for those who cannot see it."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{cell}</th>' if i == 0 else f"<td>{cell}</td>" for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="table-box" role="region" tabindex="0" aria-label="{esc(words)}">'
        f'<table class="{esc(kind)}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def details(summary: str, body: str) -> str:
    return f"<details><summary>{esc(summary)}</summary>{body}</details>"


def measured(one: Interval | None, *, signed: bool = False) -> str:
    """A share with its interval, in percent; of a difference in points, with its sign."""
    if one is None or math.isnan(one.value):
        return '<span class="nothing">–</span>'
    value, low, high = (percent(x, signed=signed) for x in (one.value, one.low, one.high))
    return f'<span class="value">{value}</span> <span class="interval">[{low}, {high}]</span>'


def percent(share: float, *, signed: bool = False) -> str:
    """100 × share with one digit, a real minus sign, and no sign before zero."""
    text = f"{100 * share:+.1f}" if signed else f"{100 * share:.1f}"
    return text.lstrip("+-") if not float(text) else text.replace("-", "−")


def several(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
