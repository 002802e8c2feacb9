"""Where does a pooling want its trunk to end? A trunk with its last layers left out, or giving more than a map."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from samespot.errors import InputError
from samespot.model.backbone import TransformerGroup, Trunk


def as_it_is(trunk: Trunk) -> Trunk:
    return trunk


def before_last_rectifier(trunk: Trunk) -> Trunk:
    """VGG up to its last convolution (and batch norm, if any): the authors of NetVLAD and of CosPlace pool what it
    gives before the rectifier and the max-pool. Another trunk stays as it is."""
    if not trunk.timm_name.startswith("vgg"):
        return trunk
    last = list(trunk.stages.values())[-1]
    assert isinstance(last, nn.Sequential)
    layers = list(last.named_children())
    if isinstance(layers[-1][1], nn.MaxPool2d):
        layers = layers[:-2]
    kept = nn.Sequential()
    for key, layer in layers:
        kept.add_module(key, layer)
    return _with_last(trunk, kept)


def before_layer4(trunk: Trunk) -> Trunk:
    """A ResNet without its last stage, whose map is twice as fine. A ViT stays as it is."""
    if isinstance(list(trunk.stages.values())[-1], TransformerGroup):
        return trunk
    if "layer3" not in trunk.stages:
        raise InputError(f"{trunk.timm_name} has no layer3 to end at; this pooling needs a ResNet")
    stages = {name: stage for name, stage in trunk.stages.items() if name != "layer4"}
    norms = [part for part in stages["layer3"].modules() if isinstance(part, nn.BatchNorm2d)]
    return _with_stages(replace(trunk, channels=norms[-1].num_features), stages)


def before_last_norm(trunk: Trunk) -> Trunk:
    """A ViT without the norm after its last block; another trunk without `layer4`."""
    last = list(trunk.stages.values())[-1]
    if not isinstance(last, TransformerGroup):
        return before_layer4(trunk)
    return _with_last(trunk, TransformerGroup(last.blocks, last.prefix, None, last.gives))


def token_on_top(trunk: Trunk) -> Trunk:
    """A ViT whose map has the class token on top of it; see `TransformerGroup`."""
    last = list(trunk.stages.values())[-1]
    if not isinstance(last, TransformerGroup) or not last.prefix:
        raise InputError(
            f"{trunk.timm_name} has no class token; this pooling needs a ViT such as vit_base_patch14_dinov2"
        )
    return _with_last(trunk, TransformerGroup(last.blocks, last.prefix, last.norm, "token on top"))


def _with_last(trunk: Trunk, last: nn.Module) -> Trunk:
    names = list(trunk.stages)
    return _with_stages(trunk, {**dict(trunk.stages.items()), names[-1]: last})


def _with_stages(trunk: Trunk, stages: dict[str, nn.Module]) -> Trunk:
    """The trunk of these stages; what they lack is no longer among its names."""
    made = nn.ModuleDict(stages)
    ours = made.state_dict()
    keys = {theirs: name for theirs, name in trunk.timm_keys.items() if name in ours}
    return replace(trunk, stages=made, timm_keys=keys)
