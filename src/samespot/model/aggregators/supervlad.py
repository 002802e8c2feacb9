"""SuperVLAD: NetVLAD without its centroids, with few clusters and one more for what says nothing.

Lu et al., SuperVLAD: Compact and Robust Image Descriptors for Visual Place Recognition, NeurIPS 2024. Their encoder
across the images of a batch is not here: a descriptor would depend on its neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

GHOSTS = 1  # clusters that are left out of the descriptor


class SuperVLAD(nn.Module):
    """(n, c, h, w) -> (n, clusters · c), cluster by cluster, each of length 1."""

    def __init__(self, channels: int, clusters: int) -> None:
        super().__init__()
        self.size = clusters * channels
        self.conv = nn.Conv2d(channels, clusters + GHOSTS, kernel_size=1, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):  # a sharp softmax, as in NetVLAD
            unit = functional.normalize(features.float(), dim=1).flatten(2)
            scores = self.conv.weight[:, :, 0, 0] @ unit
            shares = scores.softmax(dim=1)[:, :-GHOSTS]
            return functional.normalize(shares @ unit.transpose(1, 2), dim=2).flatten(1)
