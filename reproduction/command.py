"""What a user asks `python -m reproduction claims` for, the board while it runs, and the tables at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reproduction.claims import claims
from reproduction.comparators import measured
from reproduction.data_sets import KINDS, data_sets
from reproduction.experiment import SEEDS, Experiment, Result, Store
from reproduction.judgement import NOT_RUN, Claim, Judged, Line, Results, Verdict, judge_all
from reproduction.matrix import experiments
from reproduction.page import MARKS, in_short
from reproduction.run import Outcome, Run, chosen, planned, run_matrix, seconds_left
from samespot.cli.console import err, out, plain
from samespot.errors import InputError

if TYPE_CHECKING:
    from reproduction.measure import Bench
    from samespot.progress import Progress

USUAL = ("campus", "town", "redkitchen")  # data sets whose experiments are always in the matrix
BESIDE = "weights"  # folder beside the data where weights are looked for
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


@dataclass(frozen=True)
class ClaimsRequest:
    """What was typed."""

    out: Path = Path("reproduce")
    data: Path | None = None
    root: tuple[str, ...] = ()  # NAME=FOLDER
    weights: tuple[str, ...] = ()  # BACKBONE=FILE
    only: tuple[str, ...] = ()
    seeds: int = SEEDS
    steps: int | None = None
    seconds: float | None = None
    work: Path | None = None
    device: str = "auto"
    collect: bool = False
    beside: bool = False

    def __post_init__(self) -> None:
        for name in ("seeds", "steps", "seconds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name} {value:g} must be at least 1")
        if self.collect and self.only:
            raise InputError("--collect judges all that is there; leave --only out")

    def roots(self) -> dict[str, Path]:
        return _assignments("--root", self.root, "NAME=FOLDER, e.g. msls=MSLS")

    def weight_files(self) -> dict[str, Path]:
        """Those given, and VGG16's where it lies beside the data."""
        given = _assignments("--weights", self.weights, "BACKBONE=FILE, e.g. vgg16=vgg16.safetensors")
        for backbone, path in given.items():
            if not path.is_file():
                raise InputError(f"--weights {backbone}={path}: no such file")
        if "vgg16" not in given and self.data is not None:
            beside = sorted((self.data.resolve().parent / BESIDE).glob("vgg16*.safetensors"))
            if beside:
                given["vgg16"] = beside[0]
        return given


def command_in_words(asked: ClaimsRequest, results: Results) -> str:
    """How anyone would get these results; folders of this machine are no part of it.

    Data sets and seeds are those of the results, which may be of several calls.
    """
    words = ["python -m reproduction claims --data DATA"]
    sets = {key.partition("/")[0] for key in results}
    words += [f"--root {name}={name.upper()}" for name in KINDS if name in sets and name not in USUAL]
    words += [f"--weights {word.partition('=')[0]}=FILE" for word in asked.weights]
    seeds = max((len(runs) for runs in results.values()), default=asked.seeds)
    words += [f"--seeds {seeds}"] if seeds != SEEDS else []
    words += [f"--steps {asked.steps}"] if asked.steps is not None else []
    return " ".join(words)


def _assignments(option: str, words: Sequence[str], example: str) -> dict[str, Path]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise InputError(f"{option} {word!r}: give {example}")
        found[name] = Path(value)
    return found


def at_hand(asked: ClaimsRequest) -> list[str]:
    """Names of the data sets whose experiments are in the matrix: the three usual ones, and others given."""
    unknown = sorted(set(asked.roots()) - set(KINDS))
    if unknown:
        raise InputError(f"--root {unknown[0]}=…: no such data set here; choose one of {', '.join(KINDS)}")
    return [*USUAL, *(name for name in asked.roots() if name not in USUAL)]


def claims_asked(asked: ClaimsRequest) -> list[Claim]:
    return claims(at_hand(asked))


