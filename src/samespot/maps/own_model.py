"""The network of a map: by name where a name stands for it, else kept in the map's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.maps.folder import MODELS
from samespot.model.loading import load_model
from samespot.model.naming import model_folder
from samespot.model.network import PlaceNet
from samespot.progress import Progress


def facts_of(net: PlaceNet, named: Any, weights: Path | None) -> dict[str, Any]:
    """What meta.json says of the network. kept: whether the map holds it itself."""
    name = str(getattr(named, "run", named)) if not isinstance(named, PlaceNet) else net.backbone
    kept = isinstance(named, PlaceNet) or weights is not None or model_folder(name) is not None
    return {
        "name": name,
        "digest": net.digest(),
        "kept": kept,
        "backbone": net.backbone,
        "pool": net.pool_name,
        "preprocessing": net.preprocessing.to_dict(),
    }


def keep(net: PlaceNet, facts: dict[str, Any], folder: Path) -> None:
    """Put the network into the map's folder, in full precision, if no name stands for it."""
    here = folder / MODELS / facts["digest"]
    if facts["kept"] and model_folder(here) is None:
        net.save(here)


def load_own(folder: Path, facts: dict[str, Any], progress: Progress | None = None) -> PlaceNet:
    """The network that a map was made with; one line where there is another of that name now."""
    from samespot.images.preprocess import Preprocessing

    if facts["kept"]:
        net = PlaceNet.load(folder / MODELS / facts["digest"])
    else:
        net = load_model(facts["name"], progress=progress)
    if net.digest() != facts["digest"]:
        raise InputError(
            f"{folder}: was made with another {facts['name']} (digest {facts['digest'][:8]}, now"
            f" {net.digest()[:8]}); index the photos into a new folder"
        )
    own = Preprocessing.from_dict(facts["preprocessing"])
    if net.preprocessing != own:
        net.preprocessing = own
    return net
