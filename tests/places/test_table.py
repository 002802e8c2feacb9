"""Every rule that a table of places obeys, with the line the user is told when one is broken."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest

from samespot.errors import InputError
from samespot.places.table import POSE, Places

GOOD = "image,easting,northing,heading\na.jpg,1,2,0\nb.jpg,3,4,90.5\nc.jpg,5,6,\n"


@pytest.fixture
def csv(tmp_path):
    """Write a csv, read it back as places without looking for the images."""

    def read(text: str, **options) -> Places:
        path = tmp_path / "places.csv"
        path.write_text(text)
        return Places.read(path, **{"missing_images": "ignore", **options})

    return read


@pytest.fixture
def refused(csv, tmp_path):
    """The one line that a broken csv is answered with, with `places.csv` for its path."""

    def line(text: str, **options) -> str:
        with pytest.raises(InputError) as error:
            csv(text, **options)
        assert "\n" not in str(error.value)
        return str(error.value).replace(f"{tmp_path}/", "")

    return line


def build(**columns) -> Places:
    base = {
        "image": ["a.jpg", "b.jpg"],
        "easting": [1.0, 3.0],
        "northing": [2.0, 4.0],
        "heading": [0.0, 90.0],
    }
    return Places.build("/data", {**base, **columns}, missing_images="ignore")


def test_a_good_csv_is_read_as_it_stands(csv, tmp_path):
    places = csv(GOOD)
    assert len(places) == 3
    assert places.root == tmp_path
    assert places.table["image"].tolist() == ["a.jpg", "b.jpg", "c.jpg"]
    np.testing.assert_array_equal(places.positions, [[1, 2, 0], [3, 4, 90.5], [5, 6, np.nan]])
    assert places.images[1] == places.image(1) == tmp_path / "b.jpg"
    assert (places.projection, places.dropped, places.notes) == (None, {}, ())
    assert not places.has_pose
    assert places.panoramas.tolist() == [False, False, False]


def test_required_columns_come_first_and_others_are_kept(csv):
    places = csv("weather,split,northing,image,easting\nfog,map,2,a.jpg,1\n")
    assert list(places.table) == ["image", "easting", "northing", "heading", "split", "weather"]
    assert np.isnan(places.table["heading"]).all()  # no heading column: unknown, not north


def test_names_of_digits_stay_names(csv):
    places = csv("image,easting,northing,heading,pano_id,key\n0010,1,2,0,000829,1e5\n")
    assert places.table[["image", "pano_id", "key"]].iloc[0].tolist() == ["0010", "000829", "1e5"]


BROKEN = {
    "image,easting\na.jpg,1\n": (
        "places.csv: missing column northing; it has image, easting; needed: image, easting, northing, heading"
        " (or latitude and longitude for the position)"
    ),
    "photo,x,y\na.jpg,1,2\n": (
        "places.csv: missing columns easting, northing; it has image, x, y;"
        " needed: image, easting, northing, heading"
        " (or latitude and longitude for the position)"
    ),
    "image,easting,northing,heading\n": "places.csv: the table has no rows; give it one for each image",
    "": ("places.csv: the file is empty; a table of places has a header line with the names of its columns"),
    "image,easting,northing,heading\na.jpg,1,2,0\nb.jpg,,4,0\nc.jpg,5,,0\n": (
        "places.csv row 2: no position (2 rows lack one); fill them in or delete them"
    ),
    "image,easting,northing,heading\na.jpg,1,2,0\nb.jpg,three,4,0\n": (
        "places.csv row 2: easting 'three' is not a finite number; write it as 12.5"
    ),
    "image,easting,northing\na.jpg,1,inf\n": "places.csv row 1: northing inf is not a finite number; write it as 12.5",
    "image,easting,northing\na.jpg,1,2\nb.jpg,1e300,2\n": (
        "places.csv row 2: easting 1e+300 m is off the earth; give metres"
    ),
    "image,latitude,longitude,heading\na.jpg,48,11,412\n": (
        "places.csv row 1: heading 412 is not in [0, 360) (1 such rows); pass `wrap_headings` to accept it"
    ),
    "image,easting,northing,heading\na.jpg,1,2,west\n": (
        "places.csv row 1: heading 'west' is not a finite number; write it as 12.5"
    ),
    "image,easting,northing,heading\na.jpg,1,2,0\nb.jpg,1,2,412\nc.jpg,1,2,-1\n": (
        "places.csv row 2: heading 412 is not in [0, 360) (2 such rows); pass `wrap_headings` to accept it"
    ),
    "image,easting,northing,heading\na.jpg,1,2,360\n": (
        "places.csv row 1: heading 360 is not in [0, 360) (1 such rows); pass `wrap_headings` to accept it"
    ),
    "image,easting,northing,heading\na.jpg,1,2,0\nb.jpg,1,2,0\na.jpg,3,4,0\na.jpg,3,4,0\n": (
        "places.csv row 3: image a.jpg is in the table twice (2 repeated rows); keep one row per image"
    ),
    "image,easting,northing,heading\na.jpg,1,2,0\n,1,2,0\n": (
        "places.csv row 2: no image name (1 rows lack one); fill them in or delete them"
    ),
    "image,easting,northing,pano\na,1,2,maybe\n": "places.csv row 1: pano 'maybe' is neither true nor false",
    "image,easting,northing,heading\na.jpg,1,2,0\nb.jpg,3,4,0,5\n": (
        "places.csv: cannot be read as csv: Expected 4 fields in line 3, saw 5;"
        " fix the file, or save it again as .csv"
    ),
    "image,easting,northing,heading\na.jpg,1,2,0,7\nb.jpg,3,4,0,5\n": (
        "places.csv line 2: 5 fields where the header has 4; fix the line, an unknown value is an empty field"
    ),
    "image,easting,northing,heading\na.jpg,1,2,0\nb.jpg,3,4\n": (
        "places.csv line 3: 3 fields where the header has 4; fix the line, an unknown value is an empty field"
    ),
    "image,latitude,longitude\na,48,11\nb,4800,11\n": (
        "places.csv row 2: latitude 4800 is not in [-90, 90]; write it as 48.1372"
    ),
    "image,latitude,longitude\na.jpg,48,181\n": (
        "places.csv row 1: longitude 181 is not in [-180, 180]; write it as 48.1372"
    ),
    "image,latitude,longitude\na.jpg,48N,11\n": (
        "places.csv row 1: latitude '48N' is not a number of degrees; write it as 48.1372"
    ),
    "image,latitude,longitude\na.jpg,,11\nb.jpg,48,\n": (
        "places.csv: every latitude or longitude is empty; fill them in"
    ),
    "image,latitude,longitude\na.jpg,48,11\nb.jpg,48,\n": (
        "places.csv row 2: no position (1 rows lack one); fill them in or delete them"
    ),
    "image,easting,northing,zone\na.jpg,1,2,32T\nb.jpg,3,4,33T\n": (
        "places.csv: eastings of different UTM zones (32T, 33T) cannot share one table;"
        " give latitude and longitude columns instead, and one projection is chosen for all"
    ),
    "image,easting,northing,heading,tx,ty,tz,qw,qx,qy,qz\na.jpg,1,2,0,0,0,0,0,0,0,0\n": (
        "places.csv row 1: qw qx qy qz are all 0; not turned at all is 1 0 0 0"
    ),
    "image,easting,northing,tx\na.jpg,1,2,far\n": "places.csv row 1: tx 'far' is not a finite number; write it as 12.5",
}


@pytest.mark.parametrize(("text", "answer"), BROKEN.items())
def test_a_broken_csv_is_answered_with_one_line(refused, text, answer):
    assert refused(text) == answer


def test_an_absent_file_and_a_broken_parquet_are_told(tmp_path):
    with pytest.raises(InputError) as error:
        Places.read(tmp_path / "none.csv")
    assert str(error.value) == (
        f"{tmp_path}/none.csv: no such file; a table of places is a .csv or .parquet"
        " with the columns image, easting, northing, heading"
    )
    broken = tmp_path / "places.parquet"
    broken.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(InputError, match=r"places\.parquet: cannot be read as parquet: .+") as error:
        Places.read(broken)
    assert "\n" not in str(error.value)


def test_a_csv_that_is_not_text_is_told(tmp_path):
    path = tmp_path / "places.csv"
    path.write_bytes(b"image,easting\n\xff\xfe,1\n")
    with pytest.raises(InputError, match=r"places\.csv: not a text in UTF-8 \(byte 14\); save it as UTF-8"):
        Places.read(path)


def test_a_gzipped_csv_is_read_and_a_cut_one_told(tmp_path):
    path = tmp_path / "places.csv.gz"
    packed = gzip.compress(GOOD.encode())
    path.write_bytes(packed)
    assert len(Places.read(path, missing_images="ignore")) == 3
    path.write_bytes(packed[:-9])
    with pytest.raises(InputError, match=r"places\.csv\.gz: cannot be read as csv: Compressed file ended"):
        Places.read(path)


def test_headings_are_wrapped_when_asked_and_unknown_ones_stay_unknown(csv, tmp_path):
    text = "image,easting,northing,heading\na,1,2,360\nb,1,2,-90\nc,1,2,\nd,1,2,725\ne,1,2,-1e-15\nf,1,2,10\n"
    places = csv(text, wrap_headings=True)
    np.testing.assert_array_equal(places.table["heading"], [0, 270, np.nan, 5, 0, 10])
    assert places.notes == (f"{tmp_path}/places.csv: 4 headings were not in [0, 360) and were wrapped",)


def test_positions_may_be_unknown_when_asked(csv):
    places = csv("image,easting,northing,heading\na.jpg,,,\n", unknown_positions=True)
    assert np.isnan(places.positions).all()


def test_panorama_flags_in_all_spellings(csv):
    rows = ["True", "false", "1", "0", "TRUE", "", "1.0", "0.0"]
    text = "image,easting,northing,pano,heading\n" + "".join(
        f"{i}.jpg,1,2,{v},0\n" for i, v in enumerate(rows)
    )
    assert csv(text).panoramas.tolist() == [True, False, True, False, True, False, True, False]
    assert build(pano=[True, np.nan]).panoramas.tolist() == [True, False]
    assert build(pano=np.array([1, 0])).panoramas.tolist() == [True, False]


def test_degrees_become_metres_of_one_projection(csv):
    places = csv("image,latitude,longitude\na.jpg,43.642567,-79.387139\n")
    assert places.projection == "EPSG:32617"
    np.testing.assert_allclose(places.positions[0, :2], [630_084.30, 4_833_438.59], atol=0.02)
    assert places.table["latitude"].tolist() == [43.642567]
    across = csv("image,latitude,longitude\na.jpg,51.5,-0.01\nb.jpg,51.5,0.01\n")
    assert across.projection.startswith("+proj=aeqd")
    assert np.diff(across.table["easting"]).item() == pytest.approx(1388.7, abs=1)
    kept = csv("image,latitude,longitude\na.jpg,51.5,0.01\n", projection="EPSG:32630")
    assert kept.projection == "EPSG:32630"
    assert kept.table["easting"].item() > 700_000


def test_metres_win_over_degrees_unless_zones_are_mixed(csv, tmp_path):
    one = csv("image,easting,northing,latitude,longitude,zone\na.jpg,1,2,51.5,0.01,31U\n")
    assert one.positions[0, :2].tolist() == [1, 2]
    two = csv(
        "image,easting,northing,latitude,longitude,zone\n"
        "a.jpg,707000,5700000,51.5,-0.01,30U\nb.jpg,292000,5700000,51.5,0.01,31U\n"
    )
    assert np.diff(two.table["easting"]).item() == pytest.approx(1388.7, abs=1)
    assert "zone" not in two.table
    assert two.notes == (
        f"{tmp_path}/places.csv: eastings were of different UTM zones (30U, 31U);"
        " projected again from latitude and longitude",
    )


def test_headings_beside_degrees_are_from_true_north_and_turned_once(csv, tmp_path):
    """At 60° N, 11.9° E the grid of UTM zone 32 is turned by 2.512°."""
    places = csv("image,latitude,longitude,heading\na.jpg,60,11.9,90\nb.jpg,60,11.9,\nc.jpg,60,11.9,1\n")
    np.testing.assert_allclose(places.table["heading"], [87.488, np.nan, 358.488], atol=1e-3)
    wrapped = csv("image,latitude,longitude,heading\na.jpg,60,11.9,450\n", wrap_headings=True)
    np.testing.assert_allclose(wrapped.table["heading"], [87.488], atol=1e-3)
    again = Places.read(places.save(tmp_path / "again.csv"), missing_images="ignore")
    assert again.digest() == places.digest()


def test_a_table_of_mixed_zones_turns_headings_once_too(csv, tmp_path):
    text = "image,latitude,longitude,heading,zone\na.jpg,51.5,-2,90,30U\nb.jpg,51.5,2,90,31U\n"
    places = csv(text)
    # at the rim of the local projection about 51.5° N, 0° E: ± 2° * sin(51.5°)
    np.testing.assert_allclose(places.table["heading"], [91.565, 88.435], atol=0.01)
    path = places.save(tmp_path / "again.csv")
    assert Places.read(path, missing_images="ignore").digest() == places.digest()
    (tmp_path / "again.csv.meta.json").unlink()
    assert Places.read(path, missing_images="ignore").digest() == places.digest()


def test_zones_that_are_no_utm_zones_are_a_column_like_any_other(csv):
    places = csv("image,easting,northing,zone\na.jpg,1,2,downtown\nb.jpg,3,4,park\n")
    assert places.table["zone"].tolist() == ["downtown", "park"]


MUNICH = "image,latitude,longitude,heading\na.jpg,48.137,11.575,90\nb.jpg,48.138,11.576,0\n"


def test_metres_of_another_plane_are_moved_and_never_relabelled(csv, tmp_path):
    native = csv(MUNICH)
    assert native.projection == "EPSG:32632"
    path = native.save(tmp_path / "utm32.csv")
    for word in ("projection", "onto"):
        moved = Places.read(path, missing_images="ignore", **{word: "EPSG:32633"})
        direct = csv(MUNICH, projection="EPSG:32633")
        assert moved.projection == "EPSG:32633"
        np.testing.assert_allclose(moved.positions, direct.positions, atol=1e-5)
        assert moved.notes == (f"{path}: brought from EPSG:32632 onto EPSG:32633, headings too",)
    same = Places.read(path, missing_images="ignore", onto="epsg:32632")
    assert (same.projection, same.notes, same.digest()) == ("epsg:32632", (), native.digest())


def test_a_second_table_of_degrees_goes_straight_onto_the_plane_of_the_first(csv):
    one, two = csv(MUNICH, onto="EPSG:32633"), csv(MUNICH, projection="EPSG:32633")
    assert (one.projection, one.notes) == ("EPSG:32633", ())
    assert one.digest() == two.digest()


def test_metres_of_an_unknown_plane_lie_where_the_user_says_but_not_where_another_table_does(csv, tmp_path):
    said = csv(GOOD, projection="EPSG:32632")
    assert (said.projection, said.notes) == ("EPSG:32632", ())
    np.testing.assert_array_equal(said.positions, csv(GOOD).positions)
    beside = csv(GOOD, onto="EPSG:32632")
    assert beside.projection is None
    np.testing.assert_array_equal(beside.positions, csv(GOOD).positions)
    assert beside.notes == (
        f"{tmp_path}/places.csv: its metres are of no known projection"
        " and are taken to be on the plane of EPSG:32632",
    )
    with pytest.raises(InputError, match="projection 'nonsense' is not known"):
        csv(GOOD, projection="nonsense")


def test_moving_drops_the_zone_and_keeps_unknown_positions():
    table = {"easting": [691_600.0, np.nan], "northing": [5_334_700.0, np.nan], "heading": [10.0, 20.0]}
    places = Places.build(
        "/data",
        {"image": ["a", "b"], **table, "zone": "32U"},
        projection="EPSG:32632",
        unknown_positions=True,
        missing_images="ignore",
    )
    moved = places.on_plane("EPSG:32633")
    assert "zone" not in moved.table
    assert np.isnan(moved.positions[1, :2]).all()
    assert moved.positions[1, 2] == 20.0
    assert places.on_plane() is places


def test_a_position_that_has_no_place_on_the_plane_is_told(refused):
    assert refused("image,latitude,longitude\na.jpg,48,11\nb.jpg,0,99\n", projection="EPSG:32632") == (
        "places.csv row 2: its position cannot be placed on EPSG:32632; choose another projection"
    )


def test_images_far_from_the_others_are_noted(csv, tmp_path):
    rows = [
        f"{name}.jpg,51.5,{longitude}\n"
        for name, longitude in zip("abcd", (-0.01, 0.01, 0.02, 0), strict=True)
    ]
    text = "image,latitude,longitude\n" + "".join(rows)
    assert csv(text).notes == ()
    (note,) = csv(text + "far.jpg,0,0\n").notes
    # 51.5° of the meridian are 5,708 km
    assert (
        note
        == f"{tmp_path}/places.csv: 1 image lies 5,708 km from the others (far.jpg); is its position right?"
    )
    (note,) = csv(text + "far.jpg,0,0\nfarther.jpg,-1,0\n").notes
    assert "2 images lie up to 5,8" in note
    assert note.endswith("km from the others (far.jpg, farther.jpg); are their positions right?")
    (note,) = csv("image,latitude,longitude\na.jpg,51.5,-0.1\nb.jpg,0,0.1\n").notes
    assert "images lie up to 2,854 km from their middle; are all positions right?" in note


def test_an_unknown_policy_for_missing_images_is_told(refused):
    assert refused(GOOD, missing_images="zz") == (
        "`missing_images` 'zz' is unknown; choose one of error, warn, drop, ignore"
    )


def test_degrees_of_several_zones_need_no_zone_column(csv):
    places = csv("image,latitude,longitude,zone\na.jpg,51.5,-0.01,30U\nb.jpg,51.5,0.01,31U\n")
    assert "zone" not in places.table
    assert np.diff(places.table["easting"]).item() == pytest.approx(1388.7, abs=1)


def test_an_unknown_projection_is_told(refused):
    assert refused("image,latitude,longitude\na.jpg,1,2\n", projection="utm").startswith(
        "projection 'utm' is not known;"
    )


@pytest.fixture
def gappy(tmp_path):
    """Six rows of which only a.jpg and f.jpg are files."""
    for name in "af":
        (tmp_path / f"{name}.jpg").touch()
    path = tmp_path / "places.csv"
    path.write_text("image,easting,northing\n" + "".join(f"{name}.jpg,1,2\n" for name in "abcdef"))
    return path


def test_missing_images_are_counted_and_three_named(gappy, tmp_path):
    said = f"{gappy}: 4 of 6 images are not under {tmp_path} (b.jpg, c.jpg, d.jpg, …)"
    warned = Places.read(gappy)
    assert (len(warned), warned.notes, warned.dropped) == (6, (said,), {})
    with pytest.raises(InputError) as error:
        Places.read(gappy, missing_images="error")
    assert str(error.value) == f"{said}; fix the root, or drop them with `missing_images=drop`"
    kept = Places.read(gappy, missing_images="drop")
    assert kept.table["image"].tolist() == ["a.jpg", "f.jpg"]
    assert kept.table.index.tolist() == [0, 1]
    assert kept.dropped == {"image file missing": 4}
    assert kept.notes == (f"{said}; dropped",)
    assert Places.read(gappy, missing_images="ignore").notes == ()


def test_three_missing_images_are_named_without_dots(gappy, tmp_path):
    (tmp_path / "e.jpg").touch()
    assert Places.read(gappy).notes[0].endswith("(b.jpg, c.jpg, d.jpg)")


def test_drops_add_up_over_a_save(gappy, tmp_path):
    saved = Places.read(gappy, missing_images="drop").save(tmp_path / "kept.csv")
    (tmp_path / "f.jpg").unlink()
    assert Places.read(saved, missing_images="drop").dropped == {"image file missing": 5}


def test_dropping_every_image_is_refused(gappy, tmp_path):
    with pytest.raises(InputError, match=r"6 of 6 images .* none would be left, so fix the root$"):
        Places.read(gappy, root=tmp_path / "elsewhere", missing_images="drop")


def rich() -> Places:
    pose = dict(zip(POSE, np.array([[1, 2, 3, 1, 0, 0, 0], [4, 5, 6, 0.5, 0.5, 0.5, 0.5]]).T, strict=True))
    return Places.build(
        "/data",
        {
            "image": ["007", "b c.jpg"],
            "easting": [1 / 3, 585156.96230588],
            "northing": [2.0, 4477145.41998021],
            "heading": [np.nan, 359.9999999999],
            **pose,
            "pano": [True, False],
            "sequence": ["s", "t"],
            "frame": [1, 2],
            "time": ["2013-06", "2014-07"],
            "condition": ["day", "night"],
            "split": ["map", "query"],
            "weather": ["fog", None],
        },
        projection="EPSG:32617",
        dropped={"no GPS": 3, "nothing": 0},
        notes=("as it was",),
        missing_images="ignore",
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_saved_is_what_is_read(tmp_path, suffix):
    places = rich()
    path = places.save(tmp_path / "new" / f"places.{suffix}")
    again = Places.read(path, missing_images="ignore")
    pd.testing.assert_frame_equal(again.table, places.table, check_dtype=False)
    np.testing.assert_array_equal(again.positions, places.positions)
    assert again.digest() == places.digest()
    assert (again.projection, again.notes, again.root) == ("EPSG:32617", ("as it was",), places.root)
    assert again.dropped == {"no GPS": 3}
    assert {p.name for p in path.parent.iterdir()} == {f"places.{suffix}.meta.json", f"places.{suffix}"}


def test_the_root_travels_relative_to_the_table(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    places = Places.build(tmp_path / "photos", {"image": ["a.jpg"], "easting": [0], "northing": [0]})
    path = places.save(tmp_path / "tables" / "places.csv")
    assert json.loads((tmp_path / "tables" / "places.csv.meta.json").read_text())["root"] == "../photos"
    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / "photos").rename(moved / "photos")
    (tmp_path / "tables").rename(moved / "tables")
    assert Places.read(moved / "tables" / path.name, missing_images="error").images[0].is_file()


def test_a_given_root_wins(tmp_path):
    path = rich().save(tmp_path / "places.csv")
    assert Places.read(path, root="/other", missing_images="ignore").root.as_posix() == "/other"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", r"not valid json \(.+\); delete it or fix it"),
        ("[1]", "holds no json object; .*"),
    ],
)
def test_a_broken_sidecar_is_told(tmp_path, text, fault):
    path = rich().save(tmp_path / "places.csv")
    (tmp_path / "places.csv.meta.json").write_text(text)
    with pytest.raises(InputError, match=f"places.csv.meta.json: {fault}$"):
        Places.read(path)


def test_other_file_types_and_mixed_columns_are_refused_on_saving(tmp_path):
    with pytest.raises(InputError, match=r"places\.xlsx: a table of places is written as \.csv or \.parquet"):
        rich().save(tmp_path / "places.xlsx")
    with pytest.raises(InputError, match=r"cannot be written as parquet: .*; try \.csv"):
        build(extra=pd.Series(["a", 1], dtype=object)).save(tmp_path / "places.parquet")
    assert list(tmp_path.iterdir()) == []


CHANGES = {
    "image": ["a.jpg", "c.jpg"],
    "easting": [1.0, 3.0 + 1e-5],
    "northing": [2.1, 4.0],
    "heading": [0.0, np.nan],
    "pano": [True, False],
}


@pytest.mark.parametrize(("column", "values"), CHANGES.items())
def test_the_digest_changes_with_what_labels_depend_on(column, values):
    assert build(**{column: values}).digest() != build().digest()


def test_the_digest_does_not_depend_on_how_a_machine_rounds():
    """Headings are computed from turns, by other instructions on other processors."""
    heading = np.array([10.0, 200.0])
    assert build(heading=np.nextafter(heading, 360)).digest() == build(heading=heading).digest()


def test_the_digest_changes_with_the_pose_and_the_order():
    pose = {c: [float(c == "qw")] * 2 for c in POSE}
    assert build(**pose).digest() != build().digest()
    assert build(**{**pose, "tz": [0.0, 1.0]}).digest() != build(**pose).digest()
    assert build().select([1, 0]).digest() != build().digest()


def test_the_digest_keeps_with_what_labels_do_not_depend_on():
    same = build().digest()
    assert re.fullmatch("[0-9a-f]{32}", same)
    assert build(split=["map", "query"], weather="fog", pano=[False, False]).digest() == same
    assert build(heading=[-0.0, 90]).digest() == same
    other_root = Places(build().root / "elsewhere", build().table, "EPSG:32633", {"x": 1}, ("note",))
    assert other_root.digest() == same
    other_nan = np.frombuffer(np.uint64(0xFFF8000000000001).tobytes(), dtype=np.float64)[0]
    assert build(heading=[other_nan, 1]).digest() == build(heading=[np.nan, 1]).digest()


def test_columns_are_put_side_by_side_by_position():
    places = build(easting=pd.Series([7.0, 8.0], index=[5, 0]), split="map")
    assert places.table["easting"].tolist() == [7, 8]
    assert places.table["split"].tolist() == ["map", "map"]
    with pytest.raises(ValueError, match=r"columns of different lengths: \[2, 3\]"):
        build(easting=pd.Series([7.0, 8.0, 9.0]))


def test_a_frame_that_was_given_is_not_changed():
    frame = pd.DataFrame({"image": ["a"], "easting": ["1"], "northing": [2], "heading": [370]}, index=[9])
    places = Places.build("/data", frame, wrap_headings=True, missing_images="ignore")
    assert places.positions.tolist() == [[1, 2, 10]]
    assert (frame["easting"].tolist(), frame["heading"].tolist(), frame.index.tolist()) == (["1"], [370], [9])


@pytest.mark.parametrize(
    "rows", [np.array([False, True]), pd.Series([False, True], index=[4, 5]), [1], slice(1, 2)]
)
def test_rows_are_selected_by_mask_position_or_slice(rows):
    chosen = build().select(rows)
    assert chosen.table["image"].tolist() == ["b.jpg"]
    assert chosen.table.index.tolist() == [0]


def test_poses_are_given_or_their_lack_is_told():
    places = rich()
    assert places.centres.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert places.quaternions.tolist() == [[1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]]
    with pytest.raises(InputError) as error:
        _ = build(tx=[0.0, 1.0]).centres
    assert (
        str(error.value) == "/data: no 6DOF pose in this table: it lacks the columns qw, qx, qy, qz, ty, tz"
    )


def test_a_split_is_the_word_in_the_file_also_where_it_is_a_number(tmp_path):
    """Columns of numbers become 0 and 1, or with gaps 0.0 and 1.0."""
    for splits, gaps in (("0 1 1", 0), ("0 1 1 -", 1), ("train map map", 0)):
        words = ["" if word == "-" else word for word in splits.split()]
        lines = [f"{i}.jpg,{i},0,0,{word}" for i, word in enumerate(words)]
        (tmp_path / "p.csv").write_text("\n".join(["image,easting,northing,heading,split", *lines]) + "\n")
        places = Places.read(tmp_path / "p.csv", missing_images="ignore")
        assert places.of_split(words[1]).table["image"].tolist() == ["1.jpg", "2.jpg"]
        assert len(places) == 3 + gaps
        with pytest.raises(InputError, match=rf"no image with split 'x'; there are {'0, 1' if gaps else ''}"):
            places.of_split("x")
    assert places.of_split("train").table["image"].tolist() == ["0.jpg"]
