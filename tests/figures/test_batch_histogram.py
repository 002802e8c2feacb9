"""The figure's bars are the composition that each strategy promises."""

import numpy as np
import pytest

from samespot.figures.batch_histogram import batch_histogram
from samespot.overlap.rules import label_pairs
from samespot.places.table import Places
from samespot.training.batches import Batches
from samespot.training.drawn import counts, drawn_similarities
from samespot.training.options import TrainingOptions
from samespot.training.sets import LabelledSet


@pytest.fixture(scope="module")
def square() -> LabelledSet:
    dice = np.random.default_rng(0)
    columns = {
        "image": [f"{i}.jpg" for i in range(400)],
        "easting": dice.random(400) * 300,
        "northing": dice.random(400) * 300,
        "heading": dice.random(400) * 360,
    }
    table = Places.build("nowhere", columns, missing_images="ignore")
    return LabelledSet(table, table, label_pairs(table, table))


def test_bars_hold_the_promised_shares(square):
    for strategy, shares in {"A": (0.25, 0.25, 0.5), "B": (0.25, 0.25, 0.5), "D": (None, None, 0.5)}.items():
        at_zero, above = counts(drawn_similarities([square], strategy, 6400))
        assert at_zero + above.sum() == 6400
        assert above[10:].sum() == 6400 * shares[2]
        if shares[0] is not None:
            assert (at_zero, above[:10].sum()) == (6400 * shares[0], 6400 * shares[1])
    # B asks for half of its positives from 0.75 on; A takes them as they come
    assert counts(drawn_similarities([square], "B", 6400))[1][15:].sum() == 1600
    # the paper's point: drawn at random, soft negatives nearly vanish among the hard ones
    at_zero, above = counts(drawn_similarities([square], "D", 6400))
    assert above[:10].sum() < 0.2 * at_zero


def test_the_figure_is_written(square, tmp_path):
    from PIL import Image

    out = batch_histogram([square], tmp_path / "figure" / "batches.png", pairs=2000)
    with Image.open(out) as picture:
        assert picture.size[0] > 1000
        assert len(set(picture.convert("RGB").resize((60, 40)).get_flattened_data())) > 10


def test_a_runs_figure_shows_its_own_batches(square):
    columns = dict(zip(("easting", "northing", "heading"), square.queries.positions.T, strict=True))
    names = [f"{i}.jpg" for i in range(400)]
    table = Places.build(
        "nowhere", {"image": names, **columns, "pano": np.arange(400) % 2 == 0}, missing_images="ignore"
    )
    half = LabelledSet(table, table, label_pairs(table, table))
    settings = {"order": "refill", "refill": 50, "panoramas": False}
    options = TrainingOptions(batches="B", batch_pairs=10, seed=3, **settings)
    own = Batches([half], "B", 10, 3, **settings)
    expected = np.concatenate([own(step).similarity for step in range(3)])[:25]
    np.testing.assert_array_equal(drawn_similarities([half], "B", 25, options=options), expected)
    for name, other in {"order": "uniform", "refill": 10, "panoramas": True, "seed": 4}.items():
        another = drawn_similarities([half], "B", 25, options=options.with_changes(**{name: other}))
        assert not np.array_equal(another, expected), name
