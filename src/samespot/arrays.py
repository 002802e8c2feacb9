"""Arrays as people have them: numpy's, memory maps, lists, tensors of torch; and our own in files. No torch in here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
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


def mapped_npy(path: Path) -> np.memmap[Any, Any] | None:
    """The array in a .npy file, mapped into memory; None where that is not a whole file of one. What the disk refuses
    says nothing of the file, and stays an `OSError`."""
    try:  # not by `np.load`, which takes other kinds of files, too, and offers to unpickle them
        return np.lib.format.open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception:  # a broken header makes numpy raise anything
        return None


def read_npy(path: Path, advice: str) -> np.memmap[Any, Any]:
    """The same; one line with `advice` where the file is not whole."""
    array = mapped_npy(path)
    if array is None:
        raise InputError(f"{path}: is damaged; {advice}")
    return array


def as_safetensors(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str] | None = None) -> bytes:
    """A file of safetensors, of the same bytes each time: the library writes metadata in an order of chance."""
    from safetensors.numpy import save

    content = save(dict(arrays), None if about is None else dict(about))
    if about is None:
        return content
    start = 8 + int.from_bytes(content[:8], "little")
    header = {**json.loads(content[8:start]), "__metadata__": dict(sorted(about.items()))}
    words = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    words += b" " * (-len(words) % 8)  # what follows is aligned
    return len(words).to_bytes(8, "little") + words + content[start:]


def save_array(path: Path, array: NDArray[Any]) -> None:
    """As `np.save` does, whose error on a full disk does not say what is wrong."""
    whole = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(whole))
        file.write(whole.data)
