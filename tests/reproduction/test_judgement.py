"""Three words, by stated rules, on results whose answer is known by hand."""

from dataclasses import replace

import numpy as np
import pytest

from reproduction.experiment import Cost
from reproduction.judgement import (
    Better,
    Calibrated,
    Cheaper,
    Claim,
    Side,
    answers_of,
    by_experiment,
    judge_all,
    middle_cost,
    overall,
    side,
    word_for,
)
from reproduction.scores import difference
from samespot.statistics.intervals import Interval


def judged(comparison, *runs):
    return comparison.judge(by_experiment([run for some in runs for run in some]))


def claim(*comparisons):
    return Claim("id", "words", "figure", "Table 1", comparisons)


def test_words_for_an_interval():
    assert word_for(Interval(0.1, 0.01, 0.2, 9), 0.0) == "holds"
    assert word_for(Interval(-0.1, -0.2, -0.01, 9), 0.0) == "does not hold"
    assert word_for(Interval(0.1, -0.01, 0.2, 9), 0.0) == "inconclusive"
    assert word_for(Interval(-0.01, -0.02, 0.0, 9), -0.03) == "holds"
    assert word_for(Interval(-0.05, -0.06, -0.04, 9), -0.03) == "does not hold"


def test_one_word_for_several():
    assert overall(["holds", "holds"]) == "holds"
    assert overall(["holds", "inconclusive"]) == "inconclusive"
    assert overall(["holds", "inconclusive", "does not hold"]) == "does not hold"
    assert overall(["holds", "not run"]) == "inconclusive"
    assert overall(["does not hold", "not run"]) == "does not hold"
    assert overall(["not run", "not run"]) == "not run"
    assert overall([]) == "not run"


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [(0.8, 0.5, "holds"), (0.5, 0.8, "does not hold"), (0.5, 0.5, "inconclusive")],
)
def test_better(seeds, first, second, word):
    line = judged(Better("a − b", side("a"), side("b")), seeds("a", first), seeds("b", second))
    assert line.word == word
    assert line.interval.value == pytest.approx(first - second)
    assert line.interval.n == 200
    assert line.ours.endswith("R@5")


def test_a_match_may_be_a_little_below(seeds):
    runs = seeds("a", 0.48), seeds("b", 0.5)
    assert judged(Better("", side("a"), side("b"), slack=0.0), *runs).word != "holds"
    assert judged(Better("", side("a"), side("b"), slack=0.1), *runs).word == "holds"
    far = seeds("a", 0.2), seeds("b", 0.5)
    assert judged(Better("", side("a"), side("b"), slack=0.1), *far).word == "does not hold"


def test_seeds_that_disagree_make_it_uncertain(result, seeds):
    apart = [result("a", share, seed) for seed, share in enumerate((0.9, 0.5, 0.4))]
    assert judged(Better("", side("a"), side("b")), apart, seeds("b", 0.5)).word == "inconclusive"
    assert (
        judged(Better("", side("a"), side("b")), apart[:1], seeds("b", 0.5)).word == "holds"
    )  # of one seed only


def test_only_seeds_that_both_have_are_compared(result, seeds):
    three = [result("a", share, seed) for seed, share in enumerate((0.9, 0.9, 0.1))]
    line = judged(Better("", side("a"), side("b")), three, seeds("b", 0.5, 2))
    assert line.interval.value == pytest.approx(0.4)


def test_a_network_as_it_comes_stands_against_each_seed(result, seeds):
    as_it_comes = [result("b", 0.5, cost=Cost())]
    line = judged(Better("", side("a"), side("b")), seeds("a", 0.8), as_it_comes)
    assert line.word == "holds"
    assert line.interval.value == pytest.approx(0.3)


def test_of_several_rates_the_one_with_the_best_first_seed_counts(result, seeds):
    fast = [result("x/fast", share, seed) for seed, share in enumerate((0.7, 0.5, 0.6))]
    once = [result("x/once", 0.65)]
    line = judged(Better("", side("x/a"), Side(("x/once", "x/fast"))), seeds("x/a", 0.6), once, fast)
    assert line.interval.value == pytest.approx(0.0)
    assert line.sides[1].startswith("fast 60.0")
    # another for whitened descriptors, where that is better
    runs = [
        *seeds("x/a", 0.6, whitened={"the map": (128, 0.6)}),
        *seeds("x/slow", 0.3, whitened={"the map": (128, 0.9)}),
        *seeds("x/fast", 0.7, whitened={"the map": (128, 0.7)}),
    ]
    whitened = Side(("x/slow", "x/fast"), "128")
    line = judged(Better("", side("x/a", descriptor="128"), whitened), runs)
    assert line.interval.value == pytest.approx(-0.3)
    assert line.sides == (
        "a (128 whitened) 60.0 [53.0, 66.5]",
        "slow (128 whitened) 90.0 [85.5, 94.0]",
        "3 seeds",
    )
    plain = judged(Better("", side("x/a"), Side(("x/slow", "x/fast"))), runs)
    assert plain.interval.value == pytest.approx(-0.1)


