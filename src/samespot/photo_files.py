"""From the bytes of anybody's photos to images: sizes are checked first, what is wrong is one line. No torch."""

from __future__ import annotations

import errno
import importlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samespot.errors import InputError
from samespot.storage import address_of, is_address, is_file, read_encoded, refusal, shown

if TYPE_CHECKING:
    from PIL.Image import Image

HEIC = (".heic", ".heif")
INSTALL = "HEIC photos need the package pillow-heif: pip install pillow-heif"
# decoded by torchvision, in less time than by Pillow. Not PNG: of one with too few pixels its decoder ends the process
BY_TORCHVISION = (b"\xff\xd8\xff", b"GIF8", b"RIFF")
MOST_PIXELS = 178_956_970  # Pillow's limit; half a gigabyte when decoded
MOST_MEGAPIXELS = 179  # the same, to be told


@cache
def accept_heic() -> bool:
    """Let Pillow open the HEIC files of phones; False where the package is not there."""
    try:
        importlib.import_module("pillow_heif").register_heif_opener()
    except ImportError:
        return False
    return True


def refuse_no_photo(photo: Any) -> None:
    """Raise for a file that is missing or no image, as it would be when it is decoded; for nothing but files."""
    if isinstance(photo, str | Path) and not is_address(photo):
        encoded = read_encoded(photo)
        refuse_large(encoded, photo)
        if not encoded.startswith(BY_TORCHVISION):
            with opened(encoded, photo):
                pass


def is_heic(name: str) -> bool:
    return name.lower().endswith(HEIC)


def refuse_large(encoded: bytes, path: str | Path) -> None:
    """Raise for an image whose header announces too many pixels, by Pillow's limit: a small file may unpack to
    gigabytes."""
    pixels = _jpeg_pixels(encoded)
    if pixels is not None and pixels <= MOST_PIXELS:
        return
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns from half of its limit on
            Image.open(io.BytesIO(encoded)).close()
    except Image.DecompressionBombError:
        raise InputError(f"{shown(path)}: has more than {MOST_MEGAPIXELS} megapixels; shrink it") from None
    except Exception:  # Pillow raises many kinds on broken files
        pass  # the decoder will say what is wrong


def _jpeg_pixels(encoded: bytes) -> int | None:
    """Pixels that the header of a JPEG file announces; None where it is no JPEG file, or an odd one.

    Not by Pillow, which takes ten times as long: many threads read photos, and Python runs in one of them at a time.
    """
    at = 2 if encoded[:2] == b"\xff\xd8" else len(encoded)
    while encoded[at : at + 1] == b"\xff" and at + 9 <= len(encoded):
        kind, length = encoded[at + 1], int.from_bytes(encoded[at + 2 : at + 4], "big")
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):  # the frame: precision, height, width
            height, width = (int.from_bytes(encoded[at + i : at + i + 2], "big") for i in (5, 7))
            return height * width or None  # a height of 0 is told after the pixels
        if kind < 0xC0 or 0xD0 <= kind <= 0xDA or kind == 0xFF or length < 2:
            return None  # these have no length, or pixels begin
        at += 2 + length
    return None


@contextmanager
def header(path: str | Path) -> Iterator[Image]:
    """An image file whose pixels stay where they are: its size and EXIF data. Pillow raises many kinds of errors in
    here; a pipe, which would wait forever, is an `InputError` as in `read_encoded`, and a disk that fails another."""
    from PIL import Image

    accept_heic()
    if (far := address_of(path) is not None) or is_file(path):
        with warnings.catch_warnings(), _disk_told(path):
            warnings.simplefilter("ignore")  # only the header is read, so a huge or odd image does no harm
            with Image.open(io.BytesIO(read_encoded(path)) if far else path) as image:
                yield image
    else:
        raise InputError(f"{path}: is not a plain file")


@contextmanager
def _disk_told(path: str | Path) -> Iterator[None]:
    """What the disk refuses, in one line. Pillow's errors have no number, or that of a wrong place in a file."""
    try:
        yield
    except OSError as error:
        if error.errno in (None, errno.EINVAL):
            raise
        raise refusal(path, error) from None


@contextmanager
def opened(encoded: bytes, path: str | Path) -> Iterator[Image]:
    """The image in some bytes, by Pillow; what it raises in here, when opened or decoded, is one line."""
    from PIL import Image, UnidentifiedImageError

    # HEIC is told by its bytes, too: what comes from standard input has no name
    by_name = is_heic(str(path))
    if (by_name or encoded[4:8] == b"ftyp") and not accept_heic() and by_name:
        raise InputError(f"{shown(path)}: {INSTALL}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(encoded)) as image:
                yield image
    except Exception as error:  # of many kinds; nothing but Pillow runs in here
        reason = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise InputError(
            f"{shown(path)}: cannot decode the image ({reason}); copy it again or take it out of the table"
        ) from None


def open_photo(path: str | Path, side: int | None = None) -> Image:
    """A photo file, decoded, upright and RGB, to look at; with `side` [px] no larger than that."""
    from PIL import Image, ImageOps

    encoded = read_encoded(path)
    refuse_large(encoded, path)
    with opened(encoded, path) as image:
        if side is not None:
            image.draft("RGB", (2 * side, 2 * side))  # a large JPEG is decoded small at once
        whole = ImageOps.exif_transpose(image).convert("RGB")
        if side is not None and max(whole.size) > side:
            whole = ImageOps.contain(whole, (side, side), Image.Resampling.LANCZOS)
    return whole
