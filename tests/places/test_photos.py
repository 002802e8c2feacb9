"""Phone photos: what their EXIF data say about place, direction and time."""

import numpy as np
import pytest
from PIL import Image
from PIL.TiffImagePlugin import IFDRational, ImageFileDirectory_v2

from samespot.errors import InputError
from samespot.places import photos
from samespot.places.geodesy import to_metres

# 48° 8' 14.4" N = 48.1373333, 11° 34' 30.36" E = 11.5751
MUNICH = {1: "N", 2: (48.0, 8.0, 14.4), 3: "E", 4: (11.0, 34.0, 30.36)}
RIO = {1: "S", 2: (22.0, 54.5, 0.0), 3: "W", 4: (43.0, 10.5, 0.0)}  # degrees and decimal minutes


# The grid of UTM zone 32 (middle 9° E) is turned by 1.9185° there: by hand on a sphere,
# atan(tan(11.5751° - 9°) * sin(48.13733°)) = 1.9185°.


def shoot(path, gps=None, time=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    tiff = path.suffix == ".tif"
    tags = ImageFileDirectory_v2() if tiff else Image.Exif()  # PIL writes the nested ones of a tiff only so
    if gps is not None:
        tags[0x8825] = gps
    if time is not None:
        tags[0x8769] = {0x9003: time}
    Image.new("RGB", (8, 8)).save(path, **{"tiffinfo" if tiff else "exif": tags})


def test_every_column(tmp_path):
    shoot(
        tmp_path / "walk/a.jpg",
        {**MUNICH, 5: b"\x00", 6: 519.5, 16: "T", 17: IFDRational(27425, 100)},
        "2023:05:01 14:30:07",
    )
    shoot(tmp_path / "b.JPEG", MUNICH)
    places = photos.read(tmp_path, missing_images="error")
    table = places.table
    assert table["image"].tolist() == ["b.JPEG", "walk/a.jpg"]
    np.testing.assert_allclose(table["latitude"], 48 + 8 / 60 + 14.4 / 3600, atol=1e-9)
    np.testing.assert_allclose(table["longitude"], 11 + 34 / 60 + 30.36 / 3600, atol=1e-9)
    np.testing.assert_array_equal(table["altitude"], [np.nan, 519.5])
    np.testing.assert_allclose(table["heading"], [np.nan, 274.25 - 1.9185], atol=1e-3)  # from grid north
    assert table["time"].fillna("").tolist() == ["", "2023-05-01T14:30:07"]
    easting, northing, projection = to_metres(table["latitude"], table["longitude"])
    np.testing.assert_array_equal(table["easting"], easting)
    np.testing.assert_array_equal(table["northing"], northing)
    assert projection == places.projection == "EPSG:32632"
    assert places.dropped == {}
    assert places.notes == (f"{tmp_path}: 1 of 2 photos have no compass direction",)


def test_south_west_and_below_the_sea_are_negative(tmp_path):
    shoot(tmp_path / "a.jpg", {**RIO, 5: b"\x01", 6: 3.0})
    row = photos.read(tmp_path).table.iloc[0]
    assert (row["latitude"], row["longitude"]) == pytest.approx((-22.908333, -43.175), abs=1e-6)
    assert row["altitude"] == -3.0


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_file_types(tmp_path, suffix):
    shoot(tmp_path / f"a.{suffix}", {**MUNICH, 17: 90.0}, "2023:05:01 14:30:07")
    row = photos.read(tmp_path).table.iloc[0]
    assert row["heading"] == pytest.approx(90 - 1.9185, abs=1e-3)
    assert row["latitude"] == pytest.approx(48.137333, abs=1e-6)
    assert row["time"] == "2023-05-01T14:30:07"


def test_magnetic_and_true_north_are_told_apart_in_the_notes(tmp_path):
    shoot(tmp_path / "a.jpg", {**MUNICH, 16: "M", 17: 90.0})
    shoot(tmp_path / "b.jpg", {**MUNICH, 16: "T", 17: 360.0})
    shoot(tmp_path / "c.jpg", {**MUNICH, 16: "M"})
    places = photos.read(tmp_path)
    np.testing.assert_allclose(places.table["heading"], [90 - 1.9185, 360 - 1.9185, np.nan], atol=1e-3)
    assert places.notes == (
        f"{tmp_path}: 1 of 3 photos have no compass direction",
        f"{tmp_path}: 1 compass directions are from magnetic north, the other 1 from true north;"
        " all are taken to be from true north",
        f"{tmp_path}: 1 headings were not in [0, 360) and were wrapped",
    )


def test_photos_without_position_are_counted_and_three_named(tmp_path, monkeypatch):
    monkeypatch.setattr(photos, "accept_heic", lambda: False)
    shoot(tmp_path / "good.jpg", {**MUNICH, 17: 1.0})
    for name in "abcd":
        shoot(tmp_path / f"{name}.jpg")
    shoot(tmp_path / "zero.jpg", {1: "N", 2: (0.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)})
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut off")
    (tmp_path / "iphone.heic").write_bytes(b"not even close")
    (tmp_path / "notes.txt").touch()
    places = photos.read(tmp_path)
    assert places.table["image"].tolist() == ["good.jpg"]
    assert places.dropped == {"no GPS in EXIF": 4, "GPS in EXIF is 0, 0": 1, "unreadable image file": 2}
    assert places.notes == (
        f"{tmp_path}: 4 photos left out, no GPS in EXIF (a.jpg, b.jpg, c.jpg, …)",
        f"{tmp_path}: 1 photos left out, GPS in EXIF is 0, 0 (zero.jpg)",
        f"{tmp_path}: 2 photos left out, unreadable image file (broken.jpg, iphone.heic)",
        f"{tmp_path}: HEIC photos need the package pillow-heif: pip install pillow-heif",
    )


def test_a_folder_of_nothing_but_heic_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(photos, "accept_heic", lambda: False)
    (tmp_path / "iphone.heic").write_bytes(b"not even close")
    with pytest.raises(InputError, match="HEIC photos need the package pillow-heif"):
        photos.read(tmp_path)


@pytest.mark.parametrize(
    ("gps", "why"),
    [
        # what some phones write without a fix
        ({1: "N", 2: (IFDRational(0, 0),) * 3, 3: "E", 4: (IFDRational(0, 0),) * 3}, photos.BROKEN),
        ({1: "N", 2: (148.0, 0.0, 0.0), 3: "E", 4: (11.0, 0.0, 0.0)}, photos.BROKEN),
        ({1: "N", 2: (48.0, 75.0, 0.0), 3: "E", 4: (11.0, 0.0, 0.0)}, photos.BROKEN),
        ({1: "N", 2: (48.0, 8.0, 14.4)}, photos.NO_GPS),
        ({17: 90.0}, photos.NO_GPS),
        # a position in the other hemisphere is worse than none, so it is never guessed
        ({2: (48.0, 8.0, 14.4), 4: (11.0, 34.0, 30.36)}, photos.NO_SIDE),
        ({1: "N", 2: (48.0, 8.0, 14.4), 3: "?", 4: (11.0, 34.0, 30.36)}, photos.NO_SIDE),
    ],
)
def test_broken_positions_are_left_out_and_counted_by_their_reason(tmp_path, gps, why):
    shoot(tmp_path / "good.jpg", MUNICH)
    shoot(tmp_path / "bad.jpg", gps)
    assert photos.read(tmp_path).dropped == {why: 1}


def test_a_broken_direction_or_time_is_only_unknown(tmp_path):
    shoot(tmp_path / "a.jpg", {**MUNICH, 17: IFDRational(0, 0)}, "0000:00:00 00:00:00")
    row = photos.read(tmp_path).table.iloc[0]
    assert np.isnan(row["heading"])
    assert row["time"] is None or row["time"] != row["time"]


def test_hidden_files_and_folders_are_passed_over(tmp_path):
    shoot(tmp_path / "a.jpg", MUNICH)
    shoot(tmp_path / ".thumbnails/b.jpg", MUNICH)
    (tmp_path / "._a.jpg").write_bytes(b"a Mac's shadow file")
    places = photos.read(tmp_path)
    assert places.table["image"].tolist() == ["a.jpg"]
    assert places.dropped == {}


def test_no_photo_with_a_position_is_refused_with_a_way_out(tmp_path):
    shoot(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").write_bytes(b"")
    with pytest.raises(InputError) as error:
        photos.read(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: none of the photos says where it was taken (1 no GPS in EXIF, 1 unreadable image file);"
        " copy the originals, as messengers strip the GPS,"
        " or write a places.csv with the columns image, latitude, longitude, heading"
    )


def test_an_empty_or_absent_folder_is_told(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert photos.parts(folder) == []
        with pytest.raises(InputError, match=r"no photos there; expected are files ending in \.jpg, \.jpeg"):
            photos.read(folder)


def test_the_one_part_is_nameless(tmp_path):
    shoot(tmp_path / "deep/down/a.jpg")
    assert photos.parts(tmp_path) == [""]
    assert photos.missing(tmp_path) == []
    with pytest.raises(InputError, match="a folder of photos has no part 'train'; its one part is ''"):
        photos.read(tmp_path, "train")


def test_photos_of_two_utm_zones_share_one_plane(tmp_path):
    for name, longitude in (("a", (0.0, 0.6, 0.0)), ("b", (0.0, 0.6, 0.0))):
        shoot(
            tmp_path / f"{name}.jpg",
            {1: "N", 2: (51.0, 30.0, 0.0), 3: "W" if name == "a" else "E", 4: longitude},
        )
    places = photos.read(tmp_path)
    assert places.projection.startswith("+proj=aeqd")
    assert np.diff(places.table["easting"]).item() == pytest.approx(1388.7, abs=0.5)


def test_a_photo_with_a_wrong_fix_is_noted_with_its_distance(tmp_path):
    for name in "abc":
        shoot(tmp_path / f"{name}.jpg", {**MUNICH, 17: 0.0})
    shoot(tmp_path / "d.jpg", {**RIO, 17: 0.0})
    (note,) = photos.read(tmp_path).notes
    # Munich to Rio is 9,700 km on the earth; the plane is true along lines through its middle
    assert note.startswith(f"{tmp_path}: 1 image lies 9,")
    assert note.endswith(" km from the others (d.jpg); is its position right?")