def measure_claims(asked: ClaimsRequest) -> tuple[Judged, Outcome]:
    """Run what is not there yet, under the board, and judge all claims by what is there then."""
    store, names = Store(asked.out, asked.steps), at_hand(asked)
    every, said = experiments(names), claims(names)
    wanted = chosen(every, said, asked.only)
    if asked.collect:
        return _collected(asked, store)
    with board(planned(wanted, asked.seeds)) as (runs, tell, progress):
        bench = _bench(asked, progress)
        lacks = {one.key: why for one in every if (why := bench.lacks(one)) is not None}
        _refuse_nothing_to_run(lacks, wanted)
        store.save_lacks(lacks)
        outcome = run_matrix(bench, runs, store, tell, asked.seconds)
        # the claims are judged by all that is there, and not only by what was asked for
        unasked = [run for run in planned(every, asked.seeds) if run.experiment not in wanted]
        others = run_matrix(bench, unasked, store, seconds=0)
    outcome.results += others.results
    outcome.runs += [run for run in others.runs if run.state == "missing"]
    return judge_all(said, outcome.results, _beyond(outcome.runs)), outcome


def _bench(asked: ClaimsRequest, progress: Progress | None = None) -> Bench:
    from reproduction.measure import Bench

    work = asked.work or asked.out / "work"
    sets = data_sets(asked.data, asked.roots(), work, progress)
    return Bench(
        sets, work, asked.weight_files(), steps=asked.steps, device=asked.device, beside=asked.beside
    )


def _collected(asked: ClaimsRequest, store: Store) -> tuple[Judged, Outcome]:
    """What is there, whatever machine it is from; and what lacks, by the data that is named, else as it was told."""
    there = store.all()
    found = {one.experiment.partition("/")[0] for one in there}
    names = list(dict.fromkeys([*at_hand(asked), *(name for name in KINDS if name in found)]))
    runs = planned(experiments(names), 1)
    asked_for = {run.experiment.key for run in runs}
    results = of_one_kind([one for one in there if one.experiment in asked_for])
    if not results:
        raise InputError(f"--collect: no results below {store.folder}; run without it first")
    done, told, bench = {one.experiment for one in results}, store.lacks(), None
    if asked.data is not None or asked.root:
        with suppress(InputError):  # collected on a machine that has not the data
            bench = _bench(asked)
    for run in runs:
        if run.experiment.key in done:
            run.state = "done"
        else:
            why = told.get(run.experiment.key) if bench is None else bench.lacks(run.experiment)
            run.state, run.note = "missing", why or NOT_RUN
    return judge_all(claims(names), results, _beyond(runs)), Outcome(runs, results)


def of_one_kind(results: Sequence[Result]) -> list[Result]:
    """Of each experiment the runs of one digest: those of other options or data are no further seeds of it.

    That of most seeds is taken, and of as many that of the lowest seed.
    """
    kinds: dict[str, dict[str, list[Result]]] = {}
    for one in sorted(results, key=lambda one: one.seed):
        kinds.setdefault(one.experiment, {}).setdefault(one.digest, []).append(one)
    return [one for digests in kinds.values() for one in max(digests.values(), key=len)]


def _beyond(runs: Sequence[Run]) -> set[str]:
    """What cannot be run with what is at hand."""
    return {run.experiment.key for run in runs if run.state == "missing" and run.note != NOT_RUN}


def _refuse_nothing_to_run(lacks: Mapping[str, str], wanted: Sequence[Experiment]) -> None:
    reasons = [lacks.get(one.key) for one in wanted]
    if reasons and all(reasons):
        raise InputError(
            f"nothing can be run: the first experiment {reasons[0]};"
            " give --data (a folder with campus/ and redkitchen/), --root or --weights"
        )


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


def list_table(asked: ClaimsRequest) -> dict[str, Any]:
    """Prints the claims and the matrix; the same as plain json."""
    names = at_hand(asked)
    said = claims(names)
    every = chosen(experiments(names), said, asked.only)
    if asked.only:
        keys = {one.key for one in every}
        named = [claim for claim in said if claim.id in asked.only]
        said = named or [claim for claim in said if keys & set(claim.experiments)]
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
    out.print(f"  {len(every)} experiments, {len(planned(every, asked.seeds))} runs", highlight=False)
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


_WORD_STYLES = {"holds": "green", "does not hold": "red", "cannot tell": "yellow", "not run": "dim"}


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
