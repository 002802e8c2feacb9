"""What do the maps before the last one know? Pooling `multi` joins them: late maps tell things apart, earlier ones tell
where their parts are. It has no weights but GeM's, so any network that learned with `gem` can be given it.

The maps travel as one tensor, as everywhere in a trunk: the last stage gives its own map and, below it in the same
cells, averages of those it began with. So a network can be cut, folded, compiled and exported as before.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from samespot.errors import InputError
from samespot.model.backbone import Trunk

# families whose maps are never negative; those of others count their negative half, too
RECTIFIED = ("vgg", "resnet", "resnext", "wide_resnet", "regnet")
TRANSFORMERS = ("embed", "network")  # first stages of trunks without a map between their stages


class JoiningStage(nn.Sequential):
    """The last stage of a trunk. Its output (n, sum of `groups`, h', w') is its map, then averages over the same cells
    of the map it was given and of the one after its first block, where that is as coarse as the last.

    A `Sequential` of the same children, so the names of weights stay.
    """

    groups: tuple[int, ...]  # channels of each map
    signed: bool

    def forward(self, features: Tensor) -> Tensor:
        before = [features]
        for number, layer in enumerate(self):
            features = layer(features)
            if number == 0 and len(self.groups) > 2:
                before.append(features)
        height, width = features.shape[-2:]
        parts = [functional.adaptive_avg_pool2d(self._halves(one), (height, width)) for one in before]
        return torch.cat([features, *parts], dim=1)

    def _halves(self, features: Tensor) -> Tensor:
        positive = functional.relu(features)
        return torch.cat([positive, functional.relu(-features)], dim=1) if self.signed else positive


def join_maps(trunk: Trunk) -> Trunk:
    """The trunk with a last stage that joins maps; `channels` counts all of them."""
    *before, (name, last) = trunk.stages.items()
    if not before or before[0][0] in TRANSFORMERS:
        raise InputError(f"`pool=multi` joins maps of a convolutional trunk, and {trunk.timm_name} has none")
    joining = JoiningStage()
    for key, layer in last.named_children() if isinstance(last, nn.Sequential) else [("0", last)]:
        joining.add_module(key, layer)
    joining.signed = not trunk.timm_name.startswith(RECTIFIED)
    joining.groups = _groups(trunk, joining)
    stages = nn.ModuleDict(dict([*before, (name, joining)]))
    return replace(trunk, stages=stages, channels=sum(joining.groups), groups=joining.groups)


def _groups(trunk: Trunk, joining: JoiningStage) -> tuple[int, ...]:
    """Channels of the last map and of those before it, seen on one small image."""
    halves = 2 if joining.signed else 1
    training = trunk.stages.training
    with torch.no_grad():
        entering = nn.Sequential(*list(trunk.stages.values())[:-1]).eval()(torch.zeros(1, 3, 64, 64))
        first = joining.eval()[0](entering)
    trunk.stages.train(training)
    between = [first.shape[1]] if trunk.timm_name.startswith(("tf_efficientnet", "efficientnet")) else []
    return (trunk.channels, *(halves * channels for channels in [entering.shape[1], *between]))
