"""What losses of tuples share: how much nearer is a query to its positive than to each negative?"""

from __future__ import annotations

import torch
from torch import Tensor

from samespot.errors import InputError


def nearer_to_positive(queries: Tensor, positives: Tensor, negatives: Tensor, counted: Tensor) -> Tensor:
    """(n, N) by how much the squared distance to the positive is smaller than that to each negative.

    queries, positives: (n, d); negatives: (n, N, d); counted: (n, N) False where there is no negative, or none
    that could be read. In float32 or better whatever the precision of the inputs.
    """
    n, d = queries.shape
    if positives.shape != (n, d) or negatives.shape[::2] != (n, d) or counted.shape != negatives.shape[:2]:
        raise InputError(
            f"queries {tuple(queries.shape)}, positives {tuple(positives.shape)}, negatives "
            f"{tuple(negatives.shape)}, counted {tuple(counted.shape)}: expected (n, d), (n, d), (n, N, d), (n, N)"
        )
    precise = torch.promote_types(queries.dtype, torch.float32)
    with torch.autocast(queries.device.type, enabled=False):
        query = queries.to(precise)
        near = (query - positives.to(precise)).square().sum(dim=1)
        far = (query[:, None] - negatives.to(precise)).square().sum(dim=2)
        return far - near[:, None]


def mean_counted(losses: Tensor, counted: Tensor) -> Tensor:
    """(n,) mean of the losses (n, N) that count, 0 where none does."""
    return torch.where(counted, losses, 0.0).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
