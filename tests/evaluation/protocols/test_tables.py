"""Tables of one's own: each rule by hand, what is left out, and what is refused."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocols.tables import own_tables, rows_by_frame, table_case
from samespot.overlap.rules import Within, label_pairs
from samespot.places.table import Places


def table(n=None, root="/photos", prefix="", **columns):
    n = n or max(len(v) for v in columns.values() if not isinstance(v, str | float))
    given = {"image": [f"{prefix}{i}.jpg" for i in range(n)], "easting": 0.0, "northing": 0.0, "heading": 0.0}
    return Places.build(root, {**given, **columns}, missing_images="ignore")


def plain(found):
    return [rows.tolist() for rows in found]


def test_within_by_hand():
    queries = table(easting=[0.0, 1000.0], heading=[350.0, 0.0], prefix="q")
    places = table(easting=[25.0, 25.1, 0.0, 0.0], heading=[30.0, 350.0, 31.0, 310.0])
    case = table_case(queries, places, within=Within(25.0, 40.0))
    assert plain(case.positives) == [[0, 3], []]
    assert plain(table_case(queries, places, within=Within(25.0, None)).positives) == [[0, 2, 3], []]
    assert (case.excluded, case.notes, dict(case.groups)) == (None, (), {})


def test_overlap_takes_labels_from_the_threshold_on_and_makes_them_once():
    queries, places = table(easting=[0.0], prefix="q"), table(easting=[0.0, 10.0, 25.0, 60.0, 200.0])
    case = table_case(queries, places, min_overlap=0.5, theta=90.0, radius=50.0)
    labels = label_pairs(queries, places, 90.0, 50.0).dense()[0]
    assert plain(case.positives) == [[0, 1]]
    assert labels[2] == pytest.approx(0.4497, abs=1e-4)  # at 25 m sideways, as in the paper
    assert case.overlap(None) is case.overlap(None)
    assert plain(table_case(queries, places, min_overlap=float(labels[2])).positives) == [[0, 1, 2]]
    assert plain(table_case(queries, places, min_overlap=0.5, radius=200.0).positives) == [[0, 1, 2, 3]]


def test_graded_truth_needs_every_heading():
    known, unknown = table(2, prefix="q"), table(heading=[0.0, np.nan])
    case = table_case(known, unknown, within=Within(25.0, None))
    assert case.overlap() is None
    assert case.notes == ("table: 1 of 2 map images have no heading, so there is no graded truth",)
    with pytest.raises(
        InputError, match=r"`overlap` 0\.5: table: 1 of 2 map images have no heading.*use `within"
    ):
        table_case(known, unknown, min_overlap=0.5)
    with pytest.raises(InputError, match="1 of 2 map images have no heading"):
        table_case(known, unknown, within=Within(25.0, 40.0))


def test_frames_of_two_rides_along_one_route():
    winter = table(frame=[0, 7, 50], sequence="winter", prefix="w")
    summer = table(frame=[5, 6, 1, 12, 13, 2], sequence="summer", prefix="s")
    case = table_case(winter, summer, frames=5)
    assert plain(case.positives) == [[0, 2, 5], [0, 1, 3, 5], []]
    assert "frame numbers are compared across all sequences" in case.notes
    assert plain(table_case(winter, summer, frames=0).positives) == [[], [], []]


def test_frames_of_sequences_with_the_same_names_are_routes():
    queries = table(frame=[3, 3, 3], sequence=["north", "south", "east"], prefix="q")
    places = table(frame=[3, 4, 2, 9], sequence=["south", "north", "south", "north"])
    found, how = rows_by_frame(queries, places, 1)
    assert plain(found) == [[1], [0, 2], []]
    assert how == "frame numbers are compared within sequences of the same name"


def test_frames_where_one_table_has_no_sequences():
    found, _ = rows_by_frame(table(frame=[3], sequence="a"), table(frame=[3, 3, 4]), 0)
    assert plain(found) == [[0, 1]]


def test_frames_against_brute_force():
    dice = np.random.default_rng(2)
    queries, places = (
        table(frame=dice.integers(0, 60, n), sequence=dice.choice(list("abc"), n)) for n in (40, 70)
    )
    found, _ = rows_by_frame(queries, places, 4)
    ours, theirs = queries.table, places.table
    for i, rows in enumerate(found):
        near = (theirs["frame"] - ours["frame"][i]).abs() <= 4
        same = theirs["sequence"] == ours["sequence"][i]
        assert rows.tolist() == np.flatnonzero(near & same).tolist()


def test_a_table_against_itself_leaves_out_the_query():
    places = table(easting=[0.0, 10.0, 500.0])
    case = table_case(places, places, within=Within(25.0, None))
    assert plain(case.positives) == [[1], [0], []]
    np.testing.assert_array_equal(case.excluded(slice(0, 3), slice(0, 3)), np.eye(3, dtype=bool))
    assert case.notes == ("3 of 3 queries are in the map; none of them can find itself",)
    left_in = table_case(places, places, within=Within(25.0, None), exclude_self=False)
    assert (plain(left_in.positives), left_in.excluded) == ([[0, 1], [0, 1], [2]], None)


def test_some_of_the_map_as_queries_and_the_same_name_elsewhere():
    places = table(easting=[0.0, 10.0, 500.0])
    some = table_case(places.select([1]), places, within=Within(25.0, None))
    assert plain(some.positives) == [[0]]
    assert some.excluded(slice(0, 1), slice(0, 3)).tolist() == [[False, True, False]]
    elsewhere = table(easting=[0.0, 10.0, 500.0], root="/other")  # other photos under the same names
    case = table_case(elsewhere, places, within=Within(25.0, None))
    assert (plain(case.positives), case.excluded) == ([[0, 1], [0, 1], [2]], None)


def test_duplicate_map_images_are_all_themselves():
    places = table(easting=[0.0, 10.0])
    case = table_case(places, places.select([0, 1, 0]), within=Within(25.0, None))
    assert plain(case.positives) == [[1], [0, 2]]
    assert case.excluded(slice(0, 2), slice(0, 3)).tolist() == [[True, False, True], [False, True, False]]


def test_a_time_gap_leaves_out_what_was_taken_just_before_or_after():
    queries = table(time=["15:03", "9:00"], prefix="q")
    places = table(time=["15:04", "15:05", "14:58:01", "08:58", "23:00"])
    case = table_case(queries, places, within=Within(25.0, None), time_gap=np.timedelta64(2, "m"))
    assert plain(case.positives) == [[1, 2, 3, 4], [0, 1, 2, 3, 4]]  # exactly two minutes is far enough
    assert case.excluded(slice(0, 2), slice(0, 5)).tolist() == [[True] + [False] * 4, [False] * 5]


def test_dates_and_unknown_times():
    queries = table(time=["2018-05-11", None], prefix="q")
    places = table(time=["2018-05-12T06:00", "2018-05-14", ""])
    case = table_case(queries, places, within=Within(25.0, None), time_gap=np.timedelta64(2, "D"))
    assert plain(case.positives) == [[1, 2], [0, 1, 2]]
    itself = table_case(places, places, within=Within(25.0, None), time_gap=np.timedelta64(1, "D"))
    assert plain(itself.positives) == [[1, 2], [0, 2], [0, 1]]  # its unknown time leaves out itself alone


def test_results_are_broken_down_by_condition():
    queries = table(condition=["night", None, "day"], prefix="q")
    case = table_case(queries, table(1), within=Within(25.0, None))
    assert case.groups["condition"].tolist() == ["night", "", "day"]


@pytest.mark.parametrize(
    ("rules", "answer"),
    [
        ({}, "say what counts as found by one of `within="),
        ({"within": Within(), "frames": 5}, "say what counts as found by one of `within="),
        ({"min_overlap": 0.0}, r"`overlap` 0 is not in \(0, 1\]"),
        ({"min_overlap": 1.5}, r"`overlap` 1\.5 is not in"),
        ({"frames": -1}, "`frames` -1: give 0 or more"),
        ({"frames": 5}, "/photos: the query table has no column frame"),
        ({"within": Within(), "time_gap": np.timedelta64(1, "s")}, "the query table has no column time"),
    ],
)
def test_a_wrong_rule_is_answered(rules, answer):
    with pytest.raises(InputError, match=answer):
        table_case(table(1), table(1, prefix="m"), **rules)


def test_a_wrong_frame_or_time_is_named_with_its_row():
    with pytest.raises(InputError, match="map table row 2: frame x is not a number"):
        table_case(table(frame=[1], prefix="q"), table(frame=["3", "x"]), frames=1)
    gap = {"within": Within(25.0, None), "time_gap": np.timedelta64(1, "s")}
    noon, dated = table(time=["15:03", "noon"]), table(time=["2018-05-11"])
    with pytest.raises(InputError, match="map row 1: time 'noon' is neither seconds nor"):
        table_case(table(time=["15:03"], prefix="q"), noon, **gap)
    with pytest.raises(InputError, match="one table has times of day and the other dates"):
        table_case(table(time=["15:03"], prefix="q"), dated, **gap)


def test_seconds_are_times_too():
    queries, places = table(time=[100.0], prefix="q"), table(time=[90.0, 99.5, 101.0])
    case = table_case(queries, places, within=Within(25.0, None), time_gap=np.timedelta64(1000, "ms"))
    assert plain(case.positives) == [[0, 2]]


def test_parts_of_a_data_set_are_tables_too(wall_scene):
    asked = EvaluateOptions.of(
        {"map": wall_scene, "map_part": "heads/train", "queries": wall_scene, "part": "heads/test"}
    )
    _, (case,) = own_tables(asked)
    assert (case.query_count, case.place_count) == (1, 2)
    _, (alone,) = own_tables(EvaluateOptions.of({"map": wall_scene, "map_part": "heads/train"}))
    assert (alone.query_count, alone.place_count) == (2, 2)
    with pytest.raises(InputError, match=r"with 2 parts .* choose one with `map_part`"):
        own_tables(EvaluateOptions.of({"map": wall_scene}))
    with pytest.raises(InputError, match=r"with 2 parts .* choose one with `part`"):
        own_tables(EvaluateOptions.of({"map": wall_scene, "map_part": "heads/train", "queries": wall_scene}))


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"map": "m.csv", "part": "x"}, "`part` has no effect without `queries`; the map's is `map_part`"),
        (
            {"protocol": "msls-val", "part": "x"},
            "`part` has no effect with the protocol msls-val, which has its own",
        ),
        (
            {"protocol": "msls-val", "map_part": "x"},
            "`map_part` has no effect with the protocol msls-val, which has its own",
        ),
    ],
)
def test_parts_that_would_do_nothing_are_refused(typed, message):
    with pytest.raises(InputError) as caught:
        EvaluateOptions.of(typed)
    assert str(caught.value) == message
