"""The loop over experiments and seeds: what is there is skipped, what fails is recorded, and a stopped call goes on."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from reproduction.experiment import Experiment, Failure, Result, Store
from reproduction.judgement import SMALL, Claim, best_rate, by_experiment
from reproduction.measure import Bench
from reproduction.scores import mean_of, stacked
from samespot.errors import InputError
from samespot.training.stopping import StopRequested

State = Literal["waiting", "running", "done", "failed", "missing", "spared"]


@dataclass
class Run:
    """One experiment with one seed, and how far it is."""

    experiment: Experiment
    seed: int
    state: State = "waiting"
    note: str = ""  # R@1 and R@5 when done; why, when failed, missing or spared
    seconds: float = 0.0  # that it took in this call; 0 where it was there before


Tell = Callable[[Run], None]


@dataclass
class Outcome:
    runs: list[Run]
    results: list[Result] = field(default_factory=list)

    def count(self, state: State) -> int:
        return sum(run.state == state for run in self.runs)

    @property
    def failures(self) -> list[Run]:
        return [run for run in self.runs if run.state == "failed"]


def chosen(
    experiments: Sequence[Experiment], claims: Sequence[Claim], only: Sequence[str]
) -> list[Experiment]:
    """Those named, by the id of a claim, a data set, or (a part of) the name of an experiment; all without names."""
    if not only:
        return list(experiments)
    wanted: set[str] = set()
    by_id = {claim.id: set(claim.experiments) for claim in claims}
    for name in only:
        found = by_id.get(name) or {
            one.key for one in experiments if name in (one.data, one.key, one.name)
        } or {one.key for one in experiments if name in one.key}  # fmt: skip
        if not found:
            raise InputError(f"`only={name}`: no such claim or experiment; `show` lists them")
        wanted |= found
    return [one for one in experiments if one.key in wanted]


def planned(experiments: Sequence[Experiment], seeds: int) -> list[Run]:
    """Every experiment with the first seed, then with the second: a call that is stopped has all of them early."""
    return [Run(one, seed) for seed in range(seeds) for one in experiments if seed in one.seeds(seeds)]


def run_matrix(
    bench: Bench,
    runs: list[Run],
    store: Store,
    tell: Tell = lambda run: None,
    seconds: float | None = None,
) -> Outcome:
    """Do what is not there yet. seconds: begin no run after so many."""
    outcome, begun = Outcome(runs), time.monotonic()
    digests: dict[str, str] = {}
    for run in runs:  # first what is there, so that the board tells how much is left
        run.state, run.note = "waiting", ""
        if lack := bench.lacks(run.experiment):
            run.state, run.note = "missing", lack
        elif there := store.load(run.experiment.key, run.seed, _digest(bench, run.experiment, digests)):
            _done(run, there, outcome)
        tell(run)
    for run in runs:
        if run.state == "waiting" and (seconds is None or time.monotonic() - begun < seconds):
            if better := _better_rates(run, outcome.results, runs):
                run.state, run.note = "spared", f"the first seed is better at {' and '.join(better)}"
                tell(run)
            else:
                _do(bench, run, store, tell, outcome, digests)
    return outcome


def _better_rates(run: Run, results: Sequence[Result], runs: Sequence[Run]) -> list[str]:
    """For a further seed of one of several rates: the experiments that its first seed was beaten by.

    At most two go on: the best of plain descriptors and that of whitened ones.
    """
    family = run.experiment.rate_of
    if family is None or run.seed == 0:
        return []
    keys = dict.fromkeys(
        one.experiment.key for one in runs if family in (one.experiment.rate_of, one.experiment.key)
    )
    there = by_experiment(results)
    best = [best_rate(list(keys), there, descriptor) for descriptor in ("plain", SMALL)]
    return [] if run.experiment.key in best else [key for key in dict.fromkeys(best) if key is not None]


def _digest(bench: Bench, experiment: Experiment, kept: dict[str, str]) -> str:
    if experiment.key not in kept:
        kept[experiment.key] = bench.digest(experiment)
    return kept[experiment.key]


def _do(bench: Bench, run: Run, store: Store, tell: Tell, outcome: Outcome, digests: dict[str, str]) -> None:
    run.state, begun = "running", time.monotonic()
    tell(run)
    try:
        result = bench.run(run.experiment, run.seed)
        store.save(result)
    except StopRequested as error:
        run.state = "waiting"
        raise KeyboardInterrupt from error
    except Exception as error:
        # whatever goes wrong with one experiment, a hundred others are waiting
        reason = str(error) if isinstance(error, InputError) else traceback.format_exc(limit=-3)
        store.save_failure(Failure(run.experiment.key, run.seed, digests[run.experiment.key], reason))
        run.state, run.note = "failed", (str(error).strip().splitlines() or [type(error).__name__])[0]
    else:
        _done(run, result, outcome)
    run.seconds = time.monotonic() - begun
    tell(run)


def _done(run: Run, result: Result, outcome: Outcome) -> None:
    recalls = [mean_of(stacked([result], [result.plain()], f"R@{k}")).value for k in (1, 5)]
    run.state, run.note = "done", "R@1 {:.1f}  R@5 {:.1f}".format(*(100 * one for one in recalls))
    outcome.results.append(result)


def seconds_left(runs: Sequence[Run]) -> float | None:
    """What is left, by the mean time of those done in this call on the same data set; None while nothing is known."""
    took: dict[str, list[float]] = {}
    for run in runs:
        if run.state in ("done", "failed") and run.seconds > 0:
            took.setdefault(run.experiment.data, []).append(run.seconds)
    if not took:
        return None
    every = [one for some in took.values() for one in some]
    left = 0.0
    for run in runs:
        if run.state in ("waiting", "running"):
            some = took.get(run.experiment.data, every)
            left += sum(some) / len(some)
    return left
