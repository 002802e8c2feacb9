"""Arrays as people have them: numpy's, memory maps, lists, tensors of torch. No torch in here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError


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


def save_array(path: Path, array: NDArray[Any]) -> None:
    """As `np.save` does, whose error on a full disk does not say what is wrong."""
    whole = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(whole))
        file.write(whole.data)
