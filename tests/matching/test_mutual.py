"""Mutual nearest neighbours against a double loop."""

import numpy as np
import torch

from samespot.matching.mutual import mutual_nearest, photos_at_once


def unit(rng, *shape):
    x = rng.normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def by_loops(a, b, above):
    nearest = np.full(len(a), -1)
    there = [j for j in range(len(b)) if b[j].any()]
    for i in range(len(a)):
        j = max(there, key=lambda j: a[i] @ b[j])
        back = max((x for x in range(len(a)) if a[x].any()), key=lambda x: a[x] @ b[j])
        if a[i].any() and back == i and a[i] @ b[j] > above:
            nearest[i] = j
    return nearest


def test_the_pairs_are_those_of_a_double_loop():
    rng = np.random.default_rng(0)
    query, candidates = unit(rng, 30, 5), unit(rng, 4, 25, 5)
    for above in (-1.0, 0.8):
        found = mutual_nearest(torch.from_numpy(query), torch.from_numpy(candidates), above).numpy()
        expected = np.stack([by_loops(query, one, above) for one in candidates])
        assert 0 < (expected >= 0).sum() < expected.size
        np.testing.assert_array_equal(found, expected)


def test_rows_of_zeros_are_nobodys_neighbour():
    """A query feature opposite to all others would be nearer to nothing than to them."""
    rng = np.random.default_rng(1)
    candidates = unit(rng, 3, 10, 4)
    query = np.concatenate([-candidates[0, :1], unit(rng, 8, 4)])
    candidates[:, 6:] = 0
    query[5] = 0
    found = mutual_nearest(torch.from_numpy(query), torch.from_numpy(candidates)).numpy()
    np.testing.assert_array_equal(found, np.stack([by_loops(query, one, -1) for one in candidates]))
    assert found.max() < 6
    assert (found[:, 5] == -1).all()


def test_a_photo_without_features_matches_nothing():
    some = torch.ones((2, 4))
    assert (mutual_nearest(some, torch.zeros((3, 5, 4))) == -1).all()
    assert mutual_nearest(some[:0], torch.ones((3, 5, 4))).shape == (3, 0)


def test_a_gpu_compares_as_many_photos_at_once_as_a_gigabyte_of_cosines_holds():
    gpu = torch.device("cuda")
    for features in (300, 1131, 3000):
        assert 0.95 * 2**30 < 4 * features**2 * photos_at_once(features, gpu) <= 2**30
    assert photos_at_once(100_000, gpu) == photos_at_once(1131, torch.device("cpu")) == 16
