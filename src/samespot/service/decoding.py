"""Photos of strangers are decoded in processes of their own, whose memory and time are bounded: what one of them does
to a decoder costs that process, and the next takes its place."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pebble import ProcessExpired, ProcessPool
from torch import Tensor

from samespot.errors import InputError

BYTES_PER_PIXEL = 16  # decoded, upright and as RGB, at the same time
SPARE = 256 << 20  # bytes beyond what a photo takes
TASKS = 1000  # photos after which a process is replaced, should its memory have become scattered


def begin() -> Any:
    """Start the process that all decoding ones are forked from: it imports what they need while the maps are opened.

    The service itself has threads, which do not survive a fork.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "samespot.images.reading", "torchvision.io"])
    forkserver.ensure_running()
    return context


class Decoder:
    """Encoded photo -> uint8 RGB (3, h, w), as `images.reading.decode_image` gives it."""

    def __init__(self, processes: int, most_pixels: int, seconds: float) -> None:
        self._seconds = seconds
        context = begin()
        self._pool: Any = ProcessPool(
            processes, TASKS, _bound_memory, (most_pixels * BYTES_PER_PIXEL + SPARE,), context=context
        )
        self._most_pixels = most_pixels

    async def __call__(self, encoded: bytes, name: str) -> Tensor:
        task = self._pool.schedule(_decoded, (encoded, name, self._most_pixels), timeout=self._seconds)
        try:
            return torch.from_numpy(await asyncio.wrap_future(task))
        except InputError:
            raise
        except (TimeoutError, ProcessExpired, MemoryError):
            raise InputError(
                f"{name}: takes too much memory or time to decode; save it again as JPEG"
            ) from None

    async def ready(self) -> None:
        """Start the processes, so that the first photo need not wait for them."""
        await asyncio.wrap_future(self._pool.schedule(_nothing))

    def close(self) -> None:
        self._pool.stop()
        self._pool.join()


def _bound_memory(size: int) -> None:
    used = next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData")
    )
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (used + size, hard))
    torch.set_num_threads(1)


def _nothing() -> None:
    return None


def _decoded(encoded: bytes, name: str, most_pixels: int) -> Any:
    from samespot.images.reading import decode_image
    from samespot.photo_files import opened

    try:
        with opened(encoded, name) as image:  # the header alone
            width, height = image.size
        if width * height > most_pixels:
            most = f"{most_pixels / 1e6:g} megapixels"
            raise InputError(f"{name}: {width} x {height} pixels are too many, at most {most}")
        return np.ascontiguousarray(decode_image(encoded, name).numpy())
    except InputError as error:  # without the advice for tables of photos
        raise InputError(str(error).partition(";")[0]) from None
    except RuntimeError as error:  # torch, out of memory
        raise MemoryError(str(error)) from None
