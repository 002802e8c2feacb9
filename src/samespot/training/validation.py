"""Does it find the right places yet? Recall on a small map during training, by exact search."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.errors import InputError
from samespot.images.listing import ImageList
from samespot.images.sources import BadImages
from samespot.overlap.rules import Within
from samespot.places.table import Places
from samespot.training.feed import Feed
from samespot.training.gradient import Learner

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
        labels = Within(metres, degrees).label(queries, places)
        ks = tuple(k for k in ks if k <= len(places)) or (1,)
        return cls(queries, places, [np.array(labels.row(i)[0]) for i in range(len(queries))], ks)

    def digest(self) -> str:
        """Short name of what is looked for, where, and what counts as found."""
        h = hashlib.sha256(f"{self.queries.digest()} {self.places.digest()} {self.ks}".encode())
        for rows in self.positives:
            h.update(np.asarray(rows, dtype=np.int64).tobytes() + b";")
        return h.hexdigest()[:16]

    def facts(self) -> dict[str, Any]:
        """As a run's config.json holds it."""
        return {"queries": len(self.queries), "places": len(self.places), "digest": self.digest()}


class Validator:
    """Measures the recall with the weights of the moment. An image that cannot be read finds nothing."""

    def __init__(self, validation: Validation, learner: Learner, feed: Feed) -> None:
        self.validation, self.learner, self.feed = validation, learner, feed
        self.skipped: dict[str, str] = {}  # path -> why it could not be read here

    def recall(self) -> dict[int, float]:
        asked = self.validation
        queries, places = (self._described(ImageList([table])) for table in (asked.queries, asked.places))
        return recall(nearest(queries, places, max(asked.ks)), asked.positives, asked.ks)

    def _described(self, images: ImageList) -> Tensor:
        bad = BadImages(self.learner.options.on_bad_image)
        files = self.feed.files(images, bad)
        descriptors, good = self.learner.describe_numbers(files, np.arange(len(images)))
        files.close()
        self.skipped |= {str(images.path(number)): why for number, why in bad.reasons.items()}
        return descriptors * torch.from_numpy(good).to(descriptors.device)[:, None]


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
