"""From an image file to pixels: decoded, upright, RGB."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from samespot.photo_files import opened, read_encoded, refuse_large

# by torchvision, in less time than by Pillow. Not PNG: of one with too few pixels its decoder ends the process
_FAST = (b"\xff\xd8\xff", b"GIF8", b"RIFF")
_WITH_EXIF = 0x08


def read_image(path: str | Path) -> Tensor:
    """Image file -> uint8 RGB (3, h, w), upright (the EXIF orientation is applied).

    JPEG, WebP and GIF (first frame) are decoded by torchvision, everything else by Pillow.
    """
    encoded = read_encoded(path)
    refuse_large(encoded, path)
    fast = encoded.startswith(_FAST) and not _is_webp_with_exif(encoded)
    image = _decode_with_torchvision(encoded) if fast else None
    return _decode_with_pillow(encoded, path) if image is None else image


def _is_webp_with_exif(encoded: bytes) -> bool:
    # torchvision does not look at the orientation of WebP files; the flag is in the extended header
    return encoded[8:16] == b"WEBPVP8X" and any(flags & _WITH_EXIF for flags in encoded[20:21])


def _decode_with_torchvision(encoded: bytes) -> Tensor | None:
    from torchvision.io import ImageReadMode, decode_image

    data = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    try:
        image: Tensor = decode_image(data, mode=ImageReadMode.RGB, apply_exif_orientation=True)
    except RuntimeError:
        return None
    return image[0] if image.ndim == 4 else image  # of an animation the first


def _decode_with_pillow(encoded: bytes, path: str | Path) -> Tensor:
    import numpy as np
    from PIL import Image, ImageOps

    with opened(encoded, path) as image:
        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith("I;16"):  # Pillow would cut off what is above 255
            upright = Image.fromarray((np.asarray(upright) // 257).astype(np.uint8))
        pixels = np.array(upright.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
