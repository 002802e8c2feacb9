"""Images whose names carry their position, in the folders that VPR-datasets-downloader writes."""

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.places import at_names
from samespot.places.geodesy import to_metres

# easting, northing, zone number, zone letter, lat, lon, pano_id, tile, heading, pitch, roll, height, timestamp, note
FULL = "@0585001.41@4477058.99@17@T@040.43985@-079.99774@pano7@03@090@004@001@002@20190102_123456@a_note@.jpg"
BARE = "@0585043.00@4477058.99@17@T@040.43985@-079.99725@None@@@@@@@@.jpg"


def write(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        Image.new("RGB", (8, 8)).save(folder / name)


@pytest.fixture
def root(tmp_path):
    write(tmp_path / "images/test/database", FULL, BARE)
    write(tmp_path / "images/test/queries", FULL)
    return tmp_path


def test_parts_are_folders_that_hold_such_names(root, tmp_path_factory):
    assert at_names.parts(root) == ["images/test/database", "images/test/queries"]
    assert at_names.parts(root / "images/test") == ["database", "queries"]
    assert at_names.parts(root / "images/test/queries") == [""]
    plain = tmp_path_factory.mktemp("plain")
    write(plain, "photo.jpg")
    (plain / "@1@2@.txt").touch()
    assert at_names.parts(plain) == []
    assert at_names.parts(plain / "nowhere") == []


def test_every_column_of_a_full_and_a_bare_name(root):
    places = at_names.read(root, "images/test/database", missing_images="error")
    table = places.table
    assert table["image"].tolist() == [f"images/test/database/{name}" for name in (FULL, BARE)]
    assert table["easting"].tolist() == [585001.41, 585043.0]
    assert table["northing"].tolist() == [4477058.99, 4477058.99]
    np.testing.assert_array_equal(table["heading"], [90, np.nan])
    assert table["zone"].tolist() == ["17T", "17T"]
    assert table["latitude"].tolist() == [40.43985, 40.43985]
    assert table["longitude"].tolist() == [-79.99774, -79.99725]
    assert table["pano_id"].fillna("").tolist() == ["pano7", ""]
    for column, value in {"tile_num": 3, "pitch": 4, "roll": 1, "height": 2}.items():
        np.testing.assert_array_equal(table[column], [value, np.nan])
    assert table["time"].fillna("").tolist() == ["2019-01-02T12:34:56", ""]
    assert table["note"].fillna("").tolist() == ["a_note", ""]
    assert table["split"].tolist() == ["map", "map"]
    assert places.projection == "EPSG:32617"
    assert (places.dropped, places.notes) == ({}, ())


def test_queries_are_the_query_split_and_a_plain_folder_has_none(root):
    assert at_names.read(root, "images/test/queries").table["split"].tolist() == ["query"]
    plain = at_names.read(root / "images/test/queries")
    assert "split" not in plain.table
    assert plain.table["image"].tolist() == [FULL]


def test_two_fields_are_enough_and_empty_columns_are_left_away(tmp_path):
    write(tmp_path, "@12.5@34.5@.png")
    places = at_names.read(tmp_path)
    assert places.positions[0, :2].tolist() == [12.5, 34.5]
    assert list(places.table) == ["image", "easting", "northing", "heading"]
    assert places.projection is None
    assert places.notes == (f"{tmp_path}: the names give no UTM zone, so the projection is not known",)


@pytest.mark.parametrize(
    ("stamp", "time"),
    [("2013", "2013"), ("201311", "2013-11"), ("20131105", "2013-11-05"), ("20131105_07", "2013-11-05T07")],
)
def test_timestamps_may_stop_early(tmp_path, stamp, time):
    write(tmp_path, f"@1@2@33@S@@@@@@@@@{stamp}@@.jpg")
    places = at_names.read(tmp_path)
    assert places.table["time"].tolist() == [time]


@pytest.mark.parametrize(
    ("zone", "projection"),
    [
        ("17@T@", "EPSG:32617"),
        ("33@M@", "EPSG:32733"),
        ("33@N@", "EPSG:32633"),
        ("17@@040.4", "EPSG:32617"),
        ("23@@-23.5", "EPSG:32723"),
    ],
)
def test_the_half_of_the_earth_comes_from_the_letter_or_the_latitude(tmp_path, zone, projection):
    write(tmp_path, f"@500000@4000000@{zone}@@@@@@@@@@.jpg")
    assert at_names.read(tmp_path).projection == projection


def test_a_heading_of_360_is_north(tmp_path):
    write(tmp_path, "@1@2@33@S@@@@@360@@@@@@.jpg")
    places = at_names.read(tmp_path)
    assert places.table["heading"].tolist() == [0]
    assert places.notes == (f"{tmp_path}: 1 headings were not in [0, 360) and were wrapped",)


def test_mixed_zones_are_brought_onto_one_plane(tmp_path):
    west = to_metres([51.5], [-0.01])  # London, UTM zones 30 and 31
    east = to_metres([51.5], [0.01])
    write(
        tmp_path,
        f"@{west[0][0]:.2f}@{west[1][0]:.2f}@30@U@051.50000@-000.01000@a@@@@@@@@.jpg",
        f"@{east[0][0]:.2f}@{east[1][0]:.2f}@31@U@@@b@@@@@@@@.jpg",  # its own zone is enough, degrees or not
    )
    places = at_names.read(tmp_path)
    assert places.projection.startswith("+proj=aeqd")
    ordered = places.table.sort_values("pano_id")
    assert np.diff(ordered["easting"]).item() == pytest.approx(1388.7, abs=0.5)
    assert np.diff(ordered["northing"]).item() == pytest.approx(0, abs=0.5)
    assert "zone" not in places.table  # else the table would be refused when read again
    assert places.notes == (
        f"{tmp_path}: positions are of EPSG:32630, EPSG:32631; brought onto one projection, {places.projection}",
    )


def test_degrees_alone_are_enough(tmp_path):
    write(tmp_path, "@@@@@040.43985@-079.99774@@@@@@@@@.jpg")
    places = at_names.read(tmp_path)
    assert places.projection == "EPSG:32617"
    np.testing.assert_allclose(
        places.positions[0, :2], np.ravel(to_metres([40.43985], [-79.99774])[:2]), atol=1e-6
    )


def test_other_images_in_the_folder_are_counted(root):
    write(root / "images/test/queries", "IMG_1.jpg", "IMG_2.jpg")
    (root / "images/test/queries/readme.txt").touch()
    places = at_names.read(root, "images/test/queries")
    assert len(places) == 1
    assert places.dropped == {"name without @ fields": 2}
    folder = root / "images/test/queries"
    assert places.notes == (
        f"{folder}: 2 images left out, their names have no @ fields (IMG_1.jpg, IMG_2.jpg)",
    )


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("@east@2@17@T@.jpg", "easting 'east' is not a number; rename the file"),
        ("@1@2@17@T@.5.1@@.jpg", "latitude '.5.1' is not a number; rename the file"),
        ("@1@2@61@T@.jpg", "UTM zone 61 is not in [1, 60]; rename the file"),
        (
            "@1@.jpg",
            "1 fields between @ signs where 2 to 14 are expected; the order is easting, northing, zone_number",
        ),
        ("@1@2@17@T" + "@" * 12 + ".jpg", "15 fields between @ signs where 2 to 14 are expected"),
        ("@@@17@T@.jpg", "neither a UTM position with zone nor latitude and longitude (1 such images)"),
    ],
)
def test_a_broken_name_is_told(tmp_path, name, fault):
    write(tmp_path, name)
    with pytest.raises(InputError) as error:
        at_names.read(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}/{name}: {fault}")
    assert "\n" not in str(error.value)


