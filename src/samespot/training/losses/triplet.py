"""Is the query nearer to its positive than to each of its negatives, by a margin? The loss of NetVLAD.

With squared Euclidean distances p to the positive and n to a negative, of unit descriptors,

    max(p + m − n, 0)    mean over the negatives

Arandjelović et al. 2016 (m = 0.1) write a sum over the negatives; their program divides the gradient by their number,
and so do we: the learning rate then means the same for any number of negatives. The MSLS triplets (Warburg et al.
2020) are trained by distances that are not squared, with the root of the same m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samespot.training.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

MARGIN = 0.1  # of squared distances


def triplet_losses(
    queries: Tensor, positives: Tensor, negatives: Tensor, counted: Tensor, triplet_margin: float = MARGIN
) -> Tensor:
    """(n,) loss of each tuple, 0 for one without negatives; see `nearer_to_positive` for the shapes."""
    from samespot.training.tuple_distances import mean_counted, nearer_to_positive

    lead = nearer_to_positive(queries, positives, negatives, counted)
    return mean_counted((triplet_margin - lead).clamp(min=0.0), counted)


LOSS = Loss(
    "triplet", "Arandjelović et al. 2016", tuples=triplet_losses, rate=0.04, options=("triplet_margin",)
)
