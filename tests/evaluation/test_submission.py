"""Prediction and pose files: the formats of the public examples, round trips, and every way to be refused."""

import zipfile

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.submission import (
    keys_of,
    predictions_of,
    read_poses,
    read_predictions,
    write_poses,
    write_predictions,
)
from samespot.places.table import Places

QUERIES = ["test/athens/query/images/q0.jpg", "test/athens/query/images/q1.jpg"]
PLACES = [f"test/athens/database/images/m{i}.jpg" for i in range(4)]
ROWS = np.array([[3, 0, 1], [2, 1, 0]])


def test_a_line_is_the_query_and_its_predictions(tmp_path):
    path = write_predictions(tmp_path / "new" / "predictions.csv", QUERIES, PLACES, ROWS)
    header, *lines = path.read_text().splitlines()
    assert header.startswith("#")
    assert lines == ["q0 m3 m0 m1", "q1 m2 m1 m0"]
    assert [p.name for p in path.parent.iterdir()] == ["predictions.csv"]  # no scratch file is left
    # numpy, with which the official script reads it, passes over the comment
    assert np.genfromtxt(path, dtype=str)[:, 0].tolist() == ["q0", "q1"]


@pytest.mark.parametrize("ending", ["csv", "zip"])
def test_predictions_come_back_as_rows(tmp_path, ending):
    path = write_predictions(tmp_path / f"p.{ending}", QUERIES, PLACES, ROWS)
    np.testing.assert_array_equal(read_predictions(path, ["q0", "q1"], keys_of(PLACES)), ROWS)
    # the order is that of the queries asked for, not that of the file
    np.testing.assert_array_equal(read_predictions(path, ["q1", "q0"], keys_of(PLACES)), ROWS[::-1])


def test_the_server_gets_a_zip_with_one_csv(tmp_path):
    path = write_predictions(tmp_path / "mine.zip", QUERIES, PLACES, ROWS)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["mine.csv"]
        assert archive.read("mine.csv").decode().endswith("\nq0 m3 m0 m1\nq1 m2 m1 m0\n")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("another.csv", "")
    with pytest.raises(InputError, match="2 files in it; the server wants a single csv"):
        read_predictions(path, ["q0", "q1"], keys_of(PLACES))


def test_keys_of_a_sequence_are_joined_by_commas(tmp_path):
    queries, places = ["q/a.jpg,q/b.jpg"], ["m/c.jpg,m/d.jpg", "m/d.jpg,m/e.jpg"]
    path = write_predictions(tmp_path / "p.csv", queries, places, [[1, 0]])
    assert path.read_text().splitlines()[1] == "a,b d,e c,d"
    assert read_predictions(path, keys_of(queries), keys_of(places)).tolist() == [[1, 0]]


def city(name, queries, places, positives=None):
    def table(role, n):
        rows = {"image": [f"{name}/{name}-{role}{i}.jpg" for i in range(n)]}
        return Places.build(
            ".", {**rows, "easting": [0.0] * n, "northing": [0.0] * n}, missing_images="ignore"
        )

    return Case(name, table("q", queries), table("m", places), positives)


def test_short_lists_are_filled_with_images_of_other_cities(tmp_path):
    """The official script reads a rectangle of different keys and looks for those of the true images."""
    cases = [city("athens", 2, 5), city("miami", 2, 2)]
    found = [np.array([[2, 0, 1, 4, -1], [-1] * 5]), np.array([[1, 0], [0, -1]])]
    told = predictions_of(cases, found, 4)
    assert told.queries == [f"{c}/{c}-q{i}.jpg" for c in ("athens", "miami") for i in (0, 1)]
    assert told.places[4:] == ["athens/athens-m4.jpg", "miami/miami-m0.jpg", "miami/miami-m1.jpg"]
    # of Miami's two images both are listed, then come Athens'; Athens' unread query has Miami's, then its own last
    assert told.rows.tolist() == [[2, 0, 1, 4], [5, 6, 4, 3], [6, 5, 0, 1], [5, 0, 1, 2]]
    assert told.notes == (
        "predictions of 1 of 2 queries of athens are fewer than 4 and end with the last images of the map, which may"
        " be right by chance",
        "predictions of 2 of 2 queries of miami are fewer than 4 and end with images of other cities, which are never"
        " right",
    )
    path = write_predictions(tmp_path / "p.csv", told.queries, told.places, told.rows)
    lines = np.genfromtxt(path, dtype=str)
    assert lines.shape == (4, 5)
    assert all(len(set(line)) == 5 for line in lines.tolist())


