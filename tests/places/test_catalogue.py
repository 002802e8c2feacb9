"""Recognising what a folder is, and saying so when it is nothing."""

import numpy as np
import pytest
from PIL import Image

from samespot import InputError
from samespot.places.catalogue import DATA_SETS, data_set, find_data_sets, open_places, pose_frame


def test_every_entry_has_a_reader_that_keeps_the_interface(tmp_path):
    for known in DATA_SETS:
        assert known.parts(tmp_path) == []
        assert known.missing(tmp_path) == []
        assert len(known.layout.strip().splitlines()) >= 1
        with pytest.raises(InputError):
            known.read(tmp_path, "nowhere")


def test_names_are_unique_and_unknown_ones_listed():
    assert len({d.name for d in DATA_SETS}) == len(DATA_SETS)
    with pytest.raises(InputError, match="data set 'kitti' is unknown; choose one of msls, pittsburgh"):
        data_set("kitti")


def write_at_names(folder, n=3):
    folder.mkdir(parents=True)
    for i in range(n):
        name = f"@{500000 + i}@4483344@17@T@40.5@-81.0@pano{i}@@{30 * i}@@@@@@.jpg"
        Image.new("RGB", (8, 8)).save(folder / name)


def test_an_at_named_folder_is_recognised_and_its_parts_asked_for(tmp_path):
    write_at_names(tmp_path / "images" / "test" / "database")
    write_at_names(tmp_path / "images" / "test" / "queries", 2)
    with pytest.raises(
        InputError, match=r"2 parts \(images/test/database, images/test/queries\); choose one with `part`"
    ):
        open_places(tmp_path)
    places = open_places(tmp_path, part="images/test/queries")
    assert len(places) == 2
    np.testing.assert_array_equal(places.positions[:, 2], [0, 30])


def test_a_folder_with_places_csv_is_that_table(tmp_path):
    (tmp_path / "places.csv").write_text("image,easting,northing,heading\na.jpg,1,2,3\n")
    assert open_places(tmp_path).positions.tolist() == [[1, 2, 3]]


def test_a_wrong_data_set_shows_the_layout_in_one_line(tmp_path):
    with pytest.raises(InputError) as error:
        open_places(tmp_path, dataset="msls")
    assert "no Mapillary Street-Level Sequences here; expected: train_val/<city>" in str(error.value)
    assert "\n" not in str(error.value)


def test_data_sets_are_found_one_folder_down_with_what_they_lack(tmp_path):
    scene = tmp_path / "rgbd" / "chess"
    scene.mkdir(parents=True)
    (scene / "TrainSplit.txt").write_text("sequence1\n")
    (finding,) = find_data_sets(tmp_path)
    assert finding.data_set.name == "7scenes"
    assert finding.root == tmp_path / "rgbd"
    assert finding.parts == ["chess/train"]
    assert "fire" in finding.missing
    assert any("TestSplit" in m for m in finding.missing)


def test_axes_by_name():
    frame = pose_frame("z", "-y", "z")
    assert frame.up == (0.0, -1.0, 0.0)
    np.testing.assert_allclose(frame.east(), [1, 0, 0])
    with pytest.raises(InputError, match="not at right angles"):
        pose_frame("z", "y", "-y")


def test_projection_and_onto_reach_the_sources_that_are_folders(tmp_path):
    root = tmp_path / "images"
    write_at_names(root)
    native = open_places(root)
    assert native.projection == "EPSG:32617"
    for word in ("projection", "onto"):
        moved = open_places(root, **{word: "EPSG:32618"})
        assert moved.projection == "EPSG:32618"
        np.testing.assert_allclose(
            moved.positions, native.on_plane("EPSG:32618").positions, rtol=0, atol=1e-6
        )
        # 6° west of the middle of zone 18 at 40.5° N the grid is turned by -6° * sin(40.5°) = -3.9°
        np.testing.assert_allclose(moved.positions[:, 2] - native.positions[:, 2], 3.9, atol=0.01)
        assert moved.notes[-1] == f"{root}: brought from EPSG:32617 onto EPSG:32618, headings too"


def test_an_unknown_policy_for_missing_images_is_told_for_folders_too(tmp_path):
    root = tmp_path / "images"
    write_at_names(root)
    with pytest.raises(InputError, match="`missing_images` 'zz' is unknown; choose one of error, warn, drop"):
        open_places(root, missing_images="zz")


def test_two_tables_of_different_planes_meet_on_one(tmp_path):
    """A table that spans zones and one that does not, each saved on its own plane, show the same image."""
    across = tmp_path / "a.csv"
    across.write_text("image,latitude,longitude,heading\na.jpg,48.1,11.99,10\nb.jpg,48.1,12.01,20\n")
    within = tmp_path / "b.csv"
    within.write_text("image,latitude,longitude,heading\na.jpg,48.1,11.99,10\n")
    tables = [open_places(path).save(path.with_suffix(".parquet")) for path in (across, within)]
    queries = open_places(tables[0])
    assert queries.projection != open_places(tables[1]).projection
    places = open_places(tables[1], onto=queries.projection)
    assert places.projection == queries.projection
    np.testing.assert_allclose(places.positions[0], queries.positions[0], atol=1e-4)
