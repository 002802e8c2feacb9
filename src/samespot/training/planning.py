"""What suits these photos and this machine: image size, length, and pairs at once. Chosen where nobody chose, and said.

A network sees no more in a photo of 144 pixels that was enlarged to 640; it only takes twenty times the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from samespot.images.options import IMAGE_SIZE
from samespot.images.sources import available_memory
from samespot.model.network import PlaceNet
from samespot.photo_files import header

SAMPLE = 32  # photos whose size is looked up
LEAST_STEPS = 500  # where nobody says how long: one epoch of a small set teaches nothing
SHORT = 100  # steps; a shorter run is worth a warning
SHARE = 0.6  # of the memory that is free may be filled with activations
CELL = 16  # sides of chosen image sizes are multiples of it


def photo_size(paths: Sequence[Path]) -> tuple[int, int] | None:
    """Height and width of the typical photo, upright, from the headers of some; None where none can be read."""
    sizes = []
    for path in [paths[i] for i in np.linspace(0, len(paths) - 1, min(SAMPLE, len(paths))).astype(int)]:
        try:
            with header(path) as image:
                turned = image.getexif().get(274, 1) >= 5  # EXIF's orientations 5 to 8 lie on their side
                sizes.append(image.size if turned else image.size[::-1])
        except Exception:  # Pillow raises many kinds on broken files; training will say what is wrong
            continue
    if not sizes:
        return None
    height, width = np.median(np.array(sizes), axis=0)
    return int(height), int(width)


def fitting_size(photos: tuple[int, int], usual: tuple[int, int] = IMAGE_SIZE) -> tuple[int, int]:
    """The usual size, turned as the photos are, and never above their own."""
    height, width = usual if photos[1] >= photos[0] else usual[::-1]
    shrink = min(1.0, photos[0] / height, photos[1] / width)
    if shrink == 1.0:
        return height, width
    own = (max(CELL, round(side / CELL) * CELL) for side in photos)
    return min(height, next(own)), min(width, next(own))


def activation_bytes(net: PlaceNet, size: tuple[int, int]) -> int:
    """About how much memory one image takes while it is learned from: what the trained part keeps for the gradient,
    and the largest step of the frozen part."""
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
    return 4 * (kept + largest + 3 * size[0] * size[1])


def fitting_pairs(image_bytes: int, images: int, batch: int, free: int) -> int | None:
    """How many pairs (or tuples) of so many images go through the network at once; None: the whole batch fits."""
    fit = int(SHARE * free / (image_bytes * images))
    return None if fit >= batch else max(1, fit)


def free_memory(device: torch.device) -> int:
    """Bytes that can still be used there."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else available_memory()


def in_words(seconds: float) -> str:
    """40 s, 12 min, 3.5 h"""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