def test_what_is_known_to_be_right_never_fills_a_line():
    positives = [np.array([3, 2]), np.array([], dtype=int)]
    told = predictions_of([city("athens", 2, 4, positives)], [np.array([[-1, -1], [0, -1]])], 2)
    assert told.rows.tolist() == [[1, 0], [0, 3]]
    assert told.notes[0].endswith("end with the last images of the map")
    whole = predictions_of([city("athens", 1, 2, [np.array([1])])], [np.array([[-1, -1]])], 20)
    assert whole.rows.tolist() == [[0, 1]]  # all that there is, what is right last


def test_full_lists_are_as_they_were_found():
    told = predictions_of(
        [city("athens", 1, 3), city("miami", 1, 2)], [np.array([[2, 0]]), np.array([[1, 0]])], 2
    )
    assert told.rows.tolist() == [[2, 0], [4, 3]]
    assert told.notes == ()


def test_what_no_file_can_say_is_not_written(tmp_path):
    path = tmp_path / "p.csv"
    with pytest.raises(InputError, match=r"query q1 has fewer than 3 predictions.* ask for 2 or fewer"):
        write_predictions(path, QUERIES, PLACES, [[3, 0, 1], [2, 1, -1]])
    with pytest.raises(InputError, match="two map images have the key m0"):
        write_predictions(path, QUERIES, [*PLACES, "test/miami/database/images/m0.jpg"], ROWS)
    with pytest.raises(InputError, match="two queries have the key q0"):
        write_predictions(path, [QUERIES[0], "test/miami/q0.jpg"], PLACES, ROWS)
    assert not path.exists()


REFUSED = [
    ("q0 m0 m1\nq1 m0 m9\n", "line 2: m9 is not a map image"),
    ("# comment\n\nq0 m0 m0\nq1 m0 m1\n", "line 3: m0 is predicted twice"),
    ("q0 m0 m1\nq1 m0 m1\nq0 m1 m0\n", "line 3: query q0 was already on line 1"),
    ("q0 m0 m1\nq1 m0\n", "line 2: 1 predictions, but 2 in the first line"),
    ("q0 m0 m1\npano m0 m1\nq1 m0 m1\n", "line 2: pano is not a query of this protocol"),
    ("q0 m0 m1\n", r"ends at line 1 without 1 of 2 queries \(q1\)"),
    ("", r"ends at line 0 without 2 of 2 queries \(q0, q1\)"),
    ("q0\nq1\n", "line 1: no predictions after the query"),
]


@pytest.mark.parametrize(("text", "fault"), REFUSED)
def test_a_file_that_is_wrong_is_refused_with_its_line(tmp_path, text, fault):
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"p\.csv:? {fault}"):
        read_predictions(path, ["q0", "q1"], keys_of(PLACES))


def test_other_queries_may_be_passed_over(tmp_path):
    """As the official script does: its files also hold panoramas and queries of other subtasks."""
    path = tmp_path / "p.csv"
    path.write_text("pano m9\nq1 m1 m0\nq0 m0 m2\n")
    rows = read_predictions(path, ["q0", "q1"], keys_of(PLACES), ignore_unknown_queries=True)
    assert rows.tolist() == [[0, 2], [1, 0]]


