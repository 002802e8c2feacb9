"""Tokyo 24/7 and Tokyo Time Machine from miniatures of NetVLAD's files."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.places import tokyo
from samespot.places.geodesy import to_metres

MAP = [
    "03814/381418.231_3946450.428/JHVdmPpMNQcjBfR7qsWEtA_012_000.jpg",
    "03814/381418.231_3946450.428/JHVdmPpMNQcjBfR7qsWEtA_012_330.jpg",
]
QUERIES = ["00010.jpg", "00011.jpg", "00012.jpg", "00013.jpg"]
TM_MAP = ["-2/-2T_5846xKuIeVvHFs88mQ/_201306/-2T_5846xKuIeVvHFs88mQ__201306_35.656129_139.685074_030_012.jpg"]
TM_QUERIES = [
    "zz/zZ5DQGP_GFqY-YofAb-rxA/_201503/zZ5DQGP_GFqY-YofAb-rxA__201503_35.652657_139.680667_330_012.jpg"
]


@pytest.fixture
def save_listing(save_struct):
    """With the map a metre apart from east to west, and the queries likewise."""

    def save(path, database, queries, **stamps):
        at = [
            np.column_stack([east + np.arange(n), np.full(n, north)])
            for east, north, n in (
                (381418.23, 3946450.43, len(database)),
                (382284.784, 3946636.627, len(queries)),
            )
        ]
        save_struct(path, database, at[0], queries, at[1], **stamps)

    return save


@pytest.fixture
def root(tmp_path, save_listing, save_images):
    save_listing(tmp_path / "datasets/tokyo247.mat", MAP, QUERIES)
    stamps = {"dbTimeStamp": np.array([[201306]]), "qTimeStamp": np.array([[201503]])}
    save_listing(tmp_path / "datasets/tokyoTM_train.mat", TM_MAP, TM_QUERIES, **stamps)
    save_images(tmp_path / "tokyo247", [name.replace(".jpg", ".png") for name in MAP])
    save_images(tmp_path / "247query_subset_v2", QUERIES)
    save_images(tmp_path / "tokyoTM/images", TM_MAP + TM_QUERIES)
    return tmp_path


def test_parts_are_both_sides_of_each_file(root, tmp_path_factory):
    (root / "datasets/tokyo_notes.mat").touch()
    assert tokyo.parts(root) == [
        "tokyo247/database",
        "tokyo247/query",
        "tokyoTM_train/database",
        "tokyoTM_train/query",
    ]
    assert tokyo.parts(tmp_path_factory.mktemp("empty")) == []


def test_every_column_of_the_map_of_24_7(root):
    places = tokyo.read(root, "tokyo247/database", missing_images="error")
    table = places.table
    assert table["image"].tolist() == [f"tokyo247/{name}".replace(".jpg", ".png") for name in MAP]
    assert table["easting"].tolist() == [381418.23, 381419.23]
    assert table["northing"].tolist() == [3946450.43] * 2
    assert table["heading"].isna().all()
    assert table["pano_id"].tolist() == ["JHVdmPpMNQcjBfR7qsWEtA"] * 2
    assert table["yaw"].tolist() == [0, 330]
    assert table["split"].tolist() == ["map"] * 2
    assert "time" not in table
    assert places.projection == "EPSG:32654"
    source = root / "datasets/tokyo247.mat"
    assert places.notes == (
        f"{source}: whether yaw counts from north is not documented, so heading is empty",
    )


def test_queries_of_24_7_come_by_day_at_sunset_and_at_night(root):
    places = tokyo.read(root, "tokyo247/query", missing_images="error")
    assert places.table["image"].tolist() == [f"247query_subset_v2/{name}" for name in QUERIES]
    assert places.table["condition"].tolist() == ["day", "sunset", "night", "day"]
    assert places.table["split"].tolist() == ["query"] * 4
    assert places.table["easting"].tolist() == pytest.approx([382284.784, 382285.784, 382286.784, 382287.784])
    assert places.notes == (f"{root}/datasets/tokyo247.mat: a phone's heading is not given",)


def test_every_column_of_time_machine(root):
    places = tokyo.read(root, "tokyoTM_train/database", missing_images="error")
    row = places.table.iloc[0]
    assert row["image"] == f"tokyoTM/images/{TM_MAP[0]}"
    assert (row["time"], row["yaw"], row["pano_id"]) == ("2013-06", 30, "-2T_5846xKuIeVvHFs88mQ")
    assert (row["latitude"], row["longitude"]) == (35.656129, 139.685074)
    assert np.isnan(row["heading"])
    query = tokyo.read(root, "tokyoTM_train/query", missing_images="error").table.iloc[0]
    assert (query["time"], query["yaw"], query["split"]) == ("2015-03", 330, "query")
    assert query["pano_id"] == "zZ5DQGP_GFqY-YofAb-rxA"


def test_the_projection_is_the_one_that_time_machine_names_agree_with():
    # utmDb of this image in NetVLAD's own tokyoTM_train.mat
    easting, northing, _ = to_metres([35.656129], [139.685074], tokyo.PROJECTION)
    assert (easting[0], northing[0]) == pytest.approx((380973.11530327, 3946605.47223057), abs=1e-5)


@pytest.mark.parametrize(
    ("folder", "suffix"),
    [("images", ".jpg"), ("database_gsv_vga", ".png"), ("tokyo247/images", ".png"), ("", ".png")],
)
def test_map_images_are_found_where_copies_have_them(tmp_path, folder, suffix, save_listing, save_images):
    save_listing(tmp_path / "tokyo247.mat", MAP, QUERIES)
    save_images(tmp_path / folder, [name.replace(".jpg", suffix) for name in MAP])
    places = tokyo.read(tmp_path, "tokyo247/database", missing_images="error")
    assert places.table["image"][0] == f"{folder}/{MAP[0]}".lstrip("/").replace(".jpg", suffix)


@pytest.mark.parametrize("folder", ["query", "tokyo247/query", "query/247query_subset_v2"])
def test_query_images_are_found_where_copies_have_them(tmp_path, folder, save_listing, save_images):
    save_listing(tmp_path / "tokyo247.mat", MAP, QUERIES)
    save_images(tmp_path / folder, QUERIES)
    places = tokyo.read(tmp_path, "tokyo247/query", missing_images="error")
    assert places.table["image"][0] == f"{folder}/{QUERIES[0]}"


@pytest.mark.parametrize(
    ("part", "example"),
    [("tokyo247", "<pano id>_012_030.jpg"), ("tokyoTM_val", "<pano id>__201306_35.65_139.68_030_012.jpg")],
)
def test_a_foreign_name_in_the_listing_is_told(root, part, example, save_listing):
    save_listing(root / f"datasets/{part}.mat", ["a/photo.jpg"], ["b.jpg"])
    with pytest.raises(InputError) as error:
        tokyo.read(root, f"{part}/database")
    assert (
        str(error.value) == f"{root}/datasets/{part}.mat: image 1, 'a/photo.jpg', is not named like {example}"
    )


def test_a_cut_file_and_bad_time_stamps_are_told(root, save_listing):
    save_listing(root / "datasets/tokyoTM_val.mat", TM_MAP, TM_QUERIES, dbTimeStamp=np.array([[2013]]))
    with pytest.raises(
        InputError, match=r"tokyoTM_val\.mat: time stamp 2013 is not a year and month as 201306 is"
    ):
        tokyo.read(root, "tokyoTM_val/database")
    (root / "datasets/tokyo247.mat").write_bytes(b"MATLAB 5.0")
    with pytest.raises(InputError, match=r"tokyo247\.mat: not a readable MATLAB file"):
        tokyo.read(root, "tokyo247/query")


def test_an_unknown_part_is_answered_with_those_there_are(root, tmp_path_factory):
    with pytest.raises(
        InputError, match="no part 'tokyo247/map' of Tokyo; the parts are tokyo247/database, tokyo247/query"
    ):
        tokyo.read(root, "tokyo247/map")
    with pytest.raises(InputError, match="it has none here, and `samespot datasets --layout tokyo` shows"):
        tokyo.read(tmp_path_factory.mktemp("empty"), "tokyo247/query")


def test_what_a_complete_copy_would_have_is_told(root, tmp_path_factory):
    assert tokyo.missing(root) == ["datasets/tokyoTM_val.mat"]
    (root / "247query_subset_v2").rename(root / "elsewhere")
    (root / "tokyoTM").rename(root / "gone")
    assert tokyo.missing(root)[1:] == [
        "247query_subset_v2/ (query images of tokyo247)",
        "tokyoTM/images/ (images of tokyoTM)",
    ]
    assert tokyo.missing(tmp_path_factory.mktemp("empty")) == []
