"""Is the query nearer to its positive than to each of its negatives? The losses of NetVLAD and SARE.

With squared Euclidean distances p to the positive and n to a negative, of unit descriptors,

    triplet           max(p + m − n, 0)                   mean over the negatives
    SARE, independent −log(e^−p / (e^−p + e^−n))          mean over the negatives
    SARE, joint       −log(e^−p / (e^−p + Σ e^−n))        over all negatives at once

Triplet is Arandjelović et al. 2016 (m = 0.1), SARE with its Gaussian kernel Liu et al. 2019. Both papers write a sum
over the negatives; the programs of both divide the gradient by their number, and so do we: the learning rate then
means the same for any number of negatives. The MSLS triplets (Warburg et al. 2020) are trained by distances that are
not squared, with the root of the same m.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from samespot.errors import InputError
from samespot.training.options import TRIPLET_MARGIN


def triplet_losses(
    queries: Tensor, positives: Tensor, negatives: Tensor, counted: Tensor, margin: float = TRIPLET_MARGIN
) -> Tensor:
    """(n,) loss of each tuple, 0 for one without negatives; see `nearer_to_positive` for the shapes."""
    lead = nearer_to_positive(queries, positives, negatives, counted)
    return _mean((margin - lead).clamp(min=0.0), counted)


def sare_independent_losses(queries: Tensor, positives: Tensor, negatives: Tensor, counted: Tensor) -> Tensor:
    """(n,) loss of each tuple, each negative against the positive on its own."""
    lead = nearer_to_positive(queries, positives, negatives, counted)
    return _mean(functional.softplus(-lead), counted)


def sare_joint_losses(queries: Tensor, positives: Tensor, negatives: Tensor, counted: Tensor) -> Tensor:
    """(n,) loss of each tuple, all its negatives together against the positive."""
    lead = nearer_to_positive(queries, positives, negatives, counted)
    against = (-lead).masked_fill(~counted, -torch.inf)
    return torch.cat([torch.zeros_like(lead[:, :1]), against], dim=1).logsumexp(dim=1)


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


def _mean(losses: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, losses, 0.0).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
