"""Which device, which precision, which processes? One answer for training, describing, searching and re-ranking."""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from samespot.errors import InputError
from samespot.gpus import check_name, needs_gpu_to_decode, no_gpu

PATIENCE = timedelta(days=7)  # for processes whose share takes longer
COMPILE_PIXELS = 1e11  # that go through a network until compiling it is repaid: 325,000 images of 480 × 640
T = TypeVar("T")


def device_named(device: str, decode: str = "auto") -> torch.device:
    """The device of this process: under torchrun each has a GPU of its own."""
    check_name(device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.device(device)
    if where.type != "cuda":
        if decode == "gpu":
            raise needs_gpu_to_decode()
        return where
    if not torch.cuda.is_available():
        raise no_gpu(device)
    index = int(os.environ.get("LOCAL_RANK", "0")) if where.index is None else where.index
    if index >= torch.cuda.device_count():
        raise InputError(
            f"`device={device}`: torch sees {torch.cuda.device_count()} GPUs, and GPU {index} is asked for; check "
            "nvidia-smi, start no more processes than GPUs, or use `device=cpu`"
        )
    return torch.device("cuda", index)


def precision_name(precision: str, device: torch.device) -> str:
    """ "32", "bf16" or "int8"; of "auto" the second on a GPU that has it."""
    if precision != "auto":
        return precision
    has_it = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" if has_it else "32"


def half_of(precision: str) -> torch.dtype | None:
    """The half precision that a network computes in, by the name of its precision; None for full precision."""
    return torch.bfloat16 if precision == "bf16" else None


def mixed(device: torch.device, half: torch.dtype | None) -> AbstractContextManager[Any]:
    """In here networks compute in half precision where that is safe; in full precision without one."""
    return torch.autocast(device.type, dtype=half, enabled=half is not None)


def pays_to_compile(asked: bool | None, device: torch.device, images: int, size: tuple[int, int]) -> bool:
    """Whether to compile a network that so many images of that size go through. asked: by the user; None: if it pays,
    and if what torch compiles with is there."""
    if asked is not None:
        return asked
    if device.type != "cuda" or images * size[0] * size[1] < COMPILE_PIXELS:
        return False
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    able = torch.cuda.get_device_capability(device) >= (7, 0)  # of Triton
    return able and compiler is not None and find_spec("triton") is not None


@contextmanager
def tuned_for(device: torch.device, threads: int | None = None) -> Iterator[None]:
    """Settings of torch for a loop over equal batches on a GPU; as they were afterwards.

    threads: of the processor. With 1, threads that decode do not each copy pixels with a team of threads of its own.
    """
    if device.type != "cuda":
        yield
        return
    before, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    torch.set_num_threads(threads or before)
    torch.backends.cudnn.benchmark = True
    try:
        with torch.cuda.device(device):
            yield
    finally:
        torch.set_num_threads(before)
        torch.backends.cudnn.benchmark = benchmark


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Where something else computes: threads that decode do not each copy pixels with a team of threads of its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Processes:
    """This process among those that share the work.

    Objects and arrays travel over the processor (`group`), tensors between the devices that hold them.
    """

    rank: int = 0
    count: int = 1
    group: Any = None

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def together(self, work: Callable[[], T]) -> list[T]:
        """What `work` gives in each process. What the user must fix in one ends all, so that none waits for it."""
        if self.count == 1:
            return [work()]
        mine: tuple[T | None, str | None]
        try:
            mine = work(), None
        except InputError as error:
            mine = None, str(error)
        everyone = self.gathered(mine)
        for _, fault in everyone:
            if fault is not None:
                raise InputError(fault)
        return [result for result, _ in everyone]  # type: ignore[misc]

    def gathered(self, mine: T) -> list[T]:
        """What each process has."""
        if self.count == 1:
            return [mine]
        everyone: list[Any] = [None] * self.count
        dist.all_gather_object(everyone, mine, group=self.group)
        return everyone

    def add_up(self, array: NDArray[Any]) -> None:
        """Fill in the rows that other processes have; they are zero here."""
        if self.count > 1:  # as bytes, so that nothing is rounded
            dist.all_reduce(torch.from_numpy(array.reshape(-1).view(np.uint8)), group=self.group)

    def summed(self, values: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def highest(self, values: Tensor) -> Tensor:
        """The highest of all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return values

    def stacked(self, values: Tensor) -> list[Tensor]:
        """The tensor of each process; all of one shape."""
        if self.count == 1:
            return [values]
        everyone = [torch.empty_like(values) for _ in range(self.count)]
        dist.all_gather(everyone, values)
        return everyone

    def from_first(self, values: Tensor) -> None:
        """What the first process has, in place."""
        if self.count > 1:
            dist.broadcast(values, 0)

    def wait(self) -> None:
        """Until every process is here."""
        if self.count > 1:
            dist.barrier(group=self.group)


@contextmanager
def joined(device: torch.device) -> Iterator[Processes]:
    """The processes that torchrun has started, or the one there is."""
    count = dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes()
        return
    if not dist.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        atexit.register(_leave)
    group = dist.new_group(backend="gloo", timeout=PATIENCE)
    try:
        yield Processes(dist.get_rank(), count, group)
    finally:
        dist.destroy_process_group(group)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
