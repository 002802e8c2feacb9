"""Images that stay in memory: decoded, or as features of the frozen part of a network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.images.prefetch import blocks_ahead
from samespot.images.sources import FileImages, Loaded, in_blocks, send, wait_for
from samespot.memory import require_room


class Kept:
    """Tensors of all images that stay where they are: decoded images, or features of the frozen part."""

    def __init__(
        self, values: Tensor, good: NDArray[np.bool_], device: torch.device, features: bool = False
    ) -> None:
        self.values, self.good, self.device, self.features = values, good, device, features

    def load(self, numbers: NDArray[np.int64]) -> Loaded:
        rows = torch.from_numpy(numbers)
        if self.values.device == self.device:
            return Loaded(self.values[send(numbers, self.device)], self.good[numbers], self.features)
        some = torch.empty((len(rows), *self.values.shape[1:]), dtype=self.values.dtype, pin_memory=True)
        torch.index_select(self.values, 0, rows, out=some)
        return Loaded(some.to(self.device, non_blocking=True), self.good[numbers], self.features)


def keep_images(files: FileImages, device: torch.device, tick: Callable[[int], None]) -> Kept:
    """Decode every image once and keep it on the device of `files`, to be used on `device`."""
    size = (len(files.images), 3, *files.preprocessing.size)
    require_room(int(np.prod(size)), files.device, "all images in memory", "leave out `images_in_memory`")
    values, good = torch.empty(size, dtype=torch.uint8, device=files.device), np.ones(size[0], dtype=bool)
    with blocks_ahead(files, list(in_blocks(size[0], 256)), files.device) as blocks:
        for block, loaded in blocks:
            values[block.part] = loaded.values
            good[block.part] = loaded.good
            tick(len(block.rows))
    wait_for(values.device)
    return Kept(values, good, device)
