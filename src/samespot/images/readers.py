"""Threads that read whole photos, each in its own size."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from samespot.cores import cores
from samespot.errors import InputError
from samespot.images.reading import decode_image
from samespot.images.sources import MOST_WORKERS
from samespot.storage import AT_ONCE, StorageError, is_address, read_encoded

A = TypeVar("A")


class Readers:
    """As many threads as may decode at a time; more where photos are at addresses, since those mostly wait."""

    def __init__(self, workers: int | None, photos: Sequence[Path]) -> None:
        decoding = workers or min(cores(), MOST_WORKERS)
        self.threads = max(decoding, AT_ONCE) if any(map(is_address, photos)) else decoding
        self.pool = ThreadPoolExecutor(self.threads, thread_name_prefix="photos")
        self._decoding = threading.Semaphore(decoding)

    def look(self, photo: Path, at: Callable[[Tensor], A]) -> A | InputError:
        """What `at` makes of a photo, uint8 RGB (3, h, w); the error of one that is missing or broken."""
        try:
            encoded = read_encoded(photo)
            with self._decoding:
                return at(decode_image(encoded, photo))
        except StorageError:
            raise
        except InputError as error:
            return error
