"""One look at a photo serves all: the network's pixels, the local features and the small picture, from one decoding."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from samespot.devices import precision_name
from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.images.readers import Readers
from samespot.matching.keypoints import Keypoints
from samespot.model.network import PlaceNet
from samespot.retrieval.describe import Describer, describer_for
from samespot.whitening.whitening import Whitening

QUALITY = 75  # of the small pictures: about 6 kB at 192 pixels
AHEAD = 2  # photos read ahead per thread, besides those in work
Extract = Callable[[Tensor], Keypoints]


@dataclass(frozen=True, eq=False)
class Look:
    """What is made of a photo before the network."""

    pixels: Tensor  # (3, *size) uint8, as the network takes them
    thumbnail: bytes  # a JPEG
    keypoints: Keypoints | None


@dataclass(frozen=True)
class Looking:
    """How photos are looked at."""

    preprocessing: Preprocessing
    thumbnail: int  # longer side of the small picture [pixels]
    extract: Extract | None  # local features of uint8 RGB (3, h, w); None: none are kept

    def at(self, image: Tensor) -> Look:
        """uint8 RGB (3, h, w)"""
        return Look(
            self.preprocessing.resize(image[None])[0],
            thumbnail(image, self.thumbnail),
            None if self.extract is None else self.extract(image),
        )


def query_describer(net: PlaceNet, device: torch.device, precision: str) -> Describer:
    """The network for photos that ask a map, whose own photos were described in that precision."""
    # int8 moves descriptors of samespot-lite by 0.07, where a photo and a part of it are 0.25 apart, and the map was
    # calibrated by such queries. So it is used here, too, though its graph takes ten seconds, once on a machine. bf16
    # moves them by 0.03: where a device has none, or no int8, full precision does as well.
    if precision == "int8" and device.type == "cpu":
        with suppress(InputError):  # without onnxruntime it is full precision, too
            return describer_for(net, device, precision, images=1)
    return describer_for(
        net, device, precision_name("auto", device) if precision == "bf16" else "32", images=1
    )


@dataclass(frozen=True, eq=False)
class Vectors:
    """From a photo, uint8 RGB (3, h, w), to the vector (dims,) that a map is searched by."""

    preprocessing: Preprocessing
    describer: Describer
    whitening: Whitening | None
    dims: int

    def __call__(self, image: Tensor) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.many([image])[0]
        return vector

    def many(self, images: Sequence[Tensor]) -> NDArray[np.float32]:
        """The same for several at once, (n, dims); they may be of different sizes."""
        device = self.describer.device
        pixels = torch.cat([self.preprocessing.resize(image[None].to(device)) for image in images])
        vectors = finite(self.describer(pixels).float().cpu().numpy())
        whitened = vectors if self.whitening is None else self.whitening(vectors, self.dims)
        return np.asarray(whitened, dtype=np.float32)


def finite(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Descriptors as they are, if they are any."""
    if not np.isfinite(vectors).all():
        raise InputError(
            "the network gives descriptors that are not finite numbers; its weights are broken, or `precision=32` is"
            " needed"
        )
    return vectors


def thumbnail(image: Tensor, side: int) -> bytes:
    """uint8 RGB (3, h, w) -> a JPEG whose longer side is `side` at most."""
    from PIL import Image

    height, width = image.shape[1:]
    scale = side / max(height, width)
    if scale < 1:
        size = max(1, round(height * scale)), max(1, round(width * scale))
        image = functional.interpolate(image[None], size=size, mode="bilinear", antialias=True)[0]
    out = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


def looks(how: Looking, paths: Sequence[Path], workers: int | None) -> Iterator[Look | InputError]:
    """One look after the other, in order, read ahead in threads; an error for a photo that is missing or broken."""
    readers = Readers(workers, paths)

    def look(path: Path) -> Look | InputError:
        with torch.inference_mode():
            return readers.look(path, how.at)

    waiting: deque[Future[Look | InputError]] = deque()
    with readers.pool as pool:
        try:
            for path in paths:
                waiting.append(pool.submit(look, path))
                if len(waiting) > readers.threads * AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
