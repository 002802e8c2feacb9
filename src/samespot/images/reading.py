"""From an image file to pixels: decoded, upright, RGB."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from samespot.photo_files import opened, read_encoded, refuse_large


def read_image(path: str | Path) -> Tensor:
    """Image file -> uint8 RGB (3, h, w), upright (the EXIF orientation is applied).

    JPEG, PNG, WebP and GIF (first frame) are decoded by torchvision, everything else by Pillow.
    """
    encoded = read_encoded(path)
    refuse_large(encoded, path)
    image = None if _is_webp_with_exif(encoded) else _decode_with_torchvision(encoded)
    return _decode_with_pillow(encoded, path) if image is None else image


def _is_webp_with_exif(encoded: bytes) -> bool:
    # torchvision does not look at the orientation of WebP files; the flag is in the extended header
    return encoded[:4] == b"RIFF" and encoded[8:16] == b"WEBPVP8X" and bool(encoded[20] & 0x08)


def _decode_with_torchvision(encoded: bytes) -> Tensor | None:
    from torchvision.io import ImageReadMode, decode_image

    data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    try:
        image: Tensor = decode_image(data, mode=ImageReadMode.RGB, apply_exif_orientation=True)
    except RuntimeError:
        return None
    if image.ndim == 4:  # an animation
        image = image[0]
    if image.dtype == torch.uint16:
        image = (image.to(torch.int32) // 257).to(torch.uint8)
    return image


def _decode_with_pillow(encoded: bytes, path: str | Path) -> Tensor:
    import numpy as np
    from PIL import ImageOps

    with opened(encoded, path) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    return torch.from_numpy(np.array(upright)).permute(2, 0, 1).contiguous()
