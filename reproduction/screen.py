"""The board while experiments run, and the tables at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reproduction.comparators import measured
from reproduction.experiment import Experiment
from reproduction.judgement import Claim, Judged, Line, Verdict
from reproduction.page import MARKS, in_short
from reproduction.run import Outcome, Run, planned, seconds_left
from samespot.cli.console import err, out, plain

LAST = 8  # runs shown below the board
_SQUARES = {"waiting": "·", "running": "▶", "done": "■", "failed": "✗", "missing": "-", "spared": "-"}
_STYLES = {
    "waiting": "dim",
    "running": "bold cyan",
    "done": "green",
    "failed": "bold red",
    "missing": "dim",
    "spared": "dim",
}


# ---- the board ----


class Board:
    """One square for each run, grouped by data set; below them the run in progress and the last ones."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs, self.last = runs, list[Run]()
        self.doing, self.begun = "", time.monotonic()

    def heard(self, run: Run) -> None:
        if run.state in ("done", "failed") and run.seconds > 0:
            self.last = [*self.last, run][-LAST:]
        self.doing = ""

    def __rich__(self) -> RenderableType:
        grid = Table(box=None, padding=(0, 1), show_header=False)
        for overflow in ("ellipsis", "ellipsis", "fold"):
            grid.add_column(overflow=overflow)
        for data in dict.fromkeys(run.experiment.data for run in self.runs):
            mine = [run for run in self.runs if run.experiment.data == data]
            squares = Text()
            for run in mine:
                squares.append(_SQUARES[run.state], _STYLES[run.state])
            done = sum(run.state == "done" for run in mine)
            grid.add_row(f"[cyan]{data}[/]", f"{done} of {len(mine)}", squares)
        return Group(grid, *(_line(run) for run in self.last), self._now())

    def _now(self) -> Text:
        running = next((run for run in self.runs if run.state == "running"), None)
        left = seconds_left(self.runs)
        words = "" if running is None else f"▶ {running.experiment.key}, seed {running.seed}"
        words += f"  {self.doing}" if self.doing else ""
        words += "" if left is None else f"  about {_minutes(left)} left"
        return Text(words, "cyan")


def _line(run: Run) -> Text:
    style = _STYLES[run.state]
    text = Text(f"{_SQUARES[run.state]} ", style)
    text.append(f"{run.experiment.key}, seed {run.seed}  ", "default")
    return text.append(f"{run.note}  {run.seconds:.0f} s", "default" if run.state == "done" else style)


def _minutes(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.0f} min"


@contextmanager
def board(
    runs: list[Run],
) -> Iterator[tuple[list[Run], Callable[[Run], None], Callable[[str, int, int], None]]]:
    """Yields the runs, what is to be told of each, and a progress of what is built. Plain lines without a terminal."""
    shown = Board(runs)
    if not err.is_terminal:

        def tell_plainly(run: Run) -> None:
            if run.seconds > 0:
                err.print(_line(run), highlight=False, soft_wrap=True)

        yield runs, tell_plainly, lambda what, done, total: None
        return
    with Live(shown, console=err, refresh_per_second=4, transient=False) as live:

        def tell(run: Run) -> None:
            shown.heard(run)
            live.refresh()

        def progress(what: str, done: int, total: int) -> None:
            shown.doing = f"{what} {done} of {total}"

        yield runs, tell, progress


# ---- tables ----


def list_table(said: Sequence[Claim], every: Sequence[Experiment], seeds: int) -> dict[str, Any]:
    """Prints the claims and the matrix; the same as plain json."""
    grid = Table(title="Claims", title_justify="left", title_style="bold", box=SIMPLE)
    grid.add_column("claim", no_wrap=True)
    for column in ("in words", "the paper", "where"):
        grid.add_column(column, overflow="fold")
    for claim in said:
        grid.add_row(f"[cyan]{claim.id}[/]", plain(claim.words), plain(claim.paper), plain(claim.where))
    out.print(grid)
    table = Table(title="Experiments", title_justify="left", title_style="bold", box=SIMPLE)
    table.add_column("experiment", no_wrap=True)
    for column in ("labels", "changes"):
        table.add_column(column, overflow="fold")
    for one in every:
        table.add_row(f"[cyan]{one.key}[/]", one.labels if one.trained else "", plain(_changes(one)))
    out.print(table)
    out.print(f"  {len(every)} experiments, {len(planned(every, seeds))} runs", highlight=False)
    return {
        "claims": [_claim_facts(claim) for claim in said],
        "experiments": [{"name": one.key, "labels": one.labels, **one.changes} for one in every],
    }


