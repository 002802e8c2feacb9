"""Pittsburgh30k from a miniature of NetVLAD's files, and from images named with @."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.places import pittsburgh

MAP = ["000/000829_pitch1_yaw1.jpg", "000/000829_pitch2_yaw12.jpg", "006/006054_pitch1_yaw4.jpg"]
QUERIES = ["000/000546_pitch1_yaw1.jpg", "000/000546_pitch1_yaw2.jpg"]
UTM_MAP = np.array([[584825.961, 584825.961, 585001.5], [4477141.5, 4477141.5, 4476911.6]])
UTM_QUERIES = np.array([[584744.966, 584744.966], [4477141.511, 4477141.511]])


@pytest.fixture
def save_listing(save_struct):
    def save(path, names=MAP):
        limits = {"posDistThr": 25, "posDistSqThr": 625, "nonTrivPosDistSqThr": 100}
        counts = {"numImages": len(MAP), "numQueries": len(QUERIES)}
        save_struct(path, names, UTM_MAP.T, QUERIES, UTM_QUERIES.T, **counts, **limits)

    return save


@pytest.fixture
def root(tmp_path, save_listing, save_images):
    save_listing(tmp_path / "datasets/pitts30k_test.mat")
    save_images(tmp_path, MAP)
    save_images(tmp_path / "queries_real", QUERIES)
    return tmp_path


def test_parts_are_both_sides_of_each_file(root, tmp_path_factory):
    assert pittsburgh.parts(root) == ["pitts30k_test/database", "pitts30k_test/query"]
    assert pittsburgh.parts(tmp_path_factory.mktemp("empty")) == []


def test_every_column_of_the_map(root):
    places = pittsburgh.read(root, "pitts30k_test/database", missing_images="error")
    table = places.table
    assert table["image"].tolist() == MAP
    np.testing.assert_array_equal(table[["easting", "northing"]].to_numpy(), UTM_MAP.T)
    assert table["heading"].isna().all()
    assert table["pano_id"].tolist() == ["000829", "000829", "006054"]
    assert table["yaw"].tolist() == [0, 330, 90]
    assert table["pitch"].tolist() == [1, 2, 1]
    assert table["split"].tolist() == ["map"] * 3
    assert places.projection == "EPSG:32617"
    source = root / "datasets/pitts30k_test.mat"
    told = "yaw counts from each panorama's own zero; which way that points is not known, so heading is empty"
    assert places.notes == (f"{source}: {told}",)


def test_queries_have_a_folder_of_their_own(root):
    places = pittsburgh.read(root, "pitts30k_test/query", missing_images="error")
    assert places.table["image"].tolist() == [f"queries_real/{name}" for name in QUERIES]
    np.testing.assert_array_equal(places.table[["easting", "northing"]].to_numpy(), UTM_QUERIES.T)
    assert places.table["split"].tolist() == ["query"] * 2


def test_the_folders_of_netvlad_itself_are_found(tmp_path, save_listing, save_images):
    save_listing(tmp_path / "pitts30k_test.mat")
    save_images(tmp_path / "images", MAP)
    save_images(tmp_path / "queries", QUERIES)
    for part, folder in (("pitts30k_test/database", "images"), ("pitts30k_test/query", "queries")):
        places = pittsburgh.read(tmp_path, part, missing_images="error")
        assert places.table["image"][0].startswith(f"{folder}/000/")


def test_absent_images_are_counted_in_the_documented_place(root):
    (root / "queries_real").rename(root / "elsewhere")
    places = pittsburgh.read(root, "pitts30k_test/query")
    assert places.notes[1].endswith(
        f"2 of 2 images are not under {root} (queries_real/{QUERIES[0]}, queries_real/{QUERIES[1]})"
    )


def test_the_positions_lie_in_pittsburgh(root):
    from samespot.places.geodesy import to_degrees

    places = pittsburgh.read(root, "pitts30k_test/database")
    latitude, longitude = to_degrees(places.table["easting"], places.table["northing"], places.projection)
    np.testing.assert_allclose(latitude, 40.44, atol=0.01)
    np.testing.assert_allclose(longitude, -80.0, atol=0.01)


def test_images_named_with_at_signs_are_read_too(tmp_path, save_images):
    name = "@0584825.96@4477141.50@17@T@040.44060@-079.99980@000829@35@@@@@@pitch2_yaw12@.jpg"
    save_images(tmp_path / "images/test/database", [name])
    save_images(tmp_path / "images/test/queries", [name])
    assert pittsburgh.parts(tmp_path) == ["images/test/database", "images/test/queries"]
    places = pittsburgh.read(tmp_path, "images/test/queries", missing_images="error")
    row = places.table.iloc[0]
    assert (row["easting"], row["northing"], row["split"]) == (584825.96, 4477141.5, "query")
    assert (row["pano_id"], row["yaw"], row["pitch"]) == ("000829", 330, 2)
    assert np.isnan(row["heading"])
    assert places.projection == "EPSG:32617"


def test_other_images_named_with_at_signs_are_not_pittsburgh(tmp_path, save_images):
    save_images(tmp_path / "images/test/database", ["@0381418.23@3946450.42@54@S@@@x@00@@@@@@@.jpg"])
    assert pittsburgh.parts(tmp_path) == []


def test_a_foreign_name_in_the_listing_is_told(root, save_listing):
    save_listing(root / "datasets/pitts30k_test.mat", [*MAP[:2], "000/photo.jpg"])
    with pytest.raises(InputError) as error:
        pittsburgh.read(root, "pitts30k_test/database")
    assert str(error.value) == (
        f"{root}/datasets/pitts30k_test.mat: image 3, '000/photo.jpg', is not named"
        " like 000/000829_pitch1_yaw12.jpg; is it a .mat of Pittsburgh?"
    )


def test_a_cut_file_is_told(root):
    path = root / "datasets/pitts30k_test.mat"
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(InputError, match=r"pitts30k_test\.mat: not a readable MATLAB file"):
        pittsburgh.read(root, "pitts30k_test/database")


def test_an_unknown_part_is_answered_with_those_there_are(root, tmp_path_factory):
    with pytest.raises(InputError) as error:
        pittsburgh.read(root, "pitts250k_test/query")
    assert str(error.value) == (
        f"{root}: no part 'pitts250k_test/query' of Pittsburgh;"
        " the parts are pitts30k_test/database, pitts30k_test/query"
    )
    with pytest.raises(
        InputError, match="it has none here, and `samespot datasets --layout pittsburgh` shows"
    ):
        pittsburgh.read(tmp_path_factory.mktemp("empty"), "pitts30k_test/query")


def test_what_a_complete_copy_would_have_is_told(root, tmp_path_factory):
    assert pittsburgh.missing(root) == ["datasets/pitts30k_train.mat", "datasets/pitts30k_val.mat"]
    (root / "queries_real").rename(root / "elsewhere")
    assert pittsburgh.missing(root)[2:] == ["queries_real/ (query images)"]
    assert pittsburgh.missing(tmp_path_factory.mktemp("empty")) == []
