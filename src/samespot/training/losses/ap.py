"""How good is the ranking of a batch? AP-GeM's loss: 1 − the mean average precision of each image as a query.

A rank has no gradient, so similarities are sorted into bins, each shared between the two nearest bin centres. For a
query with c(k) images and c⁺(k) relevant ones in bin k, from the most similar bin down,

    AP = Σ_k P(k) r(k),   P(k) = (c⁺(1) + … + c⁺(k)) / (c(1) + … + c(k)),   r(k) = c⁺(k) / Σ c⁺
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samespot.overlap.classes import POSITIVE
from samespot.training.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from samespot.training.whole_batch import BatchResult

BINS = 25


def average_precision_loss(descriptors: Tensor, similarity: Tensor, ap_bins: int = BINS) -> BatchResult:
    """descriptors: (n, d) of length 1; similarity: (n, n), NaN where a pair does not count; relevant: ψ ≥ 0.5.

    An image without a relevant one in the batch is no query. `zero_share` is that of queries that rank perfectly.
    """
    from samespot.training.whole_batch import BatchResult, cosines, counted_pairs, mean_over

    counted = counted_pairs(descriptors, similarity)
    relevant = counted & (similarity >= POSITIVE)
    precision = quantised_precision(cosines(descriptors), relevant, counted, ap_bins)
    asked = relevant.any(dim=1)
    perfect = precision.detach() >= 1.0 - 1e-6
    return BatchResult(mean_over(1.0 - precision, asked), mean_over(perfect.to(precision.dtype), asked))


def quantised_precision(scores: Tensor, relevant: Tensor, counted: Tensor, bins: int = BINS) -> Tensor:
    """(q,) average precision of each query, 0 without a relevant image.

    scores: (q, m) similarities; bin centres divide [0, 1] evenly, and what lies outside falls into the end bins.
    relevant, counted: (q, m) bool. A score touches two bins, so memory does not grow with their number.
    """
    import torch

    place = (1.0 - scores.clamp(0.0, 1.0)) * (bins - 1)  # 0 at the most similar bin's centre
    above = place.detach().floor().clamp(max=bins - 2)
    share = place - above  # of the bin below; the rest goes to the one above
    at = above.long()

    def histogram(weight: Tensor) -> Tensor:
        empty = scores.new_zeros(len(scores), bins)
        return empty.scatter_add(1, at, (1.0 - share) * weight).scatter_add(1, at + 1, share * weight)

    everything, found = histogram(counted.to(scores.dtype)), histogram(relevant.to(scores.dtype))
    tiny = torch.finfo(scores.dtype).tiny
    precision = found.cumsum(dim=1) / everything.cumsum(dim=1).clamp(min=tiny)
    recall = found / relevant.sum(dim=1, keepdim=True).clamp(min=1)
    return (precision * recall).sum(dim=1)


# relevance is yes or no: halves of positives and negatives, since any labels hold both
LOSS = Loss(
    "ap", "Revaud et al. 2019", batch=average_precision_loss, rate=0.04, batches="all:D", options=("ap_bins",)
)
