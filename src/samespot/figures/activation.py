"""What does the network look at? Activations of its last layer, laid over the photos.

The paper shows "the activations for the last layer of the backbone" from low to high, and not how its many
channels become one number. There are two readings here:

- "activation" (default), the one closest to those words: the length over channels of the last feature map, before
  any pooling;
- "contribution": where the descriptor comes from. Pooling adds up positions (after the power p of GeM), so each
  component of the descriptor splits into shares of the positions; the map is their sum, each weighted by the
  square of its component. Before scaling it sums to 1, the squared length of the descriptor.

Either is scaled for each photo from 0, its lowest, to 1, its highest: maps say where, not how much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.figures.style import house_style, save

if TYPE_CHECKING:
    from torch import Tensor

    from samespot.model.network import PlaceNet

Kind = Literal["activation", "contribution"]
Maps = NDArray[np.float32]
TOGETHER = 8  # photos in the network at once
COLOURS = "turbo"
LAID_OVER = 0.5  # opacity of the colours over the photo
SIDE = 2.1  # [inch] of a photo's longer side in the figure
SHARPEST = 480  # [pixels] of a photo's longer side: figures with full photos are of no use to anyone


def activation_maps(net: PlaceNet, images: Sequence[Path], kind: Kind = "activation") -> Maps:
    """(n, h, w) float32 in [0, 1] at the resolution of the last feature map, one for each photo."""
    if kind not in ("activation", "contribution"):
        raise InputError(f"kind {kind!r} of activation map is unknown; choose activation or contribution")
    measure = _activation if kind == "activation" else partial(_contribution, pool=net.pool)
    parts = [_scaled(measure(features)) for features in _features(net, images)]
    return np.concatenate(parts) if parts else np.zeros((0, 1, 1), dtype=np.float32)


def _features(net: PlaceNet, images: Sequence[Path]) -> Iterator[Tensor]:
    """The last feature map (n, c, h, w) of a few photos at a time, float32."""
    import torch

    from samespot.images.sources import read_blocks
    from samespot.model.aggregators.salad import Salad

    top = 1 if isinstance(net.pool, Salad) else 0  # the class token lies on top of its map
    device, was_training = next(net.parameters()).device, net.training
    net.eval()
    try:
        with torch.inference_mode():
            for pixels in read_blocks(images, net.preprocessing, device, TOGETHER):
                yield net.last_map(net.frozen(net.preprocessing(pixels))).float()[:, :, top:]
    finally:
        net.train(was_training)


def _activation(features: Tensor) -> Tensor:
    return features.square().sum(dim=1).sqrt()


def _contribution(features: Tensor, pool: Any) -> Tensor:
    """(n, h, w) shares of the descriptor's squared length; see the top of this file."""
    from samespot.model.netvlad import NetVLAD
    from samespot.model.pooling import GeM, GlobalAverage, GlobalMax

    if isinstance(pool, NetVLAD):
        return pool.contributions(features)
    if not isinstance(pool, GeM | GlobalAverage | GlobalMax):
        raise InputError(
            f"what each position contributes is not known for {type(pool).__name__}; take the activation instead"
        )
    pooled: Tensor = pool(features).float()
    weights = pooled.square() / pooled.square().sum(dim=1, keepdim=True).clamp(min=1e-12)
    if isinstance(pool, GlobalMax):
        terms = (features == features.amax(dim=(-2, -1), keepdim=True)).float()
    elif isinstance(pool, GeM):
        terms = features.clamp(min=pool.eps).pow(pool.p.float())
    else:
        terms = features
    total = terms.sum(dim=(-2, -1), keepdim=True)
    shares = terms / total.where(total.abs() > 1e-12, total.new_ones(()))
    contribution: Tensor = (weights[:, :, None, None] * shares).sum(dim=1)
    return contribution


