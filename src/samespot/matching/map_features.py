"""The map's local features on the device that compares them: each row is copied there once, where all of them fit."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.matching.reranker import Features
from samespot.memory import free_memory

SHARE = 0.5  # of the free GPU memory that they may take; comparing needs some, too


def fits(size: int, device: torch.device) -> bool:
    """Whether so many bytes are kept on this device. On the CPU, rows lie where they are needed already."""
    if device.type != "cuda":
        return False
    return size <= SHARE * free_memory(device)


class MapFeatures:
    """Gathers rows of (m, width) features onto a device, and remembers there the rows of the last such array.

    What it remembers goes when the array does. An array that was asked for must not change.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._source: Callable[[], Features | None] = lambda: None
        self._kept: list[_Kept] = []  # of the source: one, or none where it does not fit

    def rows(self, features: Features, rows: NDArray[np.int64]) -> Tensor:
        """(k, width) on the device."""
        if self._source() is not features:
            self._keep(features)
        if self._kept:
            return self._kept[0].rows(features, rows)
        return torch.from_numpy(features[rows]).to(self.device)

    def _keep(self, features: Features) -> None:
        self._kept.clear()  # its memory is free before more is asked for
        kept: list[_Kept] = []
        self._source, self._kept = weakref.ref(features, lambda _: kept.clear()), kept
        if fits(features.nbytes, self.device):
            try:
                kept.append(_Kept(features, self.device))
            except torch.cuda.OutOfMemoryError:  # there was room, but not in one piece
                return


class _Kept:
    """Room for all rows; each is filled when it is first asked for, since few queries ask for few of them."""

    def __init__(self, features: Features, device: torch.device) -> None:
        self._values = torch.empty(features.shape, dtype=torch.float16, device=device)
        self._filled = np.zeros(len(features), dtype=bool)

    def rows(self, features: Features, rows: NDArray[np.int64]) -> Tensor:
        new = np.unique(rows[~self._filled[rows]])
        if len(new):
            self._values[self._at(new)] = torch.from_numpy(features[new]).to(self._values.device)
            self._filled[new] = True
        return self._values[self._at(rows)]

    def _at(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.tensor(rows, device=self._values.device)
