"""Tables as people have them: delimiters, encodings and column names of cameras, spreadsheets and databases."""

import numpy as np
import pandas as pd
import pytest

from samespot import InputError, Places

ROWS = [("a.jpg", 48.1371, 11.5754, 90.0), ("b.jpg", 48.1372, 11.5755, 181.5)]


def written(path, header, delimiter=",", encoding="utf-8", decimal=".", rows=ROWS):
    lines = [delimiter.join(header)]
    lines += [
        delimiter.join(str(value).replace(".", decimal) if i else value for i, value in enumerate(row))
        for row in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


PLAIN = ("image", "latitude", "longitude", "heading")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_any_delimiter_and_encoding_gives_the_same_table(tmp_path, delimiter, encoding):
    plain = Places.read(written(tmp_path / "plain.csv", PLAIN), missing_images="ignore")
    other = Places.read(written(tmp_path / "other.csv", PLAIN, delimiter, encoding), missing_images="ignore")
    assert other.digest() == plain.digest()


def test_a_spreadsheet_with_decimal_commas(tmp_path):
    path = written(tmp_path / "p.csv", PLAIN, ";", decimal=",")
    assert Places.read(path, missing_images="ignore").table["latitude"].tolist() == [48.1371, 48.1372]


@pytest.mark.parametrize(
    "header",
    [
        ("filename", "lat", "lon", "yaw"),
        ("File Name", "Latitude", "Longitude", "Heading"),
        ("Image", "GPS Latitude [deg]", "GPSLongitude", "bearing"),
        (" photo ", "LAT", "lng", " compass_angle"),
    ],
)
def test_columns_by_the_names_that_others_give_them(tmp_path, header):
    plain = Places.read(written(tmp_path / "plain.csv", PLAIN), missing_images="ignore")
    other = Places.read(written(tmp_path / "other.csv", header), missing_images="ignore")
    assert other.digest() == plain.digest()
    assert f"{header[1].strip()} as latitude" in other.notes[0]


def test_a_column_with_our_own_name_wins_and_two_that_may_be_meant_are_not_guessed(tmp_path):
    rows = [("a.jpg", "x.jpg", 1.0, 2.0, 3.0)]
    own = written(tmp_path / "own.csv", ("image", "filename", "easting", "northing", "yaw"), rows=rows)
    assert Places.read(own, missing_images="ignore").table["image"].tolist() == ["a.jpg"]
    rows = [("a.jpg", 10.0, 1.0, 2.0, 3.0)]
    two = written(tmp_path / "two.csv", ("image", "bearing", "easting", "northing", "yaw"), rows=rows)
    assert np.isnan(Places.read(two, missing_images="ignore").table["heading"]).all()


def test_names_of_digits_stay_text_under_any_column_name(tmp_path):
    path = written(tmp_path / "p.csv", ("File Name", *PLAIN[1:]), rows=[("000829", 48.0, 11.0, 0.0)])
    assert Places.read(path, missing_images="ignore").table["image"].tolist() == ["000829"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "image,easting,northing,easting\na,1,2,3\n",
            "line 1: the column easting appears 2 times; keep one of them",
        ),
        ("image,eastng,northing\na,1,2\n", "it has image, eastng, northing (is eastng the easting?)"),
        ("id,latitud,longitude\na,1,2\n", "it has id, latitud, longitude (is latitud the latitude?)"),
        (
            "image,easting,northing\na,11.57,48.13\nb,11.58,48.14\n",
            "look like degrees, not metres; name the columns",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_what_is_there(tmp_path, text, said):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(InputError) as error:
        Places.read(tmp_path / "p.csv")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "positions",
    [
        [(0.1, -0.3), (1.2, 0.4)],  # a room, about its own origin
        [(12.0, 30.0), (14.0, 31.0)],  # a garden
        [(691_000.1, 5_334_000.2), (691_000.3, 5_334_000.9)],  # UTM
        [(11.57, 48.13)],  # one photo says nothing
    ],
)
def test_metres_are_not_taken_for_degrees(tmp_path, positions):
    lines = [f"{i}.jpg,{x},{y}" for i, (x, y) in enumerate(positions)]
    (tmp_path / "p.csv").write_text("\n".join(["image,easting,northing", *lines]) + "\n")
    assert len(Places.read(tmp_path / "p.csv", missing_images="ignore")) == len(positions)


def test_a_table_that_was_split_by_hand_finds_its_photos(tmp_path):
    """Only the whole table has a file beside it that says where the photos are, and on which plane."""
    (tmp_path / "photos").mkdir()
    for name, *_ in ROWS:
        (tmp_path / "photos" / name).touch()
    (tmp_path / "tables").mkdir()
    whole = Places.read(written(tmp_path / "gps.csv", PLAIN), root=tmp_path / "photos")
    path = whole.save(tmp_path / "tables" / "places.csv")
    first, *lines = path.read_text().splitlines()
    (tmp_path / "tables" / "half.csv").write_text("\n".join([first, lines[1]]) + "\n")
    half = Places.read(tmp_path / "tables" / "half.csv", missing_images="error")
    assert half.images == [tmp_path / "tables" / ".." / "photos" / "b.jpg"]
    assert half.projection == whole.projection
    assert "as places.csv.meta.json has them" in half.notes[-1]


def test_strong_labels_need_no_eastings(tmp_path):
    from samespot.places.catalogue import open_places, pose_frame

    (tmp_path / "p.csv").write_text("image,tx,ty,tz,qw,qx,qy,qz\na.jpg,5,7,1,1,0,0,0\n")
    frame = pose_frame("x", "z", "y")
    places = open_places(tmp_path / "p.csv", frame=frame, missing_images="ignore")
    np.testing.assert_allclose(places.positions, [[5, 7, 90]], atol=1e-9)
    with pytest.raises(InputError, match="missing columns easting, northing"):
        open_places(tmp_path / "p.csv", missing_images="ignore")


@pytest.mark.parametrize("column", ["image", "File Name"])
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_a_photo_may_be_called_like_nothing(tmp_path, column, suffix):
    """pandas takes such words for a missing value."""
    names = ["nan", "NA", "null", "None", "N/A", "-1.#IND", "007"]
    path = tmp_path / f"p.{suffix}"
    rows = {column: names, "easting": 1.0, "northing": range(7), "heading": ["nan", "NA", "", 1, 2, 3, 4]}
    pd.DataFrame(rows).to_csv(path, index=False)
    places = Places.read(path, missing_images="ignore")
    assert places.table["image"].tolist() == names
    assert np.isnan(places.table["heading"]).sum() == 3  # of a number they mean what they always did
    again = Places.read(places.save(tmp_path / "again.csv"), missing_images="ignore")
    assert again.digest() == places.digest()


def test_an_empty_name_is_still_none(tmp_path):
    (tmp_path / "p.csv").write_text("easting,northing,image\n1,2,a.jpg\n1,3,\n")
    with pytest.raises(InputError, match=r"row 2: no image name \(1 rows lack one\)"):
        Places.read(tmp_path / "p.csv", missing_images="ignore")
    (tmp_path / "p.csv").write_text("easting,northing,image\n1,2,a.jpg\n1,3\n")
    with pytest.raises(InputError, match="line 3: 2 fields where the header has 3"):
        Places.read(tmp_path / "p.csv", missing_images="ignore")
