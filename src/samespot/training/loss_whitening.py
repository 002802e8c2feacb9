"""In what space does a loss compare? Descriptors of a trunk vary far more along some directions than along others, and
retrieval whitens them. A loss that sees them whitened, too, teaches what is searched with.

The whitening is that of the network before it learned, and stays as it is: one that followed the network would undo
what it learns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from samespot.errors import InputError
from samespot.whitening.whitening import Whitening

PHOTOS = 4096  # at most, to fit on
DAMPING = 0.3  # of the mean variance, added to each


@dataclass(frozen=True)
class LossWhitening:
    """Descriptors (n, d) -> (n, dims) of length 1, with a gradient."""

    mean: Tensor  # (d,)
    projection: Tensor  # (d, dims)

    def __call__(self, descriptors: Tensor) -> Tensor:
        with torch.autocast(descriptors.device.type, enabled=False):
            return functional.normalize((descriptors.float() - self.mean) @ self.projection, dim=1)

    def to(self, device: torch.device) -> LossWhitening:
        return LossWhitening(self.mean.to(device), self.projection.to(device))

    @classmethod
    def fit(cls, descriptors: Tensor, dims: int) -> LossWhitening:
        """On descriptors (n, d), to `dims` or as many as there are. In float64 on the CPU: the same on every GPU."""
        try:
            found = Whitening.fit(
                descriptors.cpu().numpy(), "the photos to learn from", damping=DAMPING, most=dims
            )
        except InputError as error:
            raise InputError(f"`loss_dims`: {error}") from None
        # of one layout, as it comes from a checkpoint: another one rounds differently
        projection = torch.from_numpy(found.projection(dims)).float().contiguous()
        return cls(torch.from_numpy(found.mean).float(), projection)
