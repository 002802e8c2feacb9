"""Lists of positives against what is worked out by hand and by brute force."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.positives import (
    graded_truth,
    rows_allowed,
    rows_of,
    rows_only,
    rows_within,
    sequences_found,
)
from samespot.overlap.labels import PairLabels
from samespot.overlap.rules import Sectors, label_pairs
from samespot.overlap.sector import sector_overlap
from samespot.places.table import Places


def table(easting, heading=0.0, northing=0.0, **more):
    n = len(easting)
    columns = {"image": [f"{i}.jpg" for i in range(n)], "easting": easting, "northing": northing}
    return Places.build(".", {**columns, "heading": heading, **more}, missing_images="ignore")


def plain(found):
    return [rows.tolist() for rows in found]


def test_the_limit_belongs_to_it():
    found = rows_within(table([0.0, 1000.0]), table([25.0, -25.0, 25.0001, 0.0]), 25.0)
    assert plain(found) == [[0, 1, 3], []]
    assert all(rows.dtype == np.int64 for rows in found)


def test_headings_are_compared_across_north():
    found = rows_within(table([0.0], [350.0]), table([0.0] * 4, [30.0, 30.5, 310.0, 170.0]), 25.0, 40.0)
    assert plain(found) == [[0, 2]]


def test_blocks_give_what_one_block_gives():
    dice = np.random.default_rng(0)
    queries, places = (table(dice.uniform(0, 300, n), dice.uniform(0, 360, n)) for n in (37, 50))
    apart = np.abs(queries.positions[:, None] - places.positions[None])
    turned = np.minimum(apart[..., 2], 360 - apart[..., 2])
    near = (np.hypot(apart[..., 0], apart[..., 1]) <= 25) & (turned <= 40)
    for block in (1, 7, 37, 1000):
        found = rows_within(queries, places, 25.0, 40.0, block_queries=block)
        assert plain(found) == [np.flatnonzero(row).tolist() for row in near]


def test_an_unknown_heading_is_refused_or_matches_nothing():
    queries, places = table([0.0, 0.0], [np.nan, 10.0]), table([0.0, 1.0, 2.0], [10.0, np.nan, 20.0])
    with pytest.raises(InputError, match="1 of 2 query images have no heading"):
        rows_within(queries, places, 25.0, 40.0)
    assert plain(rows_within(queries, places, 25.0, 40.0, unknown_heading="never")) == [[], [0, 2]]
    none = table([0.0], [np.nan])
    assert plain(rows_within(none, places, 25.0, 40.0, unknown_heading="never")) == [[]]
    assert plain(rows_within(none, places, 25.0, unknown_heading="never")) == [[0, 1, 2]]


def test_duplicate_map_images_are_each_a_positive():
    places = table([0.0, 50.0])
    twice = places.select([0, 1, 0])  # the same row of the same name again
    assert plain(rows_within(table([1.0]), twice, 25.0)) == [[0, 2]]


def test_rows_of_graded_labels_from_a_threshold_on():
    labels = PairLabels(
        np.array([0, 3, 3, 5]),
        np.array([1, 4, 6, 0, 5], np.int32),
        np.array([0.5, 0.49, 1.0, 0.2, 0.9], np.float32),
        (3, 7),
    )
    assert plain(rows_of(labels)) == [[1, 4, 6], [], [0, 5]]
    assert plain(rows_of(labels, 0.5)) == [[1, 6], [], [5]]
    assert plain(rows_of(labels[1:2])) == [[]]
    assert rows_of(labels[0:0]) == []


def test_rows_are_left_out_by_a_rule_and_by_an_exclusion():
    found = [np.array([0, 2, 3]), np.array([], dtype=np.int64), np.array([1, 3])]
    assert plain(rows_only(found, lambda query, rows: rows != 3)) == [[0, 2], [], [1]]
    barred = np.array([[True, False, False, False], [True] * 4, [False, False, False, True]])
    assert plain(rows_allowed(found, lambda q, m: barred[q, m])) == [[2, 3], [], [1]]


def test_a_sequence_is_found_by_any_of_its_frames():
    near = [np.array([0]), np.array([], dtype=np.int64), np.array([2, 5])]
    query_frames = np.array([[0, 1], [1, 1], [1, 2]])
    place_frames = np.array([[0, 1, 2], [1, 2, 3], [3, 4, 4]])  # image 5 is in none
    assert plain(sequences_found(near, query_frames, place_frames)) == [[0], [], [0, 1]]


def test_sequences_against_brute_force():
    dice = np.random.default_rng(1)
    matrix = dice.random((20, 30)) < 0.05
    query_frames, place_frames = dice.integers(0, 20, (15, 3)), dice.integers(0, 30, (25, 5))
    found = sequences_found([np.flatnonzero(row) for row in matrix], query_frames, place_frames)
    for frames, rows in zip(query_frames, found, strict=True):
        expected = [j for j, others in enumerate(place_frames) if matrix[np.ix_(frames, others)].any()]
        assert rows.tolist() == expected


def test_graded_truth_is_the_overlap_of_sectors_and_tells_progress():
    queries, places = table([0.0, 30.0], [0.0, 90.0]), table([0.0, 10.0, 500.0], [0.0, 45.0, 0.0])
    rule, notes = graded_truth("yard", queries, places, Sectors(90.0, 30.0))
    told = []
    labels = Case("yard", queries, places, rule=rule).overlap(lambda *step: told.append(step))
    expected = sector_overlap(queries.positions[:, None], places.positions[None], 90.0, 30.0)
    np.testing.assert_allclose(labels.dense(), expected, atol=1e-6)
    np.testing.assert_array_equal(labels.dense(), label_pairs(queries, places, 90.0, 30.0).dense())
    labels.check(queries, places)
    assert notes == ()
    assert told[-1] == ("labelling", 2, 2)


def test_graded_truth_is_none_without_headings_and_says_why():
    known, unknown = table([0.0, 1.0]), table([0.0, 1.0], [0.0, np.nan])
    told = "yard: 1 of 2 map images have no heading, so there is no graded truth"
    assert graded_truth("yard", known, unknown, Sectors()) == (None, (told,))
    panorama = table([0.0, 1.0], [0.0, np.nan], pano=[False, True])
    assert graded_truth("yard", known, panorama, Sectors())[0] is not None
    assert graded_truth("yard", known, panorama, Sectors(panoramas="sector"))[0] is None
