"""The streamed curve over all pairs against scikit-learn, which holds them all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from sklearn.metrics import average_precision_score, precision_recall_curve

from samespot import InputError
from samespot.evaluation.pair_curve import descriptor_blocks, pair_curve


def in_blocks(scores, truth, cuts):
    return lambda: zip(np.split(scores, cuts), np.split(truth, cuts), strict=True)


def drawn(seed, pairs=500, levels=40, share=0.1, dtype=np.float32):
    """Scores with many ties, better than chance."""
    rng = np.random.default_rng(seed)
    truth = rng.random(pairs) < share
    truth[0] = True
    scores = np.round((rng.normal(size=pairs) + truth) * levels / 6) / levels
    return scores.astype(dtype), truth


def assert_as_scikit_learn(curve, scores, truth):
    precision, recall, thresholds = precision_recall_curve(truth, scores)
    # between scores of positives recall stands still; those points scikit-learn has and we do not
    kept = np.isin(thresholds, scores[truth])
    np.testing.assert_array_equal(curve.thresholds, thresholds[kept])
    np.testing.assert_array_equal(curve.precision, precision[np.append(kept, True)])
    np.testing.assert_array_equal(curve.recall, recall[np.append(kept, True)])
    assert curve.average_precision == pytest.approx(average_precision_score(truth, scores), rel=1e-12)
    assert (curve.positives, curve.pairs) == (truth.sum(), truth.size)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 5, 40, 10_000]),
    st.sampled_from([0.002, 0.1, 0.9, 1.0]),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_curve_is_scikit_learns_with_ties(seed, levels, share, dtype):
    scores, truth = drawn(seed, 300, levels, share, dtype)
    cuts = np.sort(np.random.default_rng(seed).integers(0, 301, 5))  # blocks of any size, empty ones too
    assert_as_scikit_learn(pair_curve(in_blocks(scores, truth, cuts)), scores, truth)


def test_order_and_size_of_blocks_do_not_matter():
    scores, truth = drawn(5, 2000)
    whole = pair_curve(in_blocks(scores, truth, []))
    order = np.random.default_rng(6).permutation(2000)
    for cuts in ([], [1, 2, 3, 1999], range(1, 2000)):
        other = pair_curve(in_blocks(scores[order], truth[order], cuts))
        np.testing.assert_array_equal(other.precision, whole.precision)
        np.testing.assert_array_equal(other.thresholds, whole.thresholds)
        assert other.average_precision == whole.average_precision


def test_curve_by_hand():
    scores, truth = np.array([0.9, 0.8, 0.8, 0.7, 0.1]), np.array([True, False, True, False, True])
    curve = pair_curve(in_blocks(scores, truth, [2]))
    assert curve.thresholds.tolist() == [0.1, 0.8, 0.9]
    assert curve.precision == pytest.approx([3 / 5, 2 / 3, 1, 1])
    assert curve.recall == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert curve.average_precision == pytest.approx((3 / 5 + 2 / 3 + 1) / 3)


def test_perfect_and_infinite_scores():
    assert pair_curve(in_blocks(np.array([2.0, 1.0]), np.array([True, False]), [])).average_precision == 1
    scores, truth = np.array([np.inf, -np.inf, -np.inf, 0.0]), np.array([False, True, False, True])
    curve = pair_curve(in_blocks(scores, truth, [1]))
    assert curve.precision == pytest.approx([2 / 4, 1 / 2, 1])


def test_curves_without_meaning_are_refused():
    with pytest.raises(InputError, match="none of the 3 pairs is positive"):
        pair_curve(in_blocks(np.zeros(3), np.zeros(3, bool), []))
    for nan_is_positive in (True, False):
        truth = np.array([nan_is_positive, True])
        with pytest.raises(InputError, match="score NaN"):
            pair_curve(in_blocks(np.array([np.nan, 1.0]), truth, []))
    with pytest.raises(InputError, match="truths"):
        pair_curve(in_blocks(np.zeros(3), np.zeros(3, int), []))
    once = [[(np.ones(2), np.ones(2, bool))], []]
    with pytest.raises(InputError, match="gave 2 pairs, then 0"):
        pair_curve(lambda: iter(once.pop(0)))


@pytest.mark.parametrize("points", [2, 3, 10, 500])
def test_thinned_curve_keeps_ends_and_shape(points):
    scores, truth = drawn(7, 40_000, levels=1e6, share=0.2, dtype=np.float64)
    curve = pair_curve(in_blocks(scores, truth, []))
    thin = curve.thinned(points)
    assert len(thin.recall) <= points
    assert len(thin.thresholds) == len(thin.recall) - 1
    assert (thin.recall[0], thin.recall[-1], thin.precision[-1]) == (1, 0, 1)
    assert thin.precision[0] == curve.precision[0]
    at = np.searchsorted(curve.thresholds, thin.thresholds)
    np.testing.assert_array_equal(curve.thresholds[at], thin.thresholds)
    np.testing.assert_array_equal(curve.precision[at], thin.precision[:-1])
    assert thin.average_precision == curve.average_precision
    if points == 500:
        drawn_line = np.interp(curve.recall, thin.recall[::-1], thin.precision[::-1])
        assert np.abs(drawn_line - curve.precision)[curve.recall > 0.05].max() < 0.01
    assert np.all(np.diff(thin.recall) < 0)


def test_a_short_curve_is_not_thinned():
    curve = pair_curve(in_blocks(*drawn(8), []))
    assert curve.thinned(10_000) is curve
    with pytest.raises(InputError, match="at least 2"):
        curve.thinned(1)


def unit(seed, n, dims=16):
    x = np.random.default_rng(seed).normal(size=(n, dims)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def positives_of(seed, queries, places, share=0.1):
    truth = np.random.default_rng(seed).random((queries, places)) < share
    return truth, [np.flatnonzero(row) for row in truth]


@pytest.mark.parametrize("block", [1, 7, 100, 1 << 22])
@pytest.mark.parametrize("score", ["distance", "dot"])
def test_descriptor_blocks_hold_every_pair_once(block, score):
    queries, places = unit(0, 30), unit(1, 50)
    truth, positives = positives_of(2, 30, 50)
    parts = list(descriptor_blocks(queries, places, positives, block=block, score=score)())
    assert max(len(scores) for scores, _ in parts) <= block
    scores, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    apart = ((queries[:, None].astype(np.float64) - places) ** 2).sum(axis=2)
    expected = -apart if score == "distance" else 1 - apart / 2
    np.testing.assert_allclose(np.sort(scores), np.sort(expected.ravel()), atol=1e-5)
    np.testing.assert_allclose(np.sort(scores[labels]), np.sort(expected[truth]), atol=1e-5)


def test_unreadable_images_and_excluded_pairs_are_left_out():
    queries, places = unit(3, 20), unit(4, 25)
    queries[3] = places[5] = places[6] = 0
    truth, positives = positives_of(5, 20, 25, share=0.3)
    out = np.random.default_rng(6).random((20, 25)) < 0.2
    blocks = descriptor_blocks(queries, places, positives, excluded=lambda q, m: out[q, m], block=40)
    assert (blocks.unreadable_queries, blocks.unreadable_places) == (1, 2)
    kept = ~out
    kept[3] = False
    kept[:, 5:7] = False
    scores = -((queries[:, None] - places) ** 2).sum(axis=2, dtype=np.float64)
    curve = pair_curve(blocks)
    assert (curve.pairs, curve.positives) == (kept.sum(), truth[kept].sum())
    assert curve.average_precision == pytest.approx(
        average_precision_score(truth[kept], scores[kept]), rel=1e-6
    )


def test_positives_may_be_a_sparse_matrix_and_descriptors_lie_on_disk(tmp_path):
    queries, places = unit(7, 15), unit(8, 18).astype(np.float16)
    truth, positives = positives_of(9, 15, 18)
    np.save(tmp_path / "places.npy", places)
    mapped = np.load(tmp_path / "places.npy", mmap_mode="r")
    rows, columns = np.nonzero(np.ones_like(truth))
    stored_zeros = coo_array((truth.ravel().astype(np.float32), (rows, columns)), truth.shape)
    a = pair_curve(descriptor_blocks(queries, mapped, stored_zeros))
    b = pair_curve(descriptor_blocks(queries, places.astype(np.float32), positives))
    assert a.positives == truth.sum()
    np.testing.assert_array_equal(a.precision, b.precision)


def test_two_shots_of_one_place_are_at_distance_zero_or_more():
    same = unit(10, 200, dims=512)
    ((scores, truth),) = descriptor_blocks(same, same, [[i] for i in range(200)])()
    assert scores.max() <= 0
    np.testing.assert_allclose(scores[truth], 0, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"places": unit(0, 4, 8)}, "same model and dims"),
        ({"positives": [[0]]}, "1 lists of positives for 3 queries"),
        ({"positives": [[0], [4], []]}, "not among the 4 images"),
        ({"score": "cosine"}, "choose one of distance, dot"),
        ({"block": 0}, "1 is the smallest"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(change, message):
    given = {"queries": unit(0, 3), "places": unit(1, 4), "positives": [[0], [], []], **change}
    with pytest.raises(InputError, match=message):
        descriptor_blocks(**given)