def _scaled(maps: Tensor) -> Maps:
    """From 0 at each photo's lowest to 1 at its highest; all 0 where it is the same everywhere."""
    low, high = maps.amin(dim=(-2, -1), keepdim=True), maps.amax(dim=(-2, -1), keepdim=True)
    scaled = (maps - low) / (high - low).where(high > low, high.new_ones(()))
    return np.asarray(scaled.clamp(0, 1).cpu().numpy(), dtype=np.float32)


def overlay(photo: NDArray[np.uint8], activation: Maps, opacity: float = LAID_OVER) -> NDArray[np.uint8]:
    """A photo (h, w, 3) with an activation map of any size over it, blue for low and red for high."""
    import matplotlib
    from PIL import Image

    size = (photo.shape[1], photo.shape[0])
    smooth = Image.fromarray(np.asarray(activation, dtype=np.float32)).resize(size, Image.Resampling.BICUBIC)
    colours = matplotlib.colormaps[COLOURS](np.asarray(smooth).clip(0, 1))[..., :3]
    grey = photo.mean(axis=2, keepdims=True)  # the colours of the photo would mix with those of the map
    mixed = (1 - opacity) * grey + opacity * 255 * colours
    return np.asarray(mixed.round().clip(0, 255), dtype=np.uint8)


def small_photo(path: Path, longest: int = SHARPEST) -> NDArray[np.uint8]:
    """A photo as a network sees it, upright, (h, w, 3), its longer side at most so many pixels."""
    from PIL import Image

    from samespot.images.reading import read_image

    image = Image.fromarray(read_image(path).permute(1, 2, 0).numpy())
    image.thumbnail((longest, longest))
    return np.asarray(image, dtype=np.uint8)


def activation_figure(
    photos: Sequence[Path],
    maps: Mapping[str, Maps],
    path: str | Path,
    *,
    titles: Sequence[str] | None = None,
    photos_in: Literal["rows", "columns"] = "rows",
) -> Path:
    """A row a photo: the photo and each model's map over it. In columns instead, it lies as the paper's figure.

    `maps` is model name -> (n, h, w), one for each photo; `titles` name the photos.
    """
    for name, one in maps.items():
        if len(one) != len(photos):
            raise InputError(
                f"{path}: {name} has {len(one)} activation maps for {len(photos)} photos; give one each"
            )
    if not photos or not maps:
        raise InputError(f"{path}: nothing to draw; give at least one photo and the maps of one model")
    shown = [small_photo(photo) for photo in photos]
    grid = [[image, *(overlay(image, one[i]) for one in maps.values())] for i, image in enumerate(shown)]
    models, names = ["photo", *maps], list(titles) if titles is not None else [""] * len(photos)
    if photos_in == "columns":
        grid, models, names = [list(line) for line in zip(*grid, strict=True)], names, models
    tallest, widest = np.max([np.divide(image.shape[:2], max(image.shape[:2])) for image in shown], axis=0)
    with house_style() as plt:
        size = (SIDE * widest * len(grid[0]), 0.96 * SIDE * tallest * len(grid) + 0.6)
        figure, axes = plt.subplots(
            len(grid), len(grid[0]), figsize=size, squeeze=False, layout="constrained"
        )
        for row, line in zip(axes, grid, strict=True):
            for panel, image in zip(row, line, strict=True):
                panel.imshow(image, interpolation="none")
                panel.set(xticks=[], yticks=[])
                panel.grid(visible=False)
                panel.spines[:].set_visible(False)
        for panel, name in zip(axes[0], models, strict=True):
            panel.set_title(name, loc="center", fontsize=9)
        for panel, name in zip(axes[:, 0], names, strict=True):
            panel.set_ylabel(name, fontsize=9)
        _scale(figure, axes)
        return save(figure, path)


def _scale(figure: Any, axes: Any) -> None:
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(
        ScalarMappable(cmap=COLOURS), ax=axes, location="bottom", shrink=0.45, aspect=32, pad=0.015
    )
    bar.set_ticks([0, 1], labels=["low activation", "high activation"])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)
