"""Reads VGG16-NetVLAD as others publish it: a Matlab file of its authors' toolbox, or a PyTorch checkpoint.

| layout  | trunk                    | assignment               | centroids               | whitening          |
|---------|--------------------------|--------------------------|-------------------------|--------------------|
| PyTorch | encoder.0 ... encoder.28 | pool.conv.weight         | pool.centroids (k, d)   | WPCA.0, if any     |
| Matlab  | filters (h, w, in, out)  | (d, k) of the VLAD layer | (d, k), with minus sign | the layer after it |

PyTorch: Nanne's pytorch-NetVlad and Patch-NetVLAD; images in 0..1 with ImageNet's mean and deviation. Matlab: the
`*_struct.mat` that hloc and netvlad_tf_open read, whose network was saved as plain structs; images in 0..255 less the
mean that the file holds. Matlab's descriptor runs through the clusters first, so the inputs of its whitening are put
into our order here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model.backbone import build_trunk
from samespot.model.netvlad import NetVLAD
from samespot.model.network import PlaceNet
from samespot.model.weights import Start, load_trunk

BACKBONE = "vgg16"
# which of torchvision's `vgg16().features` are convolutions
VGG_CONVOLUTIONS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
_POOL = ("pool.conv.weight", "pool.conv.bias", "pool.centroids")
_WHITENING = ("WPCA.0.weight", "WPCA.0.bias")


@dataclass(frozen=True)
class Projection:
    """A learned whitening: descriptors v become weight · v + bias, then of length 1."""

    weight: NDArray[np.float32]  # (dims, k · d)
    bias: NDArray[np.float32]  # (dims,)


@dataclass(frozen=True)
class _Published:
    """What either layout holds, in our order."""

    trunk: dict[str, Tensor]  # timm's names
    assignment: Tensor  # (k, d)
    bias: Tensor | None  # (k,)
    centroids: Tensor  # (k, d)
    preprocessing: Preprocessing
    whitening: Projection | None


def is_matlab(path: str | Path) -> bool:
    path = Path(path)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(6) == b"MATLAB"


def is_netvlad_checkpoint(tensors: Mapping[str, Tensor]) -> bool:
    return any(name.startswith("encoder.") for name in tensors) and any(
        name.startswith("pool.") and name.endswith("centroids") for name in tensors
    )


def netvlad_from_tensors(
    tensors: Mapping[str, Tensor], path: str | Path, image_size: tuple[int, int]
) -> tuple[PlaceNet, Projection | None]:
    """From a PyTorch checkpoint's tensors."""
    return _assemble(_from_checkpoint(tensors, path, image_size), path)


def netvlad_from_matlab(path: str | Path, image_size: tuple[int, int]) -> tuple[PlaceNet, Projection | None]:
    """From a Matlab file."""
    return _assemble(_from_matlab(Path(path), image_size), path)


def _assemble(found: _Published, path: str | Path) -> tuple[PlaceNet, Projection | None]:
    name = Path(path).name
    trunk = build_trunk(BACKBONE, blank=True)
    load_trunk(trunk, found.trunk, str(path), classifier=False)
    clusters = _check_shapes(found, trunk.channels, path)
    start = Start(
        trunk,
        found.preprocessing,
        f"VGG16-NetVLAD {name}",
        (f"converted from the VGG16-NetVLAD weights {name}",),
    )
    pool_name = f"netvlad{clusters}" + ("v2" if found.bias is not None else "")
    net = PlaceNet.from_start(start, BACKBONE, pool_name)
    assert isinstance(net.pool, NetVLAD)
    ours = {"conv.weight": found.assignment[:, :, None, None], "centroids": found.centroids}
    if found.bias is not None:
        ours["conv.bias"] = found.bias
    net.pool.load_state_dict(ours)
    return net.eval(), found.whitening


def _check_shapes(found: _Published, channels: int, path: str | Path) -> int:
    """How many clusters there are; raises where parts do not fit one another or hold no numbers."""
    clusters = len(found.centroids)
    wanted: dict[str, tuple[Tensor, tuple[int, ...]]] = {
        "centroids": (found.centroids, (clusters, channels)),
        "assignment": (found.assignment, (clusters, channels)),
    }
    if found.bias is not None:
        wanted["bias of the assignment"] = (found.bias, (clusters,))
    if found.whitening is not None:
        weight, bias = torch.from_numpy(found.whitening.weight), torch.from_numpy(found.whitening.bias)
        wanted["whitening"] = (weight, (len(bias), clusters * channels))
        wanted["bias of the whitening"] = (bias, (len(bias),))
    for what, (tensor, shape) in wanted.items():
        if tuple(tensor.shape) != shape:
            raise InputError(
                f"{path}: its {what} is {tuple(tensor.shape)}, expected {shape} for VGG16; the file is damaged"
            )
        if not bool(tensor.isfinite().all()):
            raise InputError(f"{path}: its {what} is not finite; the file is damaged")
    if clusters < 2:
        raise InputError(f"{path}: it has {clusters} cluster, expected at least 2; the file is damaged")
    return clusters


# ---- PyTorch ----


