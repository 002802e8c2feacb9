"""Figures of a labelled set: the numbers behind them, and that each is drawn."""

import numpy as np
import pytest
from PIL import Image

from samespot import Places, label_pairs, sector_overlap
from samespot.figures.label_set import draw_label_set, example_pairs
from samespot.figures.sectors import draw_pair
from samespot.figures.similarity import mean_over_distance_and_turn, sample_pairs
from samespot.overlap.task import LabelTask, Sectors, run_task


def town(seed, n=150, **columns):
    rng = np.random.default_rng(seed)
    table = {"image": [f"{i}.jpg" for i in range(n)], "easting": rng.uniform(0, 150, n),
             "northing": rng.uniform(0, 150, n), "heading": rng.uniform(0, 360, n), **columns}  # fmt: skip
    return Places.build(".", table, missing_images="ignore")


def test_the_sample_is_every_pair_within_the_distance():
    queries, places = town(0), town(1)
    labels = label_pairs(queries, places)
    sample = sample_pairs(labels, queries, places, within=40.0)
    offset = queries.positions[:, None] - places.positions[None]
    near = np.hypot(offset[..., 0], offset[..., 1]) <= 40.0
    assert len(sample.distance) == near.sum()
    assert np.sort(sample.similarity).tolist() == np.sort(labels.dense()[near]).tolist()
    turn = np.abs((offset[..., 2] + 180) % 360 - 180)
    np.testing.assert_allclose(np.sort(sample.turn), np.sort(turn[near]))
    assert len(sample_pairs(labels, queries, places, within=40.0, most=100).distance) < near.sum()


def test_the_heat_map_is_the_mean_of_each_cell():
    queries, places = town(2), town(3)
    sample = sample_pairs(label_pairs(queries, places), queries, places, within=100.0)
    means, distances, turns = mean_over_distance_and_turn(sample, bins=6)
    cell = (
        (sample.distance >= distances[1]) & (sample.distance < distances[2])
        & (sample.turn >= turns[0]) & (sample.turn < turns[1])
    )  # fmt: skip
    assert cell.sum() > 20
    assert means[0, 1] == pytest.approx(sample.similarity[cell].mean(), rel=1e-6)


def test_examples_are_real_pairs_near_the_wanted_similarity():
    places = town(4)
    labels = label_pairs(places, places)
    found = example_pairs(labels)
    assert set(found) == {0.75, 0.5, 0.25}
    for psi, (i, j) in found.items():
        assert i != j
        assert sector_overlap(places.positions[i], places.positions[j]) == pytest.approx(psi, abs=0.1)


def test_figures_are_drawn_also_for_disks_and_empty_labels(tmp_path):
    heading = np.full(150, np.nan)
    blind = town(5, heading=heading)
    done = run_task(LabelTask("blind", blind, town(6), Sectors(unknown_heading="disk")))
    drawn = draw_label_set(done, tmp_path / "blind")
    assert {p.name for p in drawn} >= {"similarity.png", "distance_and_turn.png", "pair_050.png"}
    far = town(7, easting=np.full(150, 1e5))
    alone = run_task(LabelTask("alone", far, town(8), Sectors()))
    assert [p.name for p in draw_label_set(alone, tmp_path / "alone")] == ["similarity.png"]


def test_what_two_views_share_is_magenta(tmp_path):
    path = draw_pair(tmp_path / "pair.png", [0, 0, 0], [5, 0, 0], theta=90, radius=50)
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3).astype(int)
    magenta = (np.abs(pixels - [190, 115, 180]).max(axis=1) < 45).mean()
    path = draw_pair(tmp_path / "apart.png", [0, 0, 0], [5, 0, 180], theta=90, radius=50)
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3).astype(int)
    assert magenta > 0.1
    assert (np.abs(pixels - [190, 115, 180]).max(axis=1) < 45).mean() < 0.01
