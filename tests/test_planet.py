"""The simulation of benchmarks/planet.py: held against maps that are drawn photo by photo."""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks import planet

QUERIES, FAR = 400, 2000


@pytest.fixture(scope="module")
def drawn():
    """Queries, how alike 2,000 far photos are to each, and the best of their own place."""
    dice = np.random.default_rng(1)
    mean, spread = dice.normal(0, 0.01, QUERIES), dice.uniform(0.05, 0.08, QUERIES)

    def far(count):
        return mean[:, None] + spread[:, None] * dice.laplace(0, 0.7, (QUERIES, count))

    return far, dice.uniform(0.1, 0.6, QUERIES)


@pytest.mark.parametrize("k", [1, 5])
def test_recall_among_drawn_photos_is_between_what_is_too_kind_and_too_strict(drawn, k):
    """Fitted to 250 photos, asked about 2,000: eight times as many."""
    far, best = drawn
    some, none = far(FAR // 8), np.zeros(QUERIES, dtype=int)
    ways = planet.fitted(some, np.ones(some.shape, dtype=bool))
    true = np.mean([100 * ((far(FAR) > best[:, None]).sum(axis=1) < k).mean() for _ in range(10)])
    said = {way: planet.found_among(alike, best, none, FAR, k, tail) for way, (alike, tail) in ways.items()}
    assert true - 4 < said["strict"] < true < said["simulated"] < true + 4
    assert said["normal"] > said["simulated"] + 3  # the tail is heavier than that
    alike = ways["simulated"][0]
    assert planet.found_among(alike, best, none + k, FAR, k) == 0.0  # photos near by are in the way
    spots = np.full((QUERIES, 3), FAR)
    assert planet.found_among(alike, best, none, spots, k) == pytest.approx(said["simulated"])


def test_the_tail_of_normal_numbers_is_normal():
    dice = np.random.default_rng(2)
    similarities = dice.normal(0.01, 0.06, (300, 1000))
    alike = planet.Alike.fit(similarities, np.ones(similarities.shape, dtype=bool))
    for z in (0.0, 1.0, 2.0, 3.0, 4.0):
        asked = np.full(300, 0.01 + 0.06 * z)
        assert np.median(alike.above(asked)) == pytest.approx(norm.sf(z), rel=0.25)


def test_lists_hold_the_best_of_all_blocks():
    dice = np.random.default_rng(3)

    def unit(count):
        vectors = dice.normal(size=(count, planet.DIMS)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    queries, photos = unit(7), unit(900)
    hits = dice.uniform(size=(7, 900)) < 0.01
    lists = planet.Lists(queries)
    for part in (slice(0, 50), slice(50, 400), slice(400, 900)):
        lists.add(photos[part], photos[part], hits[:, part])
    order = np.argsort(-(queries @ photos.T), axis=1, kind="stable")
    for k in planet.AT:
        expected = 100 * np.take_along_axis(hits, order, 1)[:, :k].any(axis=1).mean()
        for again in (False, True):
            assert lists.recall(measured_again=again)[f"R@{k}"] == pytest.approx(expected)


def test_codes_are_as_long_as_they_say_and_the_longer_the_truer():
    dice = np.random.default_rng(4)
    vectors = dice.normal(size=(600, planet.DIMS)).astype(np.float32) / 16
    assert [planet.width(code) for code in planet.CODES] == [1024, 512, 256, 64, 32, 16]
    wrong = [np.abs(planet.coder(code, vectors)(vectors) - vectors).mean() for code in planet.CODES]
    assert wrong == sorted(wrong)
    assert wrong[0] == 0
