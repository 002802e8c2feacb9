"""`load_model`: a network from whatever names one: a folder, a run, a published or off-the-shelf model by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.images.options import IMAGE_SIZE
from samespot.images.preprocess import Preprocessing
from samespot.model.catalogue import refuse_unknown
from samespot.model.checkpoint import model_folder
from samespot.model.network import PlaceNet
from samespot.model.published import published_models, refused_models
from samespot.model.published.loading import load_published
from samespot.model.shipped import SHIPPED
from samespot.model.weights import FILE_ADVICE, MissingWeightsError, wheel_state
from samespot.options import parse_size
from samespot.progress import Progress, silent


def load_model(
    model: Any, *, weights: str | Path | None = None, progress: Progress | None = None
) -> PlaceNet:
    """A model or run folder, what `train` returned, or a model by name, ready to describe images.

    Names are samespot-lite, which comes with samespot, those of published models (megaloc, eigenplaces-resnet18-512),
    and those of off-the-shelf networks (backbone and pooling: resnet50-gem). `list_models` lists them. After a name or
    a folder may stand an @ and the image size, vgg16-gap@224x224, or several to describe photos at:
    runs/mine@224x224+288x288. A network is returned as it is.

    weights: a file with the weights of a model by name, as its authors publish it, instead of the one in the cache
    progress: told how far a download has got
    """
    if isinstance(model, PlaceNet):
        _refuse_weights(weights, "a network")
        return model
    name = str(getattr(model, "run", model))
    whole = model_folder(name) is not None or Path(name).exists()  # its own name may have an @ in it
    words, _, size = (name, "", "") if whole else name.rpartition("@") if "@" in name else (name, "", "")
    folder = model_folder(words)
    if folder is not None:
        _refuse_weights(weights, f"{words}, a folder")
        return _at(PlaceNet.load(folder), name, words, size)
    if Path(words).exists():
        raise InputError(
            f"{words}: no model here; give a model or run folder, such as `samespot train` writes"
        )
    if words in refused_models():
        raise InputError(refused_models()[words].reason)
    if words in SHIPPED:
        _refuse_weights(weights, name)
        return _at(PlaceNet.load(SHIPPED[words].folder), name, words, size)
    sizes = _sizes(name, words, size) if size else []
    if words in published_models():
        for one in sizes:
            published_models()[words].check_size(one)
        largest = _largest(sizes) if sizes else None
        net = load_published(published_models()[words], largest, weights, progress or silent)
    else:
        net = _off_the_shelf(name, words, sizes, weights)
    return _at(net, name, words, size)


def _at(net: PlaceNet, name: str, words: str, size: str) -> PlaceNet:
    """The network with the image sizes that stand behind its name, if any do."""
    if size:
        net.preprocessing = net.preprocessing.at_sizes(*_sizes(name, words, size))
    return net


def _largest(sizes: list[tuple[int, int]]) -> tuple[int, int]:
    return Preprocessing().at_sizes(*sizes).size


def _off_the_shelf(
    name: str, words: str, sizes: list[tuple[int, int]], weights: str | Path | None
) -> PlaceNet:
    refuse_unknown(name)
    backbone, _, pool = words.rpartition("-")
    image_size = _largest(sizes) if sizes else IMAGE_SIZE
    try:
        return PlaceNet(backbone, pool, weights=weights, image_size=image_size).eval()
    except MissingWeightsError as error:
        other = f"efficientnet_lite0-{pool} ({wheel_state()})"
        raise InputError(f"{error.reason}; use {FILE_ADVICE}, or the model {other}") from None


def _sizes(name: str, words: str, size: str) -> list[tuple[int, int]]:
    try:
        return [parse_size(one) for one in size.split("+")]
    except ValueError:
        raise InputError(
            f"{name}: {size!r} is not an image size; write for example {words}@224x224"
        ) from None


def _refuse_weights(weights: str | Path | None, what: str) -> None:
    if weights is not None:
        raise InputError(
            f"`weights` has no effect on {what}, which holds its own; give it with a model by name"
        )
