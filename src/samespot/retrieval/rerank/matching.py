"""Which local features of two photos are each other's nearest: the pairs that geometry is then asked about."""

from __future__ import annotations

import torch
from torch import Tensor


def mutual_nearest(query: Tensor, candidates: Tensor, above: float = -1.0) -> Tensor:
    """(n, d) unit features of a photo, (k, m, d) of k others -> (k, n) feature of each that is the mutual nearest.

    -1 where the nearest has a nearer one itself, or where the cosine is not above `above`. An all-zero row is no
    feature: photos of different numbers of features are filled up with them.
    """
    if 0 in (len(query), candidates.shape[1]):
        return torch.full((len(candidates), len(query)), -1, device=query.device)
    cosine = query.float() @ candidates.float().transpose(1, 2)
    cosine.masked_fill_((candidates == 0).all(dim=2)[:, None, :], -torch.inf)
    cosine.masked_fill_((query == 0).all(dim=1)[None, :, None], -torch.inf)
    best, nearest = cosine.max(dim=2)
    back = cosine.argmax(dim=1)
    mutual = back.gather(1, nearest) == torch.arange(len(query), device=query.device)
    return torch.where(mutual & (best > above), nearest, -1)