def test_what_was_not_run_is_named(seeds):
    line = judged(Better("", side("a"), Side(("b", "c"))), seeds("a", 0.5))
    assert line.word == "not run"
    assert line.needs == ("b", "c")
    missing_descriptor = judged(Better("", side("a", descriptor="128"), side("a")), seeds("a", 0.5))
    assert missing_descriptor.word == "not run"
    assert missing_descriptor.needs == ("a", "a")
    missing_column = judged(Better("", side("a"), side("b"), "AP"), seeds("a", 0.5), seeds("b", 0.5))
    assert missing_column.word == "not run"


def test_runs_that_were_asked_other_queries_are_not_compared(result, seeds):
    others = seeds("b", 0.5, queries="others")
    assert judged(Better("", side("a"), side("b")), seeds("a", 0.5), others).word == "not run"
    assert judged(Cheaper("", side("a"), side("b"), "passes"), seeds("a", 0.5), others).word == "not run"
    mixed = [result("b", 0.5), result("b", 0.5, 1, queries="others")]
    assert judged(Better("", side("a"), side("b")), seeds("a", 0.5), mixed).word == "not run"


def test_descriptors_by_their_short_names(result):
    made = result("a", 0.5, whitened={"the map": (512, 0.6), "training photos": (256, 0.7)}, reranked=0.9)
    small = result("a", 0.5, whitened={"the map": (128, 0.6)})
    assert answers_of(made, "plain").dims == 512
    assert answers_of(made, "plain").whitened_on is None
    assert answers_of(made, "full").whitened_on == "the map"
    assert answers_of(made, "full training").dims == 256
    assert answers_of(made, "128") is None
    assert answers_of(small, "128").dims == 128
    assert answers_of(made, "re-ranked").reranked_by == "xfeat"
    assert answers_of(small, "re-ranked") is None


def test_cost_is_all_that_training_took(seeds):
    """Pairs show two photos a query and tuples twelve; that alone makes no loss cheaper."""
    ours, theirs = Cost(10.0, 1000, 2000), Cost(30.0, 166, 2000, 3000)
    runs = seeds("x/a", 0.5, cost=ours), seeds("x/b", 0.5, cost=theirs)
    passes = judged(Cheaper("", side("x/a"), side("x/b"), "passes"), *runs)
    assert passes.word == "holds"
    assert passes.ours == "0.40 times the passes"
    assert passes.sides == ("a 2,000 photos", "b 5,000 photos", "3 and 3 runs")
    assert judged(Cheaper("", side("x/b"), side("x/a"), "passes"), *runs).word == "does not hold"
    assert judged(Cheaper("", side("x/a"), side("x/b"), "seconds"), *runs).ours.startswith("0.33")
    unmined = seeds("x/b", 0.5, cost=Cost(10.0, 166, 2000))
    assert judged(Cheaper("", side("x/a"), side("x/b"), "passes"), runs[0], unmined).word == "does not hold"


def test_cost_that_is_a_fraction_with_some_seeds_only(result, seeds):
    some = [result("a", 0.5, seed, cost=Cost(seconds, 1000, 2000)) for seed, seconds in enumerate((1.0, 9.0))]
    line = judged(Cheaper("", side("a"), side("b"), "seconds"), some, seeds("b", 0.5, 2))
    assert line.word == "inconclusive"


def test_prices_of_other_seeds_and_rates_are_compared(result):
    """Each side may have had the device to itself with another seed or rate, which is no matter of what a run costs."""

    def runs(key, *seconds):
        return [result(key, 0.5, seed, cost=Cost(s, 1000, 2000)) for seed, s in enumerate(seconds)]

    ours = [*runs("x/a", 4.0, 5.0, 0.0), *runs("x/a-rate-1", 4.5)]
    theirs = runs("x/b", 0.0, 20.0, 20.0, 16.0)
    comparison = Cheaper("", side("x/a", "x/a-rate-1"), side("x/b"), "seconds")
    line = judged(comparison, ours, theirs)
    assert (line.word, line.ours) == ("holds", "0.23 [0.20, 0.31] times the seconds")
    assert line.sides == ("a 4.5 s", "b 20.0 s", "3 and 3 runs")


