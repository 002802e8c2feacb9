"""Intervals: closed formulas, scipy, and how often they hold what they should."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from samespot import InputError
from samespot.statistics import intervals
from samespot.statistics.intervals import (
    Interval,
    bootstrap_mean,
    mcnemar,
    paired_bootstrap,
    paired_bootstrap_runs,
    wilson,
)


@given(st.integers(1, 30_000), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_ends_of_wilson_are_where_the_share_is_z_standard_errors_away(n, share, confidence):
    """Wilson's own definition: the ends p solve (share - p)² = z² p (1 - p) / n."""
    hits = round(share * n)
    ours, z = wilson(hits, n, confidence), stats.norm.ppf(0.5 + confidence / 2)
    assert (ours.value, ours.n) == (hits / n, n)
    for end in (ours.low, ours.high):
        assert (ours.value - end) ** 2 == pytest.approx(z**2 * end * (1 - end) / n, abs=1e-12)
    assert 0 <= ours.low <= ours.value <= ours.high <= 1


def test_wilson_by_hand_and_at_the_ends():
    # no hit among n: high is z² / (n + z²)
    z2 = 1.959963984540054**2
    assert wilson(0, 10) == Interval(0.0, 0.0, pytest.approx(z2 / (10 + z2)), 10)
    assert wilson(10, 10) == Interval(1.0, pytest.approx(10 / (10 + z2)), 1.0, 10)
    unknown = wilson(0, 0)
    assert math.isnan(unknown.value)
    assert (unknown.low, unknown.high, unknown.n) == (0, 1, 0)
    for hits, n in ((-1, 5), (6, 5), (1, 0)):
        with pytest.raises(InputError, match="between 0 and the number of queries"):
            wilson(hits, n)
    with pytest.raises(InputError, match="confidence 95"):
        wilson(1, 2, 95)


def test_wilson_holds_the_truth_as_often_as_it_says():
    n = 740  # the queries of MSLS-val
    covered = []
    for share in np.linspace(0.02, 0.98, 25):
        hits = np.flatnonzero((chance := stats.binom.pmf(np.arange(n + 1), n, share)) > 1e-9)
        covered.append(
            sum(chance[h] for h in hits if wilson(int(h), n).low <= share <= wilson(int(h), n).high)
        )
    assert np.mean(covered) == pytest.approx(0.95, abs=0.003)
    assert min(covered) > 0.93


@pytest.mark.parametrize("kind", ["hits", "overlaps"])
def test_bootstrap_of_many_queries_is_the_normal_interval(kind):
    rng = np.random.default_rng(0)
    values = rng.random(4000) < 0.62 if kind == "hits" else rng.beta(2, 3, 4000)
    interval = bootstrap_mean(values)
    mean, error = values.mean(), values.std() / np.sqrt(4000)
    assert interval.value == pytest.approx(mean)
    assert interval.n == 4000
    assert interval.low == pytest.approx(mean - 1.96 * error, abs=0.06 * error)
    assert interval.high == pytest.approx(mean + 1.96 * error, abs=0.06 * error)


def test_drawing_values_or_queries_is_the_same(monkeypatch):
    values = np.random.default_rng(1).integers(0, 3, 400) / 2
    by_value = intervals._resampled_means(values[None], 20_000, np.random.default_rng(0))
    monkeypatch.setattr(intervals, "_distinct_columns", lambda v: (v, np.ones(v.shape[1], int)))
    by_query = intervals._resampled_means(values[None], 20_000, np.random.default_rng(0))
    assert stats.ks_2samp(by_value[:, 0], by_query[:, 0]).pvalue > 0.01
    assert by_value.std() == pytest.approx(values.std() / 20, rel=0.02)


def test_memory_is_bounded_whatever_the_number_of_queries(monkeypatch):
    values = np.random.default_rng(2).random(500)
    whole = bootstrap_mean(values, resamples=300)
    monkeypatch.setattr(intervals, "DRAWS_AT_ONCE", 1000)
    assert list(intervals._parts(7, 400)) == [2, 2, 2, 1]
    assert list(intervals._parts(2, 5000)) == [1, 1]
    assert bootstrap_mean(values, resamples=300) == whole


def two_models(seed=0, queries=500):
    rng = np.random.default_rng(seed)
    a = rng.random(queries) < 0.7
    return a, np.where(rng.random(queries) < 0.2, rng.random(queries) < 0.5, a)


@pytest.mark.parametrize("noise", [0, 1e-3])  # without: few values a query; with: all different
def test_differences_turn_round_with_the_models_and_repeat_with_the_seed(noise):
    a, b = two_models()
    a = a + noise * np.random.default_rng(9).random(len(a))
    there, back = paired_bootstrap(a, b), paired_bootstrap(b, a)
    assert there.value == -back.value
    assert (there.low, there.high) == (pytest.approx(-back.high), pytest.approx(-back.low))
    assert there.low < there.value < there.high
    assert paired_bootstrap(a, b) == there
    assert paired_bootstrap(a, b, seed=1) != there
    narrow = paired_bootstrap(a, b, confidence=0.5)
    assert there.low < narrow.low < narrow.high < there.high
    runs = paired_bootstrap_runs([a, b], [b, b]), paired_bootstrap_runs([b, b], [a, b])
    assert runs[0].low == pytest.approx(-runs[1].high)