def _from_checkpoint(
    tensors: Mapping[str, Tensor], path: str | Path, image_size: tuple[int, int]
) -> _Published:
    # each part may have been trained in parallel, which puts `module.` after its name
    named = {
        f"{name.split('.')[0]}.{name.partition('.')[2].removeprefix('module.')}": tensor
        for name, tensor in tensors.items()
    }
    known = (*_POOL, *_WHITENING)
    others = [name for name in named if not name.startswith("encoder.") and name not in known]
    absent = [name for name in known if name not in named and name != "pool.conv.bias"]
    if "WPCA.0.weight" not in named and "WPCA.0.bias" not in named:
        absent = [name for name in absent if name not in _WHITENING]
    if others or absent:
        complaint = f"not expected: {', '.join(others)}" if others else f"missing: {', '.join(absent)}"
        raise InputError(f"{path}: not a VGG16-NetVLAD checkpoint; {complaint}")
    whitening = None
    if "WPCA.0.weight" in named:
        whitening = Projection(_array(named["WPCA.0.weight"].flatten(1)), _array(named["WPCA.0.bias"]))
    bias = named.get("pool.conv.bias")
    return _Published(
        {
            f"features.{name.removeprefix('encoder.')}": tensor.float()
            for name, tensor in named.items()
            if name.startswith("encoder.")
        },
        named["pool.conv.weight"].float().flatten(1),
        None if bias is None else bias.float(),
        named["pool.centroids"].float(),
        Preprocessing(size=image_size),
        whitening,
    )


def _array(tensor: Tensor) -> NDArray[np.float32]:
    values: NDArray[np.float32] = tensor.float().contiguous().numpy()
    return values


# ---- Matlab ----


def _from_matlab(path: Path, image_size: tuple[int, int]) -> _Published:
    net = _read_matlab(path)
    layers = [_weights(layer) for layer in np.atleast_1d(net.layers)]
    filters = [weights for weights in layers if len(weights) == 2 and weights[0].ndim == 4]
    vlad = [at for at, weights in enumerate(layers) if _is_vlad(weights)]
    if len(vlad) != 1 or len(filters) < len(VGG_CONVOLUTIONS):
        raise InputError(
            f"{path}: not VGG16-NetVLAD: {len(filters)} layers of filters and {len(vlad)} VLAD layers, expected "
            f"{len(VGG_CONVOLUTIONS)} and 1"
        )
    score, minus_centroids = layers[vlad[0]]
    after = [weights for weights in layers[vlad[0] + 1 :] if weights]
    clusters = score.shape[1]
    return _Published(
        _vgg_from_matlab(filters[: len(VGG_CONVOLUTIONS)]),
        torch.from_numpy(score.T.copy()),
        None,
        torch.from_numpy(-minus_centroids.T.copy()),
        Preprocessing(image_size, _mean_colour(net, path), (1.0, 1.0, 1.0), "RGB", 255.0),
        _whitening_from_matlab(after[0], clusters, path) if after else None,
    )


def _read_matlab(path: Path) -> Any:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path, struct_as_record=False, squeeze_me=True, variable_names=["net"])
    except NotImplementedError:
        raise InputError(f"{path}: a Matlab 7.3 file, which is not read; save it again with -v7") from None
    except (MatReadError, OSError, ValueError, TypeError, EOFError) as error:
        raise InputError(f"{path}: cannot be read as a Matlab file ({error}); copy it again") from None
    net = content.get("net")
    if not hasattr(net, "layers"):
        raise InputError(
            f"{path}: no network in it (`net.layers` as plain structs); is it a *_struct.mat of NetVLAD?"
        )
    return net


def _weights(layer: Any) -> list[NDArray[np.float32]]:
    """The arrays of a layer; none for one that has nothing to learn."""
    held = getattr(layer, "weights", None)
    if held is None or not isinstance(held, np.ndarray):
        return []
    arrays = [held] if held.dtype != object else list(held.ravel())
    return [np.asarray(array, dtype=np.float32) for array in arrays if np.size(array)]


def _is_vlad(weights: list[NDArray[np.float32]]) -> bool:
    return len(weights) == 2 and weights[0].ndim == 2 and weights[0].shape == weights[1].shape


def _vgg_from_matlab(filters: list[list[NDArray[np.float32]]]) -> dict[str, Tensor]:
    named: dict[str, Tensor] = {}
    for number, (kernel, bias) in zip(VGG_CONVOLUTIONS, filters, strict=True):
        # (h, w, in, out) -> (out, in, h, w)
        named[f"features.{number}.weight"] = torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy())
        named[f"features.{number}.bias"] = torch.from_numpy(bias.reshape(-1).copy())
    return named


def _mean_colour(net: Any, path: Path) -> tuple[float, float, float]:
    """Of the picture that is subtracted; the toolbox takes its first pixel for all."""
    meta = getattr(net, "meta", None)
    image = getattr(getattr(meta, "normalization", None), "averageImage", None)
    if image is None or np.size(image) < 3 or np.shape(image)[-1] != 3:
        raise InputError(
            f"{path}: it does not say the mean colour to subtract (net.meta.normalization.averageImage)"
        )
    red, green, blue = np.asarray(image, dtype=np.float64).reshape(-1, 3)[0].tolist()
    return red, green, blue


def _whitening_from_matlab(weights: list[NDArray[np.float32]], clusters: int, path: Path) -> Projection:
    if len(weights) != 2 or weights[0].shape[-1] != weights[1].size or weights[0].shape[-2] % clusters:
        shapes = ", ".join(str(array.shape) for array in weights)
        raise InputError(f"{path}: the layer after VLAD is not a whitening with a bias, but {shapes}")
    inputs, dims = weights[0].shape[-2:]
    # component d of cluster k is at d · clusters + k there
    by_channel = weights[0].reshape(inputs // clusters, clusters, dims)
    return Projection(by_channel.transpose(2, 1, 0).reshape(dims, inputs), weights[1].reshape(-1))
