"""How surely is the positive the one that the query belongs to? SARE with its Gaussian kernel, Liu et al. 2019.

With squared Euclidean distances p to the positive and n to a negative, of unit descriptors,

    independent  −log(e^−p / (e^−p + e^−n))      mean over the negatives
    joint        −log(e^−p / (e^−p + Σ e^−n))    over all negatives at once

The paper writes a sum over the negatives for the first; its program divides the gradient by their number, and so do
we: the learning rate then means the same for any number of negatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samespot.training.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor


def sare_independent_losses(queries: Tensor, positives: Tensor, negatives: Tensor, counted: Tensor) -> Tensor:
    """(n,) loss of each tuple, each negative against the positive on its own."""
    from torch.nn import functional

    from samespot.training.tuple_distances import mean_counted, nearer_to_positive

    lead = nearer_to_positive(queries, positives, negatives, counted)
    return mean_counted(functional.softplus(-lead), counted)


def sare_joint_losses(queries: Tensor, positives: Tensor, negatives: Tensor, counted: Tensor) -> Tensor:
    """(n,) loss of each tuple, all its negatives together against the positive."""
    import torch

    from samespot.training.tuple_distances import nearer_to_positive

    lead = nearer_to_positive(queries, positives, negatives, counted)
    against = (-lead).masked_fill(~counted, -torch.inf)
    return torch.cat([torch.zeros_like(lead[:, :1]), against], dim=1).logsumexp(dim=1)


INDEPENDENT = Loss("sare-ind", "Liu et al. 2019", tuples=sare_independent_losses, rate=0.05)
JOINT = Loss("sare-joint", "Liu et al. 2019", tuples=sare_joint_losses, rate=0.025)
