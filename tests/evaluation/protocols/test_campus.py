"""campus-east on a handful of photos: 15 m, 30° and another minute."""

import pandas as pd
import pytest

from samespot.errors import InputError
from samespot.evaluation.protocols.campus import PROTOCOLS
from samespot.overlap.rules import label_pairs
from samespot.places.catalogue import data_set

(EAST,) = PROTOCOLS
HEADER = ["image", "easting", "northing", "heading", "time", "split"]


@pytest.fixture
def campus(tmp_path):
    rows = [
        ("q0.jpg", 0, 0, 350, "15:03", "query"),
        ("q1.jpg", 100, 0, 0, "15:03", "query"),
        ("train.jpg", 0, 0, 350, "15:09", "train"),
        ("gap.jpg", 0, 0, 350, "15:09", "gap"),
        ("edge.jpg", 15, 0, 20, "15:04", "map"),  # 15 m and 30°, across north
        ("same-minute.jpg", 0, 0, 350, "15:03", "map"),
        ("turned.jpg", 0, 0, 20.1, "15:04", "map"),
        ("far.jpg", 15.01, 0, 350, "15:04", "map"),
        ("another-hour.jpg", 0, 9, 330, "16:03", "map"),
        ("q1-same-minute.jpg", 100, 0, 0, "15:03", "map"),
    ]
    pd.DataFrame(rows, columns=HEADER).to_csv(tmp_path / "places.csv", index=False)
    return tmp_path


def test_positives_by_hand(campus):
    (case,) = EAST.cases(campus)
    names = case.place_names
    assert [[names[row] for row in rows] for rows in case.positives] == [["edge.jpg", "another-hour.jpg"], []]
    assert case.query_names == ["q0.jpg", "q1.jpg"]
    assert len(names) == 6  # photos of the query's minute stay in the map
    assert case.excluded is None
    assert case.name == "east"


def test_the_graded_truth_reaches_30_m(campus):
    (case,) = EAST.cases(campus)
    expected = label_pairs(case.queries, case.places, 90.0, 30.0)
    assert (case.overlap(None).dense() == expected.dense()).all()
    assert (expected.meta["theta"], expected.meta["radius"]) == (90.0, 30.0)


def test_the_words_name_the_limits_that_are_used():
    metres, degrees = data_set("campus").found
    assert f"within {metres:g} m and {degrees:g}°" in EAST.positive


def test_another_table_is_refused(tmp_path):
    pd.DataFrame([("a.jpg", 0, 0, 0)], columns=HEADER[:4]).to_csv(tmp_path / "places.csv", index=False)
    with pytest.raises(InputError, match="column split says train, map and query"):
        EAST.cases(tmp_path)
