"""Metrics against numbers worked out by hand, plain loops, and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from samespot import InputError, PairLabels
from samespot.evaluation import metrics
from samespot.evaluation.metrics import (
    average_precision_at_k,
    distances_to_retrieved,
    first_hit,
    gains,
    hits,
    hits_at_k,
    ideal_gains,
    localised,
    ndcg_at_k,
    pose_errors,
    recall_at_k,
    recall_over_distance,
    recall_over_overlap,
)

# Query 0 finds its positive at rank 2; 1 finds none; 2 has none to find; 3 has a short list and a late hit.
RETRIEVED = np.array([[7, 3, 1], [0, 2, 4], [5, 6, 7], [9, 8, -1]])
POSITIVES = [[3, 1], [5], [], np.array([8], np.int32)]


def labels_of(matrix):
    matrix = np.asarray(matrix, np.float32)
    rows, columns = np.nonzero(matrix)
    indptr = np.searchsorted(rows, np.arange(len(matrix) + 1))
    return PairLabels(indptr, columns.astype(np.int32), matrix[rows, columns], matrix.shape)


def random_rankings(seed, queries=300, places=60, k=10, repeats=False):
    rng = np.random.default_rng(seed)
    if repeats:
        retrieved = rng.integers(-1, places, (queries, k))
    else:
        retrieved = np.argsort(rng.random((queries, places)), axis=1)[:, :k]
    positives = [rng.permutation(places)[: rng.integers(0, 6)] for _ in range(queries)]
    return retrieved, positives


def test_ranks_and_recall_by_hand():
    assert first_hit(RETRIEVED, POSITIVES).tolist() == [2, 0, 0, 2]
    assert hits_at_k([2, 0, 1, 3], 2).tolist() == [True, False, True, False]
    # three queries have a positive, two of them find it at rank 2
    assert recall_at_k(RETRIEVED, POSITIVES, ks=(1, 2, 3)) == {1: 0.0, 2: 2 / 3, 3: 2 / 3}


def test_recall_is_a_loop_over_sets():
    retrieved, positives = random_rankings(0, repeats=True)
    counted = [(row, set(p)) for row, p in zip(retrieved.tolist(), positives, strict=True) if len(p)]
    recall = recall_at_k(retrieved, positives, ks=(1, 3, 10))
    assert recall == {
        k: pytest.approx(np.mean([bool(set(row[:k]) & p) for row, p in counted])) for k in (1, 3, 10)
    }
    assert recall[1] < recall[3] < recall[10]


def test_ids_may_be_names_and_any_whole_numbers():
    names = np.array(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
    named = [names[np.asarray(p, int)].tolist() for p in POSITIVES]
    ranked = np.where(RETRIEVED < 0, "", names[RETRIEVED])
    assert hits(ranked, named).tolist() == hits(RETRIEVED, POSITIVES).tolist()
    assert hits(ranked.astype(object), named).tolist() == hits(RETRIEVED, POSITIVES).tolist()
    huge = 2**62
    assert first_hit([[huge, huge + 1]], [[huge + 1]]).tolist() == [2]


def test_nothing_retrieved_is_never_a_hit():
    assert recall_at_k([[-1, -1], [0, -1]], [[0], [0]], ks=(1, 2)) == {1: 0.5, 2: 0.5}


@pytest.mark.parametrize(
    ("retrieved", "positives", "ks", "message"),
    [
        (RETRIEVED, POSITIVES, (1, 4), "k is 4, but 3 images were retrieved"),
        (RETRIEVED, POSITIVES, (0,), "k is 0"),
        (RETRIEVED, [[], [], [], []], (1,), "none of the 4 queries has a positive"),
        (np.zeros((0, 3), int), [], (1,), "none of the 0 queries"),
        (RETRIEVED, POSITIVES[:3], (1,), "3 lists of positives for 4 queries"),
        (RETRIEVED[0], POSITIVES, (1,), r"shape \(3,\)"),
        (RETRIEVED, [[3], [5], [], [-1]], (1,), "positives of query 3 contain a negative id"),
        (RETRIEVED, [[3], np.array([True, False]), [], [8]], (1,), "positives of query 1 are bool"),
        (RETRIEVED.astype(float), POSITIVES, (1,), "retrieved are float64"),
        (RETRIEVED, [["3"], [], [], []], (1,), "differently"),
    ],
)
def test_recall_refuses_what_has_no_answer(retrieved, positives, ks, message):
    with pytest.raises(InputError, match=message):
        recall_at_k(retrieved, positives, ks)


def msls_average_precision(ranking, positives, k):
    """The benchmark's definition, one query at a time."""
    precisions, seen = [], set()
    for rank, place in enumerate(ranking[:k], start=1):
        if place in positives and place not in seen:
            precisions.append((len(precisions) + 1) / rank)
        seen.add(place)
    return sum(precisions) / min(len(positives), k)


