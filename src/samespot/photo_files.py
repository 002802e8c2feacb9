"""Photo files of anybody: only plain files of a sane size are opened, and whatever is wrong is one line. No torch."""

from __future__ import annotations

import importlib
import io
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from samespot.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

HEIC = (".heic", ".heif")
INSTALL = "HEIC photos need the package pillow-heif: pip install pillow-heif"
MOST_MEGAPIXELS = 179  # Pillow's limit; half a gigabyte when decoded
MOST_BYTES = 1_000_000_000


@cache
def accept_heic() -> bool:
    """Let Pillow open the HEIC files of phones; False where the package is not there."""
    try:
        importlib.import_module("pillow_heif").register_heif_opener()
    except ImportError:
        return False
    return True


def is_heic(name: str) -> bool:
    return name.lower().endswith(HEIC)


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
    except Exception:  # Pillow raises many kinds on broken files
        pass  # the decoder will say what is wrong


@contextmanager
def header(path: str | Path) -> Iterator[Image]:
    """An image file whose pixels stay where they are: its size and EXIF data. Pillow raises many kinds of errors in
    here; a pipe, which would wait forever, is an `InputError` as in `read_encoded`."""
    from PIL import Image

    accept_heic()
    if not Path(path).is_file():
        raise InputError(f"{path}: is not a plain file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # only the header is read, so a huge or odd image does no harm
        with Image.open(path) as image:
            yield image


@contextmanager
def opened(encoded: bytes, path: str | Path) -> Iterator[Image]:
    """The image in some bytes, by Pillow; what it raises in here, when opened or decoded, is one line."""
    from PIL import Image, UnidentifiedImageError

    # HEIC is told by its bytes, too: what comes from standard input has no name
    by_name = is_heic(str(path))
    if (by_name or encoded[4:8] == b"ftyp") and not accept_heic() and by_name:
        raise InputError(f"{path}: {INSTALL}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(encoded)) as image:
                yield image
    except Exception as error:  # of many kinds; nothing but Pillow runs in here
        reason = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise InputError(
            f"{path}: cannot decode the image ({reason}); copy it again or take it out of the table"
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
