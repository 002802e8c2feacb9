"""Which pairs of a batch teach most, and how much is each worth? Multi-similarity with graded weights.

The loss of Wang et al. pulls and pushes hardest where the batch is wrong. Theirs knows only yes and no. Here a pair of
similarity ψ ≥ 0.3 is a positive that weighs ψ, and any other a negative that weighs 1 − ψ/0.3: so a pair that shares
little of the view is pushed away a little, and nothing jumps at a threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from samespot.training.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from samespot.training.whole_batch import BatchResult

LEAST = 0.3  # ψ of a positive
PULL, PUSH, MIDDLE = 2.0, 40.0, 0.5  # α, β, λ of the source
FARTHEST = (
    0.5  # above λ: what is this similar is not pushed harder, or two photos of one wall would rule the batch
)


def graded_multi_similarity_loss(descriptors: Tensor, similarity: Tensor) -> BatchResult:
    """descriptors: (n, d); similarity: (n, n), NaN where a pair does not count -> mean over all n anchors."""
    import torch

    from samespot.training.whole_batch import BatchResult, cosines, counted_pairs

    counted = counted_pairs(descriptors, similarity)
    near = cosines(descriptors) - MIDDLE
    psi = torch.where(counted, similarity, 0.0).to(near.dtype)
    positive = torch.where(psi >= LEAST, psi, 0.0)
    negative = torch.where(counted & (psi < LEAST), 1.0 - psi / LEAST, 0.0)
    pull = torch.log1p((positive * torch.exp(-PULL * near)).sum(dim=1)) / PULL
    push = torch.log1p((negative * torch.exp(PUSH * near.clamp(max=FARTHEST))).sum(dim=1)) / PUSH
    unpaired = ((positive > 0).sum(dim=1) == 0).to(near.dtype)
    return BatchResult((pull + push).mean(), unpaired.mean().detach())


LOSS = Loss(
    "graded-multi-similarity",
    "after Wang et al. 2019",
    batch=graded_multi_similarity_loss,
    rate=0.1,
    batches="all:A",
)
