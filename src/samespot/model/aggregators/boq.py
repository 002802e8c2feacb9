"""BoQ: learned queries ask the local features, in two rounds; what they find is the descriptor.

Ali-bey et al., BoQ: A Place is Worth a Bag of Learnable Queries, CVPR 2024.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

QUERIES, ROUNDS, ROWS = 64, 2, 32
HEAD = 64  # width of an attention head


class BagOfQueries(nn.Module):
    """(n, c, h, w) -> (n, size), size = width · 32."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.size = size
        width = size // ROWS
        self.project = nn.Conv2d(channels, width, kernel_size=3, padding=1)
        self.norm = nn.LayerNorm(width)
        self.rounds = nn.ModuleList(_Round(width) for _ in range(ROUNDS))
        self.rows = nn.Linear(ROUNDS * QUERIES, ROWS)

    def forward(self, features: Tensor) -> Tensor:
        local = self.norm(self.project(features).flatten(2).transpose(1, 2))
        answers = []
        for ask in self.rounds:
            local, answer = ask(local)
            answers.append(answer)
        found = torch.cat(answers, dim=1).transpose(1, 2)
        vector: Tensor = self.rows(found).flatten(1)
        return vector


class _Round(nn.Module):
    """Local features (n, m, d) -> the same after a transformer layer, and what the queries find there (n, 64, d)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        heads = width // HEAD
        self.layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.queries = nn.Parameter(torch.randn(1, QUERIES, width))
        self.among = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm_queries = nn.LayerNorm(width)
        self.across = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm_answers = nn.LayerNorm(width)

    def forward(self, local: Tensor) -> tuple[Tensor, Tensor]:
        local = self.layer(local)
        own, _ = self.among(self.queries, self.queries, self.queries, need_weights=False)
        asked = self.norm_queries(self.queries + own).expand(local.shape[0], -1, -1)
        found, _ = self.across(asked, local, local, need_weights=False)
        return local, self.norm_answers(found)
