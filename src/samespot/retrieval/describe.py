"""From a table of places to their descriptors: files are read ahead, the network never waits, a kill costs seconds.

Under torchrun every process calls `describe` and does its share of the blocks, into one file.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from samespot.errors import InputError
from samespot.images.listing import ImageList
from samespot.images.prefetch import Prefetched
from samespot.images.sources import BadImages, FileImages, Loaded, require_room
from samespot.model.folding import fold_batch_norms
from samespot.model.network import PlaceNet
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.descriptors import Begun, Descriptors, DescriptorWriter, about, facts_in
from samespot.retrieval.options import DescribeOptions, Dtype
from samespot.training.batches import Batch

T = TypeVar("T")

# two readers take turns: while one waits for the last image of its block, the decoders work on the next block
READERS = 2
IN_FLIGHT = 2  # blocks that a GPU was given and that are not fetched yet
ON_CPU, ON_GPU, ON_LARGE_GPU = 16, 64, 256  # images at once
LARGE_GPU = 40e9  # bytes
PATIENCE = timedelta(days=7)  # for processes whose share takes longer
_cuda: Any = torch.cuda  # its events carry no types


def describe(
    net: PlaceNet,
    places: Places,
    out: str | Path | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Descriptors:
    """Descriptors of all images of a table, in the folder `out`, or in memory without one.

    options: fields of `DescribeOptions`. progress: given ("describing", images done, images).

    A folder that was begun with the same model, places, precision and dtype is continued; a finished one is opened,
    and no image is read. On a CPU the result is the same to the last bit whether it was interrupted or not. With
    `precision="auto"` a folder keeps the precision it was begun with. With `on_bad_image="skip"`, the row of an image
    that cannot be read is zero, and `meta["bad"]` says why.
    """
    asked = DescribeOptions.of(options)
    if not len(places):
        raise InputError(f"{places.root}: no images in the table, so there is nothing to describe")
    where = device_named(asked.device, asked.decode)
    precision: str = asked.precision
    if precision == "auto" and out is not None:
        precision = facts_in(out).get("precision", precision)
    facts = _facts(net, places, precision_name(precision, where), asked.dtype)
    size = min(asked.batch_size or default_batch_size(where), len(places))
    with joined(where) as processes:
        store: _Store = (
            _InMemory(facts, processes) if out is None else DescriptorWriter(out, facts, processes.rank)
        )
        begun = processes.together(lambda: store.begin(places) if processes.rank == 0 else Begun())[0]
        _refuse_bad(begun.bad, out, asked.on_bad_image)
        if not begun.finished:
            blocks = blocks_left(len(places), size, begun.done)
            mine = blocks[processes.rank :: processes.count]
            tell = _teller(progress, len(places), blocks, processes)
            files = FileImages(
                ImageList([places]),
                net.preprocessing,
                where,
                workers=asked.workers,
                decode=asked.decode,
                bad=BadImages(asked.on_bad_image),
            )
            describer = Describer(net, where, facts["precision"], asked.dtype, size)
            found_bad = processes.together(lambda: _fill(describer, files, mine, store, tell))
            # what is still known of rows that were not done again, and what was found just now
            old = {row: why for row, why in begun.bad.items() if not any(a <= row < b for a, b in blocks)}
            bad = {row: why for part in (old, *found_bad) for row, why in part.items()}
            processes.together(lambda: store.finish(bad))
    return store.result()


def _fill(
    describer: Describer,
    files: FileImages,
    blocks: list[tuple[int, int]],
    store: _Store,
    tell: Callable[[int], None],
) -> dict[int, str]:
    """Describe these blocks; the images that could not be read are returned."""
    device, ahead = describer.device, IN_FLIGHT if describer.device.type == "cuda" else 0
    on_the_way: deque[_OnTheWay] = deque()

    def keep(block: _OnTheWay) -> None:
        vectors, missing = block.arrived(), (~block.good).nonzero()[0]
        vectors[missing] = 0
        rows = [block.start + int(at) for at in missing]
        store.write(block.start, vectors, {row: files.bad.reasons[row] for row in rows})
        tell(len(vectors))

    store.open()
    readers: list[Prefetched[Batch]] = []
    try:
        with tuned_for(device):
            readers += _readers(files, blocks, device)
            for batch, loaded in _in_turn(readers):
                on_the_way.append(describer.send(int(batch.images[0]), loaded))
                if len(on_the_way) > ahead:
                    keep(on_the_way.popleft())
            for block in on_the_way:
                keep(block)
    except torch.cuda.OutOfMemoryError:
        raise InputError(
            f"out of GPU memory with {describer.batch_size} images at once; pass `batch_size="
            f"{max(1, describer.batch_size // 2)}`"
        ) from None
    finally:
        for reader in readers:
            reader.close()
        files.close()
        store.close()
    return dict(files.bad.reasons)


def _readers(
    files: FileImages, blocks: list[tuple[int, int]], device: torch.device
) -> list[Prefetched[Batch]]:
    nothing = np.empty(0, dtype=np.int64)

    def draw(step: int) -> Batch:
        rows = np.arange(*blocks[step])
        return Batch(step, nothing, nothing, nothing, np.empty(0, np.float32), rows, nothing, 0)

    steps = [range(first, len(blocks), READERS) for first in range(READERS)]
    return [Prefetched(draw, files, some, 1, device) for some in steps]


def _in_turn(readers: list[Prefetched[Batch]]) -> Iterator[tuple[Batch, Loaded]]:
    """A block of the first reader, one of the second, …: the blocks in order."""
    sources = [iter(reader) for reader in readers]
    while True:
        for source in sources:
            try:
                yield next(source)
            except StopIteration:
                return


def blocks_left(count: int, size: int, done: list[tuple[int, int]] | None = None) -> list[tuple[int, int]]:
    """Blocks [start, stop) of `size` rows, less those whose rows are all done: always cut at the same places."""
    there = np.zeros(count, dtype=bool)
    for start, stop in done or ():
        there[start:stop] = True
    cuts = [(start, min(start + size, count)) for start in range(0, count, size)]
    return [(start, stop) for start, stop in cuts if not there[start:stop].all()]


# ---- the network ----


class Describer:
    """A network as it is fastest without learning: batch norms folded, channels last, half precision.

    A copy: the network it is made from stays as it is.
    """

    def __init__(
        self,
        net: PlaceNet,
        device: torch.device,
        precision: str,
        dtype: Dtype = "float32",
        batch_size: int = 16,
    ) -> None:
        self.device, self.batch_size = device, batch_size
        self.half = torch.bfloat16 if precision == "bf16" else None
        self.dtype = torch.float16 if dtype == "float16" else torch.float32
        # folded on the CPU, in full precision: TF32 would blur the check that folding changes nothing
        stages = copy.deepcopy(nn.Sequential(*net.stages.values())).cpu()
        self._trunk = fold_batch_norms(stages).to(device).to(memory_format=torch.channels_last)
        self._pool = copy.deepcopy(net.pool).eval().requires_grad_(False).to(device)
        if self.half is not None:  # autocast would cast these same weights anew for each batch
            for module in self._trunk.modules():
                if isinstance(module, nn.Conv2d | nn.Linear):
                    module.to(self.half)
        how = net.preprocessing
        self._blue_first = how.channels == "BGR"
        constants = torch.tensor([how.mean, how.std], dtype=torch.float32) * (255.0 / how.value_range)
        self._mean, self._std = constants.to(device)[:, :, None, None]

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        """uint8 RGB images (n, 3, h, w) of the network's size, on the device -> descriptors (n, d) there."""
        pixels = images.flip(1) if self._blue_first else images
        # reordered while they are bytes, and shifted while they become numbers: less to move
        values = (pixels.contiguous(memory_format=torch.channels_last) - self._mean).div_(self._std)
        with torch.autocast(self.device.type, dtype=self.half, enabled=self.half is not None):
            features = self._trunk(values)
            pooled: Tensor = self._pool(features)
        return functional.normalize(pooled.float(), dim=1).to(self.dtype)

    def send(self, start: int, loaded: Loaded) -> _OnTheWay:
        """Have a block described. A GPU is only told to; its descriptors arrive in host memory later."""
        images, count = loaded.values, len(loaded.values)
        if self.device.type != "cuda":
            return _OnTheWay(start, loaded.good, self(images).cpu())
        if count < self.batch_size:  # every block has the same shape: cuDNN tunes itself once
            images = torch.cat([images, images.new_zeros((self.batch_size - count, *images.shape[1:]))])
        made = self(images)[:count]
        host = torch.empty(made.shape, dtype=made.dtype, pin_memory=True)
        host.copy_(made, non_blocking=True)
        event = _cuda.Event(blocking=True)  # sleeps while it waits: the cores are for decoding
        event.record(torch.cuda.current_stream(self.device))
        return _OnTheWay(start, loaded.good, host, event)


