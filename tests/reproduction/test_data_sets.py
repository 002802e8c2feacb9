"""Which data sets are at hand, and their labels of each kind against the labelling functions themselves."""

import numpy as np
import pytest
from PIL import Image

from reproduction.data_sets import data_sets
from samespot.errors import InputError
from samespot.overlap.rules import label_by_distance, label_pairs, label_within
from samespot.places.table import Places


@pytest.fixture
def data(tmp_path):
    """A campus of noise: forty photos to learn from, twelve in the map, four queries beside some of them."""
    dice, folder = np.random.default_rng(0), tmp_path / "data" / "campus"
    folder.mkdir(parents=True)
    split = ["train"] * 40 + ["map"] * 12 + ["query"] * 4
    spots = dice.uniform(0, 90, (52, 2))
    spots = np.concatenate([spots, spots[40:44] + 1.0])
    for i in range(len(split)):
        Image.fromarray(dice.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    table = {
        "image": [f"{i}.png" for i in range(len(split))],
        "easting": spots[:, 0],
        "northing": spots[:, 1],
        "heading": np.r_[dice.uniform(0, 360, 40), np.tile(90.0, 16)],
        "split": split,
        "time": [f"12:{i:02d}" for i in range(len(split))],
    }
    Places.build(folder, table).save(folder / "places.csv")
    return tmp_path / "data"


def test_the_town_is_always_at_hand_and_others_where_their_folder_is(data, tmp_path):
    assert list(data_sets(None, {}, tmp_path)) == ["town"]
    assert list(data_sets(data, {}, tmp_path)) == ["campus", "town"]
    assert list(data_sets(None, {"campus": data / "campus"}, tmp_path)) == ["campus", "town"]


@pytest.mark.parametrize(
    ("folder", "roots", "said"),
    [
        ("nowhere", {}, "`data=.*nowhere`: no such folder"),
        (
            None,
            {"moon": "."},
            "`root=moon=…`: no such data set here; choose one of campus, town, redkitchen, msls",
        ),
        (None, {"msls": "nowhere"}, "`root=msls=nowhere`: no such folder"),
    ],
)
def test_a_wrong_folder_is_named(tmp_path, folder, roots, said):
    from pathlib import Path

    with pytest.raises(InputError, match=said):
        data_sets(
            None if folder is None else tmp_path / folder,
            {name: Path(path) for name, path in roots.items()},
            tmp_path,
        )


def test_labels_of_each_kind(data, tmp_path):
    campus = data_sets(data, {}, tmp_path)["campus"]
    photos = campus.training_photos
    assert len(photos) == 40
    expected = {
        "graded": label_pairs(photos, photos, 90.0, 30.0),
        "binary": label_within(photos, photos, 15.0, 40.0),
        "distance": label_by_distance(photos, photos),
    }
    assert set(expected) == set(campus.kinds)
    for kind, labels in expected.items():
        (made,) = campus.labelled(kind)
        np.testing.assert_array_equal(made.labels.similarity, labels.similarity)
        assert campus.labelled(kind)[0] is made
    with pytest.raises(InputError, match="campus has no labels '3d'"):
        campus.labelled("3d")
    assert campus.cases[0].counted.sum() == 4


def test_facts_change_with_the_photos(data, tmp_path):
    before = data_sets(data, {}, tmp_path)["campus"].facts
    path = data / "campus" / "places.csv"
    words = path.read_text().splitlines()
    path.write_text("\n".join([words[0], *words[2:]]) + "\n")
    assert data_sets(data, {}, tmp_path)["campus"].facts != before


@pytest.mark.parametrize("gone", ["map", "query"])
def test_facts_change_with_who_is_asked(data, tmp_path, gone):
    before = data_sets(data, {}, tmp_path)["campus"].facts
    path = data / "campus" / "places.csv"
    words = path.read_text().splitlines()
    last = max(i for i, line in enumerate(words) if f",{gone}," in f"{line},")
    path.write_text("\n".join([*words[:last], *words[last + 1 :]]) + "\n")
    after = data_sets(data, {}, tmp_path)["campus"].facts
    assert after["photos"] == before["photos"]
    assert after != before


def test_the_truth_is_computed_once(data, tmp_path):
    campus = data_sets(data, {}, tmp_path)["campus"]
    truth = campus.cases[0].overlap(None)
    assert campus.cases[0].overlap(None) is truth
