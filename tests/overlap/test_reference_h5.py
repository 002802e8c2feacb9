"""The reference's label files: both layouts, both ways, in small blocks."""

import h5py
import numpy as np
import pytest
from scipy.spatial.distance import squareform

from samespot import InputError, PairLabels, Places, label_pairs
from samespot.overlap import reference_h5
from samespot.overlap.reference_h5 import export_h5, import_h5
from samespot.overlap.rules import label_within


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(reference_h5, "BLOCK_VALUES", 150)  # so that several blocks are needed


def table(seed, n):
    rng = np.random.default_rng(seed)
    columns = {"image": [f"{i}.jpg" for i in range(n)], "easting": rng.uniform(0, 200, n),
               "northing": rng.uniform(0, 200, n), "heading": rng.uniform(0, 360, n)}  # fmt: skip
    return Places.build("photos", columns, missing_images="ignore")


def test_a_matrix_as_msls_has_it(tmp_path):
    queries, map_ = table(0, 37), table(1, 53)
    labels, binary = label_pairs(queries, map_), label_within(queries, map_, 25, 40)
    path = export_h5(labels, tmp_path / "london_gt.h5", binary=binary)
    with h5py.File(path) as file:  # read as the reference reads it
        np.testing.assert_array_equal(file["fov"][5, :], labels.dense()[5])
        np.testing.assert_array_equal(file["sim"][:], binary.dense())
    for key, expected in (("fov", labels), ("sim", binary)):
        again = import_h5(path, key)
        np.testing.assert_array_equal(again.indptr, expected.indptr)
        np.testing.assert_array_equal(again.columns, expected.columns)
        np.testing.assert_array_equal(again.similarity, expected.similarity)


def test_a_triangle_as_tb_places_has_it(tmp_path):
    photos = table(2, 41)
    labels = label_pairs(photos, photos)
    path = export_h5(labels, tmp_path / "W17_gt.h5", condensed=True)
    square = labels.dense()
    np.fill_diagonal(square, 0)  # squareform has no place for the diagonal
    with h5py.File(path) as file:
        np.testing.assert_array_equal(squareform(file["fov"][:].flatten()), square)
        np.testing.assert_array_equal(squareform(file["sim"][:].flatten()), square >= 0.5)
    np.testing.assert_array_equal(import_h5(path).dense(), square)
    saved = import_h5(path, out=tmp_path / "labels")
    assert isinstance(saved.columns, np.memmap)
    np.testing.assert_array_equal(saved.dense(), square)


@pytest.mark.parametrize("flat", [True, False])
def test_triangles_written_by_others(tmp_path, flat):
    square = np.array([[0, 0.5, 0], [0.5, 0, 0.25], [0, 0.25, 0]])
    vector = squareform(square)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fov"] = vector if flat else vector[:, None]
    np.testing.assert_array_equal(import_h5(tmp_path / "a.h5").dense(), square.astype(np.float32))


@pytest.mark.parametrize("shape", [(1, 6), (1, 5), (3, 1), (1, 1), (1, 3), (4, 0), (0, 4), (2, 3)])
def test_any_matrix_comes_back_as_it_was(tmp_path, shape):
    """Six values could also be the triangle of four images; a file of ours says what they are."""
    similarity = np.linspace(0.25, 1, shape[0] * shape[1], dtype=np.float32).reshape(shape)
    again = import_h5(export_h5(labels_of(similarity), tmp_path / "a.h5"))
    assert again.shape == shape
    np.testing.assert_array_equal(again.dense(), similarity)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_small_triangles_come_back_as_they_were(tmp_path, n):
    square = (np.ones((n, n)) - np.eye(n)).astype(np.float32) * 0.5
    again = import_h5(export_h5(labels_of(square), tmp_path / "a.h5", condensed=True))
    assert again.shape == (n, n)
    np.testing.assert_array_equal(again.dense(), square)


def labels_of(dense):
    rows, columns = np.nonzero(dense)
    counts = np.bincount(rows, minlength=len(dense))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return PairLabels(indptr, columns.astype(np.int32), dense[rows, columns], dense.shape)


def test_the_layout_of_a_foreign_file_can_be_chosen(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fov"] = np.full((1, 6), 0.5)
        file["sim"] = np.ones((1, 5), bool)
        file["empty"] = np.zeros((4, 0))
        file["square"] = np.ones((2, 2))
    assert import_h5(tmp_path / "a.h5").shape == (4, 4)
    assert import_h5(tmp_path / "a.h5", layout="matrix").shape == (1, 6)
    with pytest.raises(InputError, match=r"\(1, 5\) is a matrix with one row .* choose `layout=matrix`"):
        import_h5(tmp_path / "a.h5", "sim")
    assert import_h5(tmp_path / "a.h5", "sim", layout="matrix").counts()["positive"] == 5
    with pytest.raises(InputError, match="choose `layout=matrix`"):
        import_h5(tmp_path / "a.h5", "empty")
    assert import_h5(tmp_path / "a.h5", "empty", layout="matrix").shape == (4, 0)
    with pytest.raises(InputError, match=r"shape \(2, 2\) is not a triangle"):
        import_h5(tmp_path / "a.h5", "square", layout="triangle")
    with pytest.raises(
        InputError, match="`layout` 'square' is unknown; choose one of auto, matrix, triangle"
    ):
        import_h5(tmp_path / "a.h5", layout="square")


def test_graded_labels_of_others_are_not_called_2d(tmp_path):
    path = export_h5(labels_of(np.eye(2, dtype=np.float32)), tmp_path / "a.h5")
    assert import_h5(path).meta["kind"] == "graded (reference)"
    assert import_h5(path, "sim").meta["kind"] == "binary"


def test_a_failed_export_leaves_what_was_there(tmp_path):
    export_h5(labels_of(np.eye(2, dtype=np.float32)), tmp_path / "a.h5")
    broken = PairLabels(np.array([0, 1]), np.array([7], np.int32), np.ones(1, np.float32), (1, 2))
    with pytest.raises(IndexError):
        export_h5(broken, tmp_path / "a.h5")
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]
    assert import_h5(tmp_path / "a.h5").shape == (2, 2)


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.h5: no such file"):
        import_h5(tmp_path / "absent.h5")
    (tmp_path / "text.h5").write_text("no labels")
    with pytest.raises(InputError, match="cannot be read as HDF5"):
        import_h5(tmp_path / "text.h5")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["fov"] = np.zeros(5)
        file["sim"] = np.full((3, 4), 1.5)
    with pytest.raises(InputError, match="5 values are neither a matrix nor the upper triangle"):
        import_h5(tmp_path / "a.h5")
    with pytest.raises(InputError, match=r"similarity 1.5 near row 0 is not in \[0, 1\]"):
        import_h5(tmp_path / "a.h5", "sim")
    with pytest.raises(InputError, match="no data set 'overlap'; it has fov, sim"):
        import_h5(tmp_path / "a.h5", "overlap")
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file.create_group("fov")
        file["words"] = ["a", "b", "c"]
        file["number"] = 0.5
    for key in ("fov", "words", "number"):
        with pytest.raises(
            InputError, match=f"'{key}' is not a data set of numbers in one or two dimensions"
        ):
            import_h5(tmp_path / "g.h5", key)
    with pytest.raises(InputError, match="is a folder"):
        export_h5(labels_of(np.eye(2, dtype=np.float32)), tmp_path)
    labels = PairLabels(np.array([0, 0]), np.zeros(0, np.int32), np.zeros(0, np.float32), (1, 3))
    with pytest.raises(InputError, match="no upper triangle"):
        export_h5(labels, tmp_path / "b.h5", condensed=True)