def test_one_delayed_run_does_not_make_the_cost(result):
    runs = [
        result("a", 0.5, seed, cost=Cost(seconds, 1000, 2000))
        for seed, seconds in enumerate((4.0, 30.0, 5.0))
    ]
    assert middle_cost(runs).seconds == 5.0
    assert middle_cost(runs[:1]).seconds == 4.0
    assert middle_cost(runs[:2]).seconds == 4.0
    beside = [result("a", 0.5, seed, cost=Cost(0.0, 1000, 2000)) for seed in (3, 4)]
    assert middle_cost([*runs, *beside]).seconds == 5.0
    assert middle_cost(beside).passes == 2000


def test_seconds_of_other_devices_or_of_busy_ones_are_not_compared(seeds):
    comparison = Cheaper("", side("a"), side("b"), "seconds")
    ours, theirs = (
        seeds("a", 0.5, cost=Cost(5.0, 1000, 2000)),
        seeds("b", 0.5, cost=Cost(30.0, 166, 2000, 3000)),
    )
    assert judged(comparison, ours, theirs).word == "holds"
    elsewhere = [replace(run, facts={"device": "CPU"}) for run in theirs]
    assert judged(comparison, ours, elsewhere).word == "not run"
    busy = [replace(run, cost=replace(run.cost, seconds=0.0)) for run in theirs]
    assert judged(comparison, ours, busy).word == "not run"
    one = judged(comparison, ours, [theirs[0], *busy[1:]])
    assert (one.word, one.sides[-1]) == ("inconclusive", "3 and 1 runs")  # three of each decide
    mixed = judged(
        comparison, [*ours, *(replace(run, seed=9, facts={"device": "CPU"}) for run in ours)], theirs
    )
    assert mixed.sides[-1] == "3 and 3 runs"
    assert judged(Cheaper("", side("a"), side("b"), "passes"), ours, elsewhere).word == "holds"


def test_nothing_is_decided_before_all_rates_are_tried(seeds):
    better = Better("", side("a"), Side(("slow", "fast")))
    some = judged(better, seeds("a", 0.9), seeds("slow", 0.3))
    assert (some.word, some.needs) == ("inconclusive", ("fast",))
    assert judged(better, seeds("a", 0.9), seeds("slow", 0.3), seeds("fast", 0.4)).word == "holds"


def test_a_rate_is_chosen_by_the_first_seed_or_not_at_all(result, seeds):
    """As the runs were: a rate whose first seed failed has no say, however good a later one is."""
    late = [result("late", 0.9, 1), result("late", 0.3, 2)]
    line = judged(Better("", side("a"), Side(("late", "fast"))), seeds("a", 0.5), late, seeds("fast", 0.7))
    assert line.interval.value == pytest.approx(-0.2)


def test_a_seed_that_collapsed_counts(result, seeds):
    """Its photos span fewer than 128 dims, which is no reason to leave the comparison out."""
    runs = [result("a", 0.5, seed, whitened={"the map": (128, 0.6)}) for seed in (0, 1)]
    runs.append(result("a", 0.1, 2, whitened={"the map": (60, 0.0)}))
    line = judged(Better("", side("a", descriptor="128"), side("b")), runs, seeds("b", 0.5))
    assert line.interval.value == pytest.approx(0.4 - 0.5)
    assert line.seeds == 3


def test_calibration(result):
    def made(*errors):
        return [result("a", 0.5, seed, ece=error) for seed, error in enumerate(errors)]

    asked = Calibrated("", side("a"), "calibration", 0.1)
    assert judged(asked, made(0.04, 0.05, 0.045)).word == "holds"
    assert judged(asked, made(0.3, 0.31, 0.32)).word == "does not hold"
    assert judged(asked, made(0.02, 0.1, 0.14)).word == "inconclusive"
    assert judged(asked, [result("a", 0.5)]).word == "not run"


def test_a_claim_says_what_is_missing_and_judges_the_rest(seeds):
    both = claim(Better("x", side("a"), side("b")), Better("y", side("a"), side("c")))
    runs = [*seeds("a", 0.9), *seeds("b", 0.5)]
    verdict = judge_all([both], runs).verdicts[0]
    assert verdict.word == "inconclusive"
    assert judge_all([both], runs, beyond={"c"}).verdicts[0].word == "holds"  # it cannot be run here
    assert [line.words for line in verdict.judged] == ["x"]
    assert verdict.needs == ("c",)
    assert both.experiments == ("a", "b", "c")


