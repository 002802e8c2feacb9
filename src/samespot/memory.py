"""How much memory is free, on the processor and on a GPU; what would not fit is refused early."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

from samespot.errors import InputError
from samespot.files import in_bytes

# limit and use of a control group, and what of the use are files that can be dropped: by version of control groups
_LIMITS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_memory(device: torch.device) -> int:
    """Bytes that can still be used there: those that torch holds for later, too."""
    if device.type != "cuda":
        return min([_free_on_machine(), *free_in_container()])
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused


def require_room(size: int, device: torch.device, what: str, remedy: str) -> None:
    """Refuse what would not fit. size: bytes."""
    free = free_memory(device)
    if size > 0.9 * free:
        where = "of the GPU's memory" if device.type == "cuda" else "of memory"
        raise InputError(f"{what} need {in_bytes(size)}, but only {in_bytes(free)} {where} is free; {remedy}")


def _free_on_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def free_in_container(
    mounted: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[int]:
    """What each limit leaves of this process's control group, and of those above it."""
    try:
        groups = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, name in groups:
        if controllers not in ("", "memory"):  # the first: version 2
            continue
        top = mounted / controllers
        group = top / name.lstrip("/")
        # within a container the files lie at the top, while the name may still be that on the host
        for here in (group, *(above for above in group.parents if above.is_relative_to(top))):
            for limit, used, droppable in _LIMITS:
                with suppress(OSError, ValueError):  # no such file, or "max"
                    most = int((here / limit).read_text())
                    of_files = dict(line.split() for line in (here / "memory.stat").read_text().splitlines())
                    yield most - int((here / used).read_text()) + int(of_files.get(droppable, 0))
