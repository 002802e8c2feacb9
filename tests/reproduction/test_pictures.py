"""What figures are drawn from; the figures themselves are looked at."""

import pytest

from reproduction.judgement import Better, Claim, by_experiment, side
from reproduction.pictures import LARGE, _by_dims, _drawn


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


def test_a_size_that_is_far_from_full_stands_where_it_is(result):
    runs = [result("a", 0.5, whitened={"the map": (128, 0.6)})]
    assert list(_by_dims(runs)) == [128]


def test_of_large_groups_the_average_alone_is_drawn(seeds):
    results = by_experiment([run for name in "abcdefghi" for run in seeds(f"x/{name}", 0.5)])

    def drawn(count):
        some = [Better(n, side("x/a"), side(f"x/{n}"), group="g") for n in "bcdefghi"[:count]]
        lone = Better("lone", side("x/a"), side("x/b"))
        return [line.words for line in _drawn(Claim("", "", "", "", (*some, lone)).judge(results))]

    assert drawn(2) == ["b", "c", "lone", "x, g: the average of 2"]
    assert drawn(LARGE + 1) == ["lone", f"x, g: the average of {LARGE + 1}"]


def test_sizes_that_only_some_seeds_have_are_not_drawn(result):
    assert _by_dims([]) == {}
    assert _by_dims([result("a", 0.5)]) == {}
    some = [result("a", 0.5, whitened={"the map": (128, 0.6)}), result("a", 0.5, 1)]
    assert _by_dims(some) == {}
