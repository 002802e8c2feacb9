"""Photos on the page: small, upright, each once however often it is shown."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.photo_files import open_photo
from samespot.progress import Progress

SIDE = 200  # [px] longer side
QUALITY = 70
ABSENT = -1


class PhotoStore:
    """The photos of a page by number; a photo that cannot be read has the number ABSENT."""

    def __init__(self, side: int = SIDE, progress: Progress | None = None) -> None:
        self.side, self.progress = side, progress
        self.pictures: list[str] = []  # data addresses
        self.shapes: list[float] = []  # width over height of the photos that were read
        self._numbers: dict[Path, int] = {}

    def add(self, paths: Sequence[Path]) -> list[int]:
        """The number of each photo."""
        new = [path for path in dict.fromkeys(paths) if path not in self._numbers]
        with ThreadPoolExecutor(4) as threads:
            for done, (path, read) in enumerate(zip(new, threads.map(self._read, new), strict=True)):
                self._numbers[path] = ABSENT if read is None else self._keep(read[0])
                self.shapes += [] if read is None else [read[1]]
                if self.progress is not None and (done % 20 == 19 or done + 1 == len(new)):
                    self.progress("photos", done + 1, len(new))
        return [self._numbers[path] for path in paths]

    def add_picture(self, picture: NDArray[np.uint8]) -> int:
        """An (h, w, 3) picture as it is."""
        return self._keep(_webp(picture))

    @property
    def shape(self) -> float:
        """Width over height of the usual photo, neither very wide nor very tall."""
        return float(np.clip(np.median(self.shapes), 0.75, 2.0)) if self.shapes else 4 / 3

    def _read(self, path: Path) -> tuple[bytes, float] | None:
        picture = upright(path, self.side)
        return None if picture is None else (_webp(picture), picture.shape[1] / picture.shape[0])

    def _keep(self, content: bytes) -> int:
        self.pictures.append("data:image/webp;base64," + b64encode(content).decode())
        return len(self.pictures) - 1


def upright(path: Path, side: int) -> NDArray[np.uint8] | None:
    """(h, w, 3) the photo as it was taken, no larger than `side`; None where there is none, or a broken one."""
    try:
        return np.asarray(open_photo(path, side))
    except InputError:
        return None


def _webp(picture: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, "webp", quality=QUALITY, method=4)
    return file.getvalue()
