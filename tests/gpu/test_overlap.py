"""3D labels: the points that two images share, counted on a GPU as on the processor."""

import numpy as np

from samespot.overlap.visibility import PackedSets, similarity_rows, visibility_iou


def test_shared_points_are_counted_exactly():
    dice = np.random.default_rng(0)
    a, b = (PackedSets.pack(dice.random((rows, 10_007)) < 0.3) for rows in (70, 130))
    here, there = (visibility_iou(a, b, device=where) for where in ("cpu", "cuda"))
    assert 0.1 < here.min() < here.max() < 0.3
    np.testing.assert_array_equal(here, there)


def test_rows_of_labels_are_the_same():
    dice = np.random.default_rng(1)
    sets = PackedSets.pack(dice.random((90, 3_001)) < dice.random((90, 1)))
    here, there = (
        list(similarity_rows(sets, sets, threshold=0.2, device=where)) for where in ("cpu", "cuda")
    )
    assert len(here) == len(there) > 0
    for one, other in zip(here, there, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
