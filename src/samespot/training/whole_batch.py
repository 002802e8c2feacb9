"""What losses over a whole batch share: every image meets every other, but for pairs that do not count."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from samespot.errors import InputError


@dataclass(frozen=True)
class BatchResult:
    """Of a loss over a whole batch. Tensors, so that nothing waits for the device."""

    loss: Tensor  # ()
    zero_share: Tensor  # () share of its terms that are 0: they teach nothing


def counted_pairs(descriptors: Tensor, similarity: Tensor) -> Tensor:
    """(n, n) bool: False on the diagonal and where the similarity (n, n) is NaN."""
    n = len(descriptors)
    if descriptors.ndim != 2 or similarity.shape != (n, n):
        raise InputError(
            f"descriptors {tuple(descriptors.shape)} with similarity {tuple(similarity.shape)}: "
            "expected (n, d) and (n, n)"
        )
    itself = torch.eye(n, dtype=torch.bool, device=descriptors.device)
    return ~similarity.isnan() & ~itself


def cosines(descriptors: Tensor) -> Tensor:
    """(n, n) cosine similarity of descriptors (n, d) of length 1, in float32 or better.

    By a product and not by differences, whose gradient takes (n, n, d) of memory on a GPU: batches are large here.
    """
    precise = descriptors.to(torch.promote_types(descriptors.dtype, torch.float32))
    with torch.autocast(descriptors.device.type, enabled=False):
        return precise @ precise.T


def distances_squared(descriptors: Tensor) -> Tensor:
    """(n, n), from products: of two alike, good to about 1e-6."""
    products = cosines(descriptors)
    lengths = products.diagonal()
    return (lengths[:, None] + lengths[None, :] - 2.0 * products).clamp(min=0.0)


def mean_over(values: Tensor, chosen: Tensor) -> Tensor:
    """() mean of the chosen (bool) of `values` (n,); 0, with a gradient of 0, where none is."""
    return torch.where(chosen, values, 0.0).sum() / chosen.sum().clamp(min=1)


def share_left_out(kept: tuple[Tensor, Tensor], given: tuple[Tensor, Tensor]) -> Tensor:
    """() share of the given positives and negatives, (n, n) bool each, that were not kept; 0 where none was given."""
    stayed, all_of_them = (positive.sum() + negative.sum() for positive, negative in (kept, given))
    return (all_of_them - stayed) / all_of_them.clamp(min=1)
