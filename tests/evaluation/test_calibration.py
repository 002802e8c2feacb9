"""Calibration against numbers worked out by hand, scipy's correlations and scikit-learn's isotonic regression."""

import json
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samespot.errors import InputError
from samespot.evaluation.calibration import (
    IsotonicCalibration,
    Reliability,
    calibration_pairs,
    predicted_overlap,
    reliability,
    sample_pairs,
)
from samespot.overlap.labels import PairLabels

SHARE = st.floats(0, 1, width=32)


def labels_of(matrix, **meta):
    """Labels with the similarities of a small dense matrix."""
    dense = np.asarray(matrix, dtype=np.float32)
    rows, columns = np.nonzero(dense)
    indptr = np.searchsorted(rows, np.arange(len(dense) + 1)).astype(np.int64)
    return PairLabels(indptr, columns.astype(np.int32), dense[rows, columns], dense.shape, meta)


def test_a_pair_rests_where_the_loss_leaves_it():
    # the resting distance of overlap ψ is τ(1 − ψ), so the prediction there is ψ again
    psi = np.array([0.0, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(predicted_overlap(0.5 * (1 - psi), margin=0.5), psi)
    np.testing.assert_array_equal(predicted_overlap([0.7, 1.9, np.inf], margin=0.5), [0, 0, 0])
    with pytest.raises(InputError, match="margin 0 is not positive"):
        predicted_overlap([0.1], margin=0)


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


def test_retrieved_pairs_lose_only_the_empty_places():
    labels = labels_of([[0, 0.5, 0], [0.25, 0, 1.0]])
    found = SimpleNamespace(
        rows=np.array([[1, 0, -1], [2, 0, 1]]), distances=np.array([[0.1, 0.4, np.inf], [0.0, 0.3, 0.6]])
    )
    distances, overlaps = calibration_pairs(found, labels)
    np.testing.assert_array_equal(distances, [0.1, 0.4, 0.0, 0.3, 0.6])
    np.testing.assert_array_equal(overlaps, [0.5, 0, 1, 0.25, 0])
    np.testing.assert_array_equal(calibration_pairs(found, labels, k=1), [[0.1, 0.0], [0.5, 1]])
    with pytest.raises(InputError, match="2 searched queries, labels for 1"):
        calibration_pairs(found, labels[:1])
    with pytest.raises(InputError, match="map row 2 was retrieved, the labels are for 2 map images"):
        calibration_pairs(found, labels_of([[1, 0], [0, 1]]))


def unit(dice, n, d=8):
    vectors = dice.normal(size=(n, d)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_all_pairs_are_taken_once_when_they_are_few():
    dice = np.random.default_rng(2)
    queries, places = unit(dice, 4), unit(dice, 5)
    places[3] = 0  # an unreadable image
    matrix = np.where(dice.random((4, 5)) < 0.5, dice.random((4, 5)), 0).astype(np.float32)
    distances, overlaps = sample_pairs(queries, places, labels_of(matrix), n=1000)
    expected = np.linalg.norm(queries[:, None].astype(float) - places[None].astype(float), axis=2)
    keep = [0, 1, 2, 4]
    np.testing.assert_allclose(distances, expected[:, keep].ravel())
    np.testing.assert_array_equal(overlaps, matrix[:, keep].ravel())


def test_pairs_at_random_are_like_all_pairs_and_come_again_with_their_seed():
    dice = np.random.default_rng(3)
    queries, places = unit(dice, 60), unit(dice, 70)
    matrix = np.where(dice.random((60, 70)) < 0.1, 0.5, 0)
    labels = labels_of(matrix)
    distances, overlaps = sample_pairs(queries, places, labels, n=4000, seed=5)
    assert len(distances) == len(overlaps) == 4000
    assert overlaps.mean() == pytest.approx(matrix.mean(), abs=0.01)
    again = sample_pairs(queries, places, labels, n=4000, seed=5)
    np.testing.assert_array_equal(again, [distances, overlaps])
    assert not np.array_equal(sample_pairs(queries, places, labels, n=4000, seed=6)[0], distances)


def test_an_image_is_not_paired_with_itself():
    queries = unit(np.random.default_rng(4), 6)
    distances, overlaps = sample_pairs(queries, queries, labels_of(np.eye(6), same_table=True), n=100)
    assert len(distances) == 30
    assert distances.min() > 0
    assert overlaps.max() == 0
    with pytest.raises(InputError, match="5 × 6 descriptors, labels for 6 × 6"):
        sample_pairs(queries[:5], queries, labels_of(np.eye(6)), n=3)


def test_isotonic_is_the_pooled_mean_of_violators():
    # worked out by hand: .2 then .4 rises, so both become .3
    curve = IsotonicCalibration.fit([0.1, 0.2, 0.3, 0.4], [0.9, 0.2, 0.4, 0.0], fitted_on="four pairs")
    np.testing.assert_allclose(
        curve([0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 2.0]), [0.9, 0.9, *[0.3] * 3, 0.15, 0, 0]
    )
    assert curve(np.inf) == 0
    assert (curve.pairs, curve.fitted_on) == (4, "four pairs")


def test_isotonic_equals_scikit_learn_and_calibrates_what_it_was_fitted_on(tmp_path):
    from sklearn.isotonic import IsotonicRegression

    dice = np.random.default_rng(6)
    d = np.round(dice.gamma(2, 0.3, 3000), 3)  # whitened distances: beyond any margin, with ties
    psi = np.clip(np.exp(-3 * d) + dice.normal(0, 0.2, 3000), 0, 1)
    curve = IsotonicCalibration.fit(d, psi, "training places")
    new = np.linspace(-0.1, 5, 999)
    theirs = IsotonicRegression(increasing=False, y_min=0, y_max=1, out_of_bounds="clip").fit(d, psi)
    np.testing.assert_allclose(curve(new), theirs.predict(new), atol=1e-12)
    assert (np.diff(curve(new)) <= 0).all()
    assert reliability(curve(d), psi).ece < 0.005 < reliability(predicted_overlap(d, 0.5), psi).ece
    loaded = IsotonicCalibration.load(curve.save(tmp_path / "deep" / "calibration.json"))
    np.testing.assert_array_equal(loaded(new), curve(new))
    assert (loaded.fitted_on, loaded.pairs) == ("training places", 3000)


def test_applying_a_curve_needs_neither_scikit_learn_nor_torch(tmp_path):
    path = IsotonicCalibration.fit([0.1, 0.2], [1, 0], "two").save(tmp_path / "c.json")
    code = (
        "import sys; from samespot.evaluation.calibration import IsotonicCalibration as I;"
        f"print(float(I.load({str(path)!r})(0.15)), 'sklearn' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    value, sklearn, torch = done.stdout.split()
    assert float(value) == pytest.approx(0.5)
    assert (sklearn, torch) == ("False", "False")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"distances": [0.2, 0.1]}, "distances do not ascend"),
        ({"overlaps": [0.1, 0.4]}, "overlaps do not fall"),
        ({"overlaps": [1.4, 0.4]}, "overlaps do not fall from 1 at most"),
        ({"overlaps": [0.4]}, "not lists of one length"),
        ({"fitted_on": None, "distances": None}, "not lists of one length"),
    ],
)
def test_a_broken_file_is_refused(tmp_path, change, fault):
    path = IsotonicCalibration.fit([0.1, 0.2], [1, 0], "two").save(tmp_path / "c.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=fault) as refusal:
        IsotonicCalibration.load(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_what_is_no_calibration_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such calibration file"):
        IsotonicCalibration.load(tmp_path / "absent.json")
    (tmp_path / "torn.json").write_text('{"format": 1, "dist')
    with pytest.raises(InputError, match="not a calibration"):
        IsotonicCalibration.load(tmp_path / "torn.json")
    with pytest.raises(InputError, match="calibration on nothing: there are no pairs"):
        IsotonicCalibration.fit([], [], "nothing")
    with pytest.raises(InputError, match="a distance is not a finite number"):
        IsotonicCalibration.fit([np.inf], [0], "everything")
