"""Which local features of two photos are each other's nearest: the pairs that geometry is then asked about."""

from __future__ import annotations

import torch
from torch import Tensor

_AT_LEAST = 16  # photos that are compared at once
_ON_GPU = 1 << 30  # [bytes] of cosines there: fewer, larger steps keep it busy


def photos_at_once(features: int, device: torch.device) -> int:
    """How many photos of so many features each are best compared at once."""
    room = _ON_GPU // (4 * features**2) if device.type == "cuda" else 0
    return max(_AT_LEAST, room)


def mutual_nearest(query: Tensor, candidates: Tensor, above: float = -1.0) -> Tensor:
    """(n, d) unit features of a photo, (k, m, d) of k others -> (k, n) feature of each that is the mutual nearest.

    -1 where the nearest has a nearer one itself, or where the cosine is not above `above`. An all-zero row is no
    feature: photos of different numbers of features are filled up with them.
    """
    if 0 in (len(query), candidates.shape[1]):
        return torch.full((len(candidates), len(query)), -1, device=query.device)
    query, candidates = query.float(), candidates.float()
    cosine = query @ candidates.transpose(1, 2)
    # the largest size and the place from max: on a CPU several times as fast as all() of zeros, and argmax
    cosine.masked_fill_((candidates.abs().amax(dim=2) == 0)[:, None, :], -torch.inf)
    cosine.masked_fill_((query.abs().amax(dim=1) == 0)[None, :, None], -torch.inf)
    best, nearest = cosine.max(dim=2)
    back = cosine.max(dim=1).indices
    mutual = back.gather(1, nearest) == torch.arange(len(query), device=query.device)
    return torch.where(mutual & (best > above), nearest, -1)
