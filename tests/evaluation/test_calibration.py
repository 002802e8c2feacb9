"""Calibration against numbers worked out by hand, scipy's correlations and scikit-learn's isotonic regression."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as st

from samespot.errors import InputError
from samespot.evaluation.calibration import (
    IsotonicCalibration,
    calibration_pairs,
    predicted_overlap,
    sample_pairs,
)
from samespot.overlap.labels import PairLabels
from samespot.statistics.reliability import reliability

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
