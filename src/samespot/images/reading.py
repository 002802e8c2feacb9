"""From an image file to pixels: decoded, upright, RGB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from samespot.errors import InputError
from samespot.photo_files import BY_TORCHVISION, opened, refuse_large
from samespot.storage import read_encoded, shown

_WITH_EXIF = 0x08


def read_image(path: str | Path) -> Tensor:
    """Image file -> uint8 RGB (3, h, w), upright (the EXIF orientation is applied).

    JPEG, WebP and GIF (first frame) are decoded by torchvision, everything else by Pillow.
    """
    return decode_image(read_encoded(path), path)


def as_image(photo: Any, named: str = "the photo") -> Tensor:
    """What a program may hand over as a photo -> uint8 RGB (3, h, w): a path, the bytes of a file, a Pillow image,
    or pixels, uint8 RGB (h, w, 3) in numpy or (3, h, w) in torch. named: how an error calls bytes."""
    if isinstance(photo, str | Path):
        return read_image(photo)
    if isinstance(photo, bytes | bytearray | memoryview):
        return decode_image(bytes(photo), named)
    if isinstance(photo, Tensor):
        return _checked_pixels(photo.cpu(), photo.shape[:1] == (3,))
    if hasattr(photo, "convert") and hasattr(photo, "getexif"):
        return _upright(photo)
    array = np.asarray(photo)
    pixels = torch.from_numpy(np.array(array)) if array.dtype == np.uint8 else torch.zeros(0)
    return _checked_pixels(pixels, array.shape[2:] == (3,)).permute(2, 0, 1).contiguous()


def _checked_pixels(pixels: Tensor, as_expected: bool) -> Tensor:
    if pixels.ndim != 3 or pixels.dtype != torch.uint8 or not as_expected or min(pixels.shape) == 0:
        raise InputError(
            "not a photo; give a path, the bytes of an image file, a Pillow image, or uint8 RGB pixels of (height,"
            " width, 3) in numpy or (3, height, width) in torch"
        )
    return pixels


def decode_image(encoded: bytes, path: str | Path) -> Tensor:
    """The bytes of an image file, decoded as by `read_image`; `path` is named where that fails."""
    if not encoded:
        raise InputError(f"{shown(path)}: there is nothing in it; give an image file")
    refuse_large(encoded, path)
    fast = encoded.startswith(BY_TORCHVISION) and not _is_webp_with_exif(encoded)
    image = _decode_with_torchvision(encoded) if fast else None
    return _decode_with_pillow(encoded, path) if image is None else image


def _is_webp_with_exif(encoded: bytes) -> bool:
    # torchvision does not look at the orientation of WebP files; the flag is in the extended header
    return encoded[8:16] == b"WEBPVP8X" and any(flags & _WITH_EXIF for flags in encoded[20:21])


def _decode_with_torchvision(encoded: bytes) -> Tensor | None:
    from torchvision import io

    data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    try:
        image: Tensor = io.decode_image(data, mode=io.ImageReadMode.RGB, apply_exif_orientation=True)
    except RuntimeError:
        return None
    return image[0] if image.ndim == 4 else image  # of an animation the first


def _decode_with_pillow(encoded: bytes, path: str | Path) -> Tensor:
    with opened(encoded, path) as image:
        return _upright(image)


def _upright(image: Any) -> Tensor:
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):  # Pillow would cut off what is above 255
        upright = Image.fromarray((np.asarray(upright) // 257).astype(np.uint8))
    pixels = np.array(upright.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