def test_mixed_zones_without_a_way_out_are_refused(tmp_path):
    write(tmp_path, "@1@2@30@U@.jpg", "@3@4@31@U@.jpg", "@5@6@@@.jpg")
    with pytest.raises(
        InputError, match=r"@5@6@@@\.jpg: .* complete the names, or put each zone into a folder of its own"
    ):
        at_names.read(tmp_path)


def test_an_unknown_part_is_answered_with_those_there_are(root, tmp_path_factory):
    with pytest.raises(InputError, match="the parts are 'images/test/database', 'images/test/queries'"):
        at_names.read(root, "images/train/database")
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(
        InputError, match=r"no images there with names like @easting@northing@…@\.jpg; no folder under"
    ):
        at_names.read(empty)


def test_a_half_without_its_other_half_is_told(root):
    assert at_names.missing(root) == []
    write(root / "images/val/queries", FULL)
    assert at_names.missing(root) == ["images/val/database"]
    assert at_names.missing(root / "images/test/queries") == []


def test_headings_of_mixed_zones_are_turned_onto_the_new_grid(tmp_path):
    """Two images 4° apart, both looking east: the meridians lean 2° * sin(51.5°) to either side."""
    for longitude, zone in ((-2.0, 30), (2.0, 31)):
        easting, northing, _ = to_metres([51.5], [longitude])
        write(tmp_path, f"@{easting[0]:.2f}@{northing[0]:.2f}@{zone}@U@@@@@090@@@@@@.jpg")
    places = at_names.read(tmp_path)
    ordered = places.table.sort_values("longitude")
    np.testing.assert_allclose(ordered["longitude"], [-2, 2], atol=1e-6)
    np.testing.assert_allclose(ordered["heading"], [91.565, 88.435], atol=0.01)
