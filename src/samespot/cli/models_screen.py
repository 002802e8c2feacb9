"""The models by name on a screen: a table as wide as the terminal allows, or all about one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.table import Table

from samespot.cli import console
from samespot.model.catalogue import ModelDescription


@dataclass(frozen=True)
class _Column:
    """Shown on terminals of at least `wide` letters."""

    title: str
    cell: Callable[[ModelDescription], str]
    wide: int = 0
    number: bool = False


_COLUMNS = (
    _Column("name", lambda one: f"[cyan]{one.name}[/]"),
    _Column("trunk", lambda one: one.backbone, 124),
    _Column("dims", lambda one: f"{one.dims:,}", number=True),
    _Column("input", lambda one: _size(one), 72),
    _Column("parameters", lambda one: f"{one.parameters / 1e6:.1f} M", 88, number=True),
    _Column("MB", lambda one: f"{one.megabytes:,}", 80, number=True),
    _Column("here", lambda one: "[green]yes[/]" if one.here else "[dim]no[/]"),
    _Column("images/s", lambda one: _speed(one), 96, number=True),
    _Column("weights", lambda one: _short(one.licence)),
    _Column("code", lambda one: _short(one.code_licence), 108),
)


def models_table(found: Sequence[ModelDescription], all_variants: bool) -> None:
    """What can be had by name; one line a family unless all variants are asked for."""
    variants = Counter(one.family for one in found if one.family is not None)
    shown = [one for one in found if all_variants or one.family is None]
    columns = [one for one in _COLUMNS if one.wide <= console.out.width]
    if not any(one.images_per_second for one in shown):
        columns = [one for one in columns if one.title != "images/s"]
    grid = Table(title="Models by name", title_justify="left", title_style="bold", box=SIMPLE)
    for column in columns:
        title = f"licence of {column.title}" if column.title in ("weights", "code") else column.title
        grid.add_column(
            title,
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=column.title == "name",
        )
    for one in shown:
        grid.add_row(*(column.cell(one) for column in columns))
    console.out.print(grid)
    if not all_variants:
        _tell_variants(variants)
    console.out.print(
        "[dim]`samespot models NAME` shows all about one; --json has everything.[/]", highlight=False
    )
    console.out.print(
        "[dim]Any trunk of timm works, too: `samespot describe convnext_tiny-gem@224x224 …`[/]",
        highlight=False,
    )


def _tell_variants(variants: Counter[str]) -> None:
    trunks = [family.removesuffix("-gem") for family in variants if family.endswith("-gem")]
    for family, count in variants.items():
        if not family.endswith("-gem"):
            console.out.print(
                f"[dim]{family} has {count} variants: `samespot models {family}`[/]", highlight=False
            )
    if trunks:
        console.out.print(
            f"[dim]With average or maximum pooling: {trunks[0]}-gap, {trunks[0]}-max, and so on.[/]",
            highlight=False,
        )


def model_page(one: ModelDescription) -> None:
    """All about one model."""
    facts = {
        "trunk": one.backbone,
        "pooling": one.pool,
        "dims": f"{one.dims:,}",
        "input": _size(one),
        "parameters": f"{one.parameters:,}",
        "size": f"about {one.megabytes:,} MB",
        "on this machine": "yes" if one.here else "no",
        "images/s": _speed(one),
        "licence of weights": one.licence,
        "licence of code": one.code_licence,
        "sha256": one.sha256 or "",
        "paper": one.paper or "",
        "source": one.source,
    }
    grid = Table(title=one.name, title_justify="left", title_style="bold", show_header=False, box=None)
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value:
            grid.add_row(name, console.plain(value))
    console.out.print(grid)


def _size(one: ModelDescription) -> str:
    return "{}x{}".format(*one.image_size)


def _speed(one: ModelDescription) -> str:
    return "" if one.images_per_second is None else f"{one.images_per_second:,.0f}"


def _short(licence: str) -> str:
    """Without what stands in brackets after it."""
    return console.plain(licence.partition(" (")[0])
