"""Could the same photo be darker, warmer, noisier? Random changes to images that are already on the device.

What happens to an image depends on (seed, step, its place in the batch) alone, not on the process or micro-batch
it falls into.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from samespot.images.sources import send
from samespot.training.batches import random_stream


@dataclass(frozen=True)
class Augmentation:
    """One row an image of the batch: what is done to it."""

    gamma: NDArray[np.float32]  # (n,)
    gain: NDArray[np.float32]  # (n, 3) colour cast
    contrast: NDArray[np.float32]  # (n,)
    light: NDArray[np.float32]  # (n,) 1 or darker
    noise: NDArray[np.float32]  # (n,) standard deviation, of 1
    noise_seed: NDArray[np.int64]  # (n,)
    crop: NDArray[np.float32]  # (n, 4) scale in x and y, middle in x and y; the full frame is 1, 1, 0, 0
    flip: bool
    photometric: bool
    cropped: bool

    def __getitem__(self, rows: NDArray[np.int64]) -> Augmentation:
        names = ("gamma", "gain", "contrast", "light", "noise", "noise_seed", "crop")
        return Augmentation(
            **{name: getattr(self, name)[rows] for name in names},
            flip=self.flip,
            photometric=self.photometric,
            cropped=self.cropped,
        )

    def __call__(self, images: Tensor) -> Tensor:
        """uint8 RGB (n, 3, h, w) -> float32 in 0..255."""
        values = images.float() / 255.0
        if self.cropped:
            values = self._crop(values)
        if self.flip:
            values = values.flip(3)
        if self.photometric:
            values = self._light(values)
        return values.clamp_(0.0, 1.0).mul_(255.0)

    def _light(self, values: Tensor) -> Tensor:
        def column(numbers: NDArray[np.float32]) -> Tensor:
            return send(numbers.reshape(len(numbers), -1, 1, 1), values.device)

        values = values.clamp(min=1e-4).pow(column(self.gamma)) * column(self.gain)
        middle = values.mean(dim=(1, 2, 3), keepdim=True)
        values = ((values - middle) * column(self.contrast) + middle) * column(self.light)
        return values + self._noise(values) * column(self.noise)

    def _noise(self, values: Tensor) -> Tensor:
        dice = torch.Generator(device=values.device)
        noise = torch.empty(values.shape, device=values.device)  # the same whatever the order of the pixels
        for image, seed in zip(noise, self.noise_seed.tolist(), strict=True):
            image.normal_(generator=dice.manual_seed(seed))
        return noise

    def _crop(self, values: Tensor) -> Tensor:
        maps = np.zeros((len(values), 2, 3), dtype=np.float32)
        maps[:, 0, 0], maps[:, 1, 1] = self.crop[:, 0], self.crop[:, 1]
        maps[:, 0, 2], maps[:, 1, 2] = self.crop[:, 2], self.crop[:, 3]
        grid = functional.affine_grid(send(maps, values.device), list(values.shape), align_corners=False)
        return functional.grid_sample(
            values, grid, mode="bilinear", padding_mode="border", align_corners=False
        )


def draw_augmentation(
    seed: int, step: int, images: int, strength: float, crop: float = 0.0, flip: bool = False
) -> Augmentation:
    """What to do to each of the `images` of a step. Strength 1 turns day nearly into night now and then."""
    dice = random_stream(seed, step, stream=2)
    uniform = dice.uniform(-1.0, 1.0, (images, 7)).astype(np.float32) * strength
    dark = dice.random(images) < 0.3
    depth = dice.uniform(0.2, 0.7, images)
    noise = dice.uniform(0.0, 0.06, images) * strength
    seeds = dice.integers(0, 2**62, images)
    scale = 1.0 - dice.uniform(0.0, crop, (images, 2)) if crop else np.ones((images, 2))
    middle = dice.uniform(-1.0, 1.0, (images, 2)) * (1.0 - scale)
    return Augmentation(
        gamma=np.exp(0.7 * uniform[:, 0]),
        gain=np.exp(0.25 * uniform[:, 1:4]),
        contrast=np.exp(0.5 * uniform[:, 4]),
        light=np.where(dark, 1.0 - min(strength, 1.0) * (1.0 - depth), np.exp(0.15 * uniform[:, 5])).astype(
            np.float32
        ),
        noise=noise.astype(np.float32),
        noise_seed=seeds,
        crop=np.concatenate([scale, middle], axis=1).astype(np.float32),
        flip=bool(flip and dice.random() < 0.5),
        photometric=strength > 0,
        cropped=crop > 0,
    )
