"""TB-Places' json files as released, and the ways they can be broken."""

import json

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.places import tb_places
from samespot.places.pose import PoseFrame

HALF = 0.5**0.5
NORTH = [1.0, 2.0, 3.0, -HALF, 0.0, 0.0, HALF]  # tx ty tz qx qy qz qw of a level camera that looks along y
EAST = [4.0, 5.0, 6.0, -0.5, 0.5, -0.5, 0.5]
NAMES = ["W17/cam0/0001.png", "W17/cam1/0002.png"]


def index(root, part="W17", **changes):
    content = {"im_prefix": "/home/maria/gardens/", "im_paths": NAMES, "poses": [NORTH, EAST], **changes}
    (root / f"{part}.json").write_text(json.dumps(content))


@pytest.fixture
def root(tmp_path, save_images):
    index(tmp_path)
    index(tmp_path, "R17")
    save_images(tmp_path, NAMES)
    return tmp_path


def test_every_column(root):
    table = tb_places.read(root, "W17", missing_images="error").table
    assert table["image"].tolist() == NAMES
    assert table["easting"].tolist() == [1, 4]
    assert table["northing"].tolist() == [2, 5]
    assert np.allclose(table["heading"], [0, 90])
    assert table[["tx", "ty", "tz"]].to_numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.allclose(table[["qw", "qx", "qy", "qz"]], [[HALF, -HALF, 0, 0], [0.5, -0.5, 0.5, -0.5]])
    assert table["sequence"].tolist() == ["W17/cam0", "W17/cam1"]
    assert table["split"].tolist() == ["W17", "W17"]


def test_another_frame_turns_the_headings_only(root):
    """A robot's body axes: x ahead, z up. Its x axis is the right of the camera's, a quarter turn on."""
    ours, other = (
        tb_places.read(root, "W17"),
        tb_places.read(root, "W17", frame=PoseFrame(forward=(1.0, 0.0, 0.0))),
    )
    assert np.allclose(other.table["heading"], ours.table["heading"] + 90)
    assert np.array_equal(other.positions[:, :2], ours.positions[:, :2])


@pytest.mark.parametrize("prefix", ["W17/", "./W17", "/data/trimbot/W17/", ""])
def test_the_folder_is_found_by_the_first_image(root, prefix):
    index(root, im_prefix=prefix, im_paths=["cam0/0001.png", "cam1/0002.png"])
    assert tb_places.read(root, "W17", missing_images="error").table["image"].tolist() == NAMES


def test_full_paths_lose_the_prefix(root):
    index(root, im_paths=[f"/home/maria/gardens/{name}" for name in NAMES])
    assert tb_places.read(root, "W17", missing_images="error").table["image"].tolist() == NAMES


def test_parts_and_missing(root, tmp_path_factory):
    assert tb_places.parts(root) == ["R17", "W17"]
    assert tb_places.missing(root) == ["W16.json", "W18.json"]
    empty = tmp_path_factory.mktemp("empty")
    assert (tb_places.parts(empty), tb_places.missing(empty)) == ([], [])
    with pytest.raises(InputError, match=r"no part 'W18'.*R17, W17"):
        tb_places.read(root, "W18")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"poses": [NORTH]}, "2 im_paths but 1 poses"),
        ({"poses": [NORTH, EAST[:6]]}, r"poses\[1\] is not 7 numbers"),
        ({"poses": [NORTH, ["a", *EAST[1:]]]}, r"poses\[1\] is not 7 numbers"),
        ({"poses": [NORTH, [float("nan"), *EAST[1:]]]}, r"poses\[1\] holds a number that is not finite"),
        ({"poses": [NORTH, [0] * 7]}, r"quaternion of poses\[1\] has length 0, not 1"),
        ({"poses": "none"}, "poses is not a list"),
        ({"im_paths": [1, 2]}, "im_paths is not a list of paths"),
    ],
)
def test_broken_content_is_named(root, changes, said):
    index(root, **changes)
    with pytest.raises(InputError, match=said) as error:
        tb_places.read(root, "W17")
    assert "W17.json" in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"im_paths": [', "not valid json"),
        ("[1]", "no im_paths and no poses"),
        ('{"im_paths": []}', "no poses"),
    ],
)
def test_a_file_that_is_no_index_is_named(root, text, said):
    (root / "W17.json").write_text(text)
    with pytest.raises(InputError, match=said):
        tb_places.read(root, "W17")
