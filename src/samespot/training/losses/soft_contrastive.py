"""How far is each image a positive, and how far a negative? Both in part: soft contrastive learning by Thoma et al.

An image with similarity ψ to the anchor is a positive by ψ and a negative by 1 − ψ. With S the cosine of two
descriptors (0 if below), the loss of an anchor is

    log(1 + Σ exp(−α(ψS − λ))) / α  +  log(1 + Σ exp(β((1−ψ)S − λ))) / β

over those pairs that are informative (`_informative`). With ψ in {0, 1} it is the multi-similarity loss. The paper's
ψ falls with the distance on the ground (`samespot.overlap.rules.label_by_distance`); any graded ψ will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samespot.training.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from samespot.training.whole_batch import BatchResult

ALPHA, BETA, BASE = 2.0, 50.0, 1.0  # α, β and λ
SLACK = 0.1  # how much a pair may agree with the others and still be informative


def soft_contrastive_loss(descriptors: Tensor, similarity: Tensor) -> BatchResult:
    """descriptors: (n, d) of length 1; similarity: (n, n), NaN where a pair does not count -> mean over anchors."""
    import torch

    from samespot.training.whole_batch import BatchResult, cosines, counted_pairs, mean_over, share_left_out

    counted = counted_pairs(descriptors, similarity)
    near = cosines(descriptors).clamp(min=0.0)
    weight = similarity.nan_to_num(0.0).to(near.dtype)
    given = counted & (weight > 0), counted & (weight < 1)
    kept = _informative(near.detach(), weight, *given)
    pull = torch.where(kept[0], (-ALPHA * (weight * near - BASE)).exp(), 0.0).sum(dim=1).log1p() / ALPHA
    push = torch.where(kept[1], (BETA * ((1.0 - weight) * near - BASE)).exp(), 0.0).sum(dim=1).log1p() / BETA
    return BatchResult(mean_over(pull + push, counted.any(dim=1)), share_left_out(kept, given))


def _informative(near: Tensor, weight: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """Positives less similar than the most similar negative, negatives more similar than the least similar positive.

    Similarities are weighted by how far an image is of that kind; an anchor without positives keeps its negatives.
    """
    import torch

    pulled, pushed = (
        torch.where(positive, weight * near, 0.0),
        torch.where(negative, (1.0 - weight) * near, 0.0),
    )
    hardest_negative, best = pushed.amax(dim=1, keepdim=True), pulled.amax(dim=1, keepdim=True)
    hardest_positive = best + torch.where(positive, weight * (near - best), 0.0).amin(dim=1, keepdim=True)
    return positive & (pulled < hardest_negative + SLACK), negative & (pushed > hardest_positive - SLACK)


LOSS = Loss(
    "soft-contrastive",
    "Thoma et al. 2020",
    batch=soft_contrastive_loss,
    rate=0.1,
    batches="all",
    soft_labels=True,
)
