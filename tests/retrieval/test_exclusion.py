"""What must not be retrieved, pair by pair, and the same for any blocks."""

from datetime import timedelta

import numpy as np
import pytest

from samespot import InputError
from samespot.retrieval.exclusion import any_of, months_apart, pairs, panoramas, same_name, time_gap


def whole(exclusion, queries, places):
    """The full matrix, put together from blocks of 2 × 3."""
    full = np.empty((queries, places), dtype=bool)
    for i in range(0, queries, 2):
        for j in range(0, places, 3):
            q, m = slice(i, min(i + 2, queries)), slice(j, min(j + 3, places))
            full[q, m] = exclusion(q, m)
    np.testing.assert_array_equal(full, exclusion(slice(0, queries), slice(0, places)))
    return full.astype(int).tolist()


def test_the_query_itself_is_known_by_name():
    out = same_name(np.array(["a", "b", "c"]), np.array(["b", "x", "a", "b"]))
    assert whole(out, 3, 4) == [[0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]]


def test_names_may_be_lists_or_numbers_and_a_missing_name_is_like_no_other():
    assert whole(same_name([7, 8], [8, 7, 7]), 2, 3) == [[0, 1, 1], [1, 0, 0]]
    assert whole(same_name(["a", None], [None, "a"]), 2, 2) == [[0, 1], [0, 0]]


def test_a_time_gap_in_seconds_is_exclusive_at_its_end():
    out = time_gap([100.0, 200.0], [100.0, 159.5, 160.0, 41.0], 60)
    assert whole(out, 2, 4) == [[1, 1, 0, 1], [0, 1, 1, 0]]


@pytest.mark.parametrize("gap", [3600, timedelta(hours=1), np.timedelta64(60, "m")])
def test_times_as_text_and_gaps_of_any_kind(gap):
    queries = ["2017-05-03T12:00:00", "2017-05-03 23:30:00"]
    places = ["2017-05-03T12:59:59", "2017-05-03T13:00:00Z", "2017-05-04T00:29:00", "2017-05-03T13:30+02:00"]
    # the last one is 11:30 in UTC
    assert whole(time_gap(queries, places, gap), 2, 4) == [[1, 0, 0, 1], [0, 0, 1, 0]]


def test_an_unknown_time_is_never_excluded():
    assert whole(time_gap([0.0, np.nan], [0.0, np.nan], 10), 2, 2) == [[1, 0], [0, 0]]
    unknown = np.array(["2017-05-03", "", None, "nan"], dtype=object)
    assert whole(time_gap(unknown, unknown, 10), 4, 4) == [[1, 0, 0, 0]] + [[0, 0, 0, 0]] * 3
    assert whole(months_apart(unknown, unknown), 4, 4) == [[1, 0, 0, 0]] + [[0, 0, 0, 0]] * 3


def test_numbers_far_from_any_calendar_are_times_too():
    milliseconds = np.array([1.5e15, 1.5e15 + 999])
    assert whole(time_gap(milliseconds, milliseconds, 1000), 2, 2) == [[1, 1], [1, 1]]
    assert whole(time_gap(milliseconds, milliseconds, 999), 2, 2) == [[1, 0], [0, 1]]


def test_months_are_calendar_months_across_the_turn_of_the_year():
    queries, places = ["2014-12", "2015-02-28T23:59:59"], ["2014-12", "2015-01", "2015-03-01", "2013-12"]
    assert whole(months_apart(queries, places), 2, 4) == [[1, 0, 0, 0], [0, 0, 0, 0]]
    assert whole(months_apart(queries, places, at_least=2), 2, 4) == [[1, 1, 0, 0], [0, 1, 1, 0]]
    by_delta = time_gap(queries, places, np.timedelta64(2, "M"))
    assert whole(by_delta, 2, 4) == [[1, 1, 0, 0], [0, 1, 1, 0]]
    a_year = time_gap(queries, places, np.timedelta64(1, "Y"))
    assert whole(a_year, 2, 4) == [[1, 1, 1, 0], [1, 1, 1, 0]]


def test_panoramas_are_out_for_every_query():
    assert whole(panoramas(np.array([False, True, False, True])), 3, 4) == [[0, 1, 0, 1]] * 3


def test_listed_pairs_are_out_and_no_others():
    rng = np.random.default_rng(0)
    dense = rng.random((7, 11)) < 0.3
    dense[2] = False
    indptr = np.concatenate([[0], np.cumsum(dense.sum(axis=1))])
    out = pairs(indptr, np.nonzero(dense)[1], dense.shape)
    assert whole(out, 7, 11) == dense.astype(int).tolist()


def test_any_of_is_out_what_one_keeps_out():
    both = any_of(panoramas(np.array([True, False, False])), same_name(["x", "y"], ["x", "y", "z"]))
    assert whole(both, 2, 3) == [[1, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: time_gap(["2017-05-03", "noon"], ["2017-05-03"], 1), "query row 1: time 'noon'"),
        (lambda: time_gap([0.0], [0.0], -1), "not a length of time"),
        (lambda: time_gap([0.0], [0.0], float("nan")), "not a length of time"),
        (lambda: months_apart(["2014-12"], ["2014-13"]), "map row 0: time '2014-13' is not a month"),
        (lambda: months_apart(["2014"], ["2014-12"]), "query row 0"),
        (lambda: months_apart(["2014-12"], ["2014-12"], -1), "0 or more"),
        (lambda: panoramas(np.array([0, 1])), "True or False"),
        (lambda: pairs([0, 1], [5], (1, 5)), "map of 5 images"),
        (lambda: pairs([0, 1], [-1], (1, 5)), "map of 5 images"),
        (lambda: pairs([0, 2, 1], [1], (2, 5)), "indptr"),
        (lambda: pairs([0, 1], [1], (2, 5)), "indptr"),
        (any_of, "at least one"),
    ],
)
def test_bad_input_is_refused_with_the_row(make, says):
    with pytest.raises(InputError, match=says):
        make()
