"""How far apart should two descriptors be? As far as their places are unlike: the Generalized Contrastive Loss.

For a pair with similarity ψ in [0, 1] and Euclidean distance d of its descriptors, with margin τ,

    loss        ½ψd² + ½(1−ψ)·max(τ−d, 0)²
    its slope   d + τ(ψ−1) where d < τ, else ψd

so a pair rests at d = τ(1−ψ). With ψ in {0, 1} this is the binary Contrastive Loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from samespot.errors import InputError
from samespot.overlap.classes import POSITIVE
from samespot.training.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from samespot.training.whole_batch import BatchResult

MARGIN = 0.5  # τ
# positives, soft negatives, hard negatives: the shares of batch strategy A
CLASS_WEIGHTS = (0.5, 0.25, 0.25)
CLASS_NAMES = ("positive", "soft negative", "hard negative")


def pair_losses(x: Tensor, y: Tensor, similarity: Tensor, margin: float = MARGIN) -> Tensor:
    """(n,) loss of each pair, in float32 or better whatever the precision of the inputs."""
    import torch

    if x.ndim != 2 or x.shape != y.shape or similarity.shape != x.shape[:1]:
        raise InputError(
            f"descriptors {tuple(x.shape)} and {tuple(y.shape)} with similarity {tuple(similarity.shape)}: "
            "expected (n, d), (n, d) and (n,)"
        )
    precise = torch.promote_types(x.dtype, torch.float32)
    with torch.autocast(x.device.type, enabled=False):
        squared = (x.to(precise) - y.to(precise)).square().sum(dim=1)
        return _graded_loss(squared, similarity.to(precise), margin)


def _graded_loss(squared: Tensor, similarity: Tensor, margin: float) -> Tensor:
    """Loss from squared distances. Where d is 0 its direction is unknown, and the gradient is taken as 0."""
    import torch

    apart = squared > 0
    distance = torch.where(apart, squared, 1.0).sqrt() * apart
    push = (margin - distance).clamp(min=0.0)
    return 0.5 * similarity * squared + 0.5 * (1.0 - similarity) * push.square()


@dataclass(frozen=True)
class AllPairs:
    """The loss over every pair of a batch, and how each class (see `CLASS_NAMES`) does. Tensors, no sync."""

    loss: Tensor  # ()
    zero_share: Tensor  # () share of all pairs whose loss is 0
    class_pairs: Tensor  # (3,) number of pairs
    class_loss: Tensor  # (3,) mean loss, 0 for a class without pairs
    class_zero_share: Tensor  # (3,) share of the class's pairs whose loss is 0


def all_pairs_loss(
    descriptors: Tensor,
    similarity: Tensor,
    margin: float = MARGIN,
    class_weights: tuple[float, float, float] = CLASS_WEIGHTS,
) -> AllPairs:
    """Every unordered pair of a batch, each class averaged, then weighted.

    descriptors: (n, d); similarity: (n, n), symmetric, NaN where a pair does not count (the diagonal never
    does). A class without pairs leaves its weight to the others, so that the weights always sum to 1.
    """
    import torch

    n = len(descriptors)
    if similarity.shape != (n, n):
        raise InputError(f"{n} descriptors need an ({n}, {n}) similarity, not {tuple(similarity.shape)}")
    precise = torch.promote_types(descriptors.dtype, torch.float32)
    known = similarity.nan_to_num(0.0).to(precise)  # a NaN would reach the gradient even where it is masked
    with torch.autocast(descriptors.device.type, enabled=False):
        losses = _graded_loss(_squared_distances(descriptors.to(precise)), known, margin)
    upper = torch.ones(n, n, dtype=torch.bool, device=descriptors.device).triu(1)
    counted = upper & ~similarity.isnan()
    positive, overlapping = similarity >= POSITIVE, similarity > 0
    masks = torch.stack([positive, overlapping & ~positive, ~overlapping]) & counted
    losses = torch.where(counted, losses, 0.0)
    zero = (losses.detach() <= 0) & counted
    pairs = masks.sum(dim=(1, 2))
    present = pairs > 0
    each = pairs.clamp(min=1).to(precise)
    class_loss = (losses * masks).sum(dim=(1, 2)) / each
    # plain numbers times tensors: a tensor of weights would have to be copied to the device, and waited for
    weighted = sum(w * part for w, part in zip(class_weights, class_loss.unbind(), strict=True))
    total = sum(w * part for w, part in zip(class_weights, present.to(precise).unbind(), strict=True))
    loss = torch.as_tensor(weighted) / torch.as_tensor(total).clamp(min=torch.finfo(precise).tiny)
    return AllPairs(
        loss=loss,
        zero_share=zero.sum() / pairs.sum().clamp(min=1),
        class_pairs=pairs,
        class_loss=class_loss.detach(),
        class_zero_share=(zero & masks).sum(dim=(1, 2)) / each,
    )


def _squared_distances(x: Tensor) -> Tensor:
    """(n, n). From differences, not from the Gram matrix: near pairs would drown in its rounding (or in TF32)."""
    import torch

    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()


def _of_pairs(
    x: Tensor, y: Tensor, similarity: Tensor, margin: float, class_weights: tuple[float, float, float]
) -> Tensor:
    """Classes are weighted by how often they are drawn."""
    return pair_losses(x, y, similarity, margin)


def _of_batch(
    descriptors: Tensor, similarity: Tensor, margin: float, class_weights: tuple[float, float, float]
) -> BatchResult:
    from samespot.training.whole_batch import BatchResult

    result = all_pairs_loss(descriptors, similarity, margin, class_weights)
    return BatchResult(result.loss, result.zero_share)


LOSS = Loss(
    "contrastive",
    "Leyva-Vallina et al. 2021; over all pairs of a batch: samespot",
    pairs=_of_pairs,
    batch=_of_batch,
    options=("margin", "class_weights"),
    predicts_overlap=True,
)
