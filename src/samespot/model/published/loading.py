"""From the authors' weights to a network of ours: every tensor must find its place, and every place its tensor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model.backbone import build_trunk
from samespot.model.checkpoint import listed, misfits, read_checkpoint
from samespot.model.network import PlaceNet
from samespot.model.pooling import trunk_for
from samespot.model.published.download import file_digest, local_file
from samespot.model.published.record import Published
from samespot.model.weights import Start
from samespot.progress import Progress, silent


def load_published(
    model: Published,
    image_size: tuple[int, int] | None = None,
    weights: str | Path | None = None,
    progress: Progress = silent,
) -> PlaceNet:
    """The network with its authors' weights: those of a file, or those in the cache, which are fetched if need be."""
    size = image_size or model.image_size
    model.check_size(size)  # before a download
    path = local_file(model, progress) if weights is None else Path(weights)
    tensors = read_checkpoint(path)
    _refuse_kind(model, tensors, path)
    digest = file_digest(path)
    if weights is None and model.weights.sha256 not in (None, digest):
        raise InputError(
            f"{path}: not the file that {model.name} was published with (sha256 {digest[:12]}… instead of "
            f"{str(model.weights.sha256)[:12]}…); delete it to fetch it again"
        )
    known = " as pinned" if digest == model.weights.sha256 else ""
    net, places = empty_network(model, size, (model.paper, f"weights {path.name}, sha256 {digest}{known}"))
    fill(net, places, model, tensors, path)
    return net.eval()


def empty_network(
    model: Published, image_size: tuple[int, int], notes: tuple[str, ...] = ()
) -> tuple[PlaceNet, dict[str, str]]:
    """The network with random weights, and where each tensor goes: `trunk.` and timm's name, or `pool.` and ours, ->
    the network's own name."""
    trunk = trunk_for(model.pool, build_trunk(model.backbone))
    start = Start(trunk, Preprocessing(size=image_size), f"published {model.name}", notes)
    net = PlaceNet.from_start(start, model.backbone, model.pool)
    places = {f"trunk.{theirs}": f"stages.{ours}" for theirs, ours in trunk.timm_keys.items()}
    return net, places | {f"pool.{name}": f"pool.{name}" for name in net.pool.state_dict()}


def fill(
    net: PlaceNet,
    places: Mapping[str, str],
    model: Published,
    tensors: Mapping[str, Tensor],
    path: str | Path,
) -> None:
    """Put the authors' tensors into their places; one line where they do not fit."""
    named = {
        ours: tensor for theirs, tensor in tensors.items() if (ours := model.our_name(theirs)) is not None
    }
    state = net.state_dict()
    counters = [place for place in places if place.endswith("num_batches_tracked")]  # absent from old files
    wrong = misfits({place: state[ours].shape for place, ours in places.items()}, named, counters)
    if wrong:
        raise InputError(f"{path} does not fit {model.name}; {wrong}")
    broken = [name for name, tensor in named.items() if not bool(tensor.isfinite().all())]
    if broken:
        raise InputError(f"{path}: not finite: {listed(broken)}; the file is damaged")
    net.load_state_dict({**state, **{places[name]: tensor for name, tensor in named.items()}})


def _refuse_kind(model: Published, tensors: Mapping[str, Tensor], path: str | Path) -> None:
    for beginning, reason in (model.refused or {}).items():
        if any(name.startswith(beginning) for name in tensors):
            raise InputError(f"{path}: {reason}")
