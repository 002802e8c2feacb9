"""A segment of a map: what was made of some hundreds of photos, in one file that is there whole or not at all.

A file of safetensors, whose arrays are, for n photos and k keypoints of all of them together:

    keys              (n, 16) uint8      names of the photo files in their present state
    descriptors       (n, d) float16     as the network gives them
    thumbnails        (bytes,) uint8     one JPEG after the other
    thumbnail_starts  (n + 1,) int64     where each begins, and where the last one ends
    xy                (k, 2) uint16      positions of keypoints [1/64 pixel]; this and what follows only with keypoints
    local             (k, l) int8        their descriptors
    keypoint_starts   (n + 1,) int64
    sizes             (n, 2) int32       height and width of the photo as keypoints were looked for
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.arrays import as_safetensors
from samespot.errors import InputError
from samespot.files import write_whole
from samespot.matching.keypoints import Keypoints

KEY = 16  # bytes
SUFFIX = ".safetensors"
MOST_HEADER = 1 << 20  # bytes
_KINDS = {
    "U8": np.uint8,
    "I8": np.int8,
    "U16": np.uint16,
    "F16": np.float16,
    "I32": np.int32,
    "I64": np.int64,
}
_ALWAYS = ("keys", "descriptors", "thumbnails", "thumbnail_starts")


@dataclass(frozen=True, eq=False)
class Described:
    """What a map keeps of one photo."""

    key: bytes
    descriptor: NDArray[np.float16]  # (d,)
    thumbnail: bytes  # a JPEG
    keypoints: Keypoints | None


class Segment:
    """A file of photos, mapped into memory: it can be read on when the file is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.arrays = _mapped(path)

    def __len__(self) -> int:
        return len(self.arrays["keys"])

    @property
    def descriptors(self) -> NDArray[np.float16]:
        return self.arrays["descriptors"]

    def thumbnail(self, row: int) -> bytes:
        start, stop = self.arrays["thumbnail_starts"][row : row + 2]
        return self.arrays["thumbnails"][start:stop].tobytes()

    def keypoints(self, row: int) -> Keypoints | None:
        if "xy" not in self.arrays:
            return None
        start, stop = self.arrays["keypoint_starts"][row : row + 2]
        height, width = self.arrays["sizes"][row]
        local = np.array(self.arrays["local"][start:stop])
        return Keypoints.of_steps(self.arrays["xy"][start:stop], local, (int(height), int(width)))

    def described(self, row: int) -> Described:
        """Everything of one photo, to be written into another segment."""
        return Described(
            self.arrays["keys"][row].tobytes(),
            self.descriptors[row],
            self.thumbnail(row),
            self.keypoints(row),
        )


def write_segment(path: Path, photos: Sequence[Described]) -> int:
    """Write some photos at once; returns the bytes of the file. All have keypoints or none has."""
    arrays: dict[str, NDArray[Any]] = {
        "keys": np.frombuffer(b"".join(one.key for one in photos), np.uint8).reshape(-1, KEY),
        "descriptors": np.stack([one.descriptor for one in photos]).astype(np.float16),
        "thumbnails": np.frombuffer(b"".join(one.thumbnail for one in photos), np.uint8),
        "thumbnail_starts": _starts([len(one.thumbnail) for one in photos]),
    }
    kept = [one.keypoints for one in photos if one.keypoints is not None]
    if kept:
        if len(kept) < len(photos):
            raise ValueError("some photos of a segment have keypoints and some have none")
        arrays |= {
            "xy": np.concatenate([one.steps() for one in kept]),
            "local": np.concatenate([one.descriptors for one in kept]),
            "keypoint_starts": _starts([len(one) for one in kept]),
            "sizes": np.array([one.size for one in kept], dtype=np.int32),
        }
    content = as_safetensors(arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    return len(content)


def _starts(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def read_array(path: Path, name: str) -> NDArray[Any]:
    """One array of a segment, read into memory: of many segments, mapped pages would add up."""
    start, header = _header(path)
    about = header[name]
    first, last = about["data_offsets"]
    with path.open("rb") as file:
        file.seek(start + first)
        content = np.frombuffer(file.read(last - first), np.uint8)
    return content.view(_KINDS[about["dtype"]]).reshape(about["shape"])


def bytes_by_array(path: Path) -> dict[str, int]:
    """How large each array of a segment is."""
    return {
        name: about["data_offsets"][1] - about["data_offsets"][0] for name, about in _header(path)[1].items()
    }


def _header(path: Path) -> tuple[int, dict[str, Any]]:
    """Where the arrays of a file of safetensors begin, and what they are; `InputError` where the file is not whole.

    What the disk refuses says nothing of the file, and stays an `OSError`.
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(size)) if size < MOST_HEADER else {}
        header.pop("__metadata__", None)
        whole = 8 + size + max(about["data_offsets"][1] for about in header.values())
        lacking = [name for name in _ALWAYS if name not in header]
        if path.stat().st_size == whole and not lacking:
            return 8 + size, header
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        pass
    raise InputError(f"{path}: is not whole") from None


def _mapped(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a segment, as views of one memory map.

    Not by the library: what it hands out is a copy of a whole array, and here rows are read one by one.
    """
    start, header = _header(path)
    raw = np.asarray(np.memmap(path, np.uint8, "r"))
    return {name: _view(raw[start:], about) for name, about in header.items()}


def _view(content: NDArray[np.uint8], about: dict[str, Any]) -> NDArray[Any]:
    start, stop = about["data_offsets"]
    return content[start:stop].view(_KINDS[about["dtype"]]).reshape(about["shape"])
