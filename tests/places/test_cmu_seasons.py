"""CMU Seasons, first and extended release, in their own layouts; values worked out by hand."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.places import cmu_seasons
from samespot.places.camera import camera_of

# World-to-camera, as stored, of level cameras in a world of x east, y north, z up.
LOOKS_NORTH = "0.70710678 0.70710678 0 0"
LOOKS_WEST = "0.5 0.5 0.5 -0.5"
A = "img_00122_c0_1303398475046031us.jpg"  # the README's example: 21 Apr 2011
B = "img_00123_c1_1303398475046031us.jpg"
Q1 = "img_09910_c0_1283348635532952us.jpg"  # 1 Sep 2010
Q2 = "img_00040_c1_1292950000000000us.jpg"  # 21 Dec 2010
Q3 = "img_00041_c1_1400000000000000us.jpg"  # no drive of the set


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path, save_images):
    database = f"{A} {LOOKS_NORTH} -85.5 55.25 -3\n{B} {LOOKS_WEST} 1 2 3\n"
    write(tmp_path, "slice2/ground-truth-database-images-slice2.txt", database)
    write(tmp_path, "slice2/camera-poses/c0_1.txt", f"{Q1} {LOOKS_NORTH} 10 20 30\n")
    write(tmp_path, "slice2/camera-poses/c1_2.txt", "")  # the release has empty ones
    write(tmp_path, "slice2/test-images-slice2.txt", f"{Q2}\n{Q3}\n")
    save_images(tmp_path / "slice2/database", [A, B])
    save_images(tmp_path / "slice2/query", [Q1, Q2, Q3])
    write(tmp_path, "slice17/ground-truth-database-images-slice17.txt", f"{A} {LOOKS_NORTH} 0 0 0\n")
    return tmp_path


def test_parts_are_by_slice_number(root, tmp_path_factory):
    assert cmu_seasons.parts(root) == ["slice2/database", "slice2/query", "slice17/database"]
    assert cmu_seasons.parts(tmp_path_factory.mktemp("empty")) == []


def test_database(root):
    table = cmu_seasons.read(root, "slice2/database", missing_images="error").table
    assert table["image"].tolist() == [f"slice2/database/{A}", f"slice2/database/{B}"]
    assert table[["easting", "northing"]].to_numpy().tolist() == [[-85.5, 55.25], [1, 2]]
    assert np.allclose(table["heading"], [0, 270])
    assert table[["tx", "ty", "tz"]].to_numpy().tolist() == [[-85.5, 55.25, -3], [1, 2, 3]]
    half = 0.5**0.5
    assert np.allclose(table[["qw", "qx", "qy", "qz"]], [[half, -half, 0, 0], [0.5, -0.5, -0.5, 0.5]])
    assert table["frame"].tolist() == [122, 123]
    assert table["sequence"].tolist() == ["c0", "c1"]
    assert table["time"].tolist() == ["2011-04-21T15:07:55.046031Z"] * 2
    assert table["condition"].tolist() == ["sunny + no foliage"] * 2
    assert table["survey"].tolist() == ["2011-04-21"] * 2
    assert table["split"].tolist() == ["database"] * 2
    assert table["slice"].tolist() == [2, 2]
    assert table["area"].tolist() == ["urban"] * 2


def test_queries_with_public_and_with_secret_poses(root):
    places = cmu_seasons.read(root, "slice2/query", missing_images="error")
    table = places.table
    assert table["image"].tolist() == [f"slice2/query/{name}" for name in (Q1, Q2, Q3)]
    assert table["easting"].tolist()[0] == 10
    assert table["heading"].tolist()[0] == pytest.approx(0, abs=1e-6)
    assert table[["easting", "northing", "heading", "tx", "qw"]].iloc[1:].isna().all(axis=None)
    assert table["condition"].tolist() == ["sunny + foliage", "low sun + no foliage + snow", "unknown"]
    assert places.notes == (
        "2 of 3 images have no public pose: the benchmark keeps it",
        "1 images were taken on a day that is none of the twelve documented drives",
    )
    assert places.dropped == {}


def test_poses_of_database_images_and_repeats_are_dropped_and_counted(root):
    again = f"{A} {LOOKS_NORTH} 0 0 0\n{Q1} {LOOKS_NORTH} 0 0 0\n{Q2} {LOOKS_WEST} 7 8 9\n"
    write(root, "slice2/camera-poses/c1_2.txt", again)
    places = cmu_seasons.read(root, "slice2/query")
    assert places.table["easting"].fillna(-1).tolist() == [10, 7, -1]
    assert places.dropped == {"pose of a database image among the query poses": 1, "query listed twice": 1}


def test_queries_all_secret_have_no_pose_columns(root):
    (root / "slice2/camera-poses/c0_1.txt").unlink()
    assert not cmu_seasons.read(root, "slice2/query").has_pose


def test_first_release(tmp_path):
    a, q = A.replace(".jpg", "_rect.jpg"), Q1.replace(".jpg", "_rect.jpg")
    write(
        tmp_path, "3D-models/slice9.nvm", f"NVM_V3\n\n1\ndatabase/{a} 868.99 {LOOKS_NORTH} 1 2 3 0 0\n\n0\n"
    )
    write(tmp_path, "query_lists/slice9.queries_with_intrinsics.txt", f"query/{q} PINHOLE 1024 768 1 1 1 1\n")
    (tmp_path / "images/slice9/database").mkdir(parents=True)
    (tmp_path / "images/slice9/query").mkdir()
    assert cmu_seasons.parts(tmp_path) == ["slice9/database", "slice9/query"]
    row = cmu_seasons.read(tmp_path, "slice9/database").table.iloc[0]
    assert row["image"] == f"images/slice9/database/{a}"
    assert (row["easting"], row["northing"], row["area"]) == (1, 2, "suburban")
    assert row["heading"] == pytest.approx(0, abs=1e-6)
    assert cmu_seasons.read(tmp_path, "slice9/query").table["image"].tolist() == [f"images/slice9/query/{q}"]
    assert cmu_seasons.missing(tmp_path) == []


def test_areas_are_those_of_the_readme():
    areas = [cmu_seasons.area(k) for k in range(2, 26)]
    assert (areas.count("urban"), areas.count("suburban"), areas.count("park")) == (7, 9, 8)
    assert [cmu_seasons.area(k) for k in (8, 9, 17, 18, 25, 26)] == [
        "urban",
        "suburban",
        "suburban",
        "park",
        "park",
        "unknown",
    ]


def test_missing_names_lists_folders_and_slices(root):
    lacking = cmu_seasons.missing(root)
    assert "slice17: list of the query images" in lacking
    assert "slice17/database" in lacking
    assert "slice3" in lacking
    assert "slice2" not in lacking
    assert "slice2/database" not in lacking


def test_an_unknown_part_is_answered_with_those_there_are(root):
    with pytest.raises(
        InputError, match=r"no part 'slice3/query'.*slice2/database, slice2/query, slice17/database"
    ):
        cmu_seasons.read(root, "slice3/query")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{B} 1 0 0 0 5", "line 2: 5 numbers after .*, not 7; expected: name qw qx qy qz cx cy cz"),
        (f"{B} 1 0 0 zero 5 6 7", "line 2: 'zero' is not a finite number"),
        (f"{B} 1 1 0 0 5 6 7", "line 2: quaternion 1 1 0 0 has length 1.41"),
        (f"b.jpg {LOOKS_WEST} 5 6 7", "image name 'b.jpg' is not img_"),
    ],
)
def test_a_broken_line_is_named(root, line, said):
    name = "slice2/ground-truth-database-images-slice2.txt"
    write(root, name, f"{A} {LOOKS_NORTH} 1 2 3\n{line}\n")
    with pytest.raises(InputError, match=said) as error:
        cmu_seasons.read(root, "slice2/database")
    assert name in str(error.value)


def test_cameras_of_the_extended_release(root):
    assert "fx" not in cmu_seasons.read(root, "slice2/database").table
    numbers = "1024 768 868.99 866.06 525.94 420.04 -0.399 0.188 0.0001 0.0005"
    write(root, "intrinsics.txt", f"# a comment\n\nc0 OPENCV {numbers}\nc1 OPENCV {numbers}\n")
    table = cmu_seasons.read(root, "slice2/database").table
    assert camera_of(table, 0, (768, 1024)).distortion == (-0.399, 0.188, 0.0001, 0.0005)
    write(root, "intrinsics.txt", "c0 PINHOLE 1024 768 1 1 1 1\n")
    with pytest.raises(InputError, match=r"intrinsics.txt line 1: expected: c0 OPENCV"):
        cmu_seasons.read(root, "slice2/database")
