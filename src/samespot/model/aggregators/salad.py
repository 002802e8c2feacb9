"""SALAD: local features are moved to clusters at the least cost, and those that say nothing into a dustbin.

Izquierdo and Civera, Optimal Transport Aggregation for Visual Place Recognition, CVPR 2024. MegaLoc (Berton and Masone,
2025) has twice as long clusters and a linear layer after them.

Their dropout between the two layers of a perceptron is left out: a batch in parts must give the gradient of the whole.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from samespot.errors import InputError

HIDDEN, TOKEN = 512, 256  # width of each perceptron, and of the class token in the descriptor
STEPS = 3  # of Sinkhorn's algorithm


class Salad(nn.Module):
    """(n, c, 1 + h, w), a map with the class token on top, -> (n, size): the token's part first, then (dims, clusters).

    projected: length of the descriptor after a last linear layer, None for none.
    """

    def __init__(self, channels: int, clusters: int, dims: int, projected: int | None = None) -> None:
        super().__init__()
        self.clusters = clusters
        whole = TOKEN + dims * clusters
        self.size = whole if projected is None else projected
        self.token = nn.Sequential(nn.Linear(channels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, TOKEN))
        self.local = _perceptron(channels, dims)
        self.score = _perceptron(channels, clusters)
        self.dustbin = nn.Parameter(torch.tensor(1.0))
        self.project = None if projected is None else nn.Linear(whole, projected)

    def forward(self, features: Tensor) -> Tensor:
        token, patches = features[:, :, 0, 0], features[:, :, 1:]
        local, scores = self.local(patches).flatten(2), self.score(patches).flatten(2)
        scene = self.token(token)
        with torch.autocast(features.device.type, enabled=False):  # sums of exponentials need all digits
            shares = transport(scores.float(), self.dustbin.float())
            sums = local.float() @ shares.transpose(1, 2)  # (n, dims, clusters)
            parts = [functional.normalize(scene.float(), dim=1), functional.normalize(sums, dim=1).flatten(1)]
            joined = functional.normalize(torch.cat(parts, dim=1), dim=1)
        return joined if self.project is None else self.project(joined)


def _perceptron(channels: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, HIDDEN, 1), nn.ReLU(), nn.Conv2d(HIDDEN, out, 1))


def transport(scores: Tensor, dustbin: Tensor) -> Tensor:
    """(n, k, m) scores of m features in k clusters -> (n, k, m), the share of each feature that goes to each cluster.

    Every feature gives 1, every cluster takes 1, and the dustbin the m - k that are left. A few steps of Sinkhorn's
    algorithm on logarithms come close to that.
    """
    count, clusters, features = scores.shape
    if features <= clusters:
        raise InputError(
            f"{features} patches do not fill {clusters} clusters and a dustbin; give larger images, or a pooling with "
            "fewer clusters such as salad8x32"
        )
    left_over = dustbin.expand(count, 1, features)
    costs = torch.cat([scores, left_over], dim=1)
    mass = torch.zeros(clusters + 1, device=scores.device)
    mass[-1] = math.log(features - clusters)
    columns = torch.zeros(count, features, device=scores.device)
    for _ in range(STEPS):
        rows = mass - (costs + columns[:, None]).logsumexp(dim=2)
        columns = -(costs + rows[:, :, None]).logsumexp(dim=1)
    return (costs + rows[:, :, None] + columns[:, None]).exp()[:, :-1]
