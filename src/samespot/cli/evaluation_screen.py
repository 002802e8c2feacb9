"""How an evaluation, a comparison and the catalogue of protocols look on a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table

from samespot.cli.console import err, out, plain

if TYPE_CHECKING:
    from samespot.evaluation.compare import Comparison
    from samespot.evaluation.protocol import Protocol
    from samespot.evaluation.results import Evaluation, Variant
    from samespot.statistics.intervals import Interval

WIDE = 80  # columns from which an interval stands beside its number, not below it
MOST_GROUPS = 30  # rows of a broken-down table that are printed; the json has them all
RANKS = (
    1,
    5,
    10,
)  # recalls that are printed, and the last one, where a protocol has many; the json has them all


def evaluation_tables(evaluation: Evaluation) -> None:
    """Metrics of each descriptor with 95 % intervals, then the first one by case and condition."""
    _heading(evaluation)
    first = evaluation.variants[0]
    if any(metric.n for metric in first.metrics.values()):
        out.print("  [dim]in percent; below each its 95 % interval[/]")
        _metrics_tables("", {v.title: v.metrics for v in evaluation.variants}, "descriptor")
        _median_poses(evaluation)
        _other_numbers(first, _counted(evaluation))
        for column, values in first.by.items():
            shown = dict(list(values.items())[:MOST_GROUPS])
            _metrics_tables(f"by {column}, descriptor {first.title}", shown, column)
    _pairs_table(evaluation)
    for variant in _telling(evaluation):
        _trust_lines(variant)
    for note in evaluation.notes:
        err.print(f"[yellow]note[/] {plain(note)}", highlight=False, soft_wrap=True)


def _heading(evaluation: Evaluation) -> None:
    """The protocol in its own words, and how many queries the numbers are of."""
    protocol, total = evaluation.protocol, len(evaluation.queries)
    out.print(f"[bold]{plain(protocol['title'])}[/] ([cyan]{protocol['name']}[/])", highlight=False)
    _facts((word, protocol[word]) for word in ("queries", "positive", "exclusions") if protocol[word])
    images = sum(case["map images"] for case in evaluation.cases)
    counted = _counted(evaluation)
    if counted:
        said = f"{counted:,} of {total:,} queries count, {images:,} map images"
    else:
        said = (
            f"{total:,} queries, {images:,} map images; the truth is secret, so there is nothing to measure here:"
            " send the file below to the benchmark's server"
        )
    out.print(f"  {said}", highlight=False, soft_wrap=True)


def _facts(lines: Iterable[tuple[str, str]]) -> None:
    """A word and what it stands for, a line each; long ones go on below themselves."""
    grid = Table.grid(padding=(0, 1), pad_edge=True)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for word, said in lines:
        grid.add_row(f" {word}", plain(said))
    out.print(grid, highlight=False)


def _other_numbers(variant: Variant, counted: int) -> None:
    """Metrics that are not over all the queries that count, or over more: nDCG needs a shared view, not a positive."""
    for name, metric in variant.metrics.items():
        if metric.n != counted:
            out.print(
                f"  [dim]{name}: of the {metric.n:,} queries for which it is defined[/]", highlight=False
            )


def _median_poses(evaluation: Evaluation) -> None:
    from samespot.evaluation.outcomes import NOWHERE, median_pose

    for variant in evaluation.variants:
        if (median := median_pose(variant)) is not None:
            metres, degrees = median
            far = (
                f"{100 * metres:.1f} cm" if metres < 1 else f"{metres:.1f} m" if metres < NOWHERE else "none"
            )
            out.print(f"  [dim]median pose error, {variant.title}:[/] {far}, {degrees:.1f}°", highlight=False)


def _counted(evaluation: Evaluation) -> int:
    """Queries whose truth is known here and that have something to find."""
    if evaluation.protocol["truth"] == "positives":
        return int(evaluation.queries.counted.sum())
    return max((metric.n for metric in evaluation.variants[0].metrics.values()), default=0)


def _telling(evaluation: Evaluation) -> list[Variant]:
    """The plain descriptor, and the whitened one with the best recall."""
    plain, *others = evaluation.variants
    ranked = [v for v in others if v.metrics and v.as_found]  # the trust lines are of distances
    best = max(ranked, key=lambda v: next(iter(v.metrics.values())).value, default=None)
    return [plain] if best is None else [plain, best]


def _metrics_tables(title: str, rows: Mapping[str, Mapping[str, Interval]], first: str) -> None:
    """One table, or on a narrow terminal several with the same rows, so that no number is ever cut off."""
    names = _worth_showing(list(dict.fromkeys(name for metrics in rows.values() for name in metrics)))
    cells = {name: [_cell(metrics.get(name)) for metrics in rows.values()] for name in names}
    widths = [max(len(name), *(_width(cell) for cell in cells[name])) for name in names]
    label = max(len(first), *(_two_lines(row) for row in rows))
    for number, part in enumerate(_parts(widths, out.width - label - 2)):
        table = _table(title if number == 0 else "", padding=(0, 0))
        table.add_column(first, style="cyan", width=label)
        for name in names[part]:
            table.add_column(name, justify="right", no_wrap=True)
        for row, *values in zip(rows, *(cells[name] for name in names[part]), strict=True):
            table.add_row(plain(row), *values)
        out.print(table)


def _worth_showing(names: list[str]) -> list[str]:
    """Of many recalls the usual ranks and the last, of the mean average precisions the last."""
    recalls, maps = ([name for name in names if name.startswith(start)] for start in ("R@", "mAP@"))
    usual = [f"R@{k}" for k in RANKS] + recalls[-1:]
    shown = [name for name in recalls if len(recalls) <= len(usual) or name in usual]
    return shown + maps[-1:] + [name for name in names if name not in recalls + maps]


def _parts(widths: Sequence[int], room: int) -> Iterator[slice]:
    """Columns cut into as few runs of about equal number as fit the room, each with a blank before it."""
    count = 1
    while count < len(widths):
        step = math.ceil(len(widths) / count)
        runs = [slice(start, start + step) for start in range(0, len(widths), step)]
        if all(sum(widths[run]) + len(widths[run]) <= room for run in runs):
            break
        count += 1
    step = math.ceil(len(widths) / count)
    return (slice(start, start + step) for start in range(0, len(widths), step))


def _two_lines(words: str) -> int:
    """Width in which words take two lines at most: a row has two lines anyway."""
    least = max((len(word) for word in words.split()), default=0)
    return next(
        width for width in range(max(least, 1), len(words) + 2) if len(textwrap.wrap(words, width)) <= 2
    )


def _width(cell: str) -> int:
    return max(len(line.removeprefix("[dim]").removesuffix("[/]")) for line in cell.splitlines())


def _cell(interval: Interval | None) -> str:
    if interval is None or interval.n == 0:
        return "–"
    return f"{100 * interval.value:.1f}\n[dim]{100 * interval.low:.1f}–{100 * interval.high:.1f}[/]"


def _pairs_table(evaluation: Evaluation) -> None:
    if "pairs" not in evaluation.variants[0].curves:
        return
    out.print("[bold]Average precision over all pairs[/], in percent", highlight=False)
    cases = list(evaluation.variants[0].curves["pairs"])
    table = _table("", padding=(0, 0))
    table.add_column("descriptor", style="cyan")
    for case in cases:
        table.add_column(plain(case), justify="right", no_wrap=True)
    for variant in (one for one in evaluation.variants if "pairs" in one.curves):
        values = [variant.curves["pairs"][case]["average precision"] for case in cases]
        table.add_row(variant.title, *(f"{100 * value:.1f}" for value in values))
    out.print(table)


def _trust_lines(variant: Variant) -> None:
    """One line each on calibration and acceptance."""
    for name, formula in (("calibration", "1 − d/τ"), ("calibration, isotonic", "isotonic")):
        curve = variant.curves.get(name)
        if curve is None or curve["ece"] is None:
            continue
        known = curve["pearson"] is not None  # not so where one side is the same for all pairs
        correlation = (
            f"correlation {curve['pearson']:.2f}" if known else "no correlation: one of them is constant"
        )
        out.print(
            f"  {variant.title}: predicted overlap ({formula}) is off by {curve['ece']:.3f} on average (ECE),"
            f" {correlation}",
            highlight=False,
            soft_wrap=True,
        )
    if "acceptance" in variant.curves:
        from samespot.statistics.acceptance import promise_in_words

        said = promise_in_words(variant.curves["acceptance"]["at"])
        out.print(f"  {variant.title}: {said}", highlight=False, soft_wrap=True)


def comparison_table(comparison: Comparison, sides: tuple[Sequence[str], Sequence[str]]) -> None:
    """Which files are A and B, both sides' numbers, the difference with its interval, and a word on it."""
    lines = []
    for letter, paths, title in zip("AB", sides, comparison.titles, strict=True):
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        lines.append((letter, f"{_last_parts(paths[0])}{more}; descriptor: {title}"))
    _facts(lines)
    narrow = out.width < WIDE
    out.print(f"  {comparison.queries:,} queries count; in percent, A − B in points", highlight=False)
    if narrow:
        out.print("  [dim]below A − B its 95 % interval[/]")
    table = _table("", padding=(0, 0 if narrow else 1))
    for name in ("metric", "A", "B", "A − B" if narrow else "A − B, 95 % interval", "p", ""):
        words = name in ("metric", "")
        table.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    shown = _worth_showing([one.metric for one in comparison.differences])
    for one in comparison.differences:
        if one.metric not in shown:
            continue
        between = plain(one.difference.points())
        table.add_row(
            f"[cyan]{plain(one.metric)}[/]",
            f"{100 * one.first:.1f}",
            f"{100 * one.second:.1f}",
            between.replace(" ", "\n", 1) if narrow else between,
            "" if one.p is None else f"{one.p:.2g}",
            verdict(one.difference, "A"),
        )
    out.print(table)