def test_missing_files_are_named(tmp_path):
    for name in ("none.csv", "none.zip"):
        with pytest.raises(InputError, match=f"{name}: cannot be read"):
            read_predictions(tmp_path / name, ["q0"], ["m0"])


def test_a_pose_by_hand(tmp_path):
    """At (1, 2, 3), turned a quarter about z: the world's x is the camera's -y, its y the camera's x.

    So R c = (2, -1, 3), and the file holds t = -R c.
    """
    half = 0.5**0.5
    path = tmp_path / "poses.txt"
    assert write_poses(path, ["rear/1.jpg"], [[1, 2, 3]], [[half, 0, 0, half]]) == 1
    name, *numbers = path.read_text().split()
    assert name == "rear/1.jpg"
    np.testing.assert_allclose(np.array(numbers, float), [half, 0, 0, -half, -2, 1, -3], atol=1e-12)


def test_poses_come_back(tmp_path):
    """Also against scipy: R x + t of the camera's own centre is the origin."""
    rng = np.random.default_rng(4)
    turns = Rotation.random(20, rng)
    centres, q = rng.normal(0, 500, (20, 3)), turns.as_quat()[:, [3, 0, 1, 2]]
    names = [f"img_{i}.jpg" for i in range(20)]
    write_poses(tmp_path / "p.txt", names, centres, q)
    lines = np.loadtxt(tmp_path / "p.txt", usecols=range(1, 8))
    world_to_camera = Rotation.from_quat(lines[:, [1, 2, 3, 0]])
    np.testing.assert_allclose(world_to_camera.apply(centres) + lines[:, 4:], 0, atol=1e-9)
    np.testing.assert_allclose((world_to_camera * turns).magnitude(), 0, atol=1e-12)
    back = read_poses(tmp_path / "p.txt")
    assert back[0] == names
    np.testing.assert_allclose(back[1], centres, atol=1e-9)
    np.testing.assert_allclose(back[2], q, atol=1e-12)


def test_a_query_without_estimate_gets_no_line(tmp_path):
    nan = np.nan
    written = write_poses(tmp_path / "p.txt", ["a", "b"], [[nan] * 3, [0, 0, 0]], [[nan] * 4, [1, 0, 0, 0]])
    assert written == 1
    assert (tmp_path / "p.txt").read_text() == "b 1.0 0.0 0.0 0.0 0.0 0.0 0.0\n"
    assert write_poses(tmp_path / "p.txt", ["a"], [[nan] * 3], [[nan] * 4]) == 0
    assert read_poses(tmp_path / "p.txt")[1].shape == (0, 3)


def test_poses_that_no_server_takes_are_refused(tmp_path):
    path, here, turned = tmp_path / "p.txt", [[0, 0, 0]] * 2, [[1, 0, 0, 0]] * 2
    with pytest.raises(InputError, match="a has two poses"):
        write_poses(path, ["a", "a"], here, turned)
    with pytest.raises(InputError, match="quaternion of b is not of unit length"):
        write_poses(path, ["a", "b"], here, [[1, 0, 0, 0], [1, 1, 0, 0]])
    with pytest.raises(InputError, match="'b c' has a blank in it"):
        write_poses(path, ["a", "b c"], here, turned)
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a 1 0 0 0 0 0 0\n\na 1 0 0 0 0 0 0\n", "line 3: a was already on line 1"),
        ("# x\na 2 0 0 0 0 0 0\n", "line 2: quaternion 2 0 0 0 has length 2, not 1"),
        ("a 1 0 0 0 0 0\n", "line 1: 6 numbers after a, not 7"),
    ],
)
def test_a_pose_file_that_is_wrong_is_refused_with_its_line(tmp_path, text, fault):
    (tmp_path / "p.txt").write_text(text)
    with pytest.raises(InputError, match=fault):
        read_poses(tmp_path / "p.txt")
