"""Accept or reject, against brute force over every threshold and scikit-learn's AUROC."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samespot.errors import InputError
from samespot.statistics.acceptance import AcceptanceCurve, acceptance_curve, least_answers

# few distinct distances, so that ties abound; inf is a query for which nothing was retrieved
DISTANCE = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.8, np.inf])


@given(st.lists(st.tuples(DISTANCE, st.booleans()), max_size=25), st.lists(DISTANCE, max_size=25))
def test_the_curve_equals_brute_force(present, absent):
    distance = np.array([d for d, _ in present])
    right = np.array([r for _, r in present], dtype=bool)
    gone = np.array(absent)
    curve = acceptance_curve(distance, right, gone)
    finite = sorted({d for d in [*distance, *gone] if d < np.inf})
    np.testing.assert_array_equal(curve.thresholds, finite)
    for i, t in enumerate(finite):
        good = sum(d <= t and r for d, r in present)
        taken = sum(d <= t for d, _ in present) + sum(d <= t for d in absent)
        assert curve.accepted[i] == taken > 0
        assert curve.precision[i] == good / taken
        assert curve.recall[i] == good / len(present) if present else np.isnan(curve.recall[i])
        false = sum(d <= t for d in absent)
        assert curve.false_accepts[i] == false / len(absent) if absent else np.isnan(curve.false_accepts[i])


@given(
    st.lists(st.tuples(DISTANCE, st.booleans()), min_size=1, max_size=25),
    st.lists(DISTANCE, max_size=10),
    st.sampled_from([0.05, 0.5, 0.75, 0.95, 1.0]),
)
def test_the_threshold_is_the_largest_that_is_precise_enough(present, absent, wanted):
    distance, right = np.array([d for d, _ in present]), np.array([r for _, r in present])
    curve = acceptance_curve(distance, right, absent)
    chosen = curve.threshold_for(wanted)
    enough = [t for t, p in zip(curve.thresholds, curve.precision, strict=True) if p >= wanted]
    assert chosen.reached == bool(enough)
    assert chosen.distance == (max(enough) if enough else -np.inf)
    accepted = distance <= chosen.distance
    if enough:
        taken = accepted.sum() + (np.array(absent) <= chosen.distance).sum()
        assert chosen.precision == (accepted & right).sum() / taken >= wanted
        assert chosen.interval.n == taken
        assert chosen.interval.low - 1e-12 <= chosen.precision <= chosen.interval.high + 1e-12
    assert chosen.recall == (accepted & right).sum() / len(present)


def test_worked_out_by_hand():
    # in order: right .1, right .2, absent .3, right .3, wrong .4, absent .9
    curve = acceptance_curve([0.1, 0.2, 0.3, 0.4], [True, True, True, False], [0.3, 0.9])
    np.testing.assert_allclose(curve.precision, [1, 1, 3 / 4, 3 / 5, 3 / 6])
    np.testing.assert_allclose(curve.recall, [1 / 4, 2 / 4, 3 / 4, 3 / 4, 3 / 4])
    np.testing.assert_allclose(curve.false_accepts, [0, 0, 1 / 2, 1 / 2, 1])
    # of the eight pairs of present and absent, .3 loses none but ties with .3, .4 loses one: 6.5 / 8
    assert curve.auroc == 6.5 / 8
    chosen = curve.threshold_for(0.75)
    assert (chosen.distance, chosen.recall, chosen.false_accepts) == (0.3, 0.75, 0.5)
    assert str(chosen).startswith("accept up to 0.3000: precision 75.0% [")
    assert curve.threshold_for(0.76).distance == 0.2  # the tie at .3 is taken whole or not at all


def test_precision_of_exactly_the_wanted_share_is_enough():
    curve = acceptance_curve(np.full(20, 0.2), [True] * 19 + [False])
    assert curve.threshold_for(0.95).reached
    assert not curve.threshold_for(0.9501).reached


def test_the_interval_is_wilsons():
    from scipy.stats import binomtest

    chosen = acceptance_curve(np.linspace(0.1, 0.5, 20), [True] * 19 + [False]).threshold_for(0.95)
    expected = binomtest(19, 20).proportion_ci(0.95, method="wilson")
    assert (chosen.interval.low, chosen.interval.high) == (
        pytest.approx(expected.low, abs=1e-9),
        pytest.approx(expected.high, abs=1e-9),
    )


def test_no_threshold_is_a_clear_result_that_accepts_nothing():
    curve = acceptance_curve([0.1, 0.2, 0.3], [False, True, True], [0.05])
    chosen = curve.threshold_for(0.95)
    assert not chosen.reached
    assert not (np.array([0.0, 0.1]) <= chosen.distance).any()
    assert (chosen.recall, chosen.false_accepts, chosen.best) == (0, 0, 0.5)
    assert str(chosen) == "no threshold reaches a precision of 95.0%; the best is 50.0%"
    assert json.loads(json.dumps(chosen.to_dict(), allow_nan=False))["distance"] is None
    nothing = acceptance_curve([np.inf], [False], [np.inf]).threshold_for()
    assert str(nothing) == "no threshold reaches a precision of 95.0%; nothing can be accepted"


@given(st.lists(DISTANCE, min_size=1, max_size=30), st.lists(DISTANCE, min_size=1, max_size=30))
def test_auroc_is_scikit_learns(present, absent):
    from sklearn.metrics import roc_auc_score

    curve = acceptance_curve(present, np.ones(len(present), bool), absent)
    score = -np.minimum([*present, *absent], 9.0)  # scikit-learn takes no inf; 9 is as far
    truth = [1] * len(present) + [0] * len(absent)
    assert curve.auroc == pytest.approx(roc_auc_score(truth, score), abs=1e-12)


def test_without_absent_queries_their_figures_are_nan():
    curve = acceptance_curve([0.1, 0.2], [True, False])
    assert np.isnan(curve.auroc)
    assert np.isnan(curve.false_accepts).all()
    assert "absent" not in str(curve.threshold_for(0.9))
    assert curve.threshold_for(0.9).to_dict()["false_accepts"] is None


def test_bad_input_is_refused_in_words():
    with pytest.raises(InputError, match="distance of query 1 is nan"):
        acceptance_curve([0.1, np.nan], [True, True])
    with pytest.raises(InputError, match="absent_distance of query 0 is -1"):
        acceptance_curve([0.1], [True], [-1])
    with pytest.raises(InputError, match="2 distances of best matches, 1 answers"):
        acceptance_curve([0.1, 0.2], [True])
    with pytest.raises(InputError, match=r"precision 95 is not in \(0, 1\]"):
        acceptance_curve([0.1], [True]).threshold_for(95)


def test_a_thinned_curve_keeps_its_ends_and_its_values():
    dice = np.random.default_rng(0)
    curve = acceptance_curve(dice.random(500), dice.random(500) < 0.7, dice.random(300))
    thin = curve.thinned(50)
    assert len(thin.thresholds) == 50
    assert (thin.thresholds[0], thin.thresholds[-1]) == (curve.thresholds[0], curve.thresholds[-1])
    at = np.searchsorted(curve.thresholds, thin.thresholds)
    for name in ("thresholds", "precision", "recall", "false_accepts"):
        np.testing.assert_array_equal(getattr(thin, name), getattr(curve, name)[at])
    assert thin.auroc == curve.auroc
    assert curve.thinned(800) is curve


def test_the_curve_survives_json():
    for absent in ([], [0.3, 0.9]):
        curve = acceptance_curve([0.1, 0.2, 0.3], [True, False, True], absent)
        again = AcceptanceCurve.from_dict(json.loads(json.dumps(curve.to_dict(), allow_nan=False)))
        for name in ("thresholds", "precision", "recall", "false_accepts", "auroc", "present", "absent"):
            np.testing.assert_array_equal(getattr(again, name), getattr(curve, name))


@pytest.mark.parametrize(("precision", "answers"), [(0.5, 2), (0.9, 10), (0.95, 20), (0.99, 100), (1.0, 100)])
def test_a_promise_needs_so_many_answers_that_one_wrong_one_would_not_break_it(precision, answers):
    assert least_answers(precision) == answers
    assert (answers - 1) / answers >= precision - 1e-9 or precision == 1
    assert (answers - 2) / (answers - 1) < precision
