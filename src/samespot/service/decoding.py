"""Photos of strangers are decoded in processes of their own, whose memory and time are bounded: what one of them does
to a decoder costs that process, and the next takes its place."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pebble import ProcessExpired, ProcessPool

from samespot.errors import InputError
from samespot.places.camera import Camera
from samespot.service.errors import UnreadableError

if TYPE_CHECKING:  # what is wrong with a service is told before torch is loaded
    from torch import Tensor

BYTES_PER_PIXEL = 16  # decoded, upright and as RGB, at the same time
SPARE = 256 << 20  # bytes beyond what a photo takes
LOOK = 0.25  # [s] between two looks at a pool that does not answer
LONGEST = 30_000  # pixels of a side
TASKS = 1000  # photos after which a process is replaced, should its memory have become scattered


def begin() -> Any:
    """Start the process that all decoding ones are forked from: it imports what they need while the maps are opened.

    The service itself has threads, which do not survive a fork.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            __name__,
            "samespot.images.reading",
            "samespot.matching.verification",
            "samespot.places.exif",
            "torchvision.io",
        ]
    )
    forkserver.ensure_running()
    return context


@dataclass(frozen=True, eq=False)
class Decoded:
    """A photo as a map looks at it, uint8 RGB: at the network's size, and as keypoints are looked for in it."""

    pixels: Tensor  # (3, *size)
    looked_at: Tensor  # (3, h, w)
    camera: Camera | None  # as far as EXIF tells; nothing else of EXIF leaves the process


class Decoder:
    """From an encoded photo to what a map looks at. The whole photo, which may be large, never leaves the process that
    decodes it."""

    def __init__(self, processes: int, most_pixels: int, seconds: float) -> None:
        self._processes, self._most_pixels, self._seconds = processes, most_pixels, seconds
        self._pool = self._made()

    def _made(self) -> Any:
        context, memory = begin(), self._most_pixels * BYTES_PER_PIXEL + SPARE
        return ProcessPool(self._processes, TASKS, _bound_memory, (memory,), context=context)

    async def __call__(self, encoded: bytes, name: str, size: tuple[int, int]) -> Decoded:
        """size: height and width that the network takes."""
        try:
            pixels, looked_at, camera = await self._done(_decoded, encoded, name, size, self._most_pixels)
            import torch

            return Decoded(torch.from_numpy(pixels), torch.from_numpy(looked_at), camera)
        except (TimeoutError, ProcessExpired, MemoryError):
            why = "takes too much memory or time to decode; save it again as JPEG"
            raise UnreadableError(f"{name}: {why}") from None

    async def _done(self, work: Any, *given: Any) -> Any:
        """A process that dies while it has nothing to do breaks the whole pool: then there is a new one."""
        for last in (False, True):
            pool = self._pool
            try:
                future = asyncio.wrap_future(pool.schedule(work, given, timeout=self._seconds))
                while not (await asyncio.wait({future}, timeout=LOOK))[0]:
                    if not pool.active:  # what it had to do is never told of
                        raise RuntimeError
                return future.result()
            except RuntimeError:
                if last:
                    raise
                if self._pool is pool:
                    self._pool = self._made()
                    pool.stop()
        raise AssertionError

    async def ready(self) -> None:
        """Start the processes, so that the first photo need not wait for them."""
        await self._done(_nothing)

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
    import torch  # which the process that this one was forked from has

    torch.set_num_threads(1)


def _nothing() -> None:
    return None


def _decoded(encoded: bytes, name: str, size: tuple[int, int], most_pixels: int) -> Any:
    from samespot.images.preprocess import resized
    from samespot.images.reading import decode_image
    from samespot.matching.verification import shrunk
    from samespot.photo_files import opened
    from samespot.places.exif import exif_camera

    try:
        with opened(encoded, name) as image:  # the header alone
            width, height = image.size
        if width * height > most_pixels or max(width, height) > LONGEST:
            most = f"{most_pixels / 1e6:g} megapixels and {LONGEST:,} pixels a side"
            raise UnreadableError(f"{name}: {width} x {height} pixels are too many, at most {most}")
        camera = exif_camera(encoded)
        photo = decode_image(encoded, name)
        looks = (resized(photo[None], size)[0], shrunk(photo))
        return (*(np.ascontiguousarray(one.numpy()) for one in looks), camera)
    except UnreadableError:
        raise
    except InputError as error:
        if isinstance(error.__context__, MemoryError):
            os._exit(1)  # whose memory is full of pieces now: a new process is better for the next
        raise UnreadableError(
            str(error).partition(";")[0]
        ) from None  # without the advice for tables of photos
    except RuntimeError:  # torch, out of memory
        os._exit(1)
