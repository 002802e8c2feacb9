"""What figures are drawn from; the figures themselves are looked at."""

import pytest

from samespot.reproduce.pictures import _by_dims


def test_the_largest_size_stands_at_the_networks_own(result):
    """A map may span a little less than a network has dims, with each seed another; that is one point."""
    runs = [
        result("a", 0.5, seed, whitened={"the map": (span, share), "training photos": (512, 0.1)})
        for seed, (span, share) in enumerate(((505, 0.2), (508, 0.3), (510, 0.4)))
    ]
    for run, share in zip(runs, (0.6, 0.7, 0.8), strict=True):
        small = result("a", 0.5, whitened={"the map": (128, share)})
        run.answers["128 whitened on the map"] = small.answers["128 whitened on the map"]
    found = _by_dims(runs)
    assert {size: one.value for size, one in found.items()} == pytest.approx({128: 0.7, 512: 0.3})


def test_sizes_that_only_some_seeds_have_are_not_drawn(result):
    assert _by_dims([]) == {}
    assert _by_dims([result("a", 0.5)]) == {}
    some = [result("a", 0.5, whitened={"the map": (128, 0.6)}), result("a", 0.5, 1)]
    assert _by_dims(some) == {}
