"""Lists of poses: what a line may be, and what is said of a broken one."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.places.pose import rotation_matrices
from samespot.places.pose_files import read_names, read_nvm_cameras, read_rows, unit_quaternions

NVM = """NVM_V3

2
./a/1.png 400 0.5 0.5 0.5 0.5 1 2 3 0 0
./a/2.png\t400 1 0 0 0 4 5 6 0 0

1
0.1 0.2 0.3 255 255 255 1 0 0 1.5 2.5
"""


def write(path, text):
    path.write_text(text)
    return path


def test_rows_skip_comments_blanks_and_carriage_returns(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes(b"# name x y\r\n\r\na.jpg 1 2e-1\r\nb.jpg -3 4\r\n")
    rows = read_rows(path, 2, "name x y")
    assert rows.names == ["a.jpg", "b.jpg"]
    assert rows.numbers.tolist() == [[1, 0.2], [-3, 4]]
    assert rows.lines.tolist() == [3, 4]


def test_an_empty_list_has_no_rows(tmp_path):
    rows = read_rows(write(tmp_path / "empty.txt", ""), 7, "name and 7 numbers")
    assert len(rows) == 0
    assert rows.numbers.shape == (0, 7)
    assert unit_quaternions(rows).shape == (0, 4)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("b.jpg 1", "line 2: 1 numbers after b.jpg, not 2; expected: name x y"),
        ("b.jpg 1 two", "line 2: 'two'"),
        ("b 1 inf", "'inf'"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, said):
    with pytest.raises(InputError, match=said) as error:
        read_rows(write(tmp_path / "list.txt", f"a.jpg 1 2\n{line}\n"), 2, "name x y")
    assert "list.txt" in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none.txt: cannot be read"):
        read_names(tmp_path / "none.txt")


def test_names_are_the_first_words(tmp_path):
    assert read_names(write(tmp_path / "l.txt", "query/a.jpg PINHOLE 8 8\n\nb.jpg\n")) == [
        "query/a.jpg",
        "b.jpg",
    ]


def test_quaternions_are_normalised_or_refused(tmp_path):
    rows = read_rows(write(tmp_path / "q.txt", "a 1.001 0 0 0\n"), 4, "name q")
    assert unit_quaternions(rows).tolist() == [[1, 0, 0, 0]]
    rows = read_rows(write(tmp_path / "q.txt", "a 1 0 0 0\nb 1 1 0 0\n"), 4, "name q")
    with pytest.raises(InputError, match=r"q.txt line 2: quaternion 1 1 0 0 has length 1.41"):
        unit_quaternions(rows)


def test_nvm_holds_centres_and_world_to_camera_rotations(tmp_path):
    rows, centres, rotations = read_nvm_cameras(write(tmp_path / "all.nvm", NVM))
    assert rows.names == ["./a/1.png", "./a/2.png"]
    assert centres.tolist() == [[1, 2, 3], [4, 5, 6]]
    # 0.5 0.5 0.5 0.5 takes x to y, y to z, z to x; the camera's z axis in the world is the inverse of that
    assert np.allclose(rotation_matrices(rotations)[0] @ [0, 0, 1], [0, 1, 0])
    assert rotations[1].tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: an NVM model starts with NVM_V3"),
        ("NVM_V3\n\nmany\n", "line 3: expected the number of cameras, not 'many'"),
        ("NVM_V3\n2\na.png 400 1 0 0 0 1 2 3 0 0\n", "2 cameras announced, 1 found"),
        ("NVM_V3\n1\na.png 400 1 0 0 0 1 2\n", "line 3: 7 numbers after a.png, not 10"),
    ],
)
def test_a_broken_nvm_is_explained(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read_nvm_cameras(write(tmp_path / "all.nvm", text))
