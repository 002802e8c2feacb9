"""From what was asked to judged claims: what is at hand, what is run, what was run before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from reproduction.claims import claims
from reproduction.data_sets import KINDS, data_sets
from reproduction.experiment import Experiment, Result, Store
from reproduction.judgement import NOT_RUN, Claim, Judged, Results, judge_all
from reproduction.matrix import experiments
from reproduction.options import SEEDS, ClaimsOptions
from reproduction.run import Outcome, Run, chosen, planned, run_matrix
from reproduction.screen import board
from samespot.errors import InputError

if TYPE_CHECKING:
    from reproduction.measure import Bench
    from samespot.progress import Progress

USUAL = ("campus", "town", "redkitchen")  # data sets whose experiments are always in the matrix


def command_in_words(asked: ClaimsOptions, results: Results) -> str:
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


def at_hand(asked: ClaimsOptions) -> list[str]:
    """Names of the data sets whose experiments are in the matrix: the three usual ones, and others given."""
    unknown = sorted(set(asked.roots()) - set(KINDS))
    if unknown:
        raise InputError(f"`root={unknown[0]}=…`: no such data set here; choose one of {', '.join(KINDS)}")
    return [*USUAL, *(name for name in asked.roots() if name not in USUAL)]


def claims_asked(asked: ClaimsOptions) -> list[Claim]:
    return claims(at_hand(asked))


def listed(asked: ClaimsOptions) -> tuple[list[Claim], list[Experiment]]:
    """The claims and the experiments that were asked for."""
    names = at_hand(asked)
    said = claims(names)
    every = chosen(experiments(names), said, asked.only)
    if asked.only:
        keys = {one.key for one in every}
        named = [claim for claim in said if claim.id in asked.only]
        said = named or [claim for claim in said if keys & set(claim.experiments)]
    return said, every


def measure_claims(asked: ClaimsOptions) -> tuple[Judged, Outcome]:
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


def _bench(asked: ClaimsOptions, progress: Progress | None = None) -> Bench:
    from reproduction.measure import Bench

    work = asked.work or asked.out / "work"
    sets = data_sets(asked.data, asked.roots(), work, progress)
    return Bench(
        sets, work, asked.weight_files(), steps=asked.steps, device=asked.device, beside=asked.beside
    )


def _collected(asked: ClaimsOptions, store: Store) -> tuple[Judged, Outcome]:
    """What is there, whatever machine it is from; and what lacks, by the data that is named, else as it was told."""
    there = store.all()
    found = {one.experiment.partition("/")[0] for one in there}
    names = list(dict.fromkeys([*at_hand(asked), *(name for name in KINDS if name in found)]))
    runs = planned(experiments(names), 1)
    asked_for = {run.experiment.key for run in runs}
    results = of_one_kind([one for one in there if one.experiment in asked_for])
    if not results:
        raise InputError(f"`collect`: no results below {store.folder}; run without it first")
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
            " give `data` (a folder with campus/ and redkitchen/), `root` or `weights`"
        )
