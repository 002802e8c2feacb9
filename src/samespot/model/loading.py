"""`load_model`: a network from whatever names one: a folder, a run, a published or off-the-shelf model by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.images.options import IMAGE_SIZE
from samespot.images.preprocess import Preprocessing
from samespot.model.naming import Named, named_model, refuse_weights
from samespot.model.network import PlaceNet
from samespot.model.published import published_models
from samespot.model.published.loading import load_published
from samespot.model.weights import FILE_ADVICE, MissingWeightsError, wheel_state
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
        refuse_weights(weights, "a network")
        return model
    named = named_model(str(getattr(model, "run", model)), weights)
    if named.folder is not None:
        net = PlaceNet.load(named.folder)
    elif named.words in published_models():
        net = load_published(published_models()[named.words], _largest(named), weights, progress or silent)
    else:
        net = _off_the_shelf(named, weights)
    if named.sizes:
        net.preprocessing = net.preprocessing.at_sizes(*named.sizes)
    return net


def _largest(named: Named) -> tuple[int, int] | None:
    return Preprocessing().at_sizes(*named.sizes).size if named.sizes else None


def _off_the_shelf(named: Named, weights: str | Path | None) -> PlaceNet:
    backbone, _, pool = named.words.rpartition("-")
    try:
        return PlaceNet(backbone, pool, weights=weights, image_size=_largest(named) or IMAGE_SIZE).eval()
    except MissingWeightsError as error:
        other = f"efficientnet_lite0-{pool} ({wheel_state()})"
        raise InputError(f"{error.reason}; use {FILE_ADVICE}, or the model {other}") from None
