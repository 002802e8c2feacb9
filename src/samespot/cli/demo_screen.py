"""What the demo shows: a line and a bar for each stage, and at the end the table and where the report is."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table

from samespot.cli.answer_screen import answer_page
from samespot.cli.console import err, files_written, out, plain, progress_bar
from samespot.cli.evaluation_screen import verdict
from samespot.progress import Progress

if TYPE_CHECKING:
    from samespot.demo import DemoResult
    from samespot.evaluation.results import Variant

SHOWN = ("R@1", "R@5", "R@10", "overlap@1")


@contextmanager
def stages() -> Iterator[tuple[Callable[[str], None], Progress]]:
    """Yields `stage(what)`, to be called as each begins, and `report` of the bars below it."""
    begun: list[tuple[str, float]] = []

    def finish() -> None:
        if begun:
            what, since = begun.pop()
            err.print(f"[green]✓[/] {plain(what)} [dim]{time.monotonic() - since:.0f} s[/]", highlight=False)

    with progress_bar() as report:

        def stage(what: str) -> None:
            finish()
            begun.append((what, time.monotonic()))
            if not err.is_terminal:
                err.print(f"[dim]…[/] {plain(what)}", highlight=False)

        yield stage, report
        finish()


def demo_screen(result: DemoResult) -> None:
    """A photo that was located, recall of both models with intervals, their difference, and what to open and ask."""
    _located(result)
    table = Table(
        title="Streets that neither model has seen", title_justify="left", title_style="bold", box=SIMPLE
    )
    table.add_column("", no_wrap=True)
    for name in SHOWN:
        table.add_column(name, justify="right", no_wrap=True)
    for model, evaluation in result.evaluations.items():
        for descriptor in result.differences:
            variant = evaluation.variant(descriptor)
            table.add_row(f"[cyan]{_label(model, variant)}[/]", *(_cell(variant, name) for name in SHOWN))
    out.print(table)
    for descriptor, comparison in result.differences.items():
        first = next((one for one in comparison.differences if one.metric == "R@1"), None)
        if first is not None:
            what = _label("graded − binary", result.evaluations["graded"].variant(descriptor))
            word = verdict(first.difference, "graded")
            points = plain(first.difference.points())
            out.print(f"  {what}, R@1: [bold]{points}[/], {word}", highlight=False)
    out.print("  [dim]in percent, with 95 % intervals; one seed; whitened on the training streets[/]\n")
    files_written(result.files[:-1])
    out.print(f"\n[bold]Open[/] {plain(str(result.report.absolute()))}", highlight=False, soft_wrap=True)
    ask = shlex.join(["samespot", "locate", str(result.map), str(result.example.photo)])
    out.print(f"[bold]Ask[/]  {plain(ask)}", highlight=False, soft_wrap=True)


def _located(result: DemoResult) -> None:
    answer = result.example.answer
    out.print("\n[bold]Where was this photo taken?[/]")
    answer_page(replace(answer, matches=answer.matches[:3]))
    found = "the answer" if answer.found else "the best guess"
    out.print(
        f"  In truth, {found} is {result.example.error:.0f} m from where it was taken.\n", highlight=False
    )


def _label(what: str, variant: Variant) -> str:
    return what if variant.whitened_on is None else f"{what}, whitened {variant.dims}"


def _cell(variant: Variant, name: str) -> str:
    one = variant.metrics.get(name)
    return "" if one is None else f"{100 * one.value:.1f} [dim]{100 * one.low:.0f}–{100 * one.high:.0f}[/]"
