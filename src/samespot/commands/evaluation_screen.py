"""How an evaluation, a comparison and the catalogue of protocols look on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table

from samespot.console import err, out, plain

if TYPE_CHECKING:
    from samespot.evaluation.compare import Comparison
    from samespot.evaluation.intervals import Interval
    from samespot.evaluation.protocol import Protocol
    from samespot.evaluation.results import Evaluation, Variant

MOST_GROUPS = 30  # rows of a broken-down table that are printed; the json has them all


def evaluation_tables(evaluation: Evaluation) -> None:
    """Metrics of each descriptor with 95 % intervals, then the first one by case and condition."""
    protocol, counted = evaluation.protocol, int(evaluation.queries.counted.sum())
    total = len(evaluation.queries)
    out.print(f"[bold]{plain(protocol['title'])}[/] ([cyan]{protocol['name']}[/])", highlight=False)
    for word in ("queries", "positive", "exclusions"):
        if protocol[word]:
            out.print(f"  [dim]{word:10}[/] {plain(protocol[word])}", highlight=False, soft_wrap=True)
    images = sum(case["map images"] for case in evaluation.cases)
    out.print(f"  {counted:,} of {total:,} queries count, {images:,} map images", highlight=False)
    if evaluation.variants[0].metrics:
        _metrics_table("", {v.name: v.metrics for v in evaluation.variants}, "descriptor")
    first = evaluation.variants[0]
    for column, values in first.by.items():
        shown = dict(list(values.items())[:MOST_GROUPS])
        _metrics_table(f"by {column}, descriptor {first.name}", shown, column)
    _pairs_table(evaluation)
    for variant in _telling(evaluation):
        _trust_lines(variant)
    for note in evaluation.notes:
        err.print(f"[yellow]note[/] {plain(note)}", highlight=False, soft_wrap=True)


def _telling(evaluation: Evaluation) -> list[Variant]:
    """The plain descriptor, and the whitened one with the best recall."""
    plain, *others = evaluation.variants
    ranked = [v for v in others if v.metrics]
    best = max(ranked, key=lambda v: next(iter(v.metrics.values())).value, default=None)
    return [plain] if best is None else [plain, best]


def _metrics_table(title: str, rows: Mapping[str, Mapping[str, Interval]], first: str) -> None:
    names = list(dict.fromkeys(name for metrics in rows.values() for name in metrics))
    shown = [name for name in names if not name.startswith("mAP@") or name == _last_map(names)]
    table = _table(title)
    table.add_column(first, style="cyan", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    out.print("  [dim]in percent; below each its 95 % interval[/]" if not title else "")
    for row, metrics in rows.items():
        table.add_row(plain(row), *(_cell(metrics.get(name)) for name in shown))
    out.print(table)


def _last_map(names: Iterable[str]) -> str | None:
    return next((name for name in reversed(list(names)) if name.startswith("mAP@")), None)


def _cell(interval: Interval | None) -> str:
    if interval is None or interval.n == 0:
        return "–"
    return f"{100 * interval.value:.1f}\n[dim]{100 * interval.low:.1f}–{100 * interval.high:.1f}[/]"


def _pairs_table(evaluation: Evaluation) -> None:
    if "pairs" not in evaluation.variants[0].curves:
        return
    table = _table("average precision over all pairs")
    table.add_column("case", style="cyan")
    for variant in evaluation.variants:
        table.add_column(variant.name, justify="right")
    for case in evaluation.variants[0].curves["pairs"]:
        values = [variant.curves["pairs"][case]["average precision"] for variant in evaluation.variants]
        table.add_row(case, *(f"{100 * value:.1f}" for value in values))
    out.print(table)


def _trust_lines(variant: Variant) -> None:
    """One line each on calibration and acceptance."""
    for name in ("calibration", "calibration, isotonic"):
        if name in variant.curves:
            curve = variant.curves[name]
            out.print(
                f"  {variant.name}: predicted overlap ({'1 − d/τ' if name == 'calibration' else 'isotonic'}) is off by"
                f" {curve['ece']:.3f} on average (ECE), correlation {curve['pearson']:.2f}",
                highlight=False,
                soft_wrap=True,
            )
    if "acceptance" in variant.curves:
        at = variant.curves["acceptance"]["at"]
        asked = f"{variant.name}: to be right {at['asked']:.0%} of the time, "
        if at["distance"] is None:
            said = "no threshold on the distance is enough"
        else:
            said = (
                f"accept d ≤ {at['distance']:.3f}: {at['recall']:.1%} of the queries in the map are answered rightly,"
                f" {at['false_accepts']:.1%} of those that are not are accepted"
            )
        out.print(f"  {asked}{said}", highlight=False, soft_wrap=True)


def comparison_table(comparison: Comparison, names: tuple[str, str]) -> None:
    """Both sides, the difference with its interval, and a word on it."""
    runs = "×".join(str(n) for n in comparison.runs)
    table = _table(f"{names[0]} − {names[1]}: {comparison.queries:,} queries, {runs} runs")
    for name in (
        "metric",
        f"A: {comparison.first}",
        f"B: {comparison.second}",
        "A − B, 95 % interval",
        "p",
        "",
    ):
        table.add_column(name, justify="left" if name in ("metric", "") else "right")
    for one in comparison.differences:
        table.add_row(
            f"[cyan]{one.metric}[/]",
            f"{100 * one.first:.1f}",
            f"{100 * one.second:.1f}",
            one.difference.points(),
            "" if one.p is None else f"{one.p:.2g}",
            "[green]significant[/]" if one.significant else "[dim]cannot tell[/]",
        )
    out.print(table)


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
    for word in ("data_set", "queries", "positive", "exclusions", "citation"):
        out.print(
            f"  [dim]{word.replace('_', ' '):10}[/] {plain(str(facts[word]) or 'none')}", highlight=False
        )
    out.print(f"  [dim]{'ranks':10}[/] {', '.join(str(k) for k in protocol.ks)}", highlight=False)
    for name, default in protocol.options.items():
        out.print(
            f"  [dim]{'option':10}[/] --{name.replace('_', '-')}, by default {default}", highlight=False
        )
    for note in protocol.notes:
        out.print(f"  [dim]{'note':10}[/] {plain(note)}", highlight=False)


def _table(title: str) -> Table:
    return Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1))
