"""A batch that losses of whole batches are tried on."""

import math
from collections.abc import Callable

import pytest
import torch


def _batch(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(n, 5, generator=dice, dtype=torch.float64), dim=1)
    psi = torch.rand(n, n, generator=dice, dtype=torch.float64)
    psi[torch.rand(n, n, generator=dice) < 0.4] = 0.0
    psi = psi.triu(1) + psi.triu(1).T
    psi[2, 5] = psi[5, 2] = math.nan
    return x, psi


@pytest.fixture
def some_batch() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Descriptors (n, d) and their similarity (n, n), of which many are 0 and one is unknown."""
    return _batch
