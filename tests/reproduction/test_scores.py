"""One value a query whose mean is the measure, against independent computations."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from reproduction.scores import (
    AP,
    area_by_query,
    curve,
    difference,
    mean_of,
    over_distances,
    over_overlaps,
    per_query,
    precision_by_query,
)
from samespot.errors import InputError
from samespot.evaluation.metrics import DISTANCES, OVERLAPS, recall_over_distance, recall_over_overlap


def test_recall_counts_hits_up_to_k_of_the_queries_that_count(result):
    made = result("a", [0, 1, 5, 6, 2])
    made.truth["counted"][4] = 0
    np.testing.assert_array_equal(per_query(made, made.plain(), "R@5"), [0, 1, 1, 0, np.nan])
    np.testing.assert_array_equal(per_query(made, made.plain(), "R@1"), [0, 1, 0, 0, np.nan])


def test_a_measure_without_its_column_is_refused(result):
    made = result("campus/a", [1, 2])
    with pytest.raises(InputError, match=r"campus/a, seed 0: its result has no precision for AP"):
        per_query(made, made.plain(), AP)


def test_curves_are_those_of_the_evaluation():
    dice = np.random.default_rng(0)
    metres, overlap = dice.uniform(0, 60, (80, 5)), dice.uniform(0, 1, (80, 5)).round(1)
    nearest, best = metres.min(axis=1) * dice.random(80), np.maximum(overlap.max(axis=1), dice.random(80))
    by_distance, _ = recall_over_distance(metres, nearest, DISTANCES, 5)
    by_overlap, _ = recall_over_overlap(overlap, best, OVERLAPS, 5)
    np.testing.assert_allclose(curve(*over_distances(metres.min(axis=1), nearest)), by_distance)
    np.testing.assert_allclose(curve(*over_overlaps(overlap.max(axis=1), best)), by_overlap)
    assert area_by_query(*over_distances(metres.min(axis=1), nearest)).mean() == pytest.approx(
        by_distance.mean()
    )
    assert area_by_query(*over_overlaps(overlap.max(axis=1), best)).mean() == pytest.approx(by_overlap.mean())


def test_the_area_by_hand():
    found = np.array([[True, False, True], [True, True, True]])
    counts = np.array(
        [[True, True, False], [True, True, True]]
    )  # the third counts at the second threshold only
    # recalls 1/2 and 1; the first query adds half of 3/2 to the first
    np.testing.assert_allclose(
        area_by_query(found, counts), [(0.5 + 0.75 + 1) / 2, (0.5 - 0.75 + 1) / 2, (0.5 + 1) / 2]
    )


def test_average_precision_is_that_of_scikit_learn():
    dice = np.random.default_rng(1)
    distances = [dice.random(30).round(2) for _ in range(12)]  # rounded: some are equal
    positive = [dice.random(30) < 0.15 for _ in range(12)]
    positive[3][:] = False
    by_query = precision_by_query(distances, positive)
    expected = average_precision_score(np.concatenate(positive), -np.concatenate(distances))
    assert by_query.mean() == pytest.approx(expected)
    assert by_query[3] < expected  # a query without positives only stands before those of others


def test_spread_of_average_precision_is_that_of_resampled_queries():
    dice = np.random.default_rng(2)
    positive = [dice.random(40) < 0.2 for _ in range(150)]
    distances = [dice.random(40) - 0.3 * right * dice.random() for right in positive]
    by_query = precision_by_query(distances, positive)
    drawn = []
    for _ in range(300):
        some = dice.integers(0, 150, 150)
        truth = np.concatenate([positive[i] for i in some])
        drawn.append(average_precision_score(truth, -np.concatenate([distances[i] for i in some])))
    assert np.std(by_query) / np.sqrt(150) == pytest.approx(np.std(drawn), rel=0.25)


def test_a_single_side_stands_against_each_seed():
    one, three = np.array([[1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    assert difference(three, one).value == pytest.approx(0.0)
    assert mean_of(np.array([[1.0, 1.0, np.nan, 0.0]])).n == 3
