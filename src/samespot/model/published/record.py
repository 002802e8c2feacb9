"""What is known of a published model before it is loaded: one record each. No torch in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samespot.errors import InputError

NOT_STATED = "not stated"
Rules = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class WeightsFile:
    """Where the authors keep the weights. `sha256` is None where no source tells it: then shapes alone are checked."""

    address: str
    name: str  # of the file in our cache
    sha256: str | None = None
    page: str | None = None  # for people, where the address itself is none


@dataclass(frozen=True)
class Published:
    """A model of others, run by our own code.

    rules: what a tensor of the authors' file is called here: the first rule whose beginning fits puts another beginning
    in its place, `trunk.` before timm's names or `pool.` before ours; None leaves the tensor out.
    """

    name: str  # what `load_model` takes
    paper: str
    backbone: str
    pool: str
    dims: int
    image_size: tuple[int, int]  # height, width [pixels] that its authors evaluate with
    parameters: int
    code_licence: str  # of the authors' code, which is not used here
    licence: str  # of the weights
    page: str
    weights: WeightsFile
    rules: Rules
    multiple: int = 1  # what height and width must be a multiple of [pixels]
    only_size: bool = False  # no other size of images works
    refused: Mapping[str, str] | None = (
        None  # beginnings of names that another kind of file has, and what to say
    )
    family: str | None = None  # the name of the model that this is a variant of

    def our_name(self, theirs: str) -> str | None:
        """The tensor's name here; None for one that is not needed. What fits no rule keeps its name."""
        for start, ours in self.rules:
            if theirs.startswith(start):
                return None if ours is None else ours + theirs.removeprefix(start)
        return theirs

    def check_size(self, size: tuple[int, int]) -> None:
        height, width = size
        if self.only_size and size != self.image_size:
            own = "x".join(map(str, self.image_size))
            raise InputError(
                f"{self.name} takes images of {own} only, not {height}x{width}; leave the size out"
            )
        if height % self.multiple or width % self.multiple:
            near = "x".join(str(max(1, round(side / self.multiple)) * self.multiple) for side in size)
            raise InputError(
                f"{self.name} cuts images into patches of {self.multiple} pixels, and {height}x{width} is not "
                f"a multiple of that; write {self.name}@{near}"
            )


@dataclass(frozen=True)
class Refused:
    """A published model that cannot be had here, and why."""

    name: str
    reason: str


# how DINOv2's names begin below a prefix; what was only needed to train it is left out
def dinov2(prefix: str) -> Rules:
    return ((f"{prefix}mask_token", None), (prefix, "trunk."))


# a ResNet of torchvision as the Sequential of its children: only 2 and 3 (rectifier, pooling) have no tensors
def resnet_children(prefix: str) -> Rules:
    names = {0: "conv1", 1: "bn1", 4: "layer1", 5: "layer2", 6: "layer3", 7: "layer4"}
    return tuple((f"{prefix}{number}.", f"trunk.{name}.") for number, name in names.items())
