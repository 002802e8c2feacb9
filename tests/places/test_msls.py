"""Mapillary Street-Level Sequences from a miniature tree in the layout of its metadata.zip."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.places import msls
from samespot.places.geodesy import to_metres

KEYS = ["aK0", "bK1", "007"]
LATITUDE, LONGITUDE = [47.3700, 47.3701, 47.3702], [8.5400, 8.5401, 8.5402]
SUBTASKS = "all,s2w,w2s,o2n,n2o,d2n,n2d"


def utm():
    easting, northing, _ = to_metres(LATITUDE, LONGITUDE, "EPSG:32632")
    return easting + 1.5, northing - 2.0  # MSLS moved them a little


def write_city(root, part, *, secret=False):
    folder = root / part
    (folder / "images").mkdir(parents=True)
    for key in KEYS:
        Image.new("RGB", (8, 8)).save(folder / "images" / f"{key}.jpg")
    (folder / "seq_info.csv").write_text(
        ",key,sequence_key,frame_number\n0,aK0,seqA,4\n1,bK1,seqA,5\n2,007,seqB,0\n"
    )
    (folder / "subtask_index.csv").write_text(
        f",key,{SUBTASKS}\n0,aK0,True,True,False,False,False,True,False\n"
        "1,bK1,True,False,False,False,False,False,False\n2,007,False,False,True,False,True,False,True\n"
    )
    if secret:
        return folder
    (folder / "raw.csv").write_text(
        ",key,lon,lat,ca,captured_at,pano\n"
        f"0,aK0,{LONGITUDE[0]},{LATITUDE[0]},360.0,2018-05-11,False\n"
        f"1,bK1,{LONGITUDE[1]},{LATITUDE[1]},-90.25,2018-05-11,True\n"
        f"2,007,{LONGITUDE[2]},{LATITUDE[2]},,2019-12-01,False\n"
    )
    easting, northing = utm()
    (folder / "postprocessed.csv").write_text(
        ",key,easting,northing,unique_cluster,control_panel,night,view_direction\n"
        f"0,aK0,{easting[0]},{northing[0]},17,False,False,Forward\n"
        f"1,bK1,{easting[1]},{northing[1]},17,True,True,Sideways\n"
        f"2,007,{easting[2]},{northing[2]},18,False,False,Backward\n"
    )
    return folder


@pytest.fixture
def root(tmp_path):
    for side in ("query", "database"):
        write_city(tmp_path, f"train_val/zurich/{side}")
        write_city(tmp_path, f"test/miami/{side}", secret=True)
    return tmp_path


def test_parts_are_both_sides_of_each_city(root, tmp_path_factory):
    sides = ("database", "query")
    expected = [f"{city}/{side}" for city in ("test/miami", "train_val/zurich") for side in sides]
    assert msls.parts(root) == expected
    assert msls.parts(tmp_path_factory.mktemp("empty")) == []
    assert msls.parts(root / "nowhere") == []


def test_every_column_of_a_train_city(root):
    places = msls.read(root, "train_val/zurich/query", missing_images="error")
    table = places.table
    assert table["image"].tolist() == [f"train_val/zurich/query/images/{key}.jpg" for key in KEYS]
    easting, northing = utm()
    np.testing.assert_array_equal(table["easting"], easting)
    np.testing.assert_array_equal(table["northing"], northing)
    np.testing.assert_array_equal(table["heading"], [0.0, 269.75, np.nan])
    assert table["pano"].tolist() == [False, True, False]
    assert table["sequence"].tolist() == ["seqA", "seqA", "seqB"]
    assert table["frame"].tolist() == [4, 5, 0]
    assert table["time"].tolist() == ["2018-05-11", "2018-05-11", "2019-12-01"]
    assert table["condition"].tolist() == ["day", "night", "day"]
    assert table["split"].tolist() == ["query"] * 3
    assert table["key"].tolist() == KEYS
    assert table["city"].tolist() == ["zurich"] * 3
    assert table["latitude"].tolist() == LATITUDE
    assert table["longitude"].tolist() == LONGITUDE
    assert table["view_direction"].tolist() == ["Forward", "Sideways", "Backward"]
    assert table["unique_cluster"].tolist() == [17, 17, 18]
    assert table["control_panel"].tolist() == [False, True, False]
    assert table["subtask_all"].tolist() == [True, True, False]
    assert table["subtask_s2w"].tolist() == [True, False, False]
    assert table["subtask_w2s"].tolist() == [False, False, True]
    assert table["subtask_o2n"].tolist() == [False, False, False]
    assert table["subtask_n2o"].tolist() == [False, False, True]
    assert table["subtask_d2n"].tolist() == [True, False, False]
    assert table["subtask_n2d"].tolist() == [False, False, True]
    assert places.projection == "EPSG:32632"
    assert places.dropped == {}
    folder = root / "train_val/zurich/query"
    assert places.notes == (f"{folder}: 2 headings were not in [0, 360) and were wrapped",)


def test_the_database_is_the_map(root):
    assert msls.read(root, "train_val/zurich/database").table["split"].tolist() == ["map"] * 3


def test_test_cities_have_no_positions_and_say_so(root):
    places = msls.read(root, "test/miami/query", missing_images="error")
    assert np.isnan(places.positions).all()
    assert places.table["sequence"].tolist() == ["seqA", "seqA", "seqB"]
    assert places.table["subtask_all"].tolist() == [True, True, False]
    assert places.projection is None
    told = f"{root}/test/miami/query: positions of the test cities are kept secret, so none are known"
    assert places.notes == (told,)


def test_a_test_city_with_positions_has_them(root):
    write_city(root, "test/athens/query")
    assert np.isfinite(msls.read(root, "test/athens/query").positions[:, :2]).all()


def test_files_in_another_order_are_joined_by_key(root):
    expected = msls.read(root, "train_val/zurich/query")
    path = root / "train_val/zurich/query/raw.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *reversed(rows)]) + "\n")
    places = msls.read(root, "train_val/zurich/query")
    pd.testing.assert_frame_equal(places.table, expected.table)
    assert (
        places.notes[0] == f"{path}: its keys are in another order than in postprocessed.csv; joined by key"
    )


def test_keys_that_a_file_lacks_are_counted_and_named(root):
    folder = root / "train_val/zurich/query"
    path = folder / "raw.csv"
    path.write_text("".join(line for line in path.open() if "bK1" not in line))
    places = msls.read(root, "train_val/zurich/query")
    assert places.table["key"].tolist() == ["aK0", "007"]
    assert places.table["subtask_all"].tolist() == [True, False]
    assert places.dropped == {"key not in every csv file": 1}
    assert places.notes[0] == f"{path}: lacks 1 keys of the other files (bK1); left out"


def test_subtasks_without_keys_go_row_by_row(root):
    path = root / "train_val/zurich/query/subtask_index.csv"
    path.write_text(
        f",{SUBTASKS}\n" + "".join(f"{i},{v}{',False' * 6}\n" for i, v in enumerate([False, True, True]))
    )
    assert msls.read(root, "train_val/zurich/query").table["subtask_all"].tolist() == [False, True, True]
    path.write_text(f",{SUBTASKS}\n0,True{',False' * 6}\n")
    with pytest.raises(
        InputError, match=r"subtask_index.csv: 1 rows, without keys, for the 3 rows of seq_info.csv"
    ):
        msls.read(root, "train_val/zurich/query")


def test_the_documented_name_of_the_sequence_column_is_read_too(root):
    path = root / "train_val/zurich/query/seq_info.csv"
    path.write_text(path.read_text().replace("sequence_key", "sequence_id"))
    assert msls.read(root, "train_val/zurich/query").table["sequence"].tolist() == ["seqA", "seqA", "seqB"]


def test_the_projection_stays_open_when_metres_and_degrees_disagree(root):
    path = root / "train_val/zurich/query/postprocessed.csv"
    table = pd.read_csv(path, index_col=0, dtype={"key": str})
    table["easting"] += 1000
    table.to_csv(path)
    places = msls.read(root, "train_val/zurich/query")
    assert places.projection is None
    assert places.notes[0] == (
        f"{path.parent}: easting and northing do not agree with latitude and longitude in EPSG:32632;"
        " the projection is left open"
    )


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "answer"),
    [
        ("raw.csv", "-90.25", "west", "raw.csv line 3: ca west is not a number"),
        ("raw.csv", ",2019-12-01,False\n", "", "raw.csv line 4: 5 fields where the header has 7"),
        ("raw.csv", "lat,", "", "raw.csv line 2: 7 fields where the header has 6"),
        ("raw.csv", ",lat,", ",latitude,", "raw.csv line 1: no column lat"),
        ("raw.csv", "8.5401", "", "raw.csv line 3: lon nan is not a number"),
        ("raw.csv", "True", "maybe", "zurich/query row 2: pano 'maybe' is neither true nor false"),
        (
            "postprocessed.csv",
            "17,True,True",
            "17,True,dark",
            "postprocessed.csv line 3: night dark is neither True nor",
        ),
        ("postprocessed.csv", "1,bK1", "1,aK0", "postprocessed.csv line 3: key aK0 stands there twice"),
        ("seq_info.csv", "seqA,5", "seqA,five", "seq_info.csv line 3: frame_number five is not a number"),
        ("seq_info.csv", "seqA,5", "seqA,5,6", "Expected 4 fields in line 3, saw 5"),
        ("seq_info.csv", "1,bK1", "1,", "seq_info.csv line 3: key nan is not a key"),
        (
            "subtask_index.csv",
            "2,007,False",
            "2,007,2",
            "subtask_index.csv line 4: all 2 is neither True nor False",
        ),
    ],
)
def test_a_broken_file_is_named_with_its_line(root, name, old, new, answer):
    replace(root / "train_val/zurich/query" / name, old, new)
    with pytest.raises(InputError) as error:
        msls.read(root, "train_val/zurich/query")
    assert answer in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", msls.CSVS)
def test_a_missing_file_is_named(root, name):
    (root / "train_val/zurich/query" / name).unlink()
    with pytest.raises(
        InputError, match=f"zurich/query/{name}: no such file; unpack metadata.zip of MSLS there"
    ):
        msls.read(root, "train_val/zurich/query")


def test_files_without_a_common_key_are_refused(root):
    path = root / "train_val/zurich/query/raw.csv"
    path.write_text(",key,lon,lat,ca,captured_at,pano\n0,zz,8.54,47.37,0,2018-05-11,False\n")
    with pytest.raises(InputError, match="no key stands in all of postprocessed"):
        msls.read(root, "train_val/zurich/query")


def test_an_unknown_part_is_answered_with_those_there_are(root, tmp_path_factory):
    with pytest.raises(InputError) as error:
        msls.read(root, "train_val/paris/query")
    assert str(error.value) == (
        f"{root}: no part 'train_val/paris/query' of MSLS; the parts are"
        " test/miami/database, test/miami/query, train_val/zurich/database, train_val/zurich/query"
    )
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(InputError, match="it has none here, and `samespot datasets --layout msls` shows"):
        msls.read(empty, "train_val/paris/query")


def test_what_a_complete_copy_would_have_is_told(root, tmp_path_factory):
    assert msls.missing(tmp_path_factory.mktemp("empty")) == []
    (root / "train_val/zurich/query/raw.csv").unlink()
    (root / "test/miami/query/images").rename(root / "test/miami/query/pictures")
    lacking = msls.missing(root)
    assert {"train_val/zurich/query/raw.csv", "test/miami/query/images", "train_val/paris/query"} <= set(
        lacking
    )
    assert len(lacking) == 2 * 28 + 2  # both sides of the other 28 cities, and the two taken away
    assert not any(part.startswith("test/miami/query/raw") for part in lacking)


def test_the_official_split_has_22_2_and_6_cities():
    cities = msls.TRAIN_CITIES + msls.VAL_CITIES + msls.TEST_CITIES
    assert (len(msls.TRAIN_CITIES), len(msls.VAL_CITIES), len(msls.TEST_CITIES), len(set(cities))) == (
        22,
        2,
        6,
        30,
    )
    assert [msls.official_split(city) for city in ("zurich", "cph", "sf", "kampala")] == [
        "train",
        "val",
        "val",
        "test",
    ]
    with pytest.raises(
        InputError, match="'atlantis' is not a city of MSLS; they are amman, amsterdam, athens"
    ):
        msls.official_split("atlantis")


def test_five_thousand_rows_in_two_orders_are_joined_right(tmp_path):
    n = 5_000
    folder = tmp_path / "train_val/moscow/database"
    folder.mkdir(parents=True)
    key = pd.Series([f"k{i}" for i in range(n)], name="key")
    latitude, longitude = np.linspace(55.6, 55.9, n), np.linspace(37.4, 37.8, n)
    easting, northing, _ = to_metres(latitude, longitude)
    raw = {
        "key": key,
        "lon": longitude,
        "lat": latitude,
        "ca": 1.0,
        "captured_at": "2018-01-01",
        "pano": False,
    }
    derived = {
        "key": key,
        "easting": easting,
        "northing": northing,
        "night": False,
        "view_direction": "Forward",
    }
    pd.DataFrame(raw).to_csv(folder / "raw.csv")
    pd.DataFrame(derived).iloc[::-1].to_csv(folder / "postprocessed.csv")
    pd.DataFrame({"key": key, "sequence_key": "s", "frame_number": range(n)}).to_csv(folder / "seq_info.csv")
    pd.DataFrame({"key": key, **dict.fromkeys(msls.SUBTASKS, True)}).to_csv(folder / "subtask_index.csv")
    places = msls.read(tmp_path, "train_val/moscow/database", missing_images="ignore")
    assert places.projection == "EPSG:32637"
    assert places.table["frame"].tolist() == list(range(n))[::-1]
    np.testing.assert_allclose(places.table["easting"], easting[::-1])
