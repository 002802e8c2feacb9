"""NetVLAD: what a photo's local features say about each of K visual words, as one long vector.

Arandjelović et al., NetVLAD: CNN architecture for weakly supervised place recognition, CVPR 2016.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from samespot.errors import InputError

# an average feature gives its nearest cluster so many times the weight of the second one, at the start
SHARPNESS = 100.0


class NetVLAD(nn.Module):
    """(n, d, h, w) -> (n, clusters · d), cluster by cluster: component d of cluster k is at k · channels + d.

    Local features x are brought to length 1, each is shared out among the clusters by a softmax over
    w_k · x (+ b_k), and each cluster adds up its shares of the residuals x - c_k. Every cluster's sum is
    brought to length 1 (intra-normalisation), so that no cluster outweighs the others.

    `bias` adds b_k, which the published models do without; see `start`. `started` says whether the clusters mean
    something: they were found in features, or read from a file.
    """

    def __init__(self, clusters: int, channels: int, bias: bool = False) -> None:
        super().__init__()
        self.clusters, self.channels = clusters, channels
        # the names and shapes of the published weights
        self.conv = nn.Conv2d(channels, clusters, kernel_size=1, bias=bias)
        self.centroids = nn.Parameter(functional.normalize(torch.randn(clusters, channels), dim=1))
        self.started = False

    @property
    def size(self) -> int:
        """Of a descriptor."""
        return self.clusters * self.channels

    def forward(self, features: Tensor) -> Tensor:
        sums = self.residual_sums(*self.soft_assign(features))
        return functional.normalize(sums, dim=2).flatten(1)

    def soft_assign(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(n, d, h, w) -> local features of length 1 (n, d, h, w), and their shares in clusters (n, k, h, w)."""
        # a softmax this sharp needs more digits than half precision has; a GPU's convolutions have no more (TF32), its
        # matrix products do
        with torch.autocast(features.device.type, enabled=False):
            unit = functional.normalize(features.float(), dim=1)
            scores = torch.einsum("kd,ndhw->nkhw", self.conv.weight[:, :, 0, 0], unit)
            if self.conv.bias is not None:
                scores = scores + self.conv.bias[:, None, None]
            return unit, scores.softmax(dim=1)

    def residual_sums(self, unit: Tensor, shares: Tensor) -> Tensor:
        """What `soft_assign` gave -> (n, k, d) sums over all positions of share · (x - c)."""
        with torch.autocast(unit.device.type, enabled=False):
            # as two sums: the residuals of all positions to all clusters would be k times the feature map
            x, a = unit.flatten(2), shares.flatten(2)
            return a @ x.transpose(1, 2) - a.sum(dim=2)[:, :, None] * self.centroids

    def contributions(self, features: Tensor) -> Tensor:
        """(n, h, w) what each position adds to the squared length of the descriptor; they sum to 1."""
        unit, shares = self.soft_assign(features)
        sums = self.residual_sums(unit, shares)
        lengths = sums.norm(dim=2).clamp(min=1e-12)  # no shorter one is brought to length 1
        towards = sums / (lengths**2)[:, :, None]  # a cluster's direction over its length
        along = torch.einsum("nkd,ndhw->nkhw", towards, unit)
        at_centroid = (towards * self.centroids).sum(dim=2)[:, :, None, None]
        filled = (lengths > 1e-12).sum(dim=1).clamp(min=1)
        total: Tensor = (shares * (along - at_centroid)).sum(dim=1) / filled[:, None, None]
        return total

    @torch.no_grad()
    def start(self, centroids: Tensor, features: Tensor) -> float:
        """Set the clusters to centroids (k, d) of local features (m, d) of length 1; returns α, the sharpness.

        Without bias, the published layout, w = α c / |c|: a feature goes to the cluster that it makes the smallest
        angle with. With bias ("v2"), w = 2 α c and b = -α |c|²: it goes to the nearest centroid. Either way α is
        ln 100 over the average gap between the best and the second score, so that at that gap the best cluster
        gets 100 times the share of the second.
        """
        scores, weight = _scores(centroids, features, self.conv.bias is not None)
        best = scores.topk(2, dim=1).values.double()
        gap = float((best[:, 0] - best[:, 1]).mean())
        if not gap > 0:
            raise InputError(
                f"the features of these photos do not separate the {self.clusters} clusters of NetVLAD; "
                "choose fewer, such as netvlad16, or other weights"
            )
        alpha = math.log(SHARPNESS) / gap
        self.centroids.copy_(centroids)
        self.conv.weight.copy_((alpha * weight)[:, :, None, None])
        if self.conv.bias is not None:
            self.conv.bias.copy_(-alpha * centroids.square().sum(dim=1))
        self.started = True
        return alpha

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *others)
        self.started = self.started or f"{prefix}centroids" in state_dict

    def extra_repr(self) -> str:
        return f"clusters={self.clusters}, channels={self.channels}"


def _scores(centroids: Tensor, features: Tensor, bias: bool) -> tuple[Tensor, Tensor]:
    """(m, k) scores before they are made sharp, and the weights (k, d) of the features in them."""
    if not bias:
        unit = functional.normalize(centroids, dim=1)
        return features @ unit.T, unit
    return 2 * features @ centroids.T - centroids.square().sum(dim=1), 2 * centroids
