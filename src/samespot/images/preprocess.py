"""From pixels to the numbers a network was trained on. Every image goes through here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from samespot.errors import InputError
from samespot.images.options import IMAGE_SIZE

MOST_PIXELS = 16_000_000  # of a network's input
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """uint8 RGB images (n, 3, h, w) -> float32 (n, 3, *size), as the weights expect them.

    `mean` and `std` are in the order of `channels` and in units of `value_range` (1.0: values in 0..1,
    255.0: values in 0..255). A photo may be described at further sizes, too: `also`, none larger than `size`.
    """

    size: tuple[int, int] = IMAGE_SIZE  # height, width [pixels]
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    channels: Literal["RGB", "BGR"] = "RGB"
    value_range: float = 1.0
    also: tuple[tuple[int, int], ...] = ()  # the descriptor is the mean of those at all sizes

    def __post_init__(self) -> None:
        height, width = self.size
        if height < 1 or width < 1:
            raise InputError(f"image size {height}x{width} is not positive; give height and width in pixels")
        if height * width > MOST_PIXELS:
            raise InputError(
                f"image size {height}x{width} is beyond any network; photos are rarely above 1000x1000"
            )
        finite = all(math.isfinite(value) for value in (*self.mean, *self.std))
        if len(self.mean) != 3 or len(self.std) != 3 or not (finite and min(self.std) > 0):
            raise InputError(f"mean {self.mean} and std {self.std} must be three numbers each, std above 0")
        if self.channels not in ("RGB", "BGR"):
            raise InputError(f"channel order {self.channels!r} is not known; choose RGB or BGR")
        if self.value_range <= 0:
            raise InputError(f"value range {self.value_range} must be above 0; use 1.0 or 255.0")
        for other in self.also:
            if not (1 <= other[0] <= height and 1 <= other[1] <= width):
                raise InputError(f"image size {other[0]}x{other[1]} does not fit into {height}x{width}")

    def __call__(self, images: Tensor) -> Tensor:
        """uint8 RGB (n, 3, h, w) -> float32 (n, 3, *size), on the device of the images."""
        return self.normalise(self.resize(checked(images)))

    def resize(self, images: Tensor) -> Tensor:
        """uint8 (n, 3, h, w) -> uint8 (n, 3, *size), bilinear with antialiasing."""
        return resized(images, self.size)

    def at_sizes(self, *sizes: tuple[int, int]) -> Preprocessing:
        """The same with photos described at these sizes, one or several."""
        largest = max(sizes)  # the others are made from it
        return replace(
            self, size=largest, also=tuple(size for size in dict.fromkeys(sizes) if size != largest)
        )

    def normalise(self, images: Tensor) -> Tensor:
        """RGB (n, 3, h, w) with values in 0..255 -> float32, reordered and normalised; no resize."""
        return Normalise(self, images.device)(images)

    def to_dict(self) -> dict[str, Any]:
        told = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        if self.also:
            return {**told, "also": [list(size) for size in self.also]}
        return {k: v for k, v in told.items() if k != "also"}  # as before there were such

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """The inverse of `to_dict`; every field must be there, since a guessed mean is a wrong one."""
        expected, given = set(cls.__dataclass_fields__) - {"also"}, set(values) - {"also"}
        if expected != given:
            raise InputError(f"preprocessing has the fields {sorted(given)}, expected {sorted(expected)}")
        try:
            return cls(
                size=_numbers(values["size"], int, 2),
                mean=_numbers(values["mean"], float, 3),
                std=_numbers(values["std"], float, 3),
                channels=values["channels"],
                value_range=float(values["value_range"]),
                also=tuple(_numbers(size, int, 2) for size in values.get("also", ())),
            )
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"preprocessing holds a value of the wrong kind: {error}") from None


class Normalise:
    """RGB images (n, 3, h, w) with values in 0..255 -> the float32 numbers that a network expects, channels last.

    The constants are on the device from the start: copying them for each batch would make the host wait for a GPU.
    """

    def __init__(self, how: Preprocessing, device: torch.device) -> None:
        self._blue_first = how.channels == "BGR"
        constants = torch.tensor([how.mean, how.std], dtype=torch.float32) * (255.0 / how.value_range)
        self._mean: Tensor
        self._std: Tensor
        self._mean, self._std = constants.to(device)[:, :, None, None]

    def __call__(self, images: Tensor) -> Tensor:
        pixels = images.flip(1) if self._blue_first else images
        # reordered while they are bytes, and shifted while they become numbers: less to move
        return (pixels.contiguous(memory_format=torch.channels_last) - self._mean).div_(self._std)


def checked(images: Tensor) -> Tensor:
    """The same, if they are decoded images."""
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise InputError(
            f"images must be uint8 RGB (n, 3, h, w), not {str(images.dtype).removeprefix('torch.')} "
            f"{tuple(images.shape)}; pass the decoded pixels, they are normalised here"
        )
    return images


def resized(images: Tensor, size: tuple[int, int]) -> Tensor:
    """uint8 (n, 3, h, w) -> uint8 (n, 3, *size), bilinear with antialiasing."""
    if tuple(images.shape[-2:]) == size:
        return images
    if images.device.type == "cpu":  # has a fast uint8 kernel; other devices only have the float one
        return _bilinear(images, size)
    return _bilinear(images.float(), size).round_().clamp_(0, 255).to(torch.uint8)


def at_all_sizes(describe: Callable[[Tensor], Tensor], how: Preprocessing, images: Tensor) -> Tensor:
    """uint8 RGB images of `how.size` -> the mean (n, d) of their unit descriptors at all sizes, of unit length."""
    if not how.also:
        return describe(images)
    whole = sum(describe(resized(images, size)).float() for size in (how.size, *how.also))
    return functional.normalize(torch.as_tensor(whole), dim=1)


def _numbers(values: Sequence[Any], kind: type, count: int) -> Any:
    if len(values) != count:
        raise InputError(f"preprocessing: expected {count} numbers, got {list(values)}")
    return tuple(kind(v) for v in values)


def _bilinear(images: Tensor, size: tuple[int, int]) -> Tensor:
    return functional.interpolate(images, size=size, mode="bilinear", antialias=True)
