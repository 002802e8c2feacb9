"""Regions of a map: every photo is in one, they are about equally full, and the same positions give the same ones."""

import numpy as np
import pytest

from samespot.maps.engines import regions
from samespot.maps.engines.regions import Regions, how_many


def city_and_villages(count=4000):
    dice = np.random.default_rng(3)
    return np.concatenate([dice.normal(0, 300, (count - 400, 2)), dice.uniform(-2e5, 2e5, (400, 2))])


@pytest.mark.parametrize("count", [1, 2, 8, 64])
def test_regions_are_boxes_of_equally_many_photos(count):
    at = city_and_villages()
    cut = Regions.cut(at, count)
    assert len(cut.sizes) == count
    assert cut.sizes.sum() == len(at)
    assert cut.sizes.max() - cut.sizes.min() <= count
    np.testing.assert_array_equal(
        np.sort(np.concatenate([cut.rows(n) for n in range(count)])), np.arange(len(at))
    )
    np.testing.assert_array_equal(Regions.cut(at, count).of, cut.of)
    boxes = [(at[cut.rows(n)].min(axis=0), at[cut.rows(n)].max(axis=0)) for n in range(count)]
    for n, (least, most) in enumerate(boxes):
        inside = ((at >= least) & (at <= most)).all(axis=1)
        assert set(cut.of[inside]) == {n}


def test_photos_at_one_spot_stay_together():
    at = np.zeros((50, 2))
    assert Regions.cut(at, 8).sizes.tolist() == [50]
    at[0] = 1.0
    assert sorted(Regions.cut(at, 8).sizes) == [1, 49]
    at[:30] = [5.0, 0.0]
    assert sorted(Regions.cut(at, 2).sizes) == [20, 30]


def test_a_circle_touches_few_regions_and_all_of_its_photos():
    at = city_and_villages()
    cut = Regions.cut(at, 64)
    allowed = np.hypot(*(at - [100.0, 50.0]).T) <= 60
    touched = cut.touched(allowed)
    assert set(cut.of[allowed]) == set(touched)
    assert 0 < len(touched) <= 9
    assert len(cut.touched(np.zeros(len(at), dtype=bool))) == 0


def test_as_many_as_the_map_is_large(monkeypatch):
    monkeypatch.setattr(regions, "PER_REGION", 10_000)
    monkeypatch.setattr(regions, "MOST", 512)
    found = {photos: how_many(photos) for photos in (1, 19_999, 20_000, 200_000, 1_000_000, 10**8, 10**10)}
    assert list(found.values()) == [1, 1, 2, 16, 64, 512, 512]