def test_average_precision_by_hand():
    # hits at ranks 1 and 3 of two positives: (1/1 + 2/3) / 2; at 1 only one positive can be found
    assert average_precision_at_k([[4, 9, 5]], [[4, 5]], 3) == pytest.approx([5 / 6])
    assert average_precision_at_k([[4, 9, 5]], [[4, 5]], 1).tolist() == [1.0]
    # the second 4 is no second hit, but it takes a rank
    assert average_precision_at_k([[4, 4, 5]], [[4, 5]], 3) == pytest.approx([5 / 6])
    assert np.isnan(average_precision_at_k([[4, 9]], [[]], 2)).all()


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("k", [1, 3, 10])
def test_average_precision_is_the_benchmarks(repeats, k):
    retrieved, positives = random_rankings(1, repeats=repeats)
    expected = [
        msls_average_precision(row, set(p), k) if len(p) else np.nan
        for row, p in zip(retrieved.tolist(), positives, strict=True)
    ]
    np.testing.assert_allclose(average_precision_at_k(retrieved, positives, k), expected, rtol=1e-12)


def test_average_precision_refuses_too_large_a_k():
    with pytest.raises(InputError, match="k is 2"):
        average_precision_at_k([[1]], [[1]], 2)


def about(axis, degrees):
    """Quaternion of a turn about a unit axis."""
    half = np.radians(degrees) / 2
    return np.concatenate([[np.cos(half)], np.sin(half) * np.asarray(axis)])


@pytest.mark.parametrize("degrees", [0.0, 1e-9, 1e-5, 2.0, 90.0, 179.0, 180 - 1e-5, 180 - 1e-9, 180.0])
def test_the_angle_of_a_small_and_of_a_half_turn_keeps_its_digits(degrees):
    start = about([0, 0.6, 0.8], 71.0)
    w, x, y, z = about([1, 0, 0], degrees)
    a, b, c, d = start
    turned = [w*a - x*b - y*c - z*d, w*b + x*a + y*d - z*c, w*c - x*d + y*a + z*b, w*d + x*c - y*b + z*a]  # fmt: skip
    for sign in (1, -1):
        _, angle = pose_errors([[0, 0, 0]], [start], [[0, 0, 0]], [sign * np.array(turned)])
        assert angle[0] == pytest.approx(degrees, abs=1e-13 if degrees < 1 else 1e-12)


def test_pose_errors_and_shares_localised():
    truth = np.array([about([0, 0, 1], 0)] * 5)
    turned = np.array([about([0, 0, 1], angle) for angle in (0, 1.5, 4, 9, 0)])
    turned[4] = 0  # no rotation known
    centres = np.array([[0.3, 0.4, 0], [0, 0, 0.25], [0, 0.5, 0], [3, 4, 0], [0, 0, 0]])
    metres, degrees = pose_errors(centres, turned, np.zeros((5, 3)), truth)
    assert metres == pytest.approx([0.5, 0.25, 0.5, 5, 0])
    assert degrees[:4] == pytest.approx([0, 1.5, 4, 9])
    assert np.isnan(degrees[4])
    limits = ((0.25, 2.0), (0.5, 5.0), (5.0, 10.0))
    assert localised(metres, degrees, limits) == {(0.25, 2.0): 0.2, (0.5, 5.0): 0.6, (5.0, 10.0): 0.8}
    assert localised([np.nan, 1], [0, 0], [(5.0, 10.0)]) == {(5.0, 10.0): 0.5}


def test_poses_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="no query has a pose"):
        localised([], [], [(1.0, 1.0)])
    with pytest.raises(InputError, match="one of each per query"):
        localised([1.0], [1.0, 2.0], [(1.0, 1.0)])
    with pytest.raises(InputError, match="qw qx qy qz"):
        pose_errors([[0, 0, 0]], [[1, 0, 0]], [[0, 0, 0]], [[1, 0, 0]])


def test_graded_metrics_by_hand():
    labels = labels_of([[0.0, 0.5, 0.25, 0.0], [0, 0, 0, 0], [1.0, 0, 0, 0.75]])
    retrieved = [[2, 0, 1], [0, 1, 2], [3, 3, -1]]
    got, best = gains(retrieved, labels), ideal_gains(labels, 3)
    assert got.tolist() == [[0.25, 0, 0.5], [0, 0, 0], [0.75, 0, 0]]  # a repeated image gains nothing more
    assert best.tolist() == [[0.5, 0.25, 0], [0, 0, 0], [1, 0.75, 0]]
    discount = 1 / np.log2(3)
    expected = [(0.25 + 0.5 / 2) / (0.5 + 0.25 * discount), np.nan, 0.75 / (1 + 0.75 * discount)]
    np.testing.assert_allclose(ndcg_at_k(got, best, 3), expected)


def test_what_may_not_be_retrieved_is_not_in_the_ideal():
    labels = labels_of([[1.0, 0.25, 0.5], [0.25, 1.0, 0.0], [0, 0, 1.0]])
    itself = lambda q, m: np.arange(3)[q, None] == np.arange(3)[None, m]  # noqa: E731
    assert ideal_gains(labels, 2, itself).tolist() == [[0.5, 0.25], [0.25, 0], [0, 0]]


