"""From an image file to pixels: decoded, upright, RGB."""

from __future__ import annotations

import io
import stat
import warnings
from pathlib import Path

import torch
from torch import Tensor

from samespot.errors import InputError
from samespot.heic import INSTALL, accept_heic, is_heic

MOST_MEGAPIXELS = 179  # Pillow's limit; half a gigabyte when decoded
MOST_BYTES = 1_000_000_000


def read_image(path: str | Path) -> Tensor:
    """Image file -> uint8 RGB (3, h, w), upright (the EXIF orientation is applied).

    JPEG, PNG, WebP and GIF (first frame) are decoded by torchvision, everything else by Pillow.
    """
    encoded = read_encoded(path)
    refuse_large(encoded, path)
    image = None if _is_webp_with_exif(encoded) else _decode_with_torchvision(encoded)
    return _decode_with_pillow(encoded, path) if image is None else image


def read_encoded(path: str | Path) -> bytes:
    """The bytes of an image file. Only of a plain file of a sane size: a device never ends, a pipe never begins."""
    try:
        facts = Path(path).stat()
        if not stat.S_ISREG(facts.st_mode):
            raise InputError(f"{path}: is not a plain file; take it out of the table")
        if facts.st_size > MOST_BYTES:
            raise InputError(f"{path}: {facts.st_size / 1e6:,.0f} MB are too many for a photo; shrink it")
        encoded = Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot read the image ({error.strerror or error}); check the path"
        ) from None
    if not encoded:
        raise InputError(f"{path}: the file is empty; copy the image again or take it out of the table")
    return encoded


def refuse_large(encoded: bytes, path: str | Path) -> None:
    """Raise for an image whose header announces too many pixels, by Pillow's limit: a small file may unpack to
    gigabytes."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns from half of its limit on
            Image.open(io.BytesIO(encoded)).close()
    except Image.DecompressionBombError:
        raise InputError(f"{path}: has more than {MOST_MEGAPIXELS} megapixels; shrink it") from None
    except (OSError, SyntaxError, ValueError):
        pass  # the decoder will say what is wrong


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
    from PIL import Image, ImageOps, UnidentifiedImageError

    if is_heic(str(path)) and not accept_heic():
        raise InputError(f"{path}: {INSTALL}")
    try:
        with Image.open(io.BytesIO(encoded)) as opened:
            upright = ImageOps.exif_transpose(opened).convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise InputError(
            f"{path}: cannot decode the image ({reason}); copy it again or take it out of the table"
        ) from None
    return torch.from_numpy(np.array(upright)).permute(2, 0, 1).contiguous()
