"""RobotCar Seasons v2 in its own layout, with poses of cameras that look north and east."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.places import robotcar
from samespot.places.camera import Camera, camera_of
from samespot.places.pose import conjugate, ground_pose, rotation_matrices

NVM = "3D-models/all-merged/all.nvm"
MODEL = "3D-models/individual/colmap_reconstructions/001_aligned"
# In a world of x north, y east, z down a level camera that looks north turns x to y, y to z and z to x.
LOOKS_NORTH = "0.5 -0.5 -0.5 -0.5"  # world-to-camera, as NVM and COLMAP store it
LOOKS_EAST_MATRIX = "-1 0 0 10  0 0 1 20  0 1 0 -2  0 0 0 1"  # camera-to-world, row by row


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path, save_images):
    reference = f"./overcast-reference/rear/1417178853389469.png 400 {LOOKS_NORTH} 1 2 3 0 0\n"
    write(tmp_path, NVM, f"NVM_V3\n\n1\n{reference}\n0\n")
    write(tmp_path, "robotcar_v2_train.txt", f"night/rear/1418236792859751.jpg {LOOKS_EAST_MATRIX}\n")
    write(
        tmp_path, "robotcar_v2_test.txt", "dusk/rear/1424450350000000.jpg\nsnow/rear/1422955167402675.jpg\n"
    )
    photos = ("overcast-reference/rear/1417178853389469.jpg", "night/rear/1418236792859751.jpg")
    save_images(tmp_path / "images", photos)
    return tmp_path


def test_parts_are_those_that_are_there(root, tmp_path_factory):
    assert robotcar.parts(root) == ["reference", "test", "train"]
    (root / NVM).unlink()
    assert robotcar.parts(root) == ["test", "train"]
    assert robotcar.parts(tmp_path_factory.mktemp("empty")) == []


def test_reference_inverts_the_rotation_of_the_model(root):
    places = robotcar.read(
        root, "reference", missing_images="error"
    )  # the .png of the model is a .jpg on disk
    row = places.table.iloc[0]
    assert row["image"] == "images/overcast-reference/rear/1417178853389469.jpg"
    assert (row["easting"], row["northing"]) == (2, 1)
    assert row["heading"] == pytest.approx(0.0, abs=1e-9)
    assert row[["tx", "ty", "tz"]].tolist() == [1, 2, 3]
    assert row[["qw", "qx", "qy", "qz"]].tolist() == [0.5, 0.5, 0.5, 0.5]
    assert row["condition"] == "overcast-reference"
    assert row["camera"] == "rear"
    assert row["sequence"] == "overcast-reference/rear"
    assert row["time"] == "2014-11-28T12:47:33.389469Z"
    assert row["split"] == "reference"


def test_train_takes_the_matrix_as_camera_to_world(root):
    row = robotcar.read(root, "train", missing_images="error").table.iloc[0]
    assert row["image"] == "images/night/rear/1418236792859751.jpg"
    assert (row["easting"], row["northing"]) == (20, 10)
    assert row["heading"] == pytest.approx(90.0)
    assert row[["tx", "ty", "tz"]].tolist() == [10, 20, -2]
    assert np.allclose(row[["qw", "qx", "qy", "qz"]].astype(float), [0, 0, 0.5**0.5, 0.5**0.5])
    assert (row["condition"], row["split"]) == ("night", "train")


def test_the_places_of_the_test_images_are_secret(root):
    places = robotcar.read(root, "test")
    assert places.table["condition"].tolist() == ["dusk", "snow"]
    assert np.isnan(places.positions).all()
    assert not places.has_pose
    assert any("secret" in note for note in places.notes)
    assert any("2 of 2 images are not under" in note for note in places.notes)


def test_models_by_location_serve_when_the_merged_one_is_missing(root):
    expected = robotcar.read(root, "reference").table
    (root / NVM).unlink()
    line = f"7 {LOOKS_NORTH} -2 -3 -1 2 overcast-reference/rear/1417178853389469.png\n\n"  # t = -(R c)
    for location in ("001", "002"):  # neighbours that share the image
        folder = MODEL.replace("001", location)
        write(root, f"{folder}/images.txt", line)
        write(root, f"{folder}/cameras.txt", "2 PINHOLE 1024 1024 400 400 500 500\n")
    places = robotcar.read(root, "reference")
    assert places.table.equals(expected)
    assert places.dropped == {"image repeated in the model of a neighbouring location": 1}


def test_up_is_minus_z_in_the_readme_sample():
    """The sample result of the data set's README: a rear camera, whose tilt is some 11 degrees."""
    q = conjugate([[0.655230866337965, -0.536609290501044, -0.340346549997501, -0.408516459863989]])
    up = -rotation_matrices(q)[0][:, 1]
    assert np.rad2deg(np.arccos(up @ robotcar.FRAME.up)) == pytest.approx(11.1, abs=0.1)
    assert np.isfinite(ground_pose([[0, 0, 0]], q, robotcar.FRAME)[2]).all()


def test_missing_lists_what_is_lacking(root, tmp_path_factory):
    assert "images/sun" in robotcar.missing(root)
    assert "images/night" not in robotcar.missing(root)
    (root / NVM).unlink()
    assert NVM in robotcar.missing(root)
    assert robotcar.missing(tmp_path_factory.mktemp("empty")) == []


def test_an_unknown_part_is_answered_with_those_there_are(root):
    with pytest.raises(InputError, match=r"no part 'validation'.*reference, test, train"):
        robotcar.read(root, "validation")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("night/rear/2.jpg 1 0 0 5", "line 2: 4 numbers after night/rear/2.jpg, not 16"),
        (f"night/rear/2.jpg {LOOKS_EAST_MATRIX.replace('20', 'x')}", "line 2: 'x' is not a finite number"),
        (
            f"night/rear/2.jpg {LOOKS_EAST_MATRIX.replace('-1 0 0', '1 0 0')}",
            "line 2: the 3x3 part .* not a rotation",
        ),
        (f"2.jpg {LOOKS_EAST_MATRIX}", "'2.jpg' is not condition/camera/microseconds.jpg"),
    ],
)
def test_a_broken_train_line_is_named(root, line, said):
    write(root, "robotcar_v2_train.txt", f"night/rear/1.jpg {LOOKS_EAST_MATRIX}\n{line}\n")
    with pytest.raises(InputError, match=said) as error:
        robotcar.read(root, "train")
    assert "robotcar_v2_train.txt" in str(error.value)


def test_a_model_cut_short_is_named(root):
    write(root, NVM, f"NVM_V3\n\n2\n./sun/rear/1.png 400 {LOOKS_NORTH} 1 2 3 0 0\n")
    with pytest.raises(InputError, match=r"all.nvm: 2 cameras announced, 1 found"):
        robotcar.read(root, "reference")


def test_cameras_come_from_the_files_of_the_data_set(root):
    assert "fx" not in robotcar.read(root, "train").table
    write(root, "intrinsics/rear_intrinsics.txt", "fx 400.0\nfy 400.0\ncx 508.2\ncy 498.2\n")
    table = robotcar.read(root, "train").table
    assert camera_of(table, 0, (512, 512)) == Camera(512, 512, 200.0, 200.0, 254.1, 249.1)
    write(root, "intrinsics/rear_intrinsics.txt", "fx 400.0\n")
    with pytest.raises(InputError, match="fx, fy, cx and cy"):
        robotcar.read(root, "train")