# ---- averages ----


def alike(first, second, measure="R@5", slack=0.0):
    return Better("", side(first), side(second), measure, slack, "alike")


def averages(results, *comparisons):
    return claim(*comparisons).judge(by_experiment(results)).averages


def test_the_average_of_a_group_is_over_the_same_queries(seeds):
    """Of two differences that cancel nothing is left; the town's queries are others, and its one stands alone."""
    results = [
        *seeds("campus/a", 0.9),
        *seeds("campus/b", 0.5),
        *seeds("campus/c", 0.7),
        *seeds("town/a", 0.9, queries="others"),
        *seeds("town/b", 0.2, queries="others"),
    ]
    up, down, town = alike("campus/a", "campus/b"), alike("campus/b", "campus/c"), alike("town/a", "town/b")
    (line,) = averages(results, up, down, town)
    assert (line.words, line.members) == ("campus, alike: the average of 2", 2)
    assert line.interval.value == pytest.approx(0.1)
    rank = np.arange(200)
    first, second = ((rank < 180) + (rank < 100.0)) / 2, ((rank < 100) + (rank < 140.0)) / 2
    alone = difference(np.stack([first] * 3), np.stack([second] * 3))
    assert (line.interval.low, line.interval.high) == (alone.low, alone.high)


def test_queries_that_do_not_count_are_no_part_of_an_average(seeds):
    half = {"counted": (np.arange(200) < 100).astype(float)}
    shares = {"x/a": 0.5, "x/b": 0.25, "x/c": 0.0}
    results = [replace(run, truth=half) for key, share in shares.items() for run in seeds(key, share)]
    (line,) = averages(results, alike("x/a", "x/b"), alike("x/a", "x/c"))
    assert (line.interval.value, line.interval.n) == (pytest.approx(0.75), 100)


def test_an_average_decides_nothing(seeds):
    """All must hold, however clear it is on the whole."""
    results = by_experiment([*seeds("x/a", 0.9), *seeds("x/b", 0.5), *seeds("x/c", 0.9)])
    verdict = claim(alike("x/a", "x/b"), alike("x/a", "x/c")).judge(results)
    assert (verdict.word, verdict.averages[0].word) == ("inconclusive", "holds")


def test_an_average_allows_as_much_as_its_comparisons(seeds):
    results = [*seeds("x/a", 0.9), *seeds("x/b", 0.9), *seeds("x/c", 0.9)]
    (line,) = averages(results, alike("x/a", "x/b", slack=0.03), alike("x/a", "x/c", slack=0.03))
    assert line.word == "holds"


def test_there_is_no_average_of_one_of_what_is_not_run_or_of_unequal_seeds(seeds):
    results = [*seeds("x/a", 0.9), *seeds("x/b", 0.5), *seeds("x/c", 0.5, 2), *seeds("x/slow", 0.4)]
    results += seeds("x/as-it-comes", 0.3, 1, cost=Cost())
    one, half = alike("x/a", "x/b"), Better("", side("x/a"), Side(("x/slow", "x/fast")), group="alike")
    assert averages(results, one) == ()
    assert averages(results, one, half) == ()
    assert averages(results, one, alike("x/a", "x/b", "R@1")) == ()
    assert averages(results, one, alike("x/a", "x/c")) == ()
    assert averages(results, one, alike("x/a", "x/as-it-comes")) == ()
    assert (
        averages(results, Better("", side("x/a"), side("x/b")), Better("", side("x/a"), side("x/slow"))) == ()
    )


def test_an_interval_that_is_printed_from_zero_on_tells_nothing():
    assert word_for(Interval(0.06, 0.0004, 0.1, 9), 0.0) == "inconclusive"
    assert word_for(Interval(0.06, 0.0006, 0.1, 9), 0.0) == "holds"
    assert word_for(Interval(-0.06, -0.1, -0.0304, 9), -0.03) == "inconclusive"


def test_calibration_tells_how_well_pairs_are_told_apart(result):
    runs = [result("a", 0.5, seed, ece=0.05) for seed in range(3)]
    for run, order in zip(runs, (0.2, 0.3, 0.4), strict=True):
        run.calibration["calibration"]["spearman"] = order
    line = judged(Calibrated("", side("a"), "calibration"), runs)
    assert line.sides == ("rank correlation with the true overlap 0.30", "3 seeds")
