"""Which pixels of two photos show the same? Asked of a trunk's own feature maps, coarse to fine, in the manner of InLoc
(Taira et al., CVPR 2018).

Cells of a late map that are each other's nearest say which regions belong together; cells of an early map that are each
other's nearest within such a pair of regions say which pixels. Nothing is detected: blank walls are matched, too, and
many pairs are wrong. They are for a solver that expects that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from samespot.errors import InputError
from samespot.images.preprocess import checked, resized
from samespot.images.reading import read_image
from samespot.matching.mutual import mutual_nearest
from samespot.model.network import PlaceNet

SIZE = (480, 640)  # height, width [px] that photos are looked at
KEPT = 256  # map photos whose features stay in memory: 11 MB each of VGG16 at 480 × 640, 1 MB of EfficientNet-Lite0
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DenseFeatures:
    """Two feature maps of a photo (d, h, w), each cell of unit length, half precision."""

    coarse: Tensor
    fine: Tensor


@dataclass(frozen=True, eq=False)
class PixelPairs:
    """Pixels of two photos that look alike, the most alike first."""

    query: Floats  # (n, 2) x, y [px] of the photo as it was looked at; the first pixel's centre lies at (0.5, 0.5)
    places: Floats  # (n, 2) the same in the map photo
    cosines: Floats  # (n,) of the fine features

    def __len__(self) -> int:
        return len(self.query)


class DenseMatcher:
    """Matches photos by the feature maps of a convolutional network.

    size: height and width [px] that photos are resized to; multiples of `coarse`
    coarse, fine: strides [px] of the maps; of each the deepest map is taken, so with VGG16 conv5_3 and conv3_3
    reach: fine cells beyond those of a coarse cell that are still looked at; by default a coarse cell to each side
    """

    def __init__(
        self,
        net: PlaceNet,
        size: tuple[int, int] = SIZE,
        *,
        coarse: int = 16,
        fine: int = 4,
        reach: int | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        if fine < 1 or coarse % fine or any(side < coarse or side % coarse for side in size):
            raise InputError(
                f"photos of {size[0]}x{size[1]} in cells of {coarse} and {fine} px: the sides must be multiples of the"
                " coarse cell, and that of the fine one"
            )
        self.size, self.strides = size, (coarse, fine)
        self.reach = coarse // fine if reach is None else reach
        self.device = torch.device(device)
        self._net = net.eval().to(self.device)
        blank = torch.zeros((1, 3, *size), device=self.device)
        with strided_layers(net) as seen:
            self._layers = _layers_of(net, blank, self.strides)
        self._first = first_centre(seen, fine)
        self.of_map = lru_cache(KEPT)(self._of_file)  # features of a map photo, kept over queries

    def _of_file(self, path: str | Path) -> DenseFeatures:
        return self.features(read_image(path))

    @torch.inference_mode()
    def features(self, photo: Tensor) -> DenseFeatures:
        """Of a photo, uint8 RGB (3, h, w)."""
        pixels = resized(checked(photo[None]).to(self.device), self.size)
        maps = _deepest_maps(self._layers, self._net.preprocessing.normalise(pixels), self.strides)
        coarse, fine = (
            functional.normalize(maps[stride][0].float(), dim=0).half() for stride in self.strides
        )
        return DenseFeatures(coarse, fine)

    @torch.inference_mode()
    def pairs(self, query: DenseFeatures, place: DenseFeatures, most: int | None = None) -> PixelPairs:
        """What two photos share. most: only so many pairs, the most alike."""
        here, there = _coarse_pairs(query.coarse, place.coarse)
        ratio = self.strides[0] // self.strides[1]
        q, p, offset, cosine = _fine_pairs(query.fine, place.fine, here, there, ratio, self.reach)
        order = torch.argsort(cosine, descending=True, stable=True)[:most].cpu().numpy()
        at = [_numpy(cells)[order] * self.strides[1] + self._first for cells in (q, p + offset)]
        return PixelPairs(at[0], at[1], _numpy(cosine)[order])


def _numpy(values: Tensor) -> Floats:
    return values.double().cpu().numpy()


# ---- feature maps ----


def _layers_of(net: PlaceNet, blank: Tensor, strides: tuple[int, int]) -> list[nn.Module]:
    """The layers of the trunk up to the deepest map that is asked for."""
    layers: list[nn.Module] = []
    for stage in net.stages.values():
        layers += list(stage) if isinstance(stage, nn.Sequential) else [stage]
    found: dict[int, int] = {}  # stride -> how many layers lead to its deepest map
    features = blank
    for number, layer in enumerate(layers, start=1):
        with torch.inference_mode():
            features = layer(features)
        found[_stride(blank, features)] = number
    lacking = [stride for stride in strides if stride not in found]
    if lacking:
        raise InputError(
            f"{net.backbone} has no feature map of stride {lacking[0]};"
            f" it has those of {', '.join(str(stride) for stride in found if stride)}"
        )
    return layers[: max(found[stride] for stride in strides)]


def _stride(images: Tensor, features: Tensor) -> int:
    """How many pixels wide a cell is; 0 for what is no map."""
    (height, width), cells = images.shape[-2:], features.shape[-2:]
    stride = round(width / max(1, cells[1]))
    return stride if features.ndim == 4 and cells == (height // stride, width // stride) else 0


def _deepest_maps(layers: list[nn.Module], images: Tensor, strides: tuple[int, int]) -> dict[int, Tensor]:
    maps, features = {}, images
    for layer in layers:
        features = layer(features)
        maps[_stride(images, features)] = features
    return {stride: maps[stride] for stride in strides}


@contextmanager
def strided_layers(net: nn.Module) -> Iterator[list[tuple[nn.Module, int, int]]]:
    """While it lasts: each layer that makes a map coarser, and the map's width before and after it, as they run."""
    seen: list[tuple[nn.Module, int, int]] = []

    def note(layer: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        if given[0].ndim == made.ndim == 4 and made.shape[-1] < given[0].shape[-1]:
            seen.append((layer, given[0].shape[-1], made.shape[-1]))

    simple = [layer for layer in net.modules() if hasattr(layer, "stride") and hasattr(layer, "kernel_size")]
    hooks = [layer.register_forward_hook(note) for layer in simple]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def first_centre(seen: list[tuple[nn.Module, int, int]], stride: int) -> float:
    """Where the first cell of a map looks at [px]: the middle of what its strided kernels cover.

    (stride / 2) for kernels of 2, as VGG's; half a pixel where kernels of 3 are padded on both sides, as ResNet's;
    and beyond the cell's middle where only the far side is padded, as TensorFlow does.
    """
    at, scale, width = 0.5, 1, 0
    for layer, before, after in seen:
        if scale == stride:
            break
        if width and before != width:  # a shortcut beside a layer that was counted
            continue
        step, kernel = _number(layer.stride), _number(layer.kernel_size)
        padding = layer.padding if type(layer).__name__ != "Conv2dSame" else None
        missing = max((after - 1) * step + kernel - before, 0)
        left = missing // 2 if padding is None or isinstance(padding, str) else _number(padding)
        at += scale * ((kernel - 1) / 2 - left)
        scale, width = scale * step, after
    return at


def _number(value: Any) -> int:
    return int(value[-1]) if isinstance(value, tuple | list) else int(value)


# ---- nearest neighbours ----


def _coarse_pairs(query: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """(n, 2) row, column of the coarse cells of two photos that are each other's nearest."""
    nearest = mutual_nearest(query.flatten(1).T, place.flatten(1).T[None])[0]
    here = (nearest >= 0).nonzero()[:, 0]
    pairs = [(here, query.shape[2]), (nearest[here], place.shape[2])]
    first, second = (torch.stack([cells // width, cells % width], dim=1) for cells, width in pairs)
    return first, second


def _fine_pairs(
    query: Tensor, place: Tensor, here: Tensor, there: Tensor, ratio: int, reach: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, y (n, 2) of fine cells of two photos, how far beyond the second cell the best likeness lies, and cosines.

    Within each pair of coarse cells and their surroundings a fine cell's nearest is taken if that one's nearest is it;
    only for cells of the query's coarse cell itself, so that none is matched twice.
    """
    side = ratio + 2 * reach
    a, b = _windows(query, here, ratio, reach), _windows(place, there, ratio, reach)  # (n, side², d)
    cosine = a @ b.transpose(1, 2)
    cosine.masked_fill_((b.abs().amax(dim=2) == 0)[:, None, :], -1.0)  # beyond the photo
    back = cosine.max(dim=1).indices
    ring = torch.arange(reach, reach + ratio, device=query.device)
    inner = (ring[:, None] * side + ring).flatten()
    best, nearest = cosine[:, inner].max(dim=2)
    mutual = (back.gather(1, nearest) == inner) & (best > 0)
    pair, cell = mutual.nonzero(as_tuple=True)
    mine, its = inner[cell], nearest[pair, cell]
    around = cosine[pair, mine].view(-1, side, side)
    offset = torch.stack([_peak(around, its, axis=2), _peak(around, its, axis=1)], dim=1)
    corners = [cells[pair].flip(1) * ratio - reach for cells in (here, there)]  # x, y
    q, p = (
        corner + torch.stack([at % side, at // side], dim=1)
        for corner, at in zip(corners, (mine, its), strict=True)
    )
    return q, p, offset, best[pair, cell]


def _windows(fine: Tensor, cells: Tensor, ratio: int, reach: int) -> Tensor:
    """(n, side², d) fine features of coarse cells (n, 2) and `reach` around them; zero beyond the photo."""
    side = ratio + 2 * reach
    views = functional.pad(fine, (reach,) * 4).unfold(1, side, ratio).unfold(2, side, ratio)
    return views[:, cells[:, 0], cells[:, 1]].float().flatten(2).permute(1, 2, 0)


def _peak(around: Tensor, at: Tensor, axis: int) -> Tensor:
    """(n,) where a parabola through the largest of (n, side, side) and its two neighbours peaks, -0.5 to 0.5 cells."""
    side = around.shape[axis]
    row, column = at // side, at % side
    place = row if axis == 1 else column
    lines = around[torch.arange(len(at)), :, column] if axis == 1 else around[torch.arange(len(at)), row]
    low, mid, high = (
        lines.gather(1, (place + step).clamp(0, side - 1)[:, None])[:, 0] for step in (-1, 0, 1)
    )
    inside = (place > 0) & (place < side - 1) & (low > -1) & (high > -1)
    bend = (2 * mid - low - high).clamp(min=1e-9)
    return torch.where(inside, 0.5 * (high - low) / bend, 0.0).clamp(-0.5, 0.5)
