"""Descriptors and labels of a made-up set."""

import numpy as np
import pytest

from samespot.overlap.labels import PairLabels


@pytest.fixture
def labels_of():
    """Makes labels of (n, n) similarities."""
    return _labels_of


def _labels_of(matrix):
    matrix = np.asarray(matrix, dtype=np.float32)
    rows, columns = np.nonzero(matrix)
    starts = np.searchsorted(rows, np.arange(len(matrix) + 1))
    return PairLabels(starts.astype(np.int64), columns.astype(np.int32), matrix[rows, columns], matrix.shape)


@pytest.fixture
def places():
    """(n, d) descriptors of 40 places, 5 photos each, and ψ: what varies most, along dims 0 and 1, is not the place."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(40), 5)
    where = rng.standard_normal((40, 12)) * np.r_[np.zeros(2), np.ones(10)]
    light = rng.standard_normal((200, 12)) * np.r_[np.full(2, 6.0), np.full(10, 0.7)]
    psi = np.where(place[:, None] == place[None], rng.uniform(0.3, 1, (200, 200)), 0)
    return (where[place] + light + 3).astype(np.float32), _labels_of((psi + psi.T) / 2), place
