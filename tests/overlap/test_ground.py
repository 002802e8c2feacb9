"""Sparse labelling against the plain definition: every pair, one by one."""

import numpy as np
import pytest

from samespot import InputError, Places, label_pairs, sector_overlap
from samespot.overlap.rules import SoftDistance, label_by_distance, label_within


def places(n=60, seed=0, extent=300.0, **columns):
    rng = np.random.default_rng(seed)
    table = {
        "image": [f"{seed}/{i:04d}.jpg" for i in range(n)],
        "easting": 500_000 + rng.uniform(0, extent, n),
        "northing": 5_000_000 + rng.uniform(0, extent, n),
        "heading": rng.uniform(0, 360, n),
        **columns,
    }
    return Places.build("photos", table, missing_images="ignore")


@pytest.mark.parametrize("measure", ["overlap", "iou"])
@pytest.mark.parametrize(("theta", "radius"), [(90.0, 50.0), (240.0, 20.0), (360.0, 35.0)])
def test_labels_are_the_overlap_of_every_pair(measure, theta, radius):
    queries, map_ = places(50, 1), places(90, 2)
    labels = label_pairs(queries, map_, theta, radius, measure)
    every = sector_overlap(queries.positions[:, None], map_.positions[None], theta, radius, measure)
    assert labels.shape == (50, 90)
    np.testing.assert_array_equal(labels.dense(), every.astype(np.float32))
    assert labels.nonzero == np.count_nonzero(every) > 0


def test_the_same_for_any_block_size_and_thread_count(tmp_path):
    queries, map_ = places(80, 3), places(200, 4)
    plain = label_pairs(queries, map_)
    for block, threads, out in ((1, 1, None), (97, 2, tmp_path / "labels"), (10**9, 1, None)):
        again = label_pairs(queries, map_, block_pairs=block, threads=threads, out=out)
        np.testing.assert_array_equal(again.indptr, plain.indptr)
        np.testing.assert_array_equal(again.columns, plain.columns)
        np.testing.assert_array_equal(again.similarity, plain.similarity)


def test_rows_are_sorted_and_positive():
    labels = label_pairs(places(40, 5), places(500, 6))
    for i in range(40):
        columns, similarity = labels.row(i)
        assert (np.diff(columns) > 0).all()
        assert (similarity > 0).all()


def test_queries_outside_the_map_have_no_matches():
    queries, map_ = places(10, 7), places(20, 8)
    far = queries.table.assign(easting=queries.table["easting"] - 10_000)
    labels = label_pairs(Places.build("photos", far, missing_images="ignore"), map_)
    assert labels.nonzero == 0
    assert labels.shape == (10, 20)


def test_a_table_against_itself_is_symmetric_with_ones_on_the_diagonal():
    table = places(120, 9)
    labels = label_pairs(table, table)
    dense = labels.dense()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_array_equal(np.diag(dense), 1)
    assert labels.meta["same_table"] is True


def test_panoramas_see_all_around_unless_told_otherwise():
    queries = places(30, 10)
    map_ = places(60, 11, pano=np.arange(60) % 3 == 0)
    theta = np.where(map_.panoramas, 360.0, 90.0)
    every = sector_overlap(queries.positions[:, None], map_.positions[None], 90.0, theta_b=theta[None, :])
    np.testing.assert_array_equal(label_pairs(queries, map_).dense(), every.astype(np.float32))
    plain = sector_overlap(queries.positions[:, None], map_.positions[None])
    np.testing.assert_array_equal(
        label_pairs(queries, map_, panoramas="sector").dense(), plain.astype(np.float32)
    )


def test_unknown_headings_are_an_error_or_a_disk():
    heading = np.random.default_rng(0).uniform(0, 360, 40)
    heading[[3, 17]] = np.nan
    queries, map_ = places(40, 12, heading=heading), places(40, 13)
    with pytest.raises(
        InputError,
        match=r"2 of 40 query images have no heading \(first: 12/0003.jpg\); pass `unknown_heading=disk`",
    ):
        label_pairs(queries, map_)
    labels = label_pairs(queries, map_, unknown_heading="disk")
    disk = sector_overlap([*queries.positions[3, :2], 0.0], map_.positions, 360.0, theta_b=90.0)
    np.testing.assert_array_equal(labels.dense()[3], disk.astype(np.float32))


