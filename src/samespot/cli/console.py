"""What commands print: tables for people, json for programs, one bar at a time for long work."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from samespot.errors import InputError
from samespot.files import write_whole
from samespot.overlap.rules import words_of
from samespot.places.wording import first_few, told_of

if TYPE_CHECKING:  # a line about a typo must not wait for pandas and torch
    from samespot.places.catalogue import DataSet, Finding
    from samespot.places.table import Places
    from samespot.retrieval.descriptors import Descriptors
    from samespot.training.run_folder import TrainingResult


class _BesideBar(Console):
    """Standard output. A bar on standard error, often the same terminal, makes room while something is said."""

    bar: Progress | None = None  # that is shown now

    def print(self, *objects: Any, **how: Any) -> None:
        live = self.bar.live if self.bar is not None and self.is_terminal else None
        if live is not None:
            live.stop()
        super().print(*objects, **how)
        if live is not None:
            live.start(refresh=True)


out = _BesideBar()
err = Console(stderr=True)


EVERY = 15.0  # [s] between plain lines of progress
STDOUT = Path("-")


class PlainProgress:
    """Progress where there is no terminal, as under nohup or in a pipe: a line now and then, none for short work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._said = clock, clock()

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._clock() - self._said < EVERY:
            return
        self._said = self._clock()
        share = f" of {total:,} ({done / total:.0%})" if total else ""
        err.print(f"{plain(what)}: {done:,}{share}", highlight=False, soft_wrap=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Yields `report(what, done, total)`. Each `what` up to " · " gets a bar of its own, or without a terminal plain
    lines now and then."""
    if not err.is_terminal:
        yield PlainProgress()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            name = what.partition(" · ")[0]
            if name not in tasks:
                tasks[name] = bar.add_task(what, total=total or None)
            bar.update(tasks[name], description=what, completed=done, total=total or None)

        out.bar = bar
        try:
            yield report
        finally:
            out.bar = None


def complain(line: str) -> None:
    """A user's mistake."""
    err.print(f"[bold red]samespot:[/] {_one_line(line)}", highlight=False, soft_wrap=True)


def write_json(result: Any, path: Path | None) -> None:
    """The `--json FILE` of every command; `-` is standard output."""
    if path is None:
        return
    if path == STDOUT:
        sys.stdout.write(json_text(result))
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json_text(result).encode())
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def json_text(result: Any) -> str:
    return json.dumps(result, indent=1, default=str) + "\n"


@contextmanager
def tables_for(json: Path | None) -> Iterator[None]:
    """Where json goes to standard output, tables for people go to standard error meanwhile."""
    if json != STDOUT:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):  # rich asks for it at each print
        yield


