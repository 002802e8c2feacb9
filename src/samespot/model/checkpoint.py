"""Tensors on disk: the model folder (`model.safetensors` + `config.json`), and weight files of others.

A folder is replaced safely: the weights file carries a copy of its config, so when a save is cut off between
its two files, the weights still come with the config they were saved with. Nothing is unpickled but tensors.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor

from samespot.errors import InputError
from samespot.files import write_whole
from samespot.model.naming import WEIGHTS, model_folder, refuse_no_weights

CONFIG = "config.json"


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Short name of these very weights: equal digests mean equal names, types, shapes and bits."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def write_folder(folder: str | Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> Path:
    """Write a model folder; a reader sees the old model or the new one, never a mixture."""
    folder = Path(folder)
    # contiguous copies: a channels-last network saves as any other
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps({**config, "digest": tensors_digest(plain)}, indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / WEIGHTS, safetensors_bytes(plain, metadata={"config": text}))
        write_whole(folder / CONFIG, text.encode())
    except OSError as error:
        raise InputError(
            f"{folder}: cannot write the model ({error.strerror or error}); is the disk full?"
        ) from None
    return folder


def read_folder(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and config of a model folder, or of the best or last model of a run."""
    found = model_folder(folder)
    if found is None:
        raise InputError(f"{folder}: no model here ({WEIGHTS} is missing); give a model or run folder")
    folder = found
    tensors, metadata = read_tensors(folder / WEIGHTS)
    embedded = _parse_config(metadata.get("config", "{}"), folder / WEIGHTS)
    try:
        text = (folder / CONFIG).read_text()
    except FileNotFoundError:  # a first save that was cut off
        text = metadata.get("config", "{}")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{folder / CONFIG}: cannot be read ({error}); copy the folder again") from None
    config = _parse_config(text, folder / CONFIG)
    interrupted = "digest" in embedded and config.get("digest") != embedded["digest"]
    return tensors, embedded if interrupted else config


def _parse_config(text: str, path: Path) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path} line {error.lineno}: not valid JSON ({error.msg}); copy the folder again"
        ) from None
    if not isinstance(config, dict):
        raise InputError(f"{path}: expected a JSON object with the model's settings; copy the folder again")
    return config


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Named tensors of a `.safetensors`, `.pth`, `.pt` or `.bin` file, and its text metadata.

    In a pickled checkpoint the tensors may sit under `model_state_dict`, `state_dict` or `model`, and
    under the prefix `module.` that DataParallel adds.
    """
    path = Path(path)
    refuse_no_weights(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    return _tensors_in(_unpickle_tensors(path), path), {}


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """The named tensors of a training's checkpoint. Recalls may lie beside them as numpy's numbers: safe to read."""
    scalar: Any = np.float64(0).__reduce__()[0]
    numbers = [np.dtype, np.dtypes.Float64DType, np.dtypes.Float32DType, np.dtypes.Int64DType]
    names = ["numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"]  # numpy 1 and 2
    with torch.serialization.safe_globals([*numbers, *((scalar, name) for name in names)]):
        return read_tensors(path)[0]


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a complete safetensors file ({error}); copy it again") from None


def _unpickle_tensors(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's advice on odd pickles is not for a user of ours
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of a broken file anything may come, an IndexError too
        # never torch's own words: they say how to switch the safety off
        named = (
            re.search(r"GLOBAL ([\w.]+)", str(error)) if isinstance(error, pickle.UnpicklingError) else None
        )
        if named is not None:
            raise InputError(
                f"{path}: holds more than plain tensors ({named[1]}), which could run code and is not loaded; "
                "have its author save the state dict alone"
            ) from None
        raise InputError(
            f"{path}: cannot be read as a torch checkpoint; it is damaged or of another kind, copy it again"
        ) from None


def _tensors_in(content: Any, path: Path) -> dict[str, Tensor]:
    for wrapper in ("model_state_dict", "state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
            break
    if not isinstance(content, dict) or not content:
        raise InputError(f"{path}: no named tensors in it; expected a state dict")
    strange = [
        str(name)
        for name, value in content.items()
        if not (isinstance(name, str) and isinstance(value, Tensor))
    ]
    if strange:
        raise InputError(
            f"{path}: these entries are not named tensors: {listed(strange)}; expected a state dict"
        )
    if all(name.startswith("module.") for name in content):
        return {name.removeprefix("module."): tensor for name, tensor in content.items()}
    return dict(content)


def misfits(
    wanted: Mapping[str, Sequence[int]], found: Mapping[str, Tensor], optional: Collection[str] = ()
) -> str:
    """How named tensors differ from the shapes that are wanted, for an error line; empty where they fit."""
    shared = [name for name in wanted if name in found]
    differing = [
        f"{name} {tuple(found[name].shape)} instead of {tuple(wanted[name])}"
        for name in shared
        if tuple(found[name].shape) != tuple(wanted[name])
    ]
    differences = {
        "missing": [name for name in wanted if name not in found and name not in optional],
        "not expected": [name for name in found if name not in wanted],
        "of another shape": differing,
    }
    return "; ".join(f"{what}: {listed(names)}" for what, names in differences.items() if names)


def listed(names: list[str], most: int = 12) -> str:
    """Names for an error line: all of them if few, else the first ones and how many more."""
    names = sorted(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
