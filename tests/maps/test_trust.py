"""The probability that an answer is right: monotone, moved by Bayes, honest about noise, and the same after json."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samespot.errors import InputError
from samespot.maps.evidence import EVIDENCE, NOTHING
from samespot.maps.trust import CannotCalibrateError, Trust, auroc, report
from samespot.statistics.reliability import reliability

BETTER = {"distance": -1, "ratio": -1, "spread": -1, "inliers": 1, "contrast": 1}


def questions(n=400, seed=0, verified=True, outside=0.5):
    """Made-up answers: right ones have higher contrast, smaller ratio and spread, but not always."""
    rng = np.random.default_rng(seed)
    inside = rng.random(n) >= outside
    right = inside & (rng.random(n) < 0.85)
    good = rng.normal(np.where(right, 2.0, 0.0), 0.8)
    evidence = np.stack(
        [
            np.clip(1.0 - 0.1 * good + rng.normal(0, 0.1, n), 0.05, 1.9),
            np.exp(-0.2 * good + rng.normal(0, 0.2, n)),
            np.exp(4 - 0.5 * good + rng.normal(0, 1, n)),
            np.exp(2.5 + good) if verified else np.full(n, np.nan),
            np.exp(good) if verified else np.full(n, np.nan),
        ],
        axis=1,
    )
    return evidence, right, inside


@pytest.fixture(scope="module")
def trust():
    both = [questions(), questions(seed=1, verified=False)]
    return Trust.fit(*(np.concatenate(parts) for parts in zip(*both, strict=True)))


@given(
    row=st.integers(0, 399),
    column=st.sampled_from(EVIDENCE),
    factor=st.floats(1.0, 30.0),
    verified=st.booleans(),
    prior=st.floats(0, 1),
)
def test_better_evidence_never_makes_an_answer_less_likely(trust, row, column, factor, verified, prior):
    evidence = questions(seed=0 if verified else 1, verified=verified)[0][row : row + 1]
    better = evidence.copy()
    better[0, EVIDENCE.index(column)] *= factor ** BETTER[column]
    assert trust.probability(better, prior)[0] >= trust.probability(evidence, prior)[0]


def test_it_tells_right_from_wrong_on_questions_it_has_not_seen(trust):
    for verified, least in ((True, 0.9), (False, 0.8)):
        evidence, right, _ = questions(3000, seed=7, verified=verified)
        p = trust.probability(evidence)
        assert auroc(p, right) > least
        assert reliability(p, right.astype(float)).ece < 0.05


def test_precision_at_the_threshold_is_met_on_new_questions(trust):
    evidence, right, _ = questions(5000, seed=8)
    accepted = trust.probability(evidence) >= trust.threshold(0.95)
    assert 0.92 < right[accepted].mean() < 0.98
    assert trust.threshold(0.8) < trust.threshold(0.95)


def kind_of(right, wrong, strangers):
    """With these log odds of its questions."""
    some = Trust.fit(*questions()).kinds["verified"]
    odds = tuple(np.sort(np.array(part, dtype=float)) for part in (right, wrong, strangers))
    return replace(some, right=len(right), wrong=len(wrong), strangers=len(strangers), odds=odds)


def test_a_threshold_worked_out_by_hand():
    # from 2 on 60 answers, of which 57 are right: 95 %; from 1 on another wrong one
    kind = kind_of([3] * 30 + [2] * 27 + [0] * 3, [2] * 2 + [1] * 2, [2] + [-4] * 63)
    assert kind.threshold(0.95, kind.outside) == pytest.approx(1 / (1 + np.exp(-2)))
    assert kind.threshold(0.9999, kind.outside) == pytest.approx(1 / (1 + np.exp(-3)))
    assert kind.threshold(0.95, 0.9) == pytest.approx(1 / (1 + np.exp(-(3 + kind.moved(0.9)))))


def test_precision_that_only_comes_back_by_luck_is_not_taken():
    # the surest forty are right in 70 %, and many less sure ones nearly always
    kind = kind_of([5] * 28 + [1] * 1000, [5] * 12, [-4] * 1040)
    assert kind.threshold(0.95, kind.outside) is None
    # one miss less than chance explains does not count
    assert kind_of([5] * 37 + [1] * 1000, [5] * 3, [-4] * 1040).threshold(0.95, 0.5) is not None


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.9])
def test_another_share_of_strangers_moves_the_odds_as_bayes_says(prior):
    # fitted with one share outside, held against questions that have another
    trust = Trust.fit(*questions(4000, outside=0.5))
    evidence, right, _ = questions(20_000, seed=3, outside=prior)
    p = trust.probability(evidence, prior)
    assert reliability(p, right.astype(float)).ece < 0.03
    kind = trust.kinds["verified"]
    moved = np.log(p[0] / (1 - p[0])) - kind.curves(evidence[:1])[0]
    there = (1 - prior) * kind.right / ((1 - prior) * kind.wrong + prior * kind.inside)
    before = kind.right / (kind.wrong + kind.strangers)
    assert moved == pytest.approx(np.log(there / before), abs=1e-6)


def test_nobody_outside_makes_answers_surer_and_everybody_outside_makes_none_right(trust):
    evidence = questions()[0][:50]
    least, usual, most = (trust.probability(evidence, prior) for prior in (0.0, 0.5, 1.0))
    assert (least > usual).all()
    assert (most < 1e-12).all()


def test_json_gives_the_same_probabilities_and_thresholds(trust):
    again = Trust.from_dict(json.loads(json.dumps(trust.to_dict(), allow_nan=False)))
    for verified in (True, False):
        evidence = questions(seed=5, verified=verified)[0]
        np.testing.assert_array_equal(again.probability(evidence, 0.3), trust.probability(evidence, 0.3))
        assert again.threshold(verified=verified) == pytest.approx(
            trust.threshold(verified=verified), abs=1e-3
        )
    assert (again.source, again.facts) == (trust.source, trust.facts)


def test_shuffled_answers_make_no_confident_ones():
    evidence, right, inside = questions(600)
    shuffled = np.zeros(len(right), dtype=bool)
    shuffled[np.random.default_rng(0).permutation(np.flatnonzero(inside))[: right.sum()]] = True
    order = np.random.default_rng(1).permutation(len(right))  # what is inside tells nothing, too
    trust = Trust.fit(evidence[order], shuffled, inside)
    share = shuffled.mean()
    assert np.quantile(trust.probability(evidence), 0.99) < share + 0.2
    assert (
        trust.threshold(0.95) is None
        or report(trust.probability(evidence), shuffled, inside)["coverage"] < 0.05
    )
    assert auroc(trust.probability(evidence), right) is not None
    assert abs(trust.reliability()["verified"]["auroc"] - 0.5) < 0.1


def test_nothing_found_is_never_right(trust):
    assert trust.probability(np.array([NOTHING]), 0.0)[0] < 1e-12


def test_too_few_answers_of_either_kind_cannot_be_learned_from():
    evidence, right, inside = questions(30)
    with pytest.raises(CannotCalibrateError, match=r"30 questions had .* right and .* wrong answers"):
        Trust.fit(evidence, right, inside)
    evidence, right, inside = questions(300)
    with pytest.raises(CannotCalibrateError):
        Trust.fit(evidence[right], right[right], inside[right])


def test_answers_that_were_never_learned_are_refused_or_taken_for_the_lesser_kind():
    evidence, right, inside = questions(verified=False)
    plain = Trust.fit(evidence, right, inside)
    assert plain.threshold() == plain.threshold(verified=False)
    np.testing.assert_array_equal(plain.probability(questions()[0][:5]).shape, (5,))
    verified = Trust.fit(*questions())
    with pytest.raises(InputError, match="of verified answers alone"):
        verified.probability(evidence)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"format": 99}, "format 99"),
        ({"kinds": {"verified": {"columns": ["ratio"]}}}, "not a calibration"),
        ({"kinds": None}, "not a calibration"),
    ],
)
def test_what_is_no_calibration_is_refused_in_one_line(trust, change, fault):
    with pytest.raises(InputError, match=fault) as error:
        Trust.from_dict({**trust.to_dict(), **change})
    assert "\n" not in str(error.value)


def test_a_falling_curve_is_refused(trust):
    said = json.loads(json.dumps(trust.to_dict()))
    said["kinds"]["verified"]["slopes"][0][0] = -1.0
    with pytest.raises(InputError, match="do not rise"):
        Trust.from_dict(said)


def test_impossible_questions_and_shares_are_refused(trust):
    evidence, right, inside = questions(100)
    with pytest.raises(InputError, match="cannot be right"):
        Trust.fit(evidence, np.ones(100, bool), inside)
    with pytest.raises(InputError, match="give distance, ratio"):
        Trust.fit(evidence[:, :4], right, inside)
    with pytest.raises(InputError, match=r"share of 1\.5"):
        trust.probability(evidence, 1.5)


def test_a_report_worked_out_by_hand():
    p = [0.9, 0.8, 0.8, 0.3, 0.2]
    found = report(p, [True, True, False, True, False], [True, True, True, True, False], precision=0.75)
    assert found["accept"] == 0.3  # of four, three are right
    assert found["accepted"] == 4
    assert found["coverage"] == 0.75
    assert found["auroc"] == pytest.approx((2 + 1.5 + 1) / 6)
    assert report(p, [False] * 5, [True] * 5)["accept"] is None


def test_equal_probabilities_are_accepted_together():
    found = report([0.9, 0.9, 0.9], [True, True, False], [True] * 3, precision=0.9)
    assert found["accept"] is None
    assert found["coverage"] == 0
