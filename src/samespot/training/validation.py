"""Does it find the right places yet? Recall on a small map during training, by exact search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.images.listing import ImageList
from samespot.images.sources import BadImages
from samespot.training.feed import Feed
from samespot.training.gradient import Learner
from samespot.training.validation_sets import KS, Validation


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
