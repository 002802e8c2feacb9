"""A whitening on disk: one safetensors file, with what it was fitted on in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from samespot.arrays import as_safetensors
from samespot.errors import InputError
from samespot.files import write_whole

NAME = "whitening.safetensors"  # in a model folder
FORMAT = "samespot whitening 2"
READABLE = ("samespot whitening 1", FORMAT)  # the first knew no damping


def write(path: Path, tensors: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, as_safetensors(tensors, {"format": FORMAT, **about}))
    except OSError as error:
        raise InputError(
            f"{path}: cannot write the whitening ({error.strerror or error}); is the disk full?"
        ) from None
    return path


def read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Its tensors and metadata."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"{path}: no such whitening; check the path")
    try:
        with safe_open(path, framework="numpy") as file:
            about = dict(file.metadata() or {})
            if about.get("format") not in READABLE:
                raise InputError(
                    f"{path}: not a whitening that samespot saved; give the file of Whitening.save"
                )
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a complete safetensors file ({error}); copy it again") from None
