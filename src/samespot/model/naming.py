"""What the name of a model means: a folder, one that is shipped or published, or a backbone and its pooling.

No torch in here: what is wrong with a name is told before that is loaded.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from samespot.errors import InputError
from samespot.model.catalogue import list_models
from samespot.model.pools import POOLS
from samespot.model.published import published_models, refused_models
from samespot.model.shipped import SHIPPED
from samespot.options import parse_size

WEIGHTS = "model.safetensors"  # of a model folder


@dataclass(frozen=True)
class Named:
    """A model by name, which may still be unknown to timm."""

    words: str  # of the name, without the image sizes
    folder: Path | None  # of the model, where it is in one
    sizes: tuple[tuple[int, int], ...]  # height, width [pixels]


def named_model(name: str, weights: str | Path | None = None) -> Named:
    """What a name means; one line where it can mean nothing. weights: a file of weights for a model by name."""
    whole = model_folder(name) is not None or Path(name).exists()  # its own name may have an @ in it
    words, _, size = (name, "", "") if whole else name.rpartition("@") if "@" in name else (name, "", "")
    if not words:
        raise InputError(f"{name!r} names no model; `samespot models` lists those with a name")
    folder = model_folder(words)
    if folder is not None:
        refuse_weights(weights, f"{words}, a folder")
    elif Path(words).exists():
        raise InputError(
            f"{words}: no model here; give a model or run folder, such as `samespot train` writes"
        )
    elif words in refused_models():
        raise InputError(refused_models()[words].reason)
    elif words in SHIPPED:
        refuse_weights(weights, name)
        folder = SHIPPED[words].folder
    else:
        _refuse_unknown(name, words)
        if weights is not None:
            refuse_no_weights(Path(weights))
    sizes = tuple(_sizes(name, words, size)) if size else ()
    for one in sizes if words in published_models() else ():
        published_models()[words].check_size(one)
    return Named(words, folder, sizes)


def model_folder(path: str | Path) -> Path | None:
    """The model folder that a path means: itself, or of a run folder its best model, else its last one."""
    folder = Path(path)
    for candidate in (folder, folder / "best", folder / "last"):
        if (candidate / WEIGHTS).is_file():
            return candidate
    return None


def refuse_weights(weights: str | Path | None, what: str) -> None:
    if weights is not None:
        raise InputError(
            f"`weights` has no effect on {what}, which holds its own; give it with a model by name"
        )


def refuse_no_weights(file: Path) -> None:
    """Raise where there is no file of weights."""
    if not file.is_file():
        raise InputError(f"{file}: no such weights file; check the path")


def _refuse_unknown(name: str, words: str) -> None:
    """Raise for what is neither published nor a backbone and its pooling."""
    pool = words.rpartition("-")[2] if "-" in words else ""
    if pool in POOLS or words in published_models():
        return
    near = difflib.get_close_matches(words, [one.name for one in list_models()], n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`samespot models` lists them"
    raise InputError(
        f"{name}: no such folder, and no network of that name; give a model or run folder, or a model by name such"
        f" as megaloc or resnet50-gem ({hint})"
    )


def _sizes(name: str, words: str, size: str) -> list[tuple[int, int]]:
    try:
        return [parse_size(one) for one in size.split("+")]
    except ValueError:
        raise InputError(
            f"{name}: {size!r} is not an image size; write for example {words}@224x224"
        ) from None
