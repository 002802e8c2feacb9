"""Reliability: by hand, against a loop over the bins, and against other libraries."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samespot.errors import InputError
from samespot.statistics.reliability import Reliability, reliability

SHARE = st.floats(0, 1, width=32)


def test_reliability_worked_out_by_hand():
    # bins [0, .5) and [.5, 1]: means .2 and .8 predicted, 0 and .6 true
    found = reliability([0.1, 0.3, 0.5, 0.9, 1.0], [0.0, 0.0, 0.3, 0.5, 1.0], bins=2)
    np.testing.assert_array_equal(found.edges, [0, 0.5, 1])
    np.testing.assert_array_equal(found.counts, [2, 3])
    np.testing.assert_allclose(found.predicted, [0.2, 0.8])
    np.testing.assert_allclose(found.true, [0.0, 0.6])
    assert found.ece == pytest.approx((2 * 0.2 + 3 * 0.2) / 5)
    assert found.max_error == pytest.approx(0.2)
    assert found.bias == pytest.approx((2.8 - 1.8) / 5)
    assert found.pairs == 5


def test_a_promise_kept_has_no_error_and_a_promise_too_high_its_own():
    psi = np.random.default_rng(0).random(1000)
    kept = reliability(psi, psi)
    assert kept.ece == pytest.approx(0, abs=1e-12)
    assert kept.bias == pytest.approx(0, abs=1e-12)
    assert (kept.pearson, kept.spearman) == (pytest.approx(1), pytest.approx(1))
    halved = reliability(psi, psi / 2)
    assert halved.ece == pytest.approx(psi.mean() / 2)
    assert halved.bias == pytest.approx(psi.mean() / 2)
    assert halved.max_error == pytest.approx(0.475, abs=0.01)  # of the bin [.9, 1]


@given(st.lists(st.tuples(SHARE, SHARE), min_size=1, max_size=60), st.integers(1, 12))
def test_reliability_equals_a_loop_over_the_bins(pairs, bins):
    said, is_so = np.array(pairs).T
    found = reliability(said, is_so, bins)
    error = 0.0
    for i in range(bins):
        low, high = found.edges[i], found.edges[i + 1]
        inside = (said >= low) & ((said < high) | (i == bins - 1))
        assert found.counts[i] == inside.sum()
        if inside.any():
            assert found.predicted[i] == pytest.approx(said[inside].mean())
            assert found.true[i] == pytest.approx(is_so[inside].mean())
            assert found.low[i] - 1e-9 <= found.true[i] <= found.high[i] + 1e-9
            error += inside.sum() * abs(said[inside].mean() - is_so[inside].mean())
        else:
            assert np.isnan([found.predicted[i], found.true[i], found.low[i], found.high[i]]).all()
    assert found.ece == pytest.approx(error / len(said), abs=1e-12)
    assert found.ece <= found.max_error + 1e-12
    assert abs(found.bias) <= found.ece + 1e-9  # gaps of opposite sign cancel in the bias only


def test_the_bounds_of_zeros_and_ones_are_wilsons():
    from scipy.stats import binomtest

    true = np.array([1] * 7 + [0] * 13)
    found = reliability(np.full(20, 0.55), true)
    expected = binomtest(7, 20).proportion_ci(0.95, method="wilson")
    assert (found.low[5], found.high[5]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    # a single pair bounds next to nothing, instead of claiming certainty
    one = reliability([0.9], [1.0])
    assert (one.low[9], one.high[9]) == (pytest.approx(0.2065, abs=1e-4), pytest.approx(1.0))


def test_the_bounds_hold_for_graded_overlaps_at_least_as_often_as_they_say():
    dice = np.random.default_rng(1)
    draws = dice.beta(0.6, 1.4, (400, 50))  # mean 0.3
    held = 0
    for sample in draws:
        found = reliability(np.full(50, 0.3), sample, bins=1)
        held += found.low[0] <= 0.3 <= found.high[0]
    assert held / 400 >= 0.95


@given(st.lists(st.tuples(SHARE, SHARE), min_size=3, max_size=40))
def test_correlations_are_scipys(pairs):
    from scipy.stats import pearsonr, spearmanr

    said, is_so = np.round(np.array(pairs), 2).T  # rounded: ties are the hard part of ranks
    found = reliability(said, is_so)
    if np.ptp(said) == 0 or np.ptp(is_so) == 0:
        assert np.isnan([found.pearson, found.spearman]).all()
    else:
        assert found.pearson == pytest.approx(pearsonr(said, is_so).statistic, abs=1e-9)
        assert found.spearman == pytest.approx(spearmanr(said, is_so).statistic, abs=1e-9)


def test_constant_or_no_pairs_give_nan_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = reliability(np.zeros(5), [0, 0, 0, 0.5, 1])
        none = reliability([], [])
    assert np.isnan([flat.pearson, flat.spearman]).all()
    assert flat.ece == pytest.approx(0.3)
    assert np.isnan([none.ece, none.max_error, none.bias, none.pearson, none.spearman]).all()
    assert none.pairs == 0


def test_numbers_that_are_no_overlaps_are_refused():
    with pytest.raises(InputError, match=r"predicted overlap of pair 1 is 1\.2"):
        reliability([0.1, 1.2], [0, 0])
    with pytest.raises(InputError, match="true overlap of pair 0 is nan"):
        reliability([0.1], [np.nan])
    with pytest.raises(InputError, match="2 predicted overlaps for 1 true ones"):
        reliability([0.1, 0.2], [0.1])


def test_reliability_survives_json():
    before = reliability([0.1, 0.3, 0.9], [0.0, 0.2, 0.8], bins=4)
    after = Reliability.from_dict(json.loads(json.dumps(before.to_dict(), allow_nan=False)))
    for name in before.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