def test_unknown_positions_and_unlike_projections_are_errors():
    easting = np.full(5, np.nan)
    blind = Places.build("t", {"image": list("abcde"), "easting": easting, "northing": easting},
                         unknown_positions=True, missing_images="ignore")  # fmt: skip
    with pytest.raises(InputError, match="5 of 5 query images have no position"):
        label_pairs(blind, places())
    here, there = places(), places()
    object.__setattr__(here, "projection", "EPSG:32633")
    object.__setattr__(there, "projection", "EPSG:32632")
    with pytest.raises(
        InputError, match="EPSG:32633, the map in EPSG:32632: their metres are not comparable"
    ):
        label_pairs(here, there)


@pytest.mark.parametrize("degrees", [None, 40.0, 180.0])
def test_binary_labels_are_distance_and_turn(degrees):
    queries, map_ = places(60, 14), places(150, 15)
    offset = queries.positions[:, None] - map_.positions[None]
    turn = np.abs((offset[..., 2] + 180) % 360 - 180)
    expected = np.hypot(offset[..., 0], offset[..., 1]) <= 25
    if degrees is not None:
        expected &= turn <= degrees
    labels = label_within(queries, map_, 25, degrees)
    np.testing.assert_array_equal(labels.dense() == 1, expected)
    assert labels.counts()["positive"] == expected.sum() > 0


@pytest.mark.parametrize(("metres", "steepness"), [(15.0, 0.8), (40.0, 0.1)])
def test_soft_labels_are_the_distance_alone(metres, steepness):
    queries, map_ = places(60, 14), places(150, 15, heading=[np.nan] * 150)
    offset = queries.positions[:, None, :2] - map_.positions[None, :, :2]
    expected = SoftDistance(metres, steepness).at(np.hypot(offset[..., 0], offset[..., 1]))
    labels = label_by_distance(queries, map_, metres, steepness)
    np.testing.assert_allclose(labels.dense(), expected, rtol=1e-6)
    assert labels.counts()["soft negative"] > 0
    assert labels.meta["steepness"] == steepness


@pytest.mark.parametrize("wrong", [{"metres": 0.0}, {"steepness": -1.0}, {"metres": np.inf}])
def test_soft_labels_need_positive_numbers(wrong):
    with pytest.raises(InputError, match="is not positive; the authors of soft labels take"):
        label_by_distance(places(), places(), **wrong)


def test_a_pair_exactly_at_the_limit_counts():
    here = Places.build("x", {"image": ["a"], "easting": [0.0], "northing": [0.0], "heading": [10.0]},
                        missing_images="ignore")  # fmt: skip
    there = Places.build("x", {"image": ["b"], "easting": [15.0], "northing": [20.0], "heading": [330.0]},
                         missing_images="ignore")  # fmt: skip
    assert label_within(here, there, 25, 40).nonzero == 1
    assert label_within(here, there, 25, 39.9).nonzero == 0
    assert label_within(here, there, 24.9, 40).nonzero == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"theta": 400}, "`theta` 400"),
        ({"radius": 0}, "`radius` 0"),
        ({"measure": "dice"}, "`measure` 'dice'"),
        ({"unknown_heading": "disc"}, "`unknown_heading` 'disc' is unknown; choose one of error, disk"),
        ({"panoramas": "foo"}, "`panoramas` 'foo' is unknown; choose one of disk, sector"),
        ({"threads": 0}, "threads 0: give at least 1"),
        ({"threads": -1}, "threads -1: give at least 1"),
        ({"radius": 1e-300}, "too far for a grid with cells of 1e-300 m"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    with pytest.raises(InputError, match=words):
        label_pairs(places(), places(), **arguments)


@pytest.mark.parametrize("label", [label_pairs, label_within])
def test_tables_without_images_are_refused(label):
    nowhere = places().select(slice(0, 0))
    with pytest.raises(InputError, match="photos: no query images in the table"):
        label(nowhere, places())
    with pytest.raises(InputError, match="photos: no map images in the table"):
        label(places(), nowhere)


@pytest.mark.parametrize("lost", ["query", "map"])
@pytest.mark.parametrize("easting", [1e300, -1e300, 1e25])
def test_positions_too_far_for_a_grid_are_refused(lost, easting, recwarn):
    """Tables made by hand, past the checks of `Places.build`."""
    here, there = places(), places(seed=1)
    table = (here if lost == "query" else there).table
    table.loc[5, "easting"] = easting
    with pytest.raises(InputError, match="look for a wrong position"):
        label_pairs(here, there)
    assert not recwarn


def test_each_table_is_digested_once(monkeypatch):
    digested = []
    digest = Places.digest
    monkeypatch.setattr(Places, "digest", lambda self: digested.append(self) or digest(self))
    queries, map_ = places(), places(seed=1)
    assert label_pairs(queries, map_).meta["same_table"] is False
    assert len(digested) == 2
    assert label_pairs(queries, queries).meta["same_table"] is True
    assert len(digested) == 3
