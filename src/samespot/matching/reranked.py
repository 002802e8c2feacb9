"""Lists of matches in the order that re-ranking gave them. No torch in here: results are read without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samespot.retrieval.search import Found


@dataclass(frozen=True)
class Reranked(Found):
    """A list in its new order.

    `distances` are still those of the descriptors, each beside its own map row: no longer ascending, and not what
    the order is by. `scores` are.
    """

    scores: NDArray[np.float64]  # (q, k) of the reranker, NaN below the rows that it looked at

    def first(self, k: int) -> Reranked:
        """The lists cut to k."""
        return Reranked(self.rows[:, :k], self.distances[:, :k], self.scores[:, :k])
