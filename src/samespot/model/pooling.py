"""How a feature map becomes one vector: average, generalised mean (GeM), maximum, or an aggregator by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from samespot.model.aggregators.boq import BagOfQueries
from samespot.model.aggregators.cosplace import LinearGeM
from samespot.model.aggregators.mixvpr import MixVPR
from samespot.model.aggregators.salad import Salad
from samespot.model.aggregators.supervlad import SuperVLAD
from samespot.model.backbone import Trunk
from samespot.model.endings import (
    as_it_is,
    before_last_norm,
    before_last_rectifier,
    before_layer4,
    token_on_top,
)
from samespot.model.netvlad import NetVLAD
from samespot.model.pools import aggregator_named, check_pool
from samespot.model.several_maps import join_maps


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


class PooledMaps(GeM):
    """(n, sum of groups, h, w) -> (n, sum of groups): GeM of the first map and means of the others, each of length 1.

    What `join_maps` makes a trunk give. A `GeM`, so the name of its weight stays.
    """

    def __init__(self, groups: tuple[int, ...]) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, features: Tensor) -> Tensor:
        last, *before = torch.split(features, list(self.groups), dim=1)
        with torch.autocast(features.device.type, enabled=False):
            parts = [super().forward(last), *(one.float().mean(dim=(-2, -1)) for one in before)]
            return torch.cat([functional.normalize(part, dim=1) for part in parts], dim=1)


@dataclass(frozen=True)
class Aggregator:
    """A pooling whose name may hold numbers: `netvlad64`, `boq16384`."""

    make: Callable[[int, list[int]], nn.Module]  # of the trunk's channels and the numbers in its name
    ending: Callable[[Trunk], Trunk] = as_it_is  # what it wants of the trunk


# by the examples of `PATTERNS`
AGGREGATORS = {
    "netvlad64": Aggregator(lambda c, n: NetVLAD(n[0], c), before_last_rectifier),
    "netvlad64v2": Aggregator(lambda c, n: NetVLAD(n[0], c, bias=True), before_last_rectifier),
    "cosplace512": Aggregator(lambda c, n: LinearGeM(c, n[0], GeM()), before_last_rectifier),
    "salad": Aggregator(lambda c, n: Salad(c, 64, 128), token_on_top),
    "salad8x32": Aggregator(lambda c, n: Salad(c, *n), token_on_top),
    "megaloc": Aggregator(lambda c, n: Salad(c, 64, 256, projected=8448), token_on_top),
    "mixvpr4096": Aggregator(lambda c, n: MixVPR(c, n[0]), before_layer4),
    "boq16384": Aggregator(lambda c, n: BagOfQueries(c, n[0]), before_last_norm),
    "supervlad4": Aggregator(lambda c, n: SuperVLAD(c, n[0])),
}


def _aggregator(name: str) -> tuple[Aggregator, list[int]] | None:
    """The aggregator of that name, and the numbers in it."""
    found = aggregator_named(name)
    return None if found is None else (AGGREGATORS[found[0]], found[1])


def trunk_for(name: str, trunk: Trunk) -> Trunk:
    """The trunk as this pooling wants it: some end earlier, some give the class token or earlier maps, too."""
    if name == "multi":
        return join_maps(trunk)
    found = _aggregator(name)
    return trunk if found is None else found[0].ending(trunk)


def make_pool(name: str, channels: int, groups: tuple[int, ...] = ()) -> nn.Module:
    """The pooling of that name, for the features that `trunk_for` its trunk gives; `size` is the length of its vectors
    where that is not the number of channels. groups: channels of each map, where the trunk gives several.

    | name            | what                                                                                   |
    |-----------------|----------------------------------------------------------------------------------------|
    | gap, gem, max   | average, generalised mean (p = 3, learned), maximum                                     |
    | multi           | GeM of the last map, and means of the maps before it                                    |
    | netvlad64       | NetVLAD of any number of clusters; netvlad64v2 with a bias                              |
    | cosplace512     | GeM and a linear layer to any length                                                    |
    | salad           | SALAD of 64 clusters of 128; salad8x32 of other numbers; megaloc: 64 of 256, then 8448  |
    | mixvpr4096      | MixVPR of 4096, 512 or 128, for a ResNet's map of 20 x 20 (320 x 320 pixels)            |
    | boq16384        | bag of queries; the length over 32 is its width                                         |
    | supervlad4      | SuperVLAD of any number of clusters                                                     |
    """
    check_pool(name)
    if (found := _aggregator(name)) is not None:
        return found[0].make(channels, found[1])
    if name == "multi":
        return PooledMaps(groups)
    pools: dict[str, type[nn.Module]] = {"gap": GlobalAverage, "gem": GeM, "max": GlobalMax}
    return pools[name]()
