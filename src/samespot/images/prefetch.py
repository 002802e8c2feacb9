"""Batches ahead of need: a thread reads and decodes the next ones while the network computes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from samespot.images.sources import Loaded, Source

READERS = 2
_cuda: Any = torch.cuda  # its streams and events carry no types


class Drawn(Protocol):
    """Anything whose images are to be loaded: a batch to learn from, or a `Block`."""

    @property
    def images(self) -> NDArray[np.int64]: ...


D = TypeVar("D", bound=Drawn)


@dataclass(frozen=True)
class Block:
    """Images to be looked at together."""

    rows: NDArray[np.int64]  # (n,) where they are among all that are looked at, without a gap
    images: NDArray[np.int64]  # (n,) their numbers

    @property
    def part(self) -> slice:
        return slice(int(self.rows[0]), int(self.rows[-1]) + 1)


@dataclass(frozen=True)
class _Ready(Generic[D]):
    batch: D
    loaded: Loaded
    event: Any = None  # when the copies to the GPU are done


class Prefetched(Generic[D]):
    """Batches with their images, `depth` of them ahead, in order. Iterate, then close."""

    def __init__(
        self, draw: Callable[[int], D], source: Source, steps: range, depth: int, device: torch.device
    ) -> None:
        self._draw, self._source, self._steps, self._device = draw, source, steps, device
        self._ready: queue.Queue[_Ready[D] | BaseException | None] = queue.Queue(maxsize=depth)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[tuple[D, Loaded]]:
        while (item := self._ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            if item.event is not None:
                here = torch.cuda.current_stream(self._device)
                here.wait_event(item.event)
                item.loaded.values.record_stream(here)
            yield item.batch, item.loaded

    def close(self) -> None:
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._ready.get_nowait()
            except queue.Empty:
                self._thread.join(timeout=0.01)

    def _run(self) -> None:
        try:
            with torch.cuda.stream(self._side_stream()):  # does nothing without a stream
                for step in self._steps:
                    if self._closed.is_set():
                        return
                    self._put(self._next(step))
            self._put(None)
        except BaseException as error:  # handed to the loop that waits for this batch
            self._put(error)

    def _side_stream(self) -> Any:
        return _cuda.Stream(self._device) if self._device.type == "cuda" else None

    def _next(self, step: int) -> _Ready[D]:
        batch = self._draw(step)
        loaded = self._source.load(batch.images)
        event = None
        if self._device.type == "cuda":
            event = _cuda.Event()
            event.record(torch.cuda.current_stream(self._device))
        return _Ready(batch, loaded, event)

    def _put(self, item: _Ready[D] | BaseException | None) -> None:
        while not self._closed.is_set():
            try:
                return self._ready.put(item, timeout=0.1)
            except queue.Full:
                continue
        return None


@contextmanager
def read_ahead(
    source: Source,
    draw: Callable[[int], D],
    steps: range,
    device: torch.device,
    depth: int = 2,
    readers: int = READERS,
) -> Iterator[Iterator[tuple[D, Loaded]]]:
    """`draw(step)` for each step in order, with its images, up to `depth` and one for each reader ahead.

    With two readers, decoders work on the next batch while one waits for the last image of its own. One of them draws
    at a time.
    """
    lock = threading.Lock()

    def drawn(step: int) -> D:
        with lock:
            return draw(step)

    each = -(-depth // readers)
    some = [Prefetched(drawn, source, steps[first::readers], each, device) for first in range(readers)]
    try:
        yield _in_turn(some)
    finally:
        for reader in some:
            reader.close()


def blocks_ahead(
    source: Source, rows: Sequence[NDArray[np.int64]], device: torch.device
) -> AbstractContextManager[Iterator[tuple[Block, Loaded]]]:
    """Blocks of images by their numbers, read ahead."""
    return read_ahead(source, lambda at: Block(rows[at], rows[at]), range(len(rows)), device)


def _in_turn(readers: list[Prefetched[D]]) -> Iterator[tuple[D, Loaded]]:
    """A batch of the first reader, one of the second, …"""
    sources = [iter(reader) for reader in readers]
    while True:
        for source in sources:
            try:
                yield next(source)
            except StopIteration:
                return
