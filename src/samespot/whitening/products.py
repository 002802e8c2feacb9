"""Large products of matrices in float64: by numpy, or on a GPU, where those of 32,768 dims take seconds, not minutes.

Both sum in float64, in another order: results agree to about 1e-12 of their size, not to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Times = Callable[[Floats], Floats]


class Products(Protocol):
    """Where the products are computed."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """After which the same is worth trying elsewhere."""

    def squared(self, blocks: Iterable[Floats], size: int) -> Any:
        """(size, size) the sum of blockᵀ · block over blocks (rows, size), to be given to `strongest`."""

    def strongest(self, products: Any, most: int | None) -> tuple[Floats, Floats]:
        """Eigenvalues of a symmetric matrix, descending, and the eigenvectors as rows; all, or so many."""

    def times(self, right: Floats) -> Times:
        """What multiplies blocks (rows, k) by this (k, n)."""


def products_on(device: str) -> Products:
    """By the name of a device: cpu, cuda or cuda:1."""
    return NumpyProducts() if device == "cpu" else TorchProducts(device)


class NumpyProducts:
    failures: tuple[type[Exception], ...] = ()

    def squared(self, blocks: Iterable[Floats], size: int) -> Floats:
        total = np.zeros((size, size))
        for block in blocks:
            total += block.T @ block
        return total

    def strongest(self, products: Floats, most: int | None) -> tuple[Floats, Floats]:
        if most is None or most >= len(products):
            values, vectors = np.linalg.eigh(products)
        else:
            from scipy.linalg import eigh

            within = (len(products) - most, len(products) - 1)
            values, vectors = eigh(products, subset_by_index=within, overwrite_a=True, check_finite=False)
        return values[::-1], vectors.T[::-1]

    def times(self, right: Floats) -> Times:
        return lambda block: block @ right


class TorchProducts:
    def __init__(self, device: str) -> None:
        import torch  # takes a second, and is not needed without a GPU

        self._torch, self._device = torch, torch.device(device)
        self.failures: tuple[type[Exception], ...] = (torch.cuda.OutOfMemoryError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]

    def squared(self, blocks: Iterable[Floats], size: int) -> Any:
        total = self._torch.zeros((size, size), dtype=self._torch.float64, device=self._device)
        for block in blocks:
            there = self._sent(block)
            total += there.T @ there
        return total

    def strongest(self, products: Any, most: int | None) -> tuple[Floats, Floats]:
        values, vectors = self._torch.linalg.eigh(products)
        kept = len(values) if most is None else min(most, len(values))
        rows = vectors[:, -kept:].T.flip(0)
        return values[-kept:].flip(0).cpu().numpy(), rows.contiguous().cpu().numpy()

    def times(self, right: Floats) -> Times:
        there = self._sent(right)
        return lambda block: (self._sent(block) @ there).cpu().numpy()

    def _sent(self, block: Floats) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(block)).to(self._device)
