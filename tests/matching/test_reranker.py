"""Which row ends up where, and that photos are looked at once."""

import json
import os

import numpy as np
import pytest
import torch
from PIL import Image

from samespot import InputError, Places
from samespot.images.preprocess import Preprocessing
from samespot.matching.reranker import FeatureStore, rerank
from samespot.retrieval.search import Found


class Brightness:
    """A photo is its red value; a score is how near two of them are. Counts the photos that it looks at."""

    name = "brightness"
    settings: dict = {}  # noqa: RUF012
    width = 1
    preprocessing = Preprocessing(size=(4, 4))
    device = torch.device("cpu")
    batch_size = 2

    def __init__(self, step=1):
        self.seen, self.facts, self.step = 0, {"model": "red"}, step

    def extract(self, images):
        self.seen += len(images)
        return images[:, :1].float().mean(dim=(2, 3)).half()

    def scores(self, query, places, rows):
        return -(np.abs(places[rows, 0].astype(float) - float(query[0])) // self.step)


def photos(folder, name, reds):
    (folder / name).mkdir(parents=True)
    for i, red in enumerate(reds):
        Image.new("RGB", (4, 4), (red, 0, 0)).save(folder / name / f"{i}.png")
    names = [f"{name}/{i}.png" for i in range(len(reds))]
    columns = {"image": names, "easting": range(len(reds)), "northing": 0.0, "heading": 0.0}
    return Places.build(folder, columns)


@pytest.fixture
def tables(tmp_path):
    """Map photos of red 0, 10, ..., 90; queries of 41 and 90."""
    return photos(tmp_path, "queries", [41, 90]), photos(tmp_path, "map", range(0, 100, 10))


def found(*lists):
    rows = np.array(lists)
    distances = np.where(rows >= 0, np.arange(rows.shape[1]) / 10.0, np.inf)
    return Found(rows, np.broadcast_to(distances, rows.shape).copy())


def test_the_best_comes_first_and_distances_move_with_their_rows(tables):
    new = rerank(found([0, 9, 4, 5], [9, 8, 0, 1]), *tables, Brightness(), 4)
    assert new.rows.tolist() == [[4, 5, 0, 9], [9, 8, 1, 0]]
    np.testing.assert_allclose(new.distances, [[0.2, 0.3, 0.0, 0.1], [0.0, 0.1, 0.3, 0.2]])
    np.testing.assert_allclose(new.scores, [[-1, -9, -41, -49], [0, -10, -80, -90]])


def test_what_lies_below_the_top_stays_below_in_its_order(tables):
    new = rerank(found([0, 9, 4, 5], [1, 0, 9, 8]), *tables, Brightness(), 2)
    assert new.rows.tolist() == [[0, 9, 4, 5], [1, 0, 9, 8]]
    new = rerank(found([0, 9, 4, 5], [0, 1, 9, 8]), *tables, Brightness(), 2)
    assert new.rows.tolist() == [[0, 9, 4, 5], [1, 0, 9, 8]]
    assert np.isnan(new.scores[:, 2:]).all()
    assert np.isfinite(new.scores[:, :2]).all()


def test_equal_scores_keep_the_order_they_had(tables):
    lists = [7, 2, 9, 4, 0], [8, 3, 9, 0, 5]
    alike = rerank(found(*lists), *tables, Brightness(step=1000), 5)
    assert alike.rows.tolist() == [list(one) for one in lists]
    # in steps of 40 the first query, 41, is 0 steps from 70, 20, 40, and one from 90, 0; the second 0 from 80, 90
    halves = rerank(found(*lists), *tables, Brightness(step=40), 5)
    assert halves.rows.tolist() == [[7, 2, 4, 9, 0], [8, 9, 3, 5, 0]]


def test_nothing_found_stays_last(tables):
    new = rerank(found([0, 4, -1, -1], [-1, -1, -1, -1]), *tables, Brightness(), 100)
    assert new.rows.tolist() == [[4, 0, -1, -1], [-1, -1, -1, -1]]
    assert np.isinf(new.distances[:, 2:]).all()
    assert np.isnan(new.scores[1]).all()


def test_the_found_lists_are_left_as_they_were(tables):
    old = found([0, 4, 9, 5], [9, 8, 0, 1])
    before = old.rows.copy(), old.distances.copy()
    rerank(old, *tables, Brightness(), 4)
    np.testing.assert_array_equal(old.rows, before[0])
    np.testing.assert_array_equal(old.distances, before[1])


@pytest.mark.parametrize("kept", [True, False])
def test_photos_are_looked_at_once(tables, tmp_path, kept):
    store = FeatureStore(tmp_path / "kept" if kept else None)
    lists, by = found([0, 9, 4, 5], [9, 8, 0, 1]), Brightness()
    first = rerank(lists, *tables, by, store=store, name="a")
    assert by.seen == 12
    for image in (tmp_path / "map").iterdir():
        image.unlink()
    again = rerank(lists, *tables, by, store=store, name="a")
    assert by.seen == 12
    np.testing.assert_array_equal(first.rows, again.rows)


def test_a_map_against_itself_is_looked_at_once(tables):
    _, places = tables
    by = Brightness()
    new = rerank(found(*[[9, 0, row] for row in range(10)]), places, places, by, 3)
    assert by.seen == 10
    assert new.rows[:, 0].tolist() == list(range(10))


def test_features_of_another_model_are_not_used(tables, tmp_path):
    store, by = FeatureStore(tmp_path / "kept"), Brightness()
    store.features(by, tables[1], "map")
    by.facts = {"model": "crimson"}
    store.features(by, tables[1], "map")
    assert by.seen == 20
    assert json.loads((tmp_path / "kept" / "map" / "meta.json").read_text())["model"] == "crimson"


def test_photos_that_changed_are_looked_at_again(tables, tmp_path):
    store, by = FeatureStore(tmp_path / "kept"), Brightness()
    store.features(by, tables[1], "map")
    Image.new("RGB", (4, 4), (99, 0, 0)).save(tables[1].images[3])
    os.utime(tables[1].images[3], (1, 1))
    assert store.features(by, tables[1], "map")[:, 0].tolist() == [0, 10, 20, 99, 40, 50, 60, 70, 80, 90]
    assert by.seen == 10 + by.batch_size


def test_a_stopped_run_goes_on(tables, tmp_path):
    store, by = FeatureStore(tmp_path / "kept"), Brightness()
    whole = FeatureStore().features(by, tables[1], "map")
    extract, by.seen = by.extract, 0

    def stops(images):
        if by.seen == 6:
            raise KeyboardInterrupt
        return extract(images)

    by.extract = stops
    with pytest.raises(KeyboardInterrupt):
        store.features(by, tables[1], "map")
    by.extract = extract
    told = []
    np.testing.assert_array_equal(
        store.features(by, tables[1], "map", lambda *said: told.append(said)), whole
    )
    assert by.seen == 10
    assert told == [("local features", 8, 10), ("local features", 10, 10)]


def test_a_photo_that_cannot_be_read_has_no_features(tables, tmp_path):
    _, places = tables
    (tmp_path / "map" / "3.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"3\.png"):
        FeatureStore(tmp_path / "fails").features(Brightness(), places, "map")
    kept = FeatureStore(tmp_path / "kept", "skip").features(Brightness(), places, "map")
    assert kept[:, 0].tolist() == [0, 10, 20, 0, 40, 50, 60, 70, 80, 90]


def test_lists_of_other_tables_are_refused(tables):
    queries, places = tables
    with pytest.raises(InputError, match="2 lists of map rows do not fit 10 queries"):
        rerank(found([0, 1], [1, 0]), places, places, Brightness())
    with pytest.raises(InputError, match="do not fit 2 queries and a map of 2"):
        rerank(found([0, 1], [5, 0]), queries, queries, Brightness())
    with pytest.raises(InputError, match="the first 0"):
        rerank(found([0, 1], [5, 0]), queries, places, Brightness(), 0)
