"""PairLabels on disk: round trips, atomic writing, digests, classes."""

import json

import numpy as np
import pytest

from samespot import InputError, PairLabels, Places, label_pairs
from samespot.overlap.labels import LabelWriter


def table(seed, n=40):
    rng = np.random.default_rng(seed)
    columns = {"image": [f"{i}.jpg" for i in range(n)], "easting": rng.uniform(0, 150, n),
               "northing": rng.uniform(0, 150, n), "heading": rng.uniform(0, 360, n)}  # fmt: skip
    return Places.build("photos", columns, missing_images="ignore")


@pytest.fixture
def labels():
    return label_pairs(table(0), table(1, 70))


def by_hand():
    """Three queries, four map images."""
    return PairLabels(
        np.array([0, 3, 3, 5]),
        np.array([0, 2, 3, 1, 3], np.int32),
        np.array([0.5, 0.75, 0.4999, 1.0, 0.01], np.float32),
        (3, 4),
    )


def test_classes_are_counted_with_their_limits_included():
    assert by_hand().counts() == {
        "pairs": 12,
        "nonzero": 5,
        "positive": 3,
        "hard positive": 2,
        "soft negative": 2,
        "hard negative": 7,
    }


def test_rows_slices_and_lookups():
    labels = by_hand()
    columns, similarity = labels.row(2)
    assert columns.tolist() == [1, 3]
    assert similarity.tolist() == pytest.approx([1.0, 0.01])
    assert labels.row(1)[0].size == 0
    assert labels.row(-1)[0].tolist() == [1, 3]
    part = labels[1:3]
    assert part.shape == (2, 4)
    np.testing.assert_array_equal(part.dense(), labels.dense()[1:3])
    assert labels[2:1].shape == (0, 4)
    np.testing.assert_array_equal(
        labels.lookup(np.array([0, 0, 2]), np.array([2, 1, 1])), np.float32([0.75, 0, 1])
    )
    with pytest.raises(IndexError):
        labels.row(3)


def test_saved_and_opened_again(labels, tmp_path):
    again = labels.save(tmp_path / "labels")
    assert isinstance(again.columns, np.memmap)
    for name in ("indptr", "columns", "similarity"):
        np.testing.assert_array_equal(getattr(again, name), getattr(labels, name))
    assert again.meta["theta"] == 90.0
    assert again.meta["nonzero"] == labels.nonzero
    assert [p.name for p in tmp_path.iterdir()] == ["labels"]  # no scratch left


def test_an_interrupted_writer_leaves_the_old_labels(labels, tmp_path):
    folder = tmp_path / "labels"
    labels.save(folder)
    with pytest.raises(KeyboardInterrupt), LabelWriter(folder, (2, 3), {}) as writer:
        writer.append(np.array([1]), np.array([0]), np.array([0.3]))
        raise KeyboardInterrupt
    np.testing.assert_array_equal(PairLabels.open(folder).dense(), labels.dense())
    assert [p.name for p in tmp_path.iterdir()] == ["labels"]


def test_a_writer_that_misses_rows_complains(tmp_path):
    with (
        pytest.raises(ValueError, match="1 rows written, 2 announced"),
        LabelWriter(tmp_path / "l", (2, 3), {}) as w,
    ):
        w.append(np.array([0]), np.zeros(0), np.zeros(0))
    assert not (tmp_path / "l").exists()


def test_new_labels_replace_old_ones_but_never_another_folder(labels, tmp_path):
    labels.save(tmp_path / "labels")
    by_hand().save(tmp_path / "labels")
    assert PairLabels.open(tmp_path / "labels").shape == (3, 4)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").touch()
    with pytest.raises(InputError, match="exists and is not a label folder"):
        labels.save(tmp_path / "thesis")


def test_labels_know_the_tables_they_were_made_from(labels):
    queries, map_ = table(0), table(1, 70)
    labels.check(queries, map_)
    with pytest.raises(InputError, match="for 70 places, the table has 40"):
        labels.check(queries, table(1))
    moved = map_.table.assign(heading=(map_.table["heading"] + 1) % 360)
    with pytest.raises(InputError, match="made from another table of places"):
        labels.check(queries, Places.build("photos", moved, missing_images="ignore"))


@pytest.mark.parametrize("harm", ["no meta", "short array", "no array", "bad json"])
def test_broken_folders_are_refused_in_one_line(labels, tmp_path, harm):
    folder = tmp_path / "labels"
    labels.save(folder)
    if harm == "no meta":
        (folder / "meta.json").unlink()
    elif harm == "bad json":
        (folder / "meta.json").write_text("{")
    elif harm == "no array":
        (folder / "columns.npy").unlink()
    else:
        np.save(folder / "columns.npy", np.zeros(3, np.int32))
    with pytest.raises(InputError) as error:
        PairLabels.open(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_meta_is_plain_json(labels, tmp_path):
    labels.save(tmp_path / "labels")
    meta = json.loads((tmp_path / "labels" / "meta.json").read_text())
    assert meta["measure"] == "overlap"
    assert meta["shape"] == [40, 70]
    assert meta["queries_digest"] == table(0).digest()