def next_step(*words: object) -> None:
    """What one would type next, after `samespot`; quoted as a shell wants it."""
    command = shlex.join(["samespot", *map(str, words)])
    err.print(f"[dim]next:[/] {plain(command)}", highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Text as it is: square brackets are not markup, and control codes in a file name do not reach the terminal."""
    shown = (c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    return escape("".join(shown))


def _one_line(text: str) -> str:
    """One line, whatever line breaks are in it."""
    return plain(" ".join(text.split()))


def warn(line: str) -> None:
    """Something the user should know, although the command succeeds."""
    err.print(f"[yellow]note[/] {_one_line(line)}", highlight=False, soft_wrap=True)


def notes_of(*tables: Places) -> None:
    """What the readers had to say about these tables, each line once."""
    for kind, line in told_of(tables):
        err.print(f"[yellow]{kind}[/] {_one_line(line)}", highlight=False, soft_wrap=True)


def files_written(files: Sequence[Path]) -> None:
    out.print("\n".join(f"[dim]wrote[/] {plain(str(f))}" for f in files), highlight=False, soft_wrap=True)


def facts_table(title: str, facts: Mapping[str, str]) -> None:
    """Names and values, one line each."""
    grid = _grid(title)
    for name, value in facts.items():
        grid.add_row(name, value)
    out.print(grid)


def counts_table(title: str, counts: dict[str, int]) -> None:
    """Pairs by class, with their share of all pairs."""
    grid = _grid(title)
    for name in ("positive", "hard positive", "soft negative", "hard negative"):
        indent = "  of these ψ ≥ .75" if name == "hard positive" else f"{name} {_CLASS_LIMITS[name]}"
        grid.add_row(indent, f"{counts[name]:,}", f"{counts[name] / max(counts['pairs'], 1):.3%}")
    grid.add_row("non-zero", f"{counts['nonzero']:,}", f"{counts['nonzero'] / max(counts['pairs'], 1):.3%}")
    grid.add_row("all pairs", f"{counts['pairs']:,}", "")
    out.print(grid)


def label_table(summary: dict[str, Any]) -> None:
    """What was labelled: the rule, pairs by class, time and speed."""
    counts_table(
        f"{summary['name']}: {summary['queries']:,} queries × {summary['map images']:,} map images", summary
    )
    if summary["self pairs"]:
        out.print(f"  incl. {summary['self pairs']:,} pairs of an image with itself", highlight=False)
    made = f"scene made in {summary['scene seconds']:.2f} s, " if summary["scene seconds"] else ""
    rate, nonzero = summary["pairs per second"], summary["nonzero pairs per second"]
    out.print(
        f"  {words_of(summary['labels'])}; {made}labelled in {summary['seconds']:.2f} s: "
        f"{_short(rate)}pairs/s, of which {_short(nonzero)}non-zero",
        highlight=False,
        soft_wrap=True,
    )


def places_facts(places: Places) -> dict[str, Any]:
    """A table of places in a few numbers, as plain json."""
    import numpy as np

    positions = places.positions
    placed = positions[~np.isnan(positions[:, :2]).any(axis=1)]
    span = np.ptp(placed[:, :2], axis=0) if len(placed) else np.zeros(2)
    facts: dict[str, Any] = {
        "images": len(places),
        "with position": len(placed),
        "with heading": int(np.isfinite(positions[:, 2]).sum()),
        "with 6DOF pose": len(places) if places.has_pose else 0,
        "panoramas": int(places.panoramas.sum()),
        "extent [m]": [round(float(x), 1) for x in span],
        "projection": places.projection,
        "root": str(places.root),
        "dropped": places.dropped,
        "notes": list(places.notes),
        "digest": places.digest(),
    }
    for column in ("split", "condition"):
        if column in places.table:
            facts[column] = {str(k): int(v) for k, v in places.table[column].value_counts().items()}
    return facts


def places_table(places: Places) -> None:
    facts = places_facts(places)
    grid = _grid(f"{facts['images']:,} images under {plain(facts['root'])}")
    for name in ("with position", "with heading", "with 6DOF pose", "panoramas"):
        grid.add_row(name, f"{facts[name]:,}")
    grid.add_row("extent", "{:,.0f} m × {:,.0f} m".format(*facts["extent [m]"]))
    grid.add_row("projection", facts["projection"] or "local metres")
    for column in ("split", "condition"):
        if column in facts:
            grid.add_row(column, ", ".join(f"{k} {v:,}" for k, v in facts[column].items()))
    out.print(grid)


def datasets_facts(known: Sequence[DataSet], found: Sequence[Finding]) -> list[dict[str, Any]]:
    return [
        {
            "name": d.name,
            "title": d.title,
            "ask": d.ask,
            "found": [
                {"root": str(f.root), "parts": f.parts, "missing": f.missing}
                for f in found
                if f.data_set is d
            ],
        }
        for d in known
    ]


def datasets_table(known: Sequence[DataSet], found: Sequence[Finding], root: Path) -> None:
    """What is supported and what is here; then, for what is not, where to ask."""
    grid = Table(
        title=f"Data sets under {plain(str(root))}", title_justify="left", title_style="bold", box=SIMPLE
    )
    for name in ("name", "what", "here"):
        grid.add_column(name, overflow="fold", no_wrap=name == "name")
    for data_set in known:
        here = [f for f in found if f.data_set is data_set]
        grid.add_row(f"[cyan]{data_set.name}[/]", data_set.title, _here(data_set, here))
    out.print(grid)
    for finding in found:
        if finding.missing:
            lacking = f"{len(finding.missing)} parts or files are missing ({first_few(finding.missing)})"
            line = f"[yellow]note[/] {plain(str(finding.root))}: {plain(lacking)}"
            out.print(line, soft_wrap=True, highlight=False)
    absent = [d for d in known if not d.own and all(f.data_set is not d for f in found)]
    if absent:
        out.print("[bold]Where to ask[/]")
    for data_set in absent:
        out.print(f"  [cyan]{data_set.name:12}[/] {plain(data_set.ask)}", soft_wrap=True, highlight=False)
    out.print("[dim]`samespot datasets --layout NAME` shows the files that a data set consists of.[/]")


def _here(data_set: DataSet, findings: Sequence[Finding]) -> str:
    if data_set.own:
        return "[dim]give its folder to any command[/]"
    if not findings:
        return "[dim]not found[/]"
    lines = []
    for finding in findings:
        number = "1 part" if len(finding.parts) == 1 else f"{len(finding.parts)} parts"
        lines.append(f"[green]{number}[/] in {plain(str(finding.root))}")
    return "\n".join(lines)


def say(line: str) -> None:
    """A line of a running command: its settings, a warning."""
    err.print(plain(line), highlight=False, soft_wrap=True, style="dim")


def refuse_absent_machine(device: str, decode: str, ray: str | None) -> None:
    """Raise where the device or, if one is asked for, the cluster is not there; devices of a cluster are its own."""
    from samespot.cluster import refuse_absent

    if ray is None:
        refuse_absent_device(device, decode)
    else:
        refuse_absent(ray)


def refuse_absent_device(device: str, decode: str = "auto") -> None:
    """Raise where the device that is asked for is not there; torch is asked only if it can know better."""
    from samespot.gpus import check_name, driver_there, needs_gpu_to_decode, no_gpu

    check_name(device)
    if decode == "gpu" and (device == "cpu" or not driver_there()):
        raise needs_gpu_to_decode()
    if device.startswith("cuda"):
        if not driver_there():
            raise no_gpu(device)
        from samespot.devices import device_named

        device_named(device, decode)


def first_process() -> bool:
    """Whether this is the process that prints, of those that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def training_table(result: TrainingResult) -> None:
    grid = _grid(f"{plain(str(result.run))}: {result.steps:,} steps, {result.pairs:,} pairs")
    grid.add_row("loss at the end", "" if result.loss is None else f"{result.loss:.4f}")
    grid.add_row("speed", f"{result.pairs_per_second:,.0f} pairs/s")
    grid.add_row("forward passes", f"{result.learning_images:,} images")
    if result.mining_images:
        mined = f"{result.mining_images:,} images in {result.mining_seconds:,.1f} s"
        grid.add_row("forward passes, mining", mined)
    if result.redrawn:
        grid.add_row("queries drawn again", f"{result.redrawn:,}")
    if result.skipped_images:
        grid.add_row("images skipped", f"{len(result.skipped_images):,}")
    for k, share in result.best_recall.items():
        grid.add_row(f"validation R@{k} of the best model", f"{share:.1%}")
    out.print(grid)
    for line in result.warnings:
        warn(line)


def descriptors_table(described: Descriptors) -> None:
    meta = described.meta
    grid = _grid(f"{meta['images']:,} images described")
    grid.add_row("descriptors", f"{meta['dims']:,} dims, {meta['dtype']}")
    grid.add_row("network", f"{meta['backbone']}")
    grid.add_row("precision", str(meta["precision"]))
    grid.add_row("runtime", str(meta.get("runtime", "torch")), plain(str(meta.get("runtime_note", ""))))
    if "whitening" in meta:
        grid.add_row("whitened", f"as fitted on {meta['whitening']['fitted on']}")
    if meta["bad"]:
        grid.add_row("could not be read", f"{len(meta['bad']):,}")
    out.print(grid)


_CLASS_LIMITS = {"positive": "ψ ≥ .5", "soft negative": "0 < ψ < .5", "hard negative": "ψ = 0"}


def _grid(title: str) -> Table:
    grid = Table(
        title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2)
    )
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(justify="right")
    grid.add_column(justify="right", style="dim")
    return grid


def _short(number: float) -> str:
    for limit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g} {letter} "
    return f"{number:.0f} "
