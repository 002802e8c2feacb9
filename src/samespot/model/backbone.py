"""Which trunk makes the feature map? Any timm network, seen as a list of named stages that run in order.

The stages make two things possible: "train the last two blocks" means the same for every family, and the
network can be cut between two stages, with one tensor at the cut. A stage is the run of layers at one
resolution:

| family              | stages, first to last                                                        |
|---------------------|------------------------------------------------------------------------------|
| VGG                 | block1 ... block5, each a run of convolutions and its max-pool               |
| ResNet, ResNeXt     | stem, layer1 ... layer4                                                      |
| DenseNet            | stem, block1 ... block4: a dense block and its transition, or its last norm  |
| EfficientNet,       | stem, stage1 ... stage5: inverted-residual stages of one resolution, the     |
| MobileNetV3         | last one with the head's convolution                                         |
| ConvNeXt            | stem, stage1 ... stage4                                                      |
| RegNet              | stem, s1 ... s4                                                              |
| ViT, DINOv2         | embed, group1 ... group6: a sixth of the transformer blocks each             |
| anything else       | network: one stage, to be trained whole or not at all                        |
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from samespot.errors import InputError
from samespot.model.catalogue import TRUNKS

TRANSFORMER_GROUPS = 6


@dataclass(frozen=True)
class Trunk:
    """A backbone cut into stages. Input (n, 3, h, w), output (n, channels, h', w')."""

    timm_name: str
    stages: nn.ModuleDict
    channels: int
    timm_keys: dict[str, str]  # name of a tensor in timm's state dict -> its name in `stages`
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    groups: tuple[int, ...] = ()  # channels of each map, where its output joins several

    def forward(self, images: Tensor) -> Tensor:
        return run_stages(self.stages.values(), images)


def timm_name_of(backbone: str) -> str:
    """Full timm name of a short name or of any timm model; unknown names are answered with near ones."""
    name = TRUNKS[backbone].timm_name if backbone in TRUNKS else backbone
    if timm.is_model(name):
        return name
    names = dict.fromkeys([*TRUNKS, *timm.list_models()])  # some short names are timm's, too
    near = difflib.get_close_matches(name, list(names), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "list them with timm.list_models()"
    raise InputError(f"backbone {backbone!r} is neither {', '.join(TRUNKS)} nor a timm model; {hint}")


def build_trunk(backbone: str, pretrained: bool = False, blank: bool = False) -> Trunk:
    """The trunk with random weights, or with those of the hub (`pretrained`; see `weights` for errors). blank: with
    whatever the memory holds, since every weight is about to be replaced; drawing them takes most of the time."""
    name = timm_name_of(backbone)
    with _Undrawn() if blank else nullcontext():
        model = _create(name, pretrained)
    mean, std = model.pretrained_cfg["mean"], model.pretrained_cfg["std"]
    channels, timm_tensors = int(model.num_features), model.state_dict(keep_vars=True)
    stages = nn.ModuleDict(SPLITTERS.get(type(model).__name__, _split_nothing)(model))
    ours = {id(tensor): key for key, tensor in stages.state_dict(keep_vars=True).items()}
    timm_keys = {key: ours[id(tensor)] for key, tensor in timm_tensors.items() if id(tensor) in ours}
    return Trunk(name, stages, channels, timm_keys, tuple(mean), tuple(std))


class _Undrawn(TorchFunctionMode):
    """Inside, a tensor that is to be filled with random numbers stays as it is."""

    # by name: of a tensor and of `nn.init`; erfinv_ makes a truncated normal of what was drawn
    DRAWING = frozenset(
        {"normal_", "uniform_", "erfinv_", "trunc_normal_", "kaiming_normal_", "kaiming_uniform_"}
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in self.DRAWING:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def run_stages(stages: Iterable[nn.Module], features: Tensor) -> Tensor:
    for stage in stages:
        features = stage(features)
    return features


def _create(name: str, pretrained: bool) -> Any:
    """timm's model without classifier; images of any size where the architecture can do that."""
    if name.startswith("vgg") and not pretrained:
        # the classifier is cut off anyway; without this its 120 million weights are drawn first
        variants: list[dict[str, Any]] = [{"mlp_ratio": 1 / 4096}]
    else:
        variants = [{"dynamic_img_size": True, "dynamic_img_pad": True}, {"dynamic_img_size": True}, {}]
    for number, options in enumerate(variants, start=1):
        try:
            return timm.create_model(name, pretrained=pretrained, num_classes=0, global_pool="", **options)
        except TypeError:  # the architecture has no such option
            if number == len(variants):
                raise
        except RuntimeError as error:
            if "Invalid pretrained tag" in str(error):
                raise InputError(f"backbone {name}: timm has no weights of that tag; {error}") from None
            raise
    raise AssertionError("every architecture accepts the last variant")


# ---- one function per family: timm model -> {stage name: module} ----


