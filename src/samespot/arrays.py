"""Arrays as people have them: numpy's, memory maps, lists, tensors of torch. No torch in here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError


def read_only(values: Any) -> NDArray[Any]:
    """A view that nobody can write to, in C order. To numba, arrays that can be written to and those that cannot, such
    as memory maps, are two types, and a kernel is compiled for each: one that only reads is given such views."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def as_array(values: Any, what: str) -> NDArray[Any]:
    """A numpy array of anything like one; of a tensor without a copy. what: named where it is none."""
    if hasattr(values, "detach"):  # a tensor of torch
        if values.device.type != "cpu":
            raise InputError(f"{what}: a tensor on {values.device}; pass it as .cpu()")
        values = values.detach()
        values = (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()
    if isinstance(values, np.ndarray):  # a memory map stays one
        return values
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(
            f"{what}: rows of different lengths; give a numpy array or a tensor of torch"
        ) from None
