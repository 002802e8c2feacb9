"""7Scenes in its own layout: a scene of two sequences, and a bare sequence."""

import numpy as np
import pytest
from PIL import Image

from samespot.errors import InputError
from samespot.places import seven_scenes

# As released: tabs, three-digit exponents. World and camera: x right, y down, z ahead.
AHEAD = """\
  1.0000000e+000\t 0.0000000e+000\t 0.0000000e+000\t 1.5000000e+000\t
  0.0000000e+000\t 1.0000000e+000\t 0.0000000e+000\t-2.5000000e-001\t
  0.0000000e+000\t 0.0000000e+000\t 1.0000000e+000\t 4.0000000e+000\t
  0.0000000e+000\t 0.0000000e+000\t 0.0000000e+000\t 1.0000000e+000\t
"""
RIGHT = "0 0 1 1\n0 1 0 2\n-1 0 0 3\n0 0 0 1\n"  # a quarter turn about y: looks along world x
LOST = "\n".join(["nan nan nan nan"] * 3 + ["0 0 0 1"])


def frame(folder, number, pose, colour="png", depth=True):
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"frame-{number:06d}"
    Image.new("RGB", (8, 8)).save(folder / f"{stem}.color.{colour}")
    if depth:
        Image.new("I;16", (8, 8)).save(folder / f"{stem}.depth.png")
    if pose:
        (folder / f"{stem}.pose.txt").write_text(pose)


@pytest.fixture
def root(tmp_path):
    frame(tmp_path / "heads/seq-01", 0, RIGHT)
    frame(tmp_path / "heads/seq-02", 0, AHEAD)
    frame(tmp_path / "heads/seq-02", 1, RIGHT)
    (tmp_path / "heads/TestSplit.txt").write_bytes(b"sequence1\r\n")
    (tmp_path / "heads/TrainSplit.txt").write_bytes(b"sequence2\r\n")
    return tmp_path


def test_train(root):
    table = seven_scenes.read(root, "heads/train", missing_images="error").table
    assert table["image"].tolist() == [
        "heads/seq-02/frame-000000.color.png",
        "heads/seq-02/frame-000001.color.png",
    ]
    assert table["depth"].tolist() == [
        "heads/seq-02/frame-000000.depth.png",
        "heads/seq-02/frame-000001.depth.png",
    ]
    assert table["easting"].tolist() == [1.5, 1.0]
    assert table["northing"].tolist() == [4.0, 3.0]
    assert np.allclose(table["heading"], [0, 90])
    assert table[["tx", "ty", "tz"]].to_numpy().tolist() == [[1.5, -0.25, 4.0], [1, 2, 3]]
    assert np.allclose(table[["qw", "qx", "qy", "qz"]], [[1, 0, 0, 0], [0.5**0.5, 0, 0.5**0.5, 0]])
    assert table["sequence"].tolist() == ["seq-02", "seq-02"]
    assert table["frame"].tolist() == [0, 1]
    assert table["split"].tolist() == ["train", "train"]


def test_test(root):
    assert seven_scenes.read(root, "heads/test").table["image"].tolist() == [
        "heads/seq-01/frame-000000.color.png"
    ]


def test_parts_and_missing(root, tmp_path_factory):
    assert seven_scenes.parts(root) == ["heads/test", "heads/train"]
    assert seven_scenes.missing(root) == ["chess", "fire", "office", "pumpkin", "redkitchen", "stairs"]
    (root / "heads/TrainSplit.txt").write_text("sequence2\nsequence10\n")
    (root / "heads/TestSplit.txt").unlink()
    assert seven_scenes.missing(root)[2:4] == ["heads/TestSplit.txt", "heads/seq-10"]
    empty = tmp_path_factory.mktemp("empty")
    assert (seven_scenes.parts(empty), seven_scenes.missing(empty)) == ([], [])


def test_a_bare_sequence(tmp_path):
    folder = tmp_path / "kitchen"
    frame(folder, 0, AHEAD, colour="jpg", depth=False)
    frame(folder, 8, RIGHT, colour="jpg")
    frame(folder, 9, None, colour="jpg")
    (folder / "camera-intrinsics.txt").write_text("500 0 310\n0 501 250\n0 0 1\n")
    assert seven_scenes.parts(folder) == ["sequence"]
    places = seven_scenes.read(folder, "sequence", missing_images="error")
    assert places.table["image"].tolist() == ["frame-000000.color.jpg", "frame-000008.color.jpg"]
    assert places.table["frame"].tolist() == [0, 8]
    assert places.table["sequence"].tolist() == ["kitchen", "kitchen"]
    assert places.table["depth"].isna().tolist() == [True, False]
    assert places.notes == ("1 of 2 frames have no depth image",)
    assert places.dropped == {"frame without a pose file": 1}
    assert seven_scenes.intrinsics(folder, "sequence").tolist() == [[500, 0, 310], [0, 501, 250], [0, 0, 1]]


def test_intrinsics_are_the_kinects_unless_given(root):
    assert seven_scenes.intrinsics(root, "heads/train").tolist() == [[585, 0, 320], [0, 585, 240], [0, 0, 1]]
    (root / "heads/camera-intrinsics.txt").write_text("1 0 2 0 3 4 0 0 one")
    with pytest.raises(InputError, match=r"camera-intrinsics.txt line 1: 'one' is not a number"):
        seven_scenes.intrinsics(root, "heads/train")


def test_lost_tracking_is_dropped_and_counted(root):
    frame(root / "heads/seq-02", 2, LOST)
    places = seven_scenes.read(root, "heads/train")
    assert len(places) == 2
    assert places.dropped == {"tracking lost": 1}


@pytest.mark.parametrize(
    ("pose", "said"),
    [
        ("1 0 0 0\n0 1 0", "line 2: 7 numbers, not the 16 of a 4x4 matrix"),
        ("", "line 1: 0 numbers"),
        (RIGHT.replace("2", "two"), "line 2: 'two' is not a number"),
        (RIGHT.replace("0 1 0 2", "0 2 0 2"), "the 3x3 part of the matrix is not a rotation"),
        (RIGHT.replace("-1 0 0 3", "1 0 0 3"), "the 3x3 part of the matrix is not a rotation"),
        (RIGHT.replace("0 0 0 1", "0 0 1 1"), "line 4: the last row of a pose is 0 0 0 1, not 0 0 1 1"),
    ],
)
def test_a_broken_pose_is_named(root, pose, said):
    (root / "heads/seq-02/frame-000001.pose.txt").write_text(pose)
    with pytest.raises(InputError, match=said) as error:
        seven_scenes.read(root, "heads/train")
    assert "heads/seq-02/frame-000001.pose.txt" in str(error.value)


def test_a_broken_split_list_is_named(root):
    (root / "heads/TrainSplit.txt").write_text("sequence2\nsecond\n")
    with pytest.raises(InputError, match=r"TrainSplit.txt line 2: 'second' is not of the form sequence1"):
        seven_scenes.read(root, "heads/train")


def test_a_sequence_still_packed_is_named(root):
    (root / "heads/TrainSplit.txt").write_text("sequence3\n")
    (root / "heads/seq-03.zip").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"no such folder, though heads/train lists seq-03; unpack heads/seq-03.zip"
    ):
        seven_scenes.read(root, "heads/train")


def test_an_unknown_part_is_answered_with_those_there_are(root):
    with pytest.raises(InputError, match=r"no part 'chess/train'.*heads/test, heads/train"):
        seven_scenes.read(root, "chess/train")
