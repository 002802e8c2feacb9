"""`load_model`: a network from whatever names one: a folder, a run, the name of an off-the-shelf network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.images.options import IMAGE_SIZE
from samespot.model.catalogue import POOLS
from samespot.model.checkpoint import model_folder
from samespot.model.network import PlaceNet
from samespot.options import parse_size


def load_model(model: Any) -> PlaceNet:
    """A model or run folder, what `train` returned, or an off-the-shelf network, ready to describe images.

    The latter is named by backbone, pooling and, if it is not 480x640, the size of images: resnet50-gem,
    vgg16-gap@224x224. `list_models` lists names. A network is given back as it is.
    """
    if isinstance(model, PlaceNet):
        return model
    name = str(getattr(model, "run", model))
    folder = model_folder(name)
    if folder is not None:
        return PlaceNet.load(folder)
    words, _, size = name.partition("@")
    backbone, dash, pool = words.rpartition("-")
    if Path(name).exists():
        raise InputError(
            f"{name}: no model here; give a model or run folder, such as `samespot train` writes"
        )
    if not dash or pool not in POOLS:
        raise InputError(
            f"{name}: no such folder, and no network of that name; give a model or run folder, or an off-the-shelf"
            " network such as resnet50-gem (`samespot models` lists them)"
        )
    try:
        image_size = parse_size(size) if size else IMAGE_SIZE
    except ValueError:
        raise InputError(
            f"{name}: {size!r} is no size of images; write for example {words}@224x224"
        ) from None
    return PlaceNet(backbone, pool, image_size=image_size).eval()