@dataclass(frozen=True)
class _OnTheWay:
    """Descriptors of a block of rows from `start` on, as soon as the event says so."""

    start: int
    good: NDArray[np.bool_]
    values: Tensor
    event: Any = None

    def arrived(self) -> NDArray[Any]:
        if self.event is not None:
            self.event.synchronize()
        vectors: NDArray[Any] = self.values.numpy()
        return vectors


@contextmanager
def tuned_for(device: torch.device) -> Iterator[None]:
    """Settings of torch for a loop over equal blocks on a GPU; as they were afterwards."""
    if device.type != "cuda":
        yield
        return
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    torch.set_num_threads(
        1
    )  # else each thread that decodes would copy pixels with a team of threads of its own
    torch.backends.cudnn.benchmark = True
    try:
        with torch.cuda.device(device):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.cudnn.benchmark = benchmark


# ---- what is asked for ----


def device_named(device: str, decode: str = "auto") -> torch.device:
    """The device of this process: under torchrun each has a GPU of its own."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        where = torch.device(device)
    except RuntimeError:
        raise InputError(f"`device` {device!r} is unknown; choose auto, cpu or cuda") from None
    if where.type != "cuda":
        if decode == "gpu":
            raise InputError("`decode=gpu` needs a CUDA device; leave it out to decode on the processor")
        return where
    index = int(os.environ.get("LOCAL_RANK", "0")) if where.index is None else where.index
    if index >= torch.cuda.device_count():
        raise InputError(
            f"`device={device}`: torch sees {torch.cuda.device_count()} GPUs, and GPU {index} is asked for; check "
            "nvidia-smi, start no more processes than GPUs, or use `device=cpu`"
        )
    return torch.device("cuda", index)


def precision_name(precision: str, device: torch.device) -> str:
    """ "32" or "bf16"."""
    if precision != "auto":
        return precision
    has_it = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" if has_it else "32"


def default_batch_size(device: torch.device) -> int:
    if device.type != "cuda":
        return ON_CPU
    return ON_LARGE_GPU if _cuda.get_device_properties(device).total_memory >= LARGE_GPU else ON_GPU


def _facts(net: PlaceNet, places: Places, precision: str, dtype: str) -> dict[str, Any]:
    """What the descriptors depend on, and what turns their distances into overlaps."""
    return {
        "model": net.digest(),
        "backbone": net.backbone,
        "pool": net.pool_name,
        "preprocessing": net.preprocessing.to_dict(),
        "margin": net.margin,
        "places": places.digest(),
        "images": len(places),
        "dims": net.descriptor_size,
        "dtype": dtype,
        "precision": precision,
    }


def _refuse_bad(bad: dict[int, str], out: str | Path | None, on_bad_image: str) -> None:
    if bad and on_bad_image == "fail":
        raise InputError(
            f"{bad[min(bad)]} (so found when {out} was filled: delete that folder once the image is fixed); "
            "or pass `on_bad_image=skip`"
        )


def _teller(
    progress: Progress | None, count: int, blocks: list[tuple[int, int]], processes: Processes
) -> Callable[[int], None]:
    """Counts rows. The first process speaks for all of them, and takes the others to be as fast."""
    left = sum(stop - start for start, stop in blocks)
    mine = 0

    def tell(rows: int) -> None:
        nonlocal mine
        mine += rows
        if progress is not None and processes.rank == 0:
            progress("describing", count - left + min(mine * processes.count, left), count)

    return tell


# ---- where they go ----


class _Store(Protocol):
    """Takes blocks of rows in any order."""

    def begin(self, places: Places) -> Begun: ...

    def open(self) -> None: ...

    def write(self, start: int, vectors: NDArray[Any], bad: dict[int, str]) -> None: ...

    def close(self) -> None: ...

    def finish(self, bad: dict[int, str]) -> None: ...

    def result(self) -> Descriptors: ...


class _InMemory:
    """Descriptors that are kept in memory; in the end every process has all of them."""

    def __init__(self, facts: dict[str, Any], processes: Processes) -> None:
        self.facts, self.processes = facts, processes
        self.bad: dict[int, str] = {}
        shape, dtype = (int(facts["images"]), int(facts["dims"])), np.dtype(facts["dtype"])
        size = shape[0] * shape[1] * dtype.itemsize
        require_room(size, torch.device("cpu"), "all descriptors in memory", "give a folder for them")
        self.vectors = np.zeros(shape, dtype)

    def begin(self, places: Places) -> Begun:
        return Begun()

    def open(self) -> None: ...

    def write(self, start: int, vectors: NDArray[Any], bad: dict[int, str]) -> None:
        self.vectors[start : start + len(vectors)] = vectors

    def close(self) -> None: ...

    def finish(self, bad: dict[int, str]) -> None:
        self.bad = bad
        self.processes.add_up(self.vectors)

    def result(self) -> Descriptors:
        reasons = {str(row): self.bad[row] for row in sorted(self.bad)}
        return Descriptors(None, self.vectors, {**self.facts, **about(), "bad": reasons})


# ---- several processes ----


@dataclass(frozen=True)
class Processes:
    """This process among those that share the work. They talk over the processor, whatever computes."""

    rank: int = 0
    count: int = 1
    group: Any = None

    def together(self, work: Callable[[], T]) -> list[T]:
        """What `work` gives in each process. What the user must mend in one ends all, so that none waits for it."""
        if self.count == 1:
            return [work()]
        mine: tuple[T | None, str | None]
        try:
            mine = work(), None
        except InputError as error:
            mine = None, str(error)
        everyone: list[Any] = [None] * self.count
        dist.all_gather_object(everyone, mine, group=self.group)
        for _, fault in everyone:
            if fault is not None:
                raise InputError(fault)
        return [result for result, _ in everyone]

    def add_up(self, array: NDArray[Any]) -> None:
        """Fill in the rows that other processes have; they are zero here."""
        if self.count > 1:  # as bytes, so that nothing is rounded
            dist.all_reduce(torch.from_numpy(array.reshape(-1).view(np.uint8)), group=self.group)


@contextmanager
def joined(device: torch.device) -> Iterator[Processes]:
    """The processes that torchrun has started, or the one there is."""
    count = dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes()
        return
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    group = dist.new_group(backend="gloo", timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), count, group)
    finally:
        dist.destroy_process_group(group)
