"""Positives of the published test sets, from their real positions, against scipy's exact radius search."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from samespot.evaluation.positives import rows_within
from samespot.evaluation.protocols import protocol_named
from samespot.overlap.rules import label_pairs
from samespot.overlap.task import preset_tasks
from samespot.places.table import Places
from samespot.training.validation_sets import preset_validation


def placed(metres):
    columns = {"image": [f"{i}.jpg" for i in range(len(metres))], "heading": np.nan}
    columns |= {"easting": metres[:, 0], "northing": metres[:, 1]}
    return Places.build(".", columns, missing_images="ignore")


@pytest.mark.parametrize(
    ("name", "queries", "places", "counted"),
    [("pitts30k_test", 6816, 10_000, 6816), ("tokyo247", 315, 75_984, 315)],
)
def test_every_query_has_the_positives_of_an_exact_radius_search(real_data, name, queries, places, counted):
    with np.load(real_data / "geometry" / f"{name}.npz", allow_pickle=False) as archive:
        ours, theirs, metres = archive["utmQ"], archive["utmDb"], float(archive["posDistThr"])
    assert (len(ours), len(theirs), metres) == (queries, places, 25.0)
    found = rows_within(placed(ours), placed(theirs), metres, block_queries=1000)
    expected = cKDTree(theirs).query_ball_point(ours, metres)
    assert [rows.tolist() for rows in found] == [sorted(rows) for rows in expected]
    assert sum(len(rows) > 0 for rows in found) == counted


def test_campus_east_is_what_training_validates_on(real_data):
    (case,) = protocol_named("campus-east").cases(real_data / "campus")
    east = [task for task in preset_tasks("campus", real_data / "campus") if task.name == "east"]
    validation = preset_validation("campus", east)
    assert case.counted.sum() == 523
    assert (len(case.queries), len(case.places)) == (524, 1519)
    assert [rows.tolist() for rows in case.positives] == [rows.tolist() for rows in validation.positives]
    expected = label_pairs(case.queries, case.places, 90.0, 30.0)
    np.testing.assert_array_equal(case.overlap(None).similarity, expected.similarity)
