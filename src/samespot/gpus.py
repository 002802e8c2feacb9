"""Which words name a device, and can there be a GPU here? Told without torch, which takes seconds to load."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path

from samespot.errors import InputError

AMD = Path("/dev/kfd")  # through which torch reaches the GPUs of AMD, by the same names


@cache
def driver_there() -> bool:
    """Whether torch is worth importing to look for a GPU: that takes seconds and half a gigabyte."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return AMD.exists()
    return True


def check_name(device: str) -> None:
    """Raise for a word that names no device."""
    if device != "auto" and not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise InputError(f"`device` {device!r} is unknown; choose auto, cpu or cuda")


def needs_gpu_to_decode() -> InputError:
    return InputError("`decode=gpu` needs a CUDA device; leave it out to decode on the processor")


def no_gpu(device: str) -> InputError:
    return InputError(
        f"`device={device}`: torch sees no GPU; check the driver with nvidia-smi, or use `device=cpu`"
    )
