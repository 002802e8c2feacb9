"""Does it find the right places yet? Recall on a small map during training, by exact search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.errors import InputError
from samespot.overlap.rules import label_within
from samespot.places.table import Places

KS = (1, 5, 10)


@dataclass(frozen=True)
class Validation:
    """Queries, the map to find them in, and for each query the rows of the map that count as found."""

    queries: Places
    places: Places
    positives: Sequence[NDArray[np.integer[Any]]]
    ks: tuple[int, ...] = KS

    def __post_init__(self) -> None:
        if len(self.positives) != len(self.queries):
            raise InputError(
                f"{len(self.positives)} lists of positives for {len(self.queries)} validation queries"
            )
        if not any(len(rows) for rows in self.positives):
            raise InputError("no validation query has a positive in the map; widen the distance or the angle")
        if not self.ks or min(self.ks) < 1 or max(self.ks) > len(self.places):
            raise InputError(f"recall at {list(self.ks)} needs 1 <= k <= {len(self.places)} map images")

    @classmethod
    def within(
        cls,
        queries: Places,
        places: Places,
        metres: float = 25.0,
        degrees: float | None = None,
        ks: tuple[int, ...] = KS,
    ) -> Validation:
        """Found is what lies within a distance and, if given, an angle."""
        labels = label_within(queries, places, metres, degrees)
        ks = tuple(k for k in ks if k <= len(places)) or (1,)
        return cls(queries, places, [np.array(labels.row(i)[0]) for i in range(len(queries))], ks)


def nearest(queries: Tensor, places: Tensor, k: int, block: int = 1024) -> NDArray[np.int64]:
    """(q, k) rows of `places` (m, d) nearest to each of `queries` (q, d), L2-normalised; nearest first."""
    starts = range(0, len(queries), block)
    found = [(queries[i : i + block] @ places.T).topk(k, dim=1).indices.cpu() for i in starts]
    return torch.cat(found).numpy()


def recall(
    retrieved: NDArray[np.integer[Any]],
    positives: Sequence[NDArray[np.integer[Any]]],
    ks: tuple[int, ...] = KS,
) -> dict[int, float]:
    """Share of the queries with a positive that have one among their first k. retrieved: (q, >= max(ks))."""
    asked = [i for i, rows in enumerate(positives) if len(rows)]
    hits = np.array([np.isin(retrieved[i, : max(ks)], positives[i]) for i in asked])
    return {k: float(hits[:, :k].any(axis=1).mean()) for k in ks}
