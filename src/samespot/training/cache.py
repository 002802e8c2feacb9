"""Why run the frozen part again? It makes the same of an image each time, so its output is computed once and kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from samespot.errors import InputError
from samespot.files import disk_errors, read_json, require_disk, reserve, write_whole
from samespot.images.kept import Kept
from samespot.images.listing import ImageList
from samespot.images.prefetch import blocks_ahead
from samespot.images.preprocess import Preprocessing
from samespot.images.sources import FileImages, in_blocks, wait_for
from samespot.memory import require_room
from samespot.model.checkpoint import tensors_digest
from samespot.storage import states_of

Tick = Callable[[int], None]
_ELSEWHERE = "give another `cache_dir`, or leave out `cache_frozen`"
_LAYOUT = 2  # of the files in the folder; older ones did not say why an image was bad
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def keep_features(
    files: FileImages,
    frozen: Callable[[Tensor], Tensor],
    where: Literal["auto", "memory", "device", "file"],
    *,
    fingerprint: str,
    dtype: str = "exact",
    folder: Path | None = None,
    block: int = 32,
    tick: Tick = lambda _: None,
    may_write: bool = True,
    wait: Callable[[], None] = lambda: None,
) -> Kept:
    """Run every image through `frozen` (uint8 images on the device -> features at the cut) and keep the result.

    A file is used again as long as its `fingerprint` (weights, preprocessing, images) is the same; the images that
    could not be read when it was filled are reported to `files.bad` again. `may_write` is true for one process of
    several; the others `wait` until the file is there.
    """
    assert where != "auto"  # a run has chosen by then
    first = frozen(files.load(np.zeros(1, dtype=np.int64)).values)
    kind = first.dtype if dtype == "exact" else _DTYPES[dtype]
    shape = (len(files.images), *first.shape[1:])
    size = int(np.prod(shape)) * kind.itemsize
    if where == "file":
        assert folder is not None
        facts = {
            "layout": _LAYOUT,
            "fingerprint": fingerprint,
            "shape": list(shape),
            "dtype": str(kind).removeprefix("torch."),
        }
        if may_write and not (_facts_of(folder) == facts and _is_whole(folder, shape[0], size)):
            _require_disk(size, folder)
            values, good = _create_file(folder, shape, kind)
            _fill(values, good, files, frozen, block, tick)
            write_whole(folder / "good.raw", np.packbits(good).tobytes())
            reasons = {number: why for number, why in files.bad.reasons.items() if not good[number]}
            write_whole(folder / "bad.json", json.dumps(reasons, indent=1).encode())
            write_whole(folder / "facts.json", json.dumps(facts, indent=1).encode())
        wait()
        _report_bad(folder, files)
        return Kept(*_open_file(folder, shape, kind), files.device, features=True)
    place = files.device if where == "device" else torch.device("cpu")
    require_room(size, place, "the frozen features of all images", "use `cache_frozen=file`, or none")
    values, good = torch.empty(shape, dtype=kind, device=place), np.ones(shape[0], dtype=bool)
    _fill(values, good, files, frozen, block, tick)
    return Kept(values, good, files.device, features=True)


def fingerprint_of(trunk: nn.Module, preprocessing: Preprocessing, images: ImageList, precision: str) -> str:
    """Changes whenever the features of any image would."""
    h = hashlib.sha256(tensors_digest(trunk.state_dict()).encode())
    h.update(json.dumps([preprocessing.to_dict(), precision]).encode())
    paths = [images.path(number) for number in range(len(images))]
    for path, state in zip(paths, states_of(paths), strict=True):
        h.update(f"{path} {state}\n".encode())
    return h.hexdigest()


def _fill(
    values: Tensor,
    good: NDArray[np.bool_],
    files: FileImages,
    frozen: Callable[[Tensor], Tensor],
    block: int,
    tick: Tick,
) -> None:
    with blocks_ahead(files, list(in_blocks(len(values), block)), files.device) as blocks:
        for one, loaded in blocks:
            values[one.part] = frozen(loaded.values).to(values.device, values.dtype)
            good[one.part] = loaded.good
            tick(len(one.rows))
    wait_for(values.device)


def _facts_of(folder: Path) -> dict[str, Any] | None:
    try:
        facts = json.loads((folder / "facts.json").read_text())
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def _is_whole(folder: Path, images: int, size: int) -> bool:
    """Whether a disk lost nothing: a file that is too short would be filled up with zeros where it is mapped."""
    sizes = {"features.raw": size, "good.raw": (images + 7) // 8}
    try:
        read_json(folder / "bad.json", _ELSEWHERE)
        return all((folder / name).stat().st_size == expected for name, expected in sizes.items())
    except (OSError, InputError):
        return False


def _report_bad(folder: Path, files: FileImages) -> None:
    """What could not be read when the file was filled is as bad to the run that uses it again."""
    for number, why in json.loads((folder / "bad.json").read_text()).items():
        if int(number) not in files.bad.reasons:
            hint = f"so found when {folder} was filled: delete that folder once the image is fixed"
            files.bad.add(int(number), InputError(f"{why} ({hint})"))


def _require_disk(size: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    require_disk(size, folder, "the frozen features", _ELSEWHERE)


def _create_file(folder: Path, shape: tuple[int, ...], kind: torch.dtype) -> tuple[Tensor, NDArray[np.bool_]]:
    (folder / "facts.json").unlink(missing_ok=True)  # from here on the old features are gone
    (folder / "features.raw").unlink(missing_ok=True)
    with disk_errors(folder, _ELSEWHERE):  # others may fill the disk meanwhile
        reserve(folder / "features.raw", int(np.prod(shape)) * kind.itemsize)
    return _map_file(folder, shape, kind), np.ones(shape[0], dtype=bool)


def _open_file(folder: Path, shape: tuple[int, ...], kind: torch.dtype) -> tuple[Tensor, NDArray[np.bool_]]:
    bits = np.frombuffer((folder / "good.raw").read_bytes(), dtype=np.uint8)
    return _map_file(folder, shape, kind), np.unpackbits(bits, count=shape[0]).astype(bool)


def _map_file(folder: Path, shape: tuple[int, ...], kind: torch.dtype) -> Tensor:
    # as plain bytes, since numpy knows no bfloat16
    width = int(np.prod(shape[1:])) * kind.itemsize
    raw = np.memmap(folder / "features.raw", dtype=np.uint8, mode="r+", shape=(shape[0], width))
    return torch.from_numpy(raw).view(kind).view(shape)
