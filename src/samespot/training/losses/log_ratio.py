"""Are descriptors apart in proportion to their places? Kim et al.'s log-ratio loss, over every anchor of a batch.

For an anchor a and two other images i and j, with distances d of descriptors and D of places,

    (log(d_ai / d_aj) − log(D_ai / D_aj))²

and an anchor's loss is the mean over all its pairs i, j. With e_i = log d_ai − log D_ai that is the mean of
(e_i − e_j)², twice the variance of e: no array of (n, n, n) is ever needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samespot.training.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from samespot.training.whole_batch import BatchResult

# of both distances: below it, a ratio says more of rounding, or of GPS, than of places
FLOOR = 0.01


def log_ratio_loss(descriptors: Tensor, similarity: Tensor) -> BatchResult:
    """descriptors: (n, d); similarity ψ: (n, n), NaN where a pair does not count. Places are 1 − ψ apart.

    An anchor needs two images to compare. No term is ever exactly 0, so `zero_share` is 0.
    """
    import torch

    from samespot.training.whole_batch import BatchResult, counted_pairs, distances_squared, mean_over

    counted = counted_pairs(descriptors, similarity)
    squared = distances_squared(descriptors)
    apart = (1.0 - similarity.nan_to_num(0.0).to(squared.dtype)).clamp(min=FLOOR)
    error = 0.5 * (squared + FLOOR**2).log() - apart.log()  # the first floor is smooth: it bounds the slope
    partners = counted.sum(dim=1)
    middle = torch.where(counted, error, 0.0).sum(dim=1) / partners.clamp(min=1)
    deviation = torch.where(counted, error - middle[:, None], 0.0).square().sum(dim=1)
    of_anchor = 2.0 * deviation / (partners - 1).clamp(min=1)
    return BatchResult(mean_over(of_anchor, partners > 1), squared.new_zeros(()))


LOSS = Loss("log-ratio", "Kim et al. 2019", batch=log_ratio_loss, rate=0.2, batches="all", needs_degrees=True)
