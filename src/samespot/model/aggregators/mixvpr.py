"""MixVPR: each channel of the map is one long vector, and a cascade of perceptrons mixes its positions.

Ali-bey et al., MixVPR: Feature Mixing for Visual Place Recognition, WACV 2023.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from samespot.errors import InputError

SIDE, DEPTH = 20, 4  # of the map, and mixers
SHAPES = {4096: (1024, 4), 512: (256, 2), 128: (64, 2)}  # length of a descriptor -> channels, rows


class MixVPR(nn.Module):
    """(n, c, 20, 20) -> (n, size), channel by channel."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.size = size
        columns, rows = SHAPES[size]
        self.mixers = nn.ModuleList(_mixer(SIDE * SIDE) for _ in range(DEPTH))
        self.channels = nn.Linear(channels, columns)
        self.rows = nn.Linear(SIDE * SIDE, rows)

    def forward(self, features: Tensor) -> Tensor:
        if tuple(features.shape[-2:]) != (SIDE, SIDE):
            height, width = features.shape[-2:]
            raise InputError(
                f"MixVPR mixes the {SIDE} x {SIDE} positions of images of 320x320, not {height} x {width}; set the "
                "image size to 320x320"
            )
        mixed = features.flatten(2)
        for mixer in self.mixers:
            mixed = mixed + mixer(mixed)
        fewer = self.channels(mixed.transpose(1, 2)).transpose(1, 2)
        vector: Tensor = torch.flatten(self.rows(fewer), 1)
        return vector


def _mixer(positions: int) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(positions), nn.Linear(positions, positions), nn.ReLU(), nn.Linear(positions, positions)
    )
