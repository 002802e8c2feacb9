"""Photo files of anybody: only plain files of a sane size are opened, and whatever is wrong is one line. No torch."""

from __future__ import annotations

import importlib
import io
import os
import re
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samespot.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

HEIC = (".heic", ".heif")
INSTALL = "HEIC photos need the package pillow-heif: pip install pillow-heif"
MOST_PIXELS = 178_956_970  # Pillow's limit; half a gigabyte when decoded
MOST_MEGAPIXELS = 179  # the same, to be told
MOST_BYTES = 1_000_000_000
# of what a storage tells of a file: what changes when its content does
_STATE = (
    "size",
    "ETag",
    "etag",
    "md5Hash",
    "content_md5",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "created",
)
_ADDRESS = re.compile(r"(?P<system>[A-Za-z][A-Za-z0-9+.-]+):/{1,2}")


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


class MissingPhotoError(InputError):
    """There is no photo at an address, and the storage says so."""


def is_address(name: object) -> bool:
    """Whether a photo is named by an address of fsspec, such as s3://bucket/photo.jpg, and not by a path."""
    return address_of(str(name)) is not None


def address_of(photo: str | Path) -> str | None:
    """The address that a photo is named by, if it is. A `Path` of one has lost a slash, which comes back here."""
    found = _ADDRESS.match(str(photo))
    if found is None or found["system"] == "file":
        return None if found is None else str(photo)
    return f"{found['system']}://{str(photo)[found.end() :]}"


def photo_at(root: Path, name: str) -> Path:
    """Where a photo of a table is: below its root, or at its own address."""
    if (address := address_of(name)) is None:
        return root / name
    if "//" in address.partition("://")[2] or "::" in address:  # would not outlive being a `Path`
        raise InputError(f"{name}: addresses with // or :: in them are not understood; give a simple one")
    return Path(name)


def full_name(photo: Path | str) -> str:
    """The same for another process, which may be in another folder."""
    return address_of(photo) or os.path.abspath(photo)


def read_encoded(path: str | Path) -> bytes:
    """The bytes of an image file. Only of a plain file of a sane size: a device never ends, a pipe never begins."""
    if (address := address_of(path)) is not None:
        return _fetched(address)
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode):
            raise InputError(f"{path}: is not a plain file; take it out of the table")
        if facts.st_size > MOST_BYTES:
            raise InputError(f"{path}: {facts.st_size / 1e6:,.0f} MB is too large for a photo; shrink it")
        with open(path, "rb", buffering=0) as file:
            encoded: bytes = file.read()
    except OSError as error:
        raise InputError(
            f"{path}: cannot read the image ({error.strerror or error}); check the path"
        ) from None
    return _not_empty(encoded, path)


def _not_empty(encoded: bytes, path: str | Path) -> bytes:
    if not encoded:
        raise InputError(f"{path}: the file is empty; copy the image again or take it out of the table")
    return encoded


def _fetched(address: str) -> bytes:
    """The bytes of a photo at an address of fsspec."""
    with _refused(address):
        system, path = _system(address)
        size = _plain_facts(address, system.info(path)).get("size") or 0
        if size > MOST_BYTES:
            raise InputError(f"{address}: {size / 1e6:,.0f} MB is too large for a photo; shrink it")
        encoded: bytes = system.cat_file(path)
    return _not_empty(encoded, address)


def state_at(address: str) -> str:
    """The state of a photo at an address, to tell whether it changed: its size, and what the storage says of its
    content or time. Web servers often say nothing more."""
    with _refused(address):
        system, path = _system(address_of(address) or address)
        facts = _plain_facts(address, system.info(path))
    return "\n".join(str(facts[name]) for name in _STATE if facts.get(name) is not None)


def _plain_facts(address: str, facts: dict[str, Any]) -> dict[str, Any]:
    if facts.get("type") == "directory":
        raise InputError(f"{address}: is a folder; take it out of the table")
    return facts


def _system(address: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    system, path = url_to_fs(address)
    return system, path


@contextmanager
def _refused(address: str) -> Iterator[None]:
    """What another machine refuses, in one line."""
    try:
        yield
    except InputError:
        raise
    except ImportError as error:  # fsspec says which package is needed
        raise InputError(f"{address}: {str(error).splitlines()[0]}") from None
    except FileNotFoundError:
        raise MissingPhotoError(f"{address}: no such photo; check the address") from None
    except Exception as error:  # each kind of storage raises kinds of its own
        told = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise InputError(
            f"{address}: cannot read the image ({told}); check the address and the access"
        ) from None


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
        raise InputError(f"{path}: has more than {MOST_MEGAPIXELS} megapixels; shrink it") from None
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
