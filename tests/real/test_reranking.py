"""Keypoints of real photos: the same view at another time fits better than a place elsewhere."""

import numpy as np

from samespot import Places
from samespot.matching.by_keypoints import ByKeypoints
from samespot.matching.reranker import FeatureStore
from samespot.matching.verification import verifier_named

QUERIES = 10


def test_a_true_neighbour_fits_better_than_a_place_elsewhere(real_data):
    """Ten campus queries: the map photo of another minute that was taken most alike, and one 100 m away or more."""
    places = Places.read(real_data / "campus" / "places.csv", missing_images="ignore")
    split, minute = (places.table[name].to_numpy(dtype=str) for name in ("split", "time"))
    queries, there = np.flatnonzero(split == "query"), np.flatnonzero(split == "map")
    a, b = places.positions[queries, None], places.positions[None, there]
    metres = np.linalg.norm(a[..., :2] - b[..., :2], axis=2)
    turn = np.abs((a[..., 2] - b[..., 2] + 180) % 360 - 180)
    unlike = np.where(
        minute[queries, None] == minute[there], np.inf, metres + turn / 2
    )  # 2° count as a metre
    rng = np.random.default_rng(0)
    chosen = rng.choice(np.flatnonzero(unlike.min(axis=1) < 3), QUERIES, replace=False)
    true = there[unlike[chosen].argmin(axis=1)]
    elsewhere = np.array([rng.choice(there[row > 100]) for row in metres[chosen]])
    by, store = ByKeypoints(verifier_named("xfeat")), FeatureStore()
    asked = store.features(by, places.select(queries[chosen]), "queries")
    kept = store.features(by, places.select(np.concatenate([true, elsewhere])), "map")
    pairs = [by.scores(asked[i], kept, np.array([i, QUERIES + i])) for i in range(QUERIES)]
    assert sum(right > wrong for right, wrong in pairs) >= 8