def _split_vgg(model: Any) -> dict[str, nn.Module]:
    stages: dict[str, nn.Module] = {}
    block = nn.Sequential()
    for name, layer in model.features.named_children():
        block.add_module(name, layer)
        if isinstance(layer, nn.MaxPool2d):
            stages[f"block{len(stages) + 1}"] = block
            block = nn.Sequential()
    return stages


def _split_resnet(model: Any) -> dict[str, nn.Module]:
    layers = {name: getattr(model, name) for name in ("layer1", "layer2", "layer3", "layer4")}
    return {"stem": _chain(model, "conv1", "bn1", "act1", "maxpool"), **layers}


def _split_densenet(model: Any) -> dict[str, nn.Module]:
    # timm rectifies after the last norm, torchvision's features (and so the reference) do not
    model.features.norm5.act = nn.Identity()
    stages: dict[str, nn.Module] = {"stem": nn.Sequential()}
    for name, layer in model.features.named_children():
        if name.startswith("denseblock"):
            stages[name.removeprefix("dense")] = nn.Sequential()
        last = list(stages.values())[-1]
        last.add_module(name, layer)
    return stages


def _split_efficientnet(model: Any) -> dict[str, nn.Module]:
    stages: dict[str, nn.Module] = {"stem": _chain(model, "conv_stem", "bn1")}
    ends = {int(info["module"].split(".")[1]) for info in model.feature_info if "blocks." in info["module"]}
    stage = nn.Sequential()
    for index, block in enumerate(model.blocks):
        stage.add_module(str(index), block)
        if index in ends or index == len(model.blocks) - 1:
            stages[f"stage{len(stages)}"] = stage
            stage = nn.Sequential()
    if type(model).__name__ == "EfficientNet":  # MobileNetV3's head comes after its pooling
        last = list(stages.values())[-1]
        last.add_module("conv_head", model.conv_head)
        last.add_module("bn2", model.bn2)
    return stages


def _split_convnext(model: Any) -> dict[str, nn.Module]:
    stages = {f"stage{number}": stage for number, stage in enumerate(model.stages, start=1)}
    stages[f"stage{len(stages)}"] = nn.Sequential(stages[f"stage{len(stages)}"], model.norm_pre)
    return {"stem": model.stem, **stages}


def _split_regnet(model: Any) -> dict[str, nn.Module]:
    last = nn.Sequential(model.s4, model.final_conv)
    return {"stem": model.stem, "s1": model.s1, "s2": model.s2, "s3": model.s3, "s4": last}


