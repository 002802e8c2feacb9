"""Lists of keys in the files that circulate and as text, and the lists that are refused."""

import numpy as np
import pytest

from samespot.errors import InputError
from samespot.evaluation.msls_key_lists import KeyList, find_key_lists, rows_of_keys
from samespot.places.table import Places


def save(folder, **named):
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in named.items():
        np.save(folder / f"msls_val_{name}.npy", values)


def test_the_chosen_queries_of_the_arrays(tmp_path):
    names = np.array([f"train_val/cph/query/images/{key}.jpg" for key in ("a-B_c", "007", "x.y")])
    save(tmp_path / "datasets/msls_val", qImages=names, qIdx=[2, 0], dbImages=np.array([b"/d/e.png", b"f"]))
    lists = find_key_lists(tmp_path)
    assert lists.queries.keys == ["x.y", "a-B_c"]
    assert lists.places.keys == ["e", "f"]
    assert lists.notes == ()


def test_without_chosen_rows_all_are_queries_and_a_folder_may_be_named(tmp_path):
    save(tmp_path / "mine", qImages=np.array(["a", "b"]))
    for words in ("mine", str(tmp_path / "mine")):  # under the root, or in full
        lists = find_key_lists(tmp_path, words)
        assert (lists.queries.keys, lists.places) == (["a", "b"], None)


def test_absent_lists_are_named(tmp_path):
    with pytest.raises(InputError) as error:
        find_key_lists(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}: no msls_val_qImages.npy with msls_val_dbImages.npy here, nor msls_val_queries.txt with"
        " msls_val_map.txt; fetch the lists of GSV-Cities, or name yours with keys=queries.txt,map.txt"
    )


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ({"qImages": np.array([["near"], [1]], object)}, "qImages.npy: is a pickle, which is never opened"),
        ({"qImages": np.arange(3)}, "qImages.npy: holds int64 of shape (3,) where a list of paths"),
        ({"qImages": np.array(["near"]), "qIdx": [1]}, "qIdx.npy: not a list of rows of the 1 paths"),
        ({"qImages": np.array(["near"]), "qIdx": [-1]}, "qIdx.npy: not a list of rows of the 1 paths"),
        ({"qImages": np.array([], dtype="U5")}, "qImages.npy: the list is empty"),
    ],
)
def test_a_broken_array_is_named(tmp_path, files, answer):
    save(tmp_path, **files)
    with pytest.raises(InputError) as error:
        find_key_lists(tmp_path)
    assert answer in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_lists(tmp_path):
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    for words, answer in (
        ("nowhere.txt", "nowhere.txt: no such list of keys"),
        ("cut.npy", "cut.npy: cannot be read"),
        ("photo.jpg", "photo.jpg: not a text file"),
        ("a,b,c", "keys 'a,b,c': give a folder, or one file of queries and one of the map"),
    ):
        with pytest.raises(InputError, match=answer):
            find_key_lists(tmp_path, words)


def city(name, keys):
    columns = {"image": [f"{key}.jpg" for key in keys], "key": keys, "city": name, "split": "query"}
    return Places.build(".", {**columns, "easting": 0.0, "northing": 0.0}, missing_images="ignore")


def test_rows_are_in_the_order_of_the_list_and_each_once(tmp_path):
    tables = [city("cph", ["a", "b", "c"]), city("sf", ["d", "e"])]
    listed = KeyList(tmp_path / "q.txt", ["e", "c", "a", "e", "c"])
    assert [rows.tolist() for rows in rows_of_keys(listed, tables)] == [[2, 0], [1]]
    assert [rows.dtype for rows in rows_of_keys(KeyList(tmp_path, ["a"]), tables)] == [np.int64] * 2
    with pytest.raises(InputError, match=r"q\.txt: its key 3, 'x', is not among the queries of cph, sf"):
        rows_of_keys(KeyList(tmp_path / "q.txt", ["a", "a", "x"]), tables)
