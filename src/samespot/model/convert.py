"""Reads networks that others have published and writes a model folder: those of the paper's authors, VGG16-NetVLAD.

The network of the paper's authors (`.pth`) is `backbone` + `pool`. The backbone is
`torchvision.models.<net>().features` (VGG, DenseNet) or a Sequential of the children of a torchvision ResNet without
the last two: layers have numbers for names. NetVLAD's layouts are told in `netvlad_files`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from samespot.errors import InputError
from samespot.images.options import IMAGE_SIZE
from samespot.images.preprocess import Preprocessing
from samespot.model.backbone import build_trunk
from samespot.model.catalogue import TRUNKS
from samespot.model.checkpoint import listed, read_checkpoint
from samespot.model.netvlad_files import (
    BACKBONE,
    Projection,
    is_matlab,
    is_netvlad_checkpoint,
    netvlad_from_matlab,
    netvlad_from_tensors,
)
from samespot.model.network import PlaceNet
from samespot.model.pools import POOLS
from samespot.model.weights import Start, load_trunk
from samespot.whitening.whitening import Whitening

CONVERTIBLE = tuple(name for name in TRUNKS if name != "efficientnet_lite0")
# position among the children of a torchvision ResNet -> name; 2 and 3 (ReLU, pooling) have no tensors
RESNET_CHILDREN = {"0": "conv1", "1": "bn1", "4": "layer1", "5": "layer2", "6": "layer3", "7": "layer4"}


def convert(
    path: str | Path,
    out: str | Path,
    *,
    backbone: str | None = None,
    pool: str | None = None,
    image_size: tuple[int, int] = IMAGE_SIZE,
) -> PlaceNet:
    """A published file -> model folder `out`; a whitening that the file brings is a part of the model.

    The backbone of a reference checkpoint is recognised by the names and shapes of its tensors. One with `pool.p` is
    pooled by GeM; one without does not say how, so `pool` ("gap", which is taken if not given, or "max") tells.
    """
    projection: Projection | None = None
    if is_matlab(path):
        net, projection = netvlad_from_matlab(path, image_size)
        _refuse_other_wishes(net, backbone, pool, path)
    else:
        tensors = read_checkpoint(path)
        if is_netvlad_checkpoint(tensors):
            net, projection = netvlad_from_tensors(tensors, path, image_size)
            _refuse_other_wishes(net, backbone, pool, path)
        else:
            net = _reference_net(tensors, path, backbone, pool, image_size)
    if projection is not None:
        # by the name of the file alone, since nobody publishes which images they are
        name = f"what {Path(path).name} was fitted on"
        net.whitening = Whitening.from_affine(projection.weight, projection.bias, name)
    net.save(out)
    return net


def _refuse_other_wishes(net: PlaceNet, backbone: str | None, pool: str | None, path: str | Path) -> None:
    if backbone not in (None, BACKBONE) or pool not in (None, net.pool_name):
        asked = "-".join(word for word in (backbone, pool) if word is not None)
        raise InputError(f"{path}: {asked} was asked for, but the file holds {net.backbone}-{net.pool_name}")


def _reference_net(
    tensors: Mapping[str, Tensor],
    path: str | Path,
    backbone: str | None,
    pool: str | None,
    image_size: tuple[int, int],
) -> PlaceNet:
    body = {name.removeprefix("backbone."): t for name, t in tensors.items() if name.startswith("backbone.")}
    others = [name for name in tensors if not name.startswith("backbone.") and name != "pool.p"]
    if not body or others:
        complaint = f"not expected: {listed(others)}" if others else "no tensor is called backbone.*"
        raise InputError(f"{path}: not a reference checkpoint; {complaint}; expected backbone.* and pool.p")
    exponent = _exponent(tensors.get("pool.p"), pool, path)
    if backbone is None:
        backbone = _recognise(body)
    elif backbone not in CONVERTIBLE:
        raise InputError(
            f"backbone {backbone!r} has no reference checkpoint; choose one of {', '.join(CONVERTIBLE)}"
        )
    trunk = build_trunk(backbone, blank=True)
    # a reference trunk ends before the classifier: a tensor of that name is a stranger, too
    named = _timm_names(body, backbone)
    load_trunk(trunk, named, str(path), classifier=False)
    if len(named) < len(body):  # e.g. 0.weight and conv1.weight
        raise InputError(f"{path}: {len(body) - len(named)} tensors are there under two names; keep one each")
    notes = [f"converted from the reference checkpoint {Path(path).name}"]
    if exponent is None and pool is None:
        notes.append("the checkpoint does not name its pooling; average pooling was assumed")
    start = Start(trunk, Preprocessing(size=image_size), f"reference {Path(path).name}", tuple(notes))
    net = PlaceNet.from_start(start, backbone, "gem" if exponent is not None else pool or "gap")
    if exponent is not None:
        net.load_state_dict({"pool.p": exponent}, strict=False)
    return net.eval()


def _exponent(p: Tensor | None, pool: str | None, path: str | Path) -> Tensor | None:
    """GeM's learned p, shape (1,); None for a checkpoint that was pooled otherwise."""
    if pool not in (None, *POOLS):
        raise InputError(f"pool {pool!r} is not known; choose one of {', '.join(POOLS)}")
    if p is None and pool == "gem":
        raise InputError(f"{path}: pool 'gem' was asked for, but there is no pool.p in the checkpoint")
    if p is not None and pool not in (None, "gem"):
        raise InputError(
            f"{path}: pool {pool!r} was asked for, but its pool.p says that it was trained with GeM"
        )
    if p is not None and p.numel() != 1:
        raise InputError(f"{path}: pool.p has {p.numel()} values, expected one")
    if p is not None and not (math.isfinite(p.item()) and p.item() > 0):
        raise InputError(f"{path}: pool.p is {p.item():g}, expected a number above 0; the file is damaged")
    return None if p is None else p.reshape(1)


def _timm_names(body: Mapping[str, Tensor], backbone: str) -> dict[str, Tensor]:
    """The reference's names, without `backbone.`, as timm's; what fits no rule keeps its name."""
    if backbone.startswith("res"):
        renamed = {}
        for name, tensor in body.items():
            child, dot, rest = name.partition(".")
            renamed[RESNET_CHILDREN.get(child, child) + dot + rest] = tensor
        return renamed
    # "children without the last two" of a VGG or DenseNet would be [features], one number more
    nested = all(name.startswith("0.") and name.count(".") > 1 for name in body)
    return {
        f"features.{name.removeprefix('0.') if nested else name}": tensor for name, tensor in body.items()
    }


def _recognise(body: Mapping[str, Tensor]) -> str:
    """The backbone whose tensors agree most in name and shape; the rest is listed when it is loaded."""

    def agreement(backbone: str) -> float:
        wanted, theirs = _tensor_shapes(backbone), _timm_names(body, backbone)
        equal = sum(1 for name, shape in wanted.items() if name in theirs and theirs[name].shape == shape)
        return equal / len(theirs.keys() | wanted.keys())

    return max(CONVERTIBLE, key=agreement)


@cache
def _tensor_shapes(backbone: str) -> dict[str, torch.Size]:
    """timm's names and shapes of a trunk."""
    with torch.device("meta"):  # takes no memory
        trunk = build_trunk(backbone)
    ours = trunk.stages.state_dict()
    return {name: ours[key].shape for name, key in trunk.timm_keys.items()}