def _split_vit(model: Any) -> dict[str, nn.Module]:
    blocks, norm = list(model.blocks), model.norm
    model.blocks, model.norm = nn.Sequential(), nn.Identity()
    groups = min(TRANSFORMER_GROUPS, len(blocks))
    bounds = [len(blocks) * i // groups for i in range(groups + 1)]
    embedding = DinoEmbedding if _is_dinov2(model) else PatchEmbedding
    stages: dict[str, nn.Module] = {"embed": embedding(model)}
    for number in range(groups):
        last = number == groups - 1
        stages[f"group{number + 1}"] = TransformerGroup(
            blocks[bounds[number] : bounds[number + 1]],
            model.num_prefix_tokens,
            norm if last else None,
            "map" if last else "tokens",
        )
    return stages


def _is_dinov2(model: Any) -> bool:
    """The first DINOv2. Its later weights, with registers, were trained with a resize as timm's."""
    name = str(model.pretrained_cfg.get("architecture", ""))
    return name.endswith("_dinov2") and "_reg" not in name


def _split_nothing(model: Any) -> dict[str, nn.Module]:
    return {"network": _WholeNetwork(model)}


SPLITTERS: dict[str, Callable[[Any], dict[str, nn.Module]]] = {
    "VGG": _split_vgg,
    "ResNet": _split_resnet,
    "DenseNet": _split_densenet,
    "EfficientNet": _split_efficientnet,
    "MobileNetV3": _split_efficientnet,
    "ConvNeXt": _split_convnext,
    "RegNet": _split_regnet,
    "VisionTransformer": _split_vit,
}


def _chain(model: nn.Module, *names: str) -> nn.Sequential:
    chain = nn.Sequential()
    for name in names:
        chain.add_module(name, getattr(model, name))
    return chain


# ---- transformers: tokens travel between stages as one tensor (n, rows, w, d) ----
# The grid of patches is the lower part. The class and register tokens fill the rows above it, padded with
# zeros, so that the shape alone says where the grid starts and a cut needs nothing but this tensor.


def _join_tokens(tokens: Tensor, prefix: int, width: int) -> Tensor:
    """(n, prefix + h*w, d) -> (n, rows, w, d)."""
    padding = -prefix % width
    filler = tokens.new_zeros((tokens.shape[0], padding, tokens.shape[2]))
    joined = torch.cat([tokens[:, :prefix], filler, tokens[:, prefix:]], dim=1)
    return joined.reshape(tokens.shape[0], -1, width, tokens.shape[2])


def _split_tokens(joined: Tensor, prefix: int) -> Tensor:
    """(n, rows, w, d) -> (n, prefix + h*w, d)."""
    width = joined.shape[2]
    flat = joined.flatten(1, 2)
    return torch.cat([flat[:, :prefix], flat[:, prefix + -prefix % width :]], dim=1)


class PatchEmbedding(nn.Module):
    """Image (n, 3, h, w) -> tokens as one tensor (n, rows, w', d)."""

    def __init__(self, vit: Any) -> None:
        super().__init__()
        self.vit = vit

    def forward(self, images: Tensor) -> Tensor:
        patches = self.vit.patch_embed(images)  # (n, h', w', d)
        tokens = self.vit.norm_pre(self.vit.patch_drop(self.tokens(patches)))
        return _join_tokens(tokens, self.vit.num_prefix_tokens, patches.shape[2])

    def tokens(self, patches: Tensor) -> Tensor:
        """Patches (n, h', w', d) -> tokens (n, prefix + h'·w', d) that know their place."""
        placed: Tensor = self.vit._pos_embed(patches)
        return placed


class DinoEmbedding(PatchEmbedding):
    """With DINOv2's own resize of its position embeddings; timm's blurs them and lies elsewhere by a tenth of a patch.

    The grid of 37 x 37 is resized by bicubic interpolation without antialiasing. Its scale is (patches + 0.1) / 37:
    the tenth guards against rounding down, and is in the coordinates that the weights were trained with.
    """

    def tokens(self, patches: Tensor) -> Tensor:
        count, height, width, dims = patches.shape
        classes = self.vit.cls_token.expand(count, -1, -1)
        known = self.vit.pos_embed
        of_class, of_patches = known[:, :1], known[:, 1:]
        side = round(of_patches.shape[1] ** 0.5)
        if (height, width) != (side, side):
            grid = of_patches.reshape(1, side, side, dims).permute(0, 3, 1, 2)
            scale = ((height + 0.1) / side, (width + 0.1) / side)
            resized = functional.interpolate(grid.float(), scale_factor=scale, mode="bicubic")
            of_patches = resized.permute(0, 2, 3, 1).reshape(1, height * width, dims)
        tokens = torch.cat([classes, patches.flatten(1, 2)], dim=1)
        return tokens + torch.cat([of_class, of_patches.to(of_class.dtype)], dim=1)


class TransformerGroup(nn.Module):
    """Some transformer blocks, and the norm where there is one.

    gives: "tokens" for the next group; or what is pooled: the patches as a "map" (n, d, h', w'), or as a map with the
    class "token on top" (n, d, 1 + h', w'), whose first row holds that token and then zeros.
    """

    def __init__(
        self,
        blocks: Iterable[nn.Module],
        prefix: int,
        norm: nn.Module | None,
        gives: Literal["tokens", "map", "token on top"],
    ) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*blocks)
        self.norm = norm
        self.prefix = prefix
        self.gives = gives

    def forward(self, joined: Tensor) -> Tensor:
        width = joined.shape[2]
        tokens = self.blocks(_split_tokens(joined, self.prefix))
        if self.norm is not None:
            tokens = self.norm(tokens)
        if self.gives == "tokens":
            return _join_tokens(tokens, self.prefix, width)
        patches: Tensor = tokens[:, self.prefix :]
        if self.gives == "map":
            return patches.transpose(1, 2).reshape(patches.shape[0], patches.shape[2], -1, width)
        on_top = _join_tokens(torch.cat([tokens[:, :1], patches], dim=1), 1, width)
        return on_top.permute(0, 3, 1, 2)


class _WholeNetwork(nn.Module):
    """A timm model of no family above, as one stage: image (n, 3, h, w) -> map (n, d, h', w')."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        channels = self.model.num_features
        try:
            features: Tensor = self.model.forward_features(images)
        except AssertionError as error:  # how timm refuses an image size
            raise InputError(
                f"images of {tuple(images.shape[-2:])} do not fit this backbone: {error}"
            ) from None
        if features.ndim == 4 and features.shape[1] == channels:
            return features
        if features.ndim == 4 and features.shape[3] == channels:
            return features.permute(0, 3, 1, 2)
        if features.ndim == 3 and hasattr(self.model, "patch_embed"):
            height, width = self.model.patch_embed.dynamic_feat_size(images.shape[-2:])
            patches = features[:, getattr(self.model, "num_prefix_tokens", 0) :]
            return patches.transpose(1, 2).reshape(patches.shape[0], channels, height, width)
        raise InputError(
            f"{type(self.model).__name__} gives features of shape {tuple(features.shape)}, not a map of "
            f"{channels} channels; choose another backbone"
        )
