"""When does a claim hold? Stated once, as pure functions of results.

A comparison says what is compared and how much is asked; its line has our figure and one of three words:

- holds: the whole 95 % interval is on the claim's side;
- does not hold: the whole interval is on the other side;
- inconclusive: it is on both.

A claim of several comparisons holds if each of them does, does not hold if any of them does not, and else one cannot
tell. Where several ask the same, their average says how much it is on the whole; it decides nothing.
Intervals decide as they are printed, to a tenth of a point: one that begins at 0.0 is on both sides.
Comparisons that cannot be run with what is at hand (weights, data) are left out, and named; as long as any other
is not run, or one of the rates of a comparison, it is inconclusive, too.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from reproduction.experiment import SMALL_DIMS, Answers, Cost, Result
from reproduction.options import SEEDS
from reproduction.scores import Floats, column_of, difference, mean_of, per_query, stacked
from samespot.statistics.intervals import Interval

HOLDS: Word = "holds"
FAILS: Word = "does not hold"
UNSURE: Word = "inconclusive"
NOT_RUN: Word = "not run"
MEASURE = "R@5"  # what the paper's text compares by
SMALL = str(SMALL_DIMS)  # whitened on the map
PRINTED = 3  # decimals of a share
Word = Literal["holds", "does not hold", "inconclusive", "not run"]
Runs = tuple[Sequence[Result], list[Answers]]  # of one experiment; of each the answers of one descriptor
Results = Mapping[str, Sequence[Result]]  # by key of the experiment; its seeds in order


@dataclass(frozen=True)
class Line:
    """One comparison, judged."""

    words: str
    word: Word
    ours: str  # in words, with its interval
    measure: str = ""  # what it is by
    value: float = 0.0  # ours without words
    interval: Interval | None = None  # of a difference of shares
    needs: tuple[str, ...] = ()  # experiments that were not run
    sides: tuple[str, ...] = ()  # both figures by themselves
    seeds: int = 0  # that its interval rests on; 0 for a price, which no seed changes
    group: str = ""  # of comparisons that are averaged
    members: int = 0  # of an average


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    word: Word
    lines: tuple[Line, ...]
    averages: tuple[Line, ...] = ()  # over the comparisons of each group

    @property
    def judged(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.word != NOT_RUN)

    @property
    def needs(self) -> tuple[str, ...]:
        """What was not run."""
        return tuple(dict.fromkeys(name for line in self.lines for name in line.needs))


class Comparison(Protocol):
    """Anything that can be judged by results."""

    @property
    def experiments(self) -> tuple[str, ...]:
        """Keys of those it looks at."""

    def judge(self, results: Results) -> Line: ...


@dataclass(frozen=True)
class Claim:
    """What the paper says (or we), with its own figure and where that is."""

    id: str
    words: str
    paper: str  # its figure
    where: str  # table or figure of the paper; "ours" where it says nothing
    comparisons: tuple[Comparison, ...]
    rule: str = ""  # where it is not that of the module

    @property
    def experiments(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for one in self.comparisons for key in one.experiments))

    def judge(self, results: Results, beyond: Container[str] = ()) -> Verdict:
        """beyond: experiments that cannot be run with what is at hand."""
        lines = tuple(one.judge(results) for one in self.comparisons)
        asked = [line.word for line in lines if line.word != NOT_RUN or not _all_in(beyond, line.needs)]
        return Verdict(self, overall(asked), lines, _averages(self, results))


def _all_in(beyond: Container[str], needs: Sequence[str]) -> bool:
    return bool(needs) and all(key in beyond for key in needs)


def overall(words: Sequence[Word]) -> Word:
    """One word for several."""
    known = [word for word in words if word != NOT_RUN]
    if not known:
        return NOT_RUN
    if FAILS in known:
        return FAILS
    return HOLDS if all(word == HOLDS for word in words) else UNSURE


def word_for(interval: Interval, least: float) -> Word:
    """Whether a value is above `least`, by the interval as it is printed."""
    if round(interval.low - least, PRINTED) > 0:
        return HOLDS
    return FAILS if round(interval.high - least, PRINTED) < 0 else UNSURE


def word_below(interval: Interval, at_most: float) -> Word:
    """Whether a price or an error is at most so much."""
    return HOLDS if interval.high <= at_most else FAILS if interval.low > at_most else UNSURE


# ---- who is compared ----


@dataclass(frozen=True)
class Side:
    """An experiment and one of its descriptors. Of several experiments (rates) the best of the first seed is taken.

    descriptor: "plain"; "128", or "full" for the largest size, whitened on the map; "128 training", "full training"
    on the training photos; "re-ranked".
    """

    experiments: tuple[str, ...]  # keys
    descriptor: str = "plain"

    def runs(self, results: Results, measure: str) -> Runs | None:
        """Of the chosen experiment all seeds, and their answers; None where it was not run, or lacks the measure."""
        key = best_rate(self.experiments, results, self.descriptor)
        if key is None or not same_questions(results[key]):
            return None
        chosen = [answers_of(run, self.descriptor) for run in results[key]]
        known = [one for one in chosen if one is not None and column_of(measure) in one.columns]
        return (results[key], known) if len(known) == len(chosen) else None


def best_rate(keys: Sequence[str], results: Results, descriptor: str = "plain") -> str | None:
    """Of experiments the one whose first seed has the highest R@5; None where none was run.

    By the first seed alone, since only the chosen one is run with the others. What suits plain descriptors may not
    suit whitened ones: for those, of whichever size, it is R@5 of 128 whitened dims.
    """
    first = {key: run for key in keys for run in results.get(key, ()) if run.seed == 0}
    if not first:
        return None
    small = {key: answers_of(run, SMALL) for key, run in first.items()}
    whitened = descriptor not in ("plain", "re-ranked") and any(small.values())

    def recall(key: str) -> float:
        answers = small[key] if whitened else first[key].plain()
        return -1.0 if answers is None else float(np.nanmean(per_query(first[key], answers, MEASURE)))

    return max(first, key=recall)


def same_questions(runs: Sequence[Result]) -> bool:
    """Whether all were asked the same queries of the same map."""
    return len({run.queries for run in runs}) == 1


def side(*experiments: str, descriptor: str = "plain") -> Side:
    return Side(experiments, descriptor)


def answers_of(result: Result, descriptor: str) -> Answers | None:
    """By its short name; None where the result has no such descriptor."""
    if descriptor == "re-ranked":
        return next((one for one in result.answers.values() if one.reranked_by), None)
    ranked = [one for one in result.answers.values() if one.reranked_by is None]
    if descriptor == "plain":
        return next((one for one in ranked if one.whitened_on is None), None)
    size, _, place = descriptor.partition(" ")
    on_map = place != "training"
    there = [
        one
        for one in ranked
        if one.whitened_on is not None
        and (one.whitened_on == "the map") == on_map
        and (size == "full" or one.dims <= int(size))
    ]
    # fewer than asked for where the photos of a collapsed network span no more
    return max(there, key=lambda one: one.dims, default=None)


def _both(first: Side, second: Side, results: Results, measure: str) -> tuple[Runs, Runs] | None:
    """Runs of both sides for the seeds that both have."""
    a, b = (one.runs(results, measure) for one in (first, second))
    if a is None or b is None or not same_questions([*a[0], *b[0]]):
        return None
    if any(len(runs) == 1 and not runs[0].cost.pairs for runs, _ in (a, b)):
        return a, b  # a network as it comes has no seed, and stands against each
    seeds = [run.seed for run in a[0] if run.seed in {other.seed for other in b[0]}]
    return (_of_seeds(a, seeds), _of_seeds(b, seeds)) if seeds else None


def _of_seeds(all_runs: Runs, seeds: Sequence[int]) -> Runs:
    kept = [(run, answers) for run, answers in zip(*all_runs, strict=True) if run.seed in seeds]
    return [run for run, _ in kept], [answers for _, answers in kept]


def _missing(results: Results, *sides: Side) -> tuple[str, ...]:
    return tuple(key for one in sides for key in one.experiments if not results.get(key))


def _not_run(words: str, results: Results, *sides: Side) -> Line:
    """With what it lacks; where all were run, they were asked different things or lack the measure."""
    needs = _missing(results, *sides)
    return Line(words, NOT_RUN, "", needs=needs or tuple(key for one in sides for key in one.experiments))


def _of_what_is_there(word: Word, needs: Sequence[str]) -> Word:
    """Nothing is decided before all rates have been tried."""
    return UNSURE if needs else word


# ---- comparisons ----


@dataclass(frozen=True)
class Better:
    """first beats second; or with `slack` is at most so much below it (a share, 0.03 for 3 points).

    group: those of a claim that ask the same of several networks or batches, on the same queries, have an average.
    """

    words: str
    first: Side
    second: Side
    measure: str = MEASURE
    slack: float = 0.0
    group: str = ""

    @property
    def experiments(self) -> tuple[str, ...]:
        return (*self.first.experiments, *self.second.experiments)

    def judge(self, results: Results) -> Line:
        both = _both(self.first, self.second, results, self.measure)
        if both is None:
            return _not_run(self.words, results, self.first, self.second)
        needs = _missing(results, self.first, self.second)
        values = self._values(both)
        between = difference(values[0], values[1])
        names = [_named(one, runs) for one, (runs, _) in zip((self.first, self.second), both, strict=True)]
        seeds = max(len(one) for one in values)
        sides = [f"{name} {mean_of(one).percent()}" for name, one in zip(names, values, strict=True)]
        return Line(
            self.words,
            _of_what_is_there(word_for(between, -self.slack), needs),
            f"{between.points()} {self.measure}",
            self.measure,
            between.value,
            between,
            needs,
            sides=(*sides, _seeds_in_words(seeds)),
            seeds=seeds,
            group=self.group,
        )

    def apart(self, results: Results) -> Apart | None:
        """Both sides, for an average; None as long as anything of them is not run."""
        both = _both(self.first, self.second, results, self.measure)
        if both is None or _missing(results, self.first, self.second):
            return None
        return Apart(self, both[0][0][0], *self._values(both))

    def _values(self, both: tuple[Runs, Runs]) -> list[Floats]:
        return [stacked(runs, answers, self.measure) for runs, answers in both]


@dataclass(frozen=True)
class Apart:
    """Both sides of a comparison, (seeds, q) each."""

    comparison: Better
    run: Result  # any of them
    first: Floats
    second: Floats


def _averages(claim: Claim, results: Results) -> tuple[Line, ...]:
    """Of a claim's comparisons those of a group together, over the same queries; of two and more.

    None as long as some of them have fewer seeds than others.
    """
    known = [one.apart(results) for one in claim.comparisons if isinstance(one, Better) and one.group]
    groups: dict[tuple[str, str, str, float], list[Apart]] = {}
    for one in known:
        if one is not None:
            asked = one.comparison
            groups.setdefault((one.run.queries, asked.group, asked.measure, asked.slack), []).append(one)
    return tuple(_average(some) for some in groups.values() if len(some) > 1 and _one_shape(some))


def _one_shape(some: Sequence[Apart]) -> bool:
    return len({side.shape for one in some for side in (one.first, one.second)}) == 1


def _average(some: Sequence[Apart]) -> Line:
    asked, data = some[0].comparison, some[0].run.experiment.partition("/")[0]
    first, second = (np.mean(side, axis=0) for side in ([x.first for x in some], [x.second for x in some]))
    between = difference(first, second)
    return Line(
        f"{data}, {asked.group}: the average of {len(some)}",
        word_for(between, -asked.slack),
        f"{between.points()} {asked.measure}",
        asked.measure,
        between.value,
        between,
        seeds=len(first),
        group=asked.group,
        members=len(some),
    )


def _seeds_in_words(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def _named(one: Side, runs: Sequence[Result]) -> str:
    name = runs[0].experiment.partition("/")[2]
    size, _, place = one.descriptor.partition(" ")
    words = {"plain": "", "re-ranked": "re-ranked", "full": "whitened"}.get(size, f"{size} whitened")
    words += " on training photos" if place else ""
    return f"{name} ({words})" if words else name


@dataclass(frozen=True)
class Cheaper:
    """All that first took is at most this share of all that second took, mining among it.

    Neither a seed nor a rate changes a price, so all runs of either side stand for it. Seconds count of runs that had
    the same device to themselves, and decide nothing before there are three of each side.
    """

    words: str
    first: Side
    second: Side
    what: Literal["passes", "seconds"]
    at_most: float = 0.5

    @property
    def experiments(self) -> tuple[str, ...]:
        return (*self.first.experiments, *self.second.experiments)

    def judge(self, results: Results) -> Line:
        first, second = (
            [run for key in one.experiments for run in results.get(key, ()) if self._price(run)]
            for one in (self.first, self.second)
        )
        if self.what == "seconds":
            first, second = _of_one_device(first, second)
        if not first or not second or not same_questions([*first, *second]):
            return _not_run(self.words, results, self.first, self.second)
        needs = _missing(results, self.first, self.second)
        mine, theirs = ([self._price(run) for run in some] for some in (first, second))
        # the middle ones, since something else on the machine may delay a run
        middle = float(np.median(mine) / np.median(theirs))
        ours = Interval(middle, min(mine) / max(theirs), max(mine) / min(theirs), len(mine))
        enough = self.what == "passes" or min(len(mine), len(theirs)) >= SEEDS
        word = word_below(ours, self.at_most)
        return Line(
            self.words,
            _of_what_is_there(word if enough else UNSURE, needs),
            f"{_times(ours)} the {self.what}",
            self.what,
            ours.value,
            needs=needs,
            sides=(
                self._side(self.first, mine),
                self._side(self.second, theirs),
                f"{len(mine)} and {len(theirs)} runs",
            ),
        )

    def _side(self, one: Side, prices: Sequence[float]) -> str:
        name = one.experiments[0].partition("/")[2].partition("-rate-")[0]
        return f"{name} {_amount(float(np.median(prices)), self.what)}"

    def _price(self, run: Result) -> float:
        """0 where it is not known: of a network as it comes, and the seconds of a run beside others."""
        return float(getattr(run.cost, self.what))


def _of_one_device(first: Sequence[Result], second: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """Of the device that most of both were run on."""

    def of(device: object) -> tuple[list[Result], list[Result]]:
        a, b = ([run for run in some if run.facts.get("device") == device] for some in (first, second))
        return a, b

    devices = dict.fromkeys(run.facts.get("device") for run in first)
    return max((of(device) for device in devices), key=lambda both: min(map(len, both)), default=([], []))


def middle_cost(runs: Sequence[Result]) -> Cost:
    """Of the run that took the middle time; of two the shorter. Runs beside others on the device tell no time."""
    costs = sorted((run.cost for run in runs), key=lambda cost: cost.seconds)
    timed = [cost for cost in costs if cost.seconds] or costs
    return timed[(len(timed) - 1) // 2]


def _amount(value: float, what: str) -> str:
    return f"{value:,.0f} photos" if what == "passes" else f"{value:.1f} s"


def _times(ours: Interval) -> str:
    low, value, high = (f"{one:.2f}" for one in (ours.low, ours.value, ours.high))
    return f"{value} times" if low == high else f"{value} [{low}, {high}] times"


@dataclass(frozen=True)
class Calibrated:
    """The expected calibration error of the predicted overlap is at most this; interval over seeds."""

    words: str
    one: Side
    how: str  # which prediction: "calibration", or "calibration, isotonic"
    at_most: float = 0.1

    @property
    def experiments(self) -> tuple[str, ...]:
        return self.one.experiments

    def judge(self, results: Results) -> Line:
        found = self.one.runs(results, MEASURE)
        errors = [] if found is None else [run.calibration.get(self.how, {}).get("ece") for run in found[0]]
        known = [float(error) for error in errors if error is not None]
        if not known or len(known) < len(errors):
            return _not_run(self.words, results, self.one)
        ours = _over_seeds(known)
        word = word_below(ours, self.at_most)
        words = f"ECE {ours.value:.3f} [{max(ours.low, 0.0):.3f}, {ours.high:.3f}]"
        sides = (*self._order(found[0] if found else ()), _seeds_in_words(ours.n))
        return Line(self.words, word, words, "ECE", ours.value, sides=sides, seeds=ours.n)

    def _order(self, runs: Sequence[Result]) -> tuple[str, ...]:
        """A prediction may be right on average and yet tell pairs apart badly."""
        known = [run.calibration[self.how].get("spearman") for run in runs]
        values = [float(one) for one in known if one is not None]
        return (f"rank correlation with the true overlap {np.mean(values):.2f}",) if values else ()


def _over_seeds(values: Sequence[float]) -> Interval:
    """Student's interval of a mean of few; that of a single one is itself."""
    from scipy.stats import t

    mean, n = float(np.mean(values)), len(values)
    half = 0.0 if n == 1 else float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half, n)


@dataclass(frozen=True)
class Judged:
    """All claims, judged; what the screen and the page are made of."""

    verdicts: tuple[Verdict, ...]
    results: Results = field(default_factory=dict)


def judge_all(claims: Sequence[Claim], results: Sequence[Result], beyond: Container[str] = ()) -> Judged:
    """beyond: experiments that cannot be run with what is at hand."""
    found = by_experiment(results)
    return Judged(tuple(claim.judge(found, beyond) for claim in claims), found)


def by_experiment(results: Sequence[Result]) -> Results:
    """Each experiment's runs in the order of their seeds."""
    found: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda one: (one.experiment, one.seed)):
        found.setdefault(result.experiment, []).append(result)
    return found
