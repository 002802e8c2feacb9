"""CosPlace and EigenPlaces pool alike: GeM over local features of length 1, and one linear layer.

Berton et al., Rethinking Visual Geo-localization for Large-Scale Applications, CVPR 2022; EigenPlaces, ICCV 2023.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class LinearGeM(nn.Module):
    """(n, c, h, w) -> (n, size)."""

    def __init__(self, channels: int, size: int, gem: nn.Module) -> None:
        super().__init__()
        self.size = size
        self.gem = gem
        self.linear = nn.Linear(channels, size)

    def forward(self, features: Tensor) -> Tensor:
        pooled: Tensor = self.linear(self.gem(functional.normalize(features.float(), dim=1)))
        return pooled
