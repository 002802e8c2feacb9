"""How a feature map becomes one vector: average, generalised mean (GeM), maximum, or NetVLAD over all positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from samespot.errors import InputError
from samespot.model.netvlad import NetVLAD, netvlad_named

POOLS = ("gap", "gem", "max")  # that need no number of clusters


class GlobalAverage(nn.Module):
    """(n, d, h, w) -> (n, d), mean over positions."""

    def forward(self, features: Tensor) -> Tensor:
        return features.float().mean(dim=(-2, -1))


class GlobalMax(nn.Module):
    """(n, d, h, w) -> (n, d), maximum over positions."""

    def forward(self, features: Tensor) -> Tensor:
        return features.float().amax(dim=(-2, -1))


class GeM(nn.Module):
    """(n, d, h, w) -> (n, d), generalised mean (mean of x^p)^(1/p) with one learned p.

    p = 1 is the average of the positive part, p -> infinity the maximum. Values below `eps` count as `eps`,
    since a power of a negative number has no real value; so features of either sign (ViT tokens) lose
    their negative half.
    """

    def __init__(self, p: float = 3.0, eps: float = 1e-6) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor([float(p)]))
        self.eps = eps

    def forward(self, features: Tensor) -> Tensor:
        # the cube of a half-precision activation overflows or vanishes, so autocast is switched off here
        with torch.autocast(features.device.type, enabled=False):
            p = self.p.float()
            powers = features.float().clamp(min=self.eps).pow(p)
            return powers.mean(dim=(-2, -1)).pow(1.0 / p)

    def extra_repr(self) -> str:
        return f"p={self.p.item():.4f}, eps={self.eps}"


def check_pool(name: str) -> None:
    """Raise for a name that `make_pool` does not know."""
    if name not in (*POOLS, "multi") and netvlad_named(name) is None:
        raise InputError(
            f"pool {name!r} is not known; choose one of {', '.join(POOLS)}, netvlad16, netvlad64, or netvlad with "
            "another number of clusters"
        )


def make_pool(name: str, channels: int) -> nn.Module:
    """`gap`, `gem` (p = 3, learned), `max`, or `netvlad64` (any number of clusters; `netvlad64v2` with a bias) for
    feature maps of so many channels."""
    check_pool(name)
    if (netvlad := netvlad_named(name)) is not None:
        return NetVLAD(netvlad[0], channels, bias=netvlad[1])
    pools: dict[str, type[nn.Module]] = {"gap": GlobalAverage, "gem": GeM, "max": GlobalMax}
    return pools[name]()
