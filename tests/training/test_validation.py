"""Recall by exact search, against numbers worked out by hand."""

import numpy as np
import pytest
import torch

from samespot.errors import InputError
from samespot.training.validation import nearest, recall
from samespot.training.validation_sets import Validation


def test_nearest_is_the_smallest_distance():
    dice = torch.Generator().manual_seed(0)
    queries = torch.nn.functional.normalize(torch.randn(50, 8, generator=dice), dim=1)
    places = torch.nn.functional.normalize(torch.randn(70, 8, generator=dice), dim=1)
    expected = torch.cdist(queries, places).argsort(dim=1)[:, :5]
    np.testing.assert_array_equal(nearest(queries, places, 5, block=16), expected)


def test_recall_by_hand():
    retrieved = np.array([[3, 1, 2], [0, 4, 1], [2, 0, 4], [1, 2, 3]])
    positives = [np.array([3]), np.array([1, 9]), np.array([7]), np.array([], dtype=int)]
    # the fourth query has nothing to find and does not count
    assert recall(retrieved, positives, (1, 2, 3)) == pytest.approx({1: 1 / 3, 2: 1 / 3, 3: 2 / 3})


def test_within_finds_the_neighbours(photo_set):
    # photos stand 12 m apart
    found = Validation.within(photo_set.queries, photo_set.places, 12.5)
    assert [rows.tolist() for rows in found.positives][:3] == [[0, 1], [0, 1, 2], [1, 2, 3]]


def test_a_validation_without_positives_is_refused(photo_set):
    empty = [np.array([], dtype=int)] * 12
    with pytest.raises(InputError, match="no validation query has a positive"):
        Validation(photo_set.queries, photo_set.places, empty)
    with pytest.raises(InputError, match="3 lists of positives for 12"):
        Validation(photo_set.queries, photo_set.places, empty[:3])
