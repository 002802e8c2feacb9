"""Where images come from: files, or anything else that turns image numbers into tensors, a `Source`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.cores import cores
from samespot.errors import InputError
from samespot.images.listing import Images, PathList
from samespot.images.preprocess import Preprocessing
from samespot.images.reading import decode_image
from samespot.photo_files import refuse_large
from samespot.storage import AT_ONCE, StorageError, is_address, read_encoded, shared_out

MOST_WORKERS = 16
SPARE = 4  # of at least twice as many cores are left to what feeds a GPU: it must never wait for one
# with fewer cores than this, decoding is left to the GPU; with more, its time is better spent on the network
CORES_TO_DECODE = 8
A = TypeVar("A")
B = TypeVar("B")
_EXIF = b"Exif\x00\x00"
_ORIENTATION = 274


@dataclass(frozen=True)
class Loaded:
    """Images of a batch on the device, or what the frozen part made of them."""

    values: Tensor  # (n, 3, h, w) uint8 RGB, or (n, ...) features
    good: NDArray[np.bool_]  # (n,) False where the image could not be read
    features: bool = False  # whether `values` are features at the cut of the network


class Source(Protocol):
    """Anything that turns image numbers into tensors on the device."""

    def load(self, numbers: NDArray[np.int64]) -> Loaded: ...


@dataclass
class BadImages:
    """Images that could not be read: number -> reason. Unless they are skipped, the first one is an error."""

    on_bad_image: Literal["fail", "skip"] | None = None  # None: the user has no such option
    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, number: int, error: InputError) -> None:
        if self.on_bad_image != "skip":
            advice = "; or pass `on_bad_image=skip`" if self.on_bad_image is not None else ""
            raise InputError(f"{error}{advice}") from None
        self.reasons[number] = str(error)


class FileImages:
    """Reads image files. Each image of a batch is read once, even if it appears twice."""

    def __init__(
        self,
        images: Images,
        preprocessing: Preprocessing,
        device: torch.device,
        *,
        workers: int | None = None,
        decode: Literal["auto", "cpu", "gpu"] = "auto",
        bad: BadImages | None = None,
    ) -> None:
        self.images, self.preprocessing, self.device = images, preprocessing, device
        self.bad = bad or BadImages()
        here = cores()
        self.on_gpu = device.type == "cuda" and (
            decode == "gpu" or (decode == "auto" and here < CORES_TO_DECODE)
        )
        spare = SPARE if device.type == "cuda" and here >= 2 * SPARE else 0
        self._workers = workers or min(here - spare, MOST_WORKERS)
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="images")
        # those that wait for a storage; begun when there is something to wait for, and as few decode at once
        self._waiting = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="addresses")
        self._decoders = threading.Semaphore(self._workers)

    def load(self, numbers: NDArray[np.int64]) -> Loaded:
        unique, inverse = np.unique(numbers, return_inverse=True)
        paths = [self.images.path(int(number)) for number in unique]
        values, errors = self._decode_on_gpu(paths) if self.on_gpu else self._decode(paths)
        for at, error in errors.items():
            self.bad.add(int(unique[at]), error)
        good = np.ones(len(unique), dtype=bool)
        good[list(errors)] = False
        values = values.to(self.device, non_blocking=True)
        if not np.array_equal(inverse, np.arange(len(unique))):
            values = values[send(inverse, self.device)]
        return Loaded(values, good[inverse])

    def close(self) -> None:
        for pool in (self._pool, self._waiting):
            pool.shutdown(wait=False, cancel_futures=True)

    def _each(self, work: Callable[[A], B], given: Sequence[A], paths: Sequence[Path]) -> list[B]:
        """`work` of all that is given for these photos, in order: by many threads where most of the time is waiting."""
        if any(map(is_address, paths)):
            return shared_out(self._waiting, AT_ONCE, work, given)
        return shared_out(self._pool, self._workers, work, given)

    def _decode(self, paths: list[Path]) -> tuple[Tensor, dict[int, InputError]]:
        """(n, 3, *size) on the processor, in memory that the GPU can fetch from; black where reading failed."""
        for_gpu = self.device.type == "cuda"
        with torch.inference_mode(False):  # else threads that are not in that mode could not write into it
            pixels = torch.empty(
                (len(paths), 3, *self.preprocessing.size),
                dtype=torch.uint8,
                pin_memory=for_gpu,
                # as decoders write them and networks on a GPU want them: reordering takes a third of decoding's time
                memory_format=torch.channels_last if for_gpu else torch.contiguous_format,
            )

        # of files, no more threads are at work than may decode
        turn = self._decoders if any(map(is_address, paths)) else nullcontext()

        def read(at: int) -> InputError | None:
            try:
                encoded = read_encoded(paths[at])
                with turn:
                    image = decode_image(encoded, paths[at])
                    pixels[at] = self.preprocessing.resize(image[None])[0]
            except StorageError:
                raise
            except InputError as error:
                pixels[at] = 0
                return error
            return None

        failed = {at: error for at, error in enumerate(self._each(read, range(len(paths)), paths)) if error}
        return pixels, failed

    def _decode_on_gpu(self, paths: list[Path]) -> tuple[Tensor, dict[int, InputError]]:
        """The same by nvJPEG, for the JPEG files that need no turning; the others by the processor."""
        from torchvision.io import ImageReadMode, decode_jpeg

        encoded = self._each(_upright_jpeg, paths, paths)
        plain = [at for at, data in enumerate(encoded) if data is not None]
        if not plain:
            return self._decode(paths)
        try:
            decoded: list[Tensor] = decode_jpeg(
                [encoded[at] for at in plain], ImageReadMode.RGB, device=self.device
            )
        except RuntimeError:  # one of them is broken, and nvJPEG does not say which
            return self._decode(paths)
        pixels = torch.zeros((len(paths), 3, *self.preprocessing.size), dtype=torch.uint8, device=self.device)
        for size in {tuple(image.shape) for image in decoded}:
            some = [i for i, image in enumerate(decoded) if tuple(image.shape) == size]
            rows = torch.tensor([plain[i] for i in some], device=self.device)
            pixels[rows] = self.preprocessing.resize(torch.stack([decoded[i] for i in some]))
        rest = sorted(set(range(len(paths))) - set(plain))
        if not rest:
            return pixels, {}
        others, failed = self._decode([paths[at] for at in rest])
        pixels[torch.tensor(rest, device=self.device)] = others.to(self.device, non_blocking=True)
        return pixels, {rest[at]: error for at, error in failed.items()}


def _upright_jpeg(path: Path) -> Tensor | None:
    """The bytes of a JPEG file that is stored upright and whole; None for anything else.

    Whole: the decoder in a GPU fills in what is missing at the end of a file, and says nothing.
    """
    try:
        data = read_encoded(path)
        refuse_large(data, path)
    except StorageError:
        raise
    except InputError:  # the processor's decoder will say it
        return None
    if data[:3] != b"\xff\xd8\xff" or data[-2:] != b"\xff\xd9":
        return None
    if _EXIF in data[:65536] and _orientation(data) > 1:
        return None
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _orientation(data: bytes) -> int:
    import io

    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            return int(image.getexif().get(_ORIENTATION, 1))
    except (OSError, ValueError, SyntaxError):
        return 2  # let the processor's decoder say what is wrong


def send(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array on the device. From pinned memory, since the host waits for the GPU at any other copy."""
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def read_blocks(
    paths: Sequence[str | Path], preprocessing: Preprocessing, device: torch.device, at_once: int = 16
) -> Iterator[Tensor]:
    """Image files as uint8 RGB (n, 3, *size) on the device, some at a time; one that cannot be read is an error."""
    files = FileImages(PathList(paths), preprocessing, device)
    try:
        for numbers in in_blocks(len(paths), at_once):
            yield files.load(numbers).values
    finally:
        files.close()


def wait_for(device: torch.device) -> None:
    """Let a GPU finish: what follows may read from another stream."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def in_blocks(count: int, block: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, count, block):
        yield np.arange(start, min(start + block, count))