def _changes(one: Experiment) -> str:
    if not one.trained:
        return "not trained"
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in one.changes.items())


def _claim_facts(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "claim": claim.words,
        "paper": claim.paper,
        "where": claim.where,
        "rule": claim.rule,
        "experiments": list(claim.experiments),
    }


_WORD_STYLES = {"holds": "green", "does not hold": "red", "inconclusive": "yellow", "not run": "dim"}


def claims_table(judged: Judged) -> None:
    """The claim, the paper's figure, ours, and the word."""
    table = Table(title="Claims", title_justify="left", title_style="bold", box=SIMPLE, show_lines=True)
    for column in ("claim", "the paper", "ours", ""):
        table.add_column(column, overflow="fold")
    for verdict in judged.verdicts:
        style = _WORD_STYLES[verdict.word]
        claim = verdict.claim
        paper = f"{claim.paper} ({claim.where})"
        ours = in_short(verdict) if verdict.judged else f"needs {len(verdict.needs)} experiments"
        table.add_row(plain(claim.words), plain(paper), plain(ours), f"[{style}]{MARKS[verdict.word]}[/]")
    out.print(table)


def closing_lines(outcome: Outcome) -> None:
    """What was not run, and what failed."""
    for run in outcome.failures:
        err.print(
            f"[bold red]failed[/] {plain(run.experiment.key)}, seed {run.seed}: {plain(run.note)}",
            highlight=False,
        )
    for why, keys in missing(outcome, by_reason=True).items():
        shown = f"{len(keys)} experiments" if len(keys) > 1 else keys[0]
        err.print(f"[yellow]not run[/] {plain(shown)}: {plain(why)}", highlight=False)
    if waiting := outcome.count("waiting"):
        err.print(f"[yellow]left[/] {waiting} runs; the same command goes on with them", highlight=False)


def missing(outcome: Outcome, by_reason: bool = False) -> dict[str, Any]:
    """Experiments that could not be run, and why; or the other way round."""
    found = {run.experiment.key: run.note for run in outcome.runs if run.state == "missing"}
    if not by_reason:
        return found
    reasons: dict[str, list[str]] = {}
    for key, why in found.items():
        reasons.setdefault(why, []).append(key)
    return reasons


def failed(outcome: Outcome) -> dict[str, str]:
    """Runs that did not end, and why."""
    return {f"{run.experiment.key}, seed {run.seed}": run.note for run in outcome.failures}


def facts(judged: Judged, outcome: Outcome) -> dict[str, Any]:
    """For --json: verdicts, comparators and failures."""
    return {
        "claims": [_verdict_facts(verdict) for verdict in judged.verdicts],
        "comparators": [
            {
                "name": one.comparator.words,
                "source": one.comparator.source,
                "experiment": one.experiment,
                "seeds": one.seeds,
                "dims": one.dims,
                "recall": {name: vars(interval) for name, interval in one.recall.items()},
                "rates": list(one.rates),
                "cost": vars(one.cost),
            }
            for one in measured(judged.results)
        ],
        "failed": failed(outcome),
        "not run": missing(outcome),
        "left": outcome.count("waiting"),
    }


def _verdict_facts(verdict: Verdict) -> dict[str, Any]:
    return {
        **_claim_facts(verdict.claim),
        "verdict": verdict.word,
        "comparisons": [_line_facts(line) for line in verdict.lines],
        "averages": [_line_facts(line) for line in verdict.averages],
    }


def _line_facts(line: Line) -> dict[str, Any]:
    return {
        "comparison": line.words,
        "verdict": line.word,
        "ours": line.ours,
        "interval": None if line.interval is None else vars(line.interval),
        "sides": list(line.sides),
        "needs": list(line.needs),
    }