def test_equal_models_differ_by_exactly_nothing():
    values = np.random.default_rng(3).random(100)
    assert paired_bootstrap(values, values) == Interval(0.0, 0.0, 0.0, 100)
    assert not paired_bootstrap(values, values).significant
    assert paired_bootstrap_runs([values] * 3, [values] * 3) == Interval(0.0, 0.0, 0.0, 100)
    assert bootstrap_mean([0.1] * 7) == Interval(pytest.approx(0.1), 0.1, 0.1, 7)


def test_pairing_narrows_the_interval():
    a, b = two_models()
    paired = paired_bootstrap(a, b)
    apart = paired_bootstrap(a, np.random.default_rng(4).permutation(b))
    assert paired.value == pytest.approx(apart.value)
    assert paired.high - paired.low < 0.7 * (apart.high - apart.low)


def test_paired_interval_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        draw = rng.random(200)  # only a finds 15 %, only b 5 %: the difference is .1
        interval = paired_bootstrap(draw < 0.15, draw > 0.95, resamples=1000)
        held += interval.low <= 0.1 <= interval.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_interval_over_seeds_covers_another_training(seeds):
    """Each training shifts all its queries together; each query favours a model by itself."""
    rng = np.random.default_rng(6)
    held_runs = held_queries = 0
    for _ in range(200):
        of_training = rng.normal(0, 0.2, (seeds, 1))
        values = 0.1 + of_training + rng.normal(0, 0.3, 100) + rng.normal(0, 0.1, (seeds, 100))
        runs = paired_bootstrap_runs(values, np.zeros_like(values), resamples=500)
        only_queries = paired_bootstrap(values.mean(axis=0), np.zeros(100), resamples=500)
        held_runs += runs.low <= 0.1 <= runs.high
        held_queries += only_queries.low <= 0.1 <= only_queries.high
    assert held_runs / 200 >= 0.92
    assert held_queries / 200 < 0.5  # seeds left out of account


def test_one_seed_is_the_bootstrap_over_queries():
    a, b = two_models()
    one, plain = paired_bootstrap_runs([a], [b]), paired_bootstrap(a, b)
    assert one.value == plain.value
    assert (one.low, one.high) == (pytest.approx(plain.low, abs=0.003), pytest.approx(plain.high, abs=0.003))


def test_queries_that_do_not_count_are_left_out_of_both():
    a, b = np.array([1, 0.5, np.nan, 0.2]), np.array([0, 0.25, np.nan, 0.1])
    kept = [0, 1, 3]
    assert bootstrap_mean(a) == bootstrap_mean(a[kept])
    assert paired_bootstrap(a, b) == paired_bootstrap(a[kept], b[kept])
    assert paired_bootstrap_runs([a, b], [b, b]) == paired_bootstrap_runs([a[kept], b[kept]], [b[kept]] * 2)
    with pytest.raises(InputError, match="query 2 counts in one run only"):
        paired_bootstrap(a, [0, 0, 0, 0])
    with pytest.raises(InputError, match="seeds disagree"):
        paired_bootstrap_runs([a, [0] * 4], [b, [0] * 4])
    nobody = bootstrap_mean([np.nan])
    assert (nobody.n, math.isnan(nobody.value), nobody.significant) == (0, True, False)


def test_values_of_other_queries_are_refused():
    with pytest.raises(InputError, match="not of the same queries"):
        paired_bootstrap([1, 0], [1, 0, 0])
    with pytest.raises(InputError, match=r"not \(seeds, queries\)"):
        paired_bootstrap_runs([1, 0], [1, 0])
    with pytest.raises(InputError, match="0 resamples"):
        bootstrap_mean([1, 0], resamples=0)


def test_mcnemar_by_hand_and_against_the_bootstrap():
    # only a finds five queries, nobody else differs: 2 · (1/2)⁵
    a, b = np.array([1] * 5 + [1, 0] * 10), np.array([0] * 5 + [1, 0] * 10)
    assert mcnemar(a, b) == mcnemar(b, a) == pytest.approx(2 / 32)
    assert mcnemar(a, a) == 1.0
    better, worse = np.ones(50), np.repeat([0, 1], 25)
    assert mcnemar(better, worse) < 1e-6
    assert paired_bootstrap(better, worse).significant
    with pytest.raises(InputError, match="must be 0 or 1"):
        mcnemar([0.5], [1])


def test_words_of_shares_and_differences():
    assert Interval(0.6181, 0.5749, 0.6593, 502).percent() == "61.8 [57.5, 65.9]"
    assert Interval(0.0869, 0.0594, 0.1141, 502).points() == "+8.7 [+5.9, +11.4]"
    assert Interval(-0.0123, -0.05, 0.0, 9).points(2) == "-1.23 [-5.00, 0.00]"
    assert Interval(-0.0001, -0.05, 0.0004, 9).points() == "0.0 [-5.0, 0.0]"
    assert wilson(0, 0).percent() == "–"


def test_significant_is_zero_outside_the_interval():
    assert Interval(0.1, 0.01, 0.2, 9).significant
    assert Interval(-0.1, -0.2, -0.01, 9).significant
    assert not Interval(0.1, 0.0, 0.2, 9).significant
    assert not Interval(0.1, -0.1, 0.2, 9).significant
