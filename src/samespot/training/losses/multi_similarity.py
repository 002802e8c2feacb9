"""Which pairs of a batch teach most? The multi-similarity loss of Wang et al., through pytorch-metric-learning.

Positives have ψ ≥ 0.5, negatives ψ = 0. Soft negatives (0 < ψ < 0.5) are neither: the loss knows only yes and no, and
they are nearly the one and nearly the other.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from samespot.overlap.classes import POSITIVE
from samespot.training.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from samespot.training.whole_batch import BatchResult

EPSILON = 0.1  # slack of the mining


def multi_similarity_loss(descriptors: Tensor, similarity: Tensor) -> BatchResult:
    """descriptors: (n, d); similarity: (n, n), NaN where a pair does not count -> mean over all n anchors.

    The package is told the pairs by their indices, whose number the host must know: one wait for the device a step.
    """
    import torch

    from samespot.training.whole_batch import BatchResult, cosines, counted_pairs, share_left_out

    counted = counted_pairs(descriptors, similarity)
    given = counted & (similarity >= POSITIVE), counted & (similarity <= 0)
    kept = informative_pairs(cosines(descriptors.detach()), *given)
    precise = descriptors.to(torch.promote_types(descriptors.dtype, torch.float32))
    with torch.autocast(descriptors.device.type, enabled=False):
        indices = (*torch.where(kept[0]), *torch.where(kept[1]))
        loss: Tensor = _loss()(precise, indices_tuple=indices)
    return BatchResult(loss, share_left_out(kept, given))


def informative_pairs(near: Tensor, positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs that the package's miner would choose, which takes classes and no pairs.

    Positives less similar than the anchor's most similar negative plus ε, negatives more similar than its least
    similar positive less ε. near: (n, n) similarities; positive, negative: (n, n) bool.
    """
    import torch

    hardest_negative = torch.where(negative, near, -torch.inf).amax(dim=1, keepdim=True)
    hardest_positive = torch.where(positive, near, torch.inf).amin(dim=1, keepdim=True)
    return positive & (near - EPSILON < hardest_negative), negative & (near + EPSILON > hardest_positive)


@cache
def _loss() -> Any:
    LOSS.require_package()
    from pytorch_metric_learning.losses import MultiSimilarityLoss

    return MultiSimilarityLoss()  # α = 2, β = 50, λ = 0.5


# relevance is yes or no: halves of positives and negatives, since any labels hold both
LOSS = Loss(
    "multi-similarity",
    "Wang et al. 2019",
    batch=multi_similarity_loss,
    rate=0.1,
    batches="all:D",
    package="pytorch_metric_learning",
)