def verdict(difference: Interval, side: str) -> str:
    """What an interval of `side` minus another says: better, worse, or nothing."""
    if not difference.significant:
        return "[dim]inconclusive[/]"
    return f"[green]{side} is better[/]" if difference.value > 0 else f"[red]{side} is worse[/]"


def _last_parts(path: str) -> str:
    """The end of a long path: …/runs/graded/evaluation.json."""
    parts = Path(path).parts
    return path if len(parts) <= 4 else "/".join(("…", *parts[-3:]))


def protocols_table(protocols: Iterable[Protocol]) -> None:
    table = _table("Protocols")
    for name in ("name", "what", "what counts as found"):
        table.add_column(name, no_wrap=name == "name")
    for one in protocols:
        table.add_row(f"[cyan]{one.name}[/]", one.title, one.positive)
    out.print(table)
    out.print(
        "[dim]`samespot protocols NAME` says which queries count, what is never retrieved, and its options.[/]"
    )


def protocol_page(protocol: Protocol) -> None:
    """All of one protocol."""
    facts = protocol.to_dict()
    out.print(f"[bold]{plain(protocol.title)}[/] ([cyan]{protocol.name}[/])", highlight=False)
    words = ("data_set", "queries", "positive", "exclusions", "citation")
    lines = [(word.replace("_", " "), str(facts[word]) or "none") for word in words]
    lines.append(("ranks", ", ".join(str(k) for k in protocol.ks)))
    for name, default in protocol.option_defaults().items():
        lines.append(("option", f"--{name.replace('_', '-')}, by default {default}"))
    _facts([*lines, *(("note", note) for note in protocol.notes)])


def _table(title: str, padding: tuple[int, int] = (0, 1)) -> Table:
    return Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE, padding=padding)
