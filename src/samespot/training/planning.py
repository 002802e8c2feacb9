"""What suits these photos and this machine: image size, length, pairs at once, what is kept in memory. Chosen where
nobody chose, and said.

A network sees no more in a photo of 144 pixels that was enlarged to 640; it only takes twenty times the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from samespot.files import in_bytes
from samespot.images.options import IMAGE_SIZE
from samespot.model.network import PlaceNet
from samespot.photo_files import header
from samespot.storage import StorageError, in_threads
from samespot.training.options import TrainingOptions

SAMPLE = 32  # photos whose size is looked up
LEAST_STEPS = 500  # where nobody says how long: one epoch of a small set teaches nothing
SHORT = 100  # steps; a shorter run is worth a warning
SHARE = 0.6  # of the memory that is free may be filled with activations
KEPT_SHARE = 0.8  # of the GPU's memory that activations leave free may hold photos, or what became of them
KEPT_SHARE_OF_HOST = 0.5  # of the machine's memory, which others need, too
OFTEN = 2  # looks at the average photo, from which on it pays to keep it
CELL = 16  # sides of chosen image sizes are multiples of it


def photo_size(paths: Sequence[Path]) -> tuple[int, int] | None:
    """Height and width of the typical photo, upright, from the headers of some; None where none can be read."""
    some = [paths[i] for i in np.linspace(0, len(paths) - 1, min(SAMPLE, len(paths))).astype(int)]
    sizes = [size for size in in_threads(_size, some, SAMPLE) if size is not None]
    if not sizes:
        return None
    height, width = np.median(np.array(sizes), axis=0)
    return int(height), int(width)


def _size(path: Path) -> tuple[int, int] | None:
    try:
        with header(path) as image:
            width, height = image.size
            turned = image.getexif().get(274, 1) >= 5  # EXIF's orientations 5 to 8 lie on their side
            return (width, height) if turned else (height, width)
    except StorageError:
        raise
    except Exception:  # Pillow raises many kinds on broken files; training will say what is wrong
        return None


def fitting_size(photos: tuple[int, int], usual: tuple[int, int] = IMAGE_SIZE) -> tuple[int, int]:
    """The usual size, turned as the photos are, and never above their own."""
    height, width = usual if photos[1] >= photos[0] else usual[::-1]
    shrink = min(1.0, photos[0] / height, photos[1] / width)
    if shrink == 1.0:
        return height, width
    own = (max(CELL, round(side / CELL) * CELL) for side in photos)
    return min(height, next(own)), min(width, next(own))


def activation_bytes(net: PlaceNet, size: tuple[int, int], half: bool = False) -> int:
    """About how much memory one image takes while it is learned from: what the trained part keeps for the gradient,
    and the largest step of the frozen part. half: in half precision."""
    learned = {module for stage in (*net.trained_stages(), net.pool) for module in stage.modules()}
    kept = largest = 0

    def count(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal kept, largest
        made = output.numel() if torch.is_tensor(output) else 0
        if module in learned:
            kept += made
        else:
            largest = max(largest, made + sum(x.numel() for x in inputs if torch.is_tensor(x)))

    leaves = [module for module in net.modules() if not any(True for _ in module.children())]
    hooks = [module.register_forward_hook(count) for module in leaves]
    device = next(net.parameters()).device
    try:
        with torch.no_grad():
            net(torch.zeros((1, 3, *size), device=device))
    finally:
        for hook in hooks:
            hook.remove()
    return (2 if half else 4) * (kept + largest) + 4 * 3 * size[0] * size[1]


def fitting_pairs(image_bytes: int, images: int, batch: int, free: int) -> int | None:
    """How many pairs (or tuples) of so many images go through the network at once; None: the whole batch fits."""
    fit = int(SHARE * free / (image_bytes * images))
    if fit >= batch:
        return None
    parts = -(-batch // max(1, fit))
    return -(
        -batch // parts
    )  # parts of one size, if possible: a network is tuned, and compiled, for each size


def frozen_bytes(net: PlaceNet, size: tuple[int, int], half: bool) -> int | None:
    """What the frozen part makes of one image; None where nothing is frozen."""
    if len(net.trained_stages()) == len(net.stages):
        return None
    with torch.no_grad():
        made = net.frozen(torch.zeros((1, 3, *size), device=next(net.parameters()).device))
    return made.numel() * (2 if half else 4)


@dataclass(frozen=True)
class Keeping:
    """What of each photo stays in memory, and why."""

    cache_frozen: Literal["no", "memory", "device"]
    images_in_memory: Literal["no", "host", "device"]
    why: str


def what_to_keep(
    options: TrainingOptions, photos: int, looks: float, frozen: int | None, on_gpu: int | None, host: int
) -> Keeping:
    """The outputs of the frozen part where they fit, else decoded photos where these do, else nothing.

    looks: at photos in the whole run; frozen: bytes of the frozen part's output for a photo, None where nothing is
    frozen; on_gpu, host: bytes of memory that may be filled, None without a GPU.
    """
    seen = f"{photos:,} photos, each seen {looks / photos:,.1f} times"
    if looks < OFTEN * photos:
        return Keeping("no", "no", f"images are read from their files each time: {seen}")
    why_not = ""
    if frozen is not None and options.cache_frozen == "auto":
        outputs = frozen * photos
        if options.augmented:
            why_not = "; the frozen part runs each time, since augmentation changes the images it sees"
        elif on_gpu is not None and outputs <= on_gpu:
            return Keeping("device", "no", _outputs_kept("on the GPU", outputs, seen))
        elif on_gpu is None and outputs <= host:
            return Keeping("memory", "no", _outputs_kept("in memory", outputs, seen))
        else:  # from the machine's memory a GPU would fetch them more slowly than it computes them again
            why_not = f"; the frozen part runs each time, since its outputs would take {in_bytes(outputs)}"
    assert options.image_size is not None
    pixels = 3 * options.image_size[0] * options.image_size[1] * photos
    told = f"({in_bytes(pixels)} for {seen}); `images_in_memory=no` overrides it{why_not}"
    if on_gpu is not None and pixels <= on_gpu:
        return Keeping("no", "device", f"decoded images are kept on the GPU {told}")
    if pixels <= host:
        return Keeping("no", "host", f"decoded images are kept in memory {told}")
    return Keeping("no", "no", f"images are read from their files each time: decoded, {in_bytes(pixels)}")


def _outputs_kept(where: str, size: int, seen: str) -> str:
    told = f"the frozen part runs once per image, and its outputs are kept {where}"
    return f"{told} ({in_bytes(size)} for {seen}); `cache_frozen=no` overrides it"


def in_words(seconds: float) -> str:
    """40 s, 12 min, 3.5 h"""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