@pytest.mark.parametrize("k", [1, 3, 25])
def test_ndcg_is_scikit_learns(k):
    rng = np.random.default_rng(2)
    truth = np.where(rng.random((50, 40)) < 0.3, rng.random((50, 40)), 0).astype(np.float32)
    scores = rng.random((50, 40))
    labels = labels_of(truth)
    got = gains(np.argsort(-scores, axis=1)[:, :25], labels)
    values = ndcg_at_k(got, ideal_gains(labels, 25), k)
    expected = [ndcg_score(truth[i : i + 1], scores[i : i + 1], k=k) for i in range(50)]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    perfect = gains(np.argsort(-truth, axis=1)[:, :25], labels)
    np.testing.assert_allclose(ndcg_at_k(perfect, ideal_gains(labels, 25), k), 1)


def test_gains_refuse_rows_of_another_map():
    labels = labels_of([[0.5, 0]])
    with pytest.raises(InputError, match="map, which has 2 images"):
        gains([[2]], labels)
    with pytest.raises(InputError, match="2 queries were searched, the labels have 1"):
        gains([[0], [1]], labels)
    with pytest.raises(InputError, match="k is 2"):
        ndcg_at_k(gains([[0]], labels), ideal_gains(labels, 1), 2)


def test_recall_over_distance_by_hand():
    queries, places = [[0, 0], [100, 0], [500, 0]], [[3, 4], [100, 7], [100, 30], [1000, 0]]
    metres = distances_to_retrieved(queries, places, [[0, 1], [2, 1], [-1, 3]])
    assert metres[0, 0] == 5
    assert metres[1].tolist() == [30, 7]
    assert metres[2].tolist() == [np.inf, 500]
    recall, counted = recall_over_distance(metres, [5, 7, 400], thresholds=(4, 5, 7, 30), k=1)
    # nobody within 4 m; at 5 m only query 0 counts, the limit included; query 1's first match is 30 m off
    np.testing.assert_array_equal(recall, [np.nan, 1, 0.5, 1])
    assert counted.tolist() == [0, 1, 2, 2]
    assert recall_over_distance(metres, [5, 7, 400], (7,), k=2)[0].tolist() == [1]
    assert len(recall_over_distance(metres, [5, 7, 400])[0]) == 10


def test_recall_over_distance_is_recall_at_k_with_positives_within_each_threshold():
    rng = np.random.default_rng(3)
    queries, places = rng.uniform(0, 300, (200, 2)), rng.uniform(0, 300, (80, 2))
    apart = np.linalg.norm(queries[:, None] - places, axis=2)
    retrieved = np.argsort(apart + rng.exponential(40, apart.shape), axis=1)[:, :5]
    metres = distances_to_retrieved(queries, places, retrieved)
    for k in (1, 5):
        recall, counted = recall_over_distance(metres, apart.min(axis=1), k=k)
        for threshold, share, count in zip(metrics.DISTANCES, recall, counted, strict=True):
            positives = [np.flatnonzero(row <= threshold) for row in apart]
            assert share == pytest.approx(recall_at_k(retrieved, positives, (k,))[k])
            assert count == sum(len(p) > 0 for p in positives)


def test_unknown_positions_are_not_near():
    metres = distances_to_retrieved([[0, 0]], [[np.nan, 0], [3, 4]], [[0, 1]])
    assert recall_over_distance(metres, [5], (5,), k=1)[0].tolist() == [0]
    assert recall_over_distance(metres, [5], (5,), k=2)[0].tolist() == [1]
    with pytest.raises(InputError, match="2 of them have a position"):
        distances_to_retrieved([[0, 0]], [[0, 0], [1, 1]], [[2]])


def test_recall_over_overlap_needs_more_than_the_threshold():
    got = np.array([[0.3, 0.6], [0.0, 0.1], [0.0, 0.0]], np.float32)
    best = np.array([0.6, 0.3, 0.0], np.float32)
    recall, counted = recall_over_overlap(got, best, thresholds=(0, 0.1, 0.3, 0.6), k=1)
    # the float32 .3 and .6 are a little above .3 and .6, yet no more than they
    np.testing.assert_array_equal(recall, [0.5, 0.5, 0, np.nan])
    assert counted.tolist() == [2, 2, 1, 0]
    assert recall_over_overlap(got, best, (0, 0.1, 0.3), k=2)[0].tolist() == [1, 0.5, 1]
    assert metrics.OVERLAPS == (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def test_twenty_thousand_queries_with_a_hit_at_the_fourth_rank():
    rng = np.random.default_rng(4)
    queries, places, k = 20_000, 100_000, 25
    retrieved = rng.integers(0, places, (queries, k))
    columns = np.sort(rng.integers(0, places, (queries, 30)), axis=1).astype(np.int32)
    columns[:, 0] = retrieved[:, 3]
    columns.sort(axis=1)
    indptr, overlap = np.arange(queries + 1) * 30, np.ones(queries * 30, np.float32)
    labels = PairLabels(indptr, columns.ravel(), overlap, (queries, places))
    assert recall_at_k(retrieved, list(columns), (1, 5, 25))[5] == 1
    assert average_precision_at_k(retrieved, list(columns), k).min() > 0
    assert ndcg_at_k(gains(retrieved, labels), ideal_gains(labels, k), k).min() > 0
