"""What a user asks `samespot evaluate` for, turned into a protocol, its cases and a model; and the files it leaves."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np

from samespot.commands.reranking import RerankRequest, reranking
from samespot.commands.words import one_of, parse_size, refuse_absent_gpu, refuse_ineffective
from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.evaluate import (
    Describe,
    Evaluated,
    EvaluationOptions,
    GivenWhitening,
    Other,
    evaluate,
)
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.protocols import protocol_named
from samespot.evaluation.table_cases import table_case
from samespot.model.network import PlaceNet
from samespot.overlap.rules import Within, parse_within
from samespot.places.catalogue import data_set, open_places
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.describe import OnBadImage, Precision, describe
from samespot.retrieval.descriptors import Descriptors, facts_in

WITHIN = "25m"
THETA, RADIUS = 90.0, 50.0  # [deg], [m]
PRECISION = 0.95  # for which a threshold of acceptance is named
OWN = ("queries", "within", "frames", "overlap", "theta", "radius", "time_gap")  # options of one's own tables


@dataclass(frozen=True)
class EvaluateRequest:
    """What was typed; None where nothing was."""

    model: str
    protocol: str | None = None
    root: Path | None = None
    protocol_options: dict[str, Any] | None = None
    queries: Path | None = None
    map: Path | None = None
    within: str | None = None
    frames: int | None = None
    overlap: float | None = None
    theta: float | None = None
    radius: float | None = None
    time_gap: float | None = None  # [s]
    whiten: str | None = None
    whiten_on: str | None = None
    whiten_with: Path | None = None
    train: Path | None = None
    train_split: str | None = None
    out: Path = Path("evaluation")
    batch_size: int | None = None
    device: str = "auto"
    precision: str | None = None
    workers: int | None = None
    on_bad_image: str | None = None
    accept_precision: float | None = None
    acceptance: bool = True
    seed: int = 0
    rerank: RerankRequest = field(default_factory=RerankRequest)

    def __post_init__(self) -> None:
        """Whatever can be known to be wrong before a file is read."""
        self._refuse_ineffective()
        if self.protocol is not None:
            protocol_named(self.protocol).check_options(self.protocol_options or {})
        elif self.map is None:
            raise InputError("name a protocol (`samespot protocols` lists them), or give --map and --queries")
        if sum(rule is not None for rule in (self.within, self.frames, self.overlap)) > 1:
            raise InputError("give one of --within, --frames and --overlap: what counts as found")
        if self.time_gap is not None and not (self.time_gap >= 0 and math.isfinite(self.time_gap)):
            raise InputError(f"--time-gap {self.time_gap:g} is not a number of seconds from 0 on")
        if self.whiten_on not in (None, "map", "train", "both"):
            raise InputError(f"--whiten-on {self.whiten_on!r} is unknown; choose map, train or both")
        if self.train is None and self.whiten_on in ("train", "both"):
            raise InputError(f"--whiten-on {self.whiten_on} needs --train, the places to fit it on")
        if self.accept_precision is not None and not 0 < self.accept_precision <= 1:
            raise InputError(f"--accept-precision {self.accept_precision:g} is not in (0, 1]; 0.95 is usual")
        one_of("precision", self.precision, get_args(Precision), "auto")
        one_of("on_bad_image", self.on_bad_image, get_args(OnBadImage), "fail")
        refuse_absent_gpu(self.device)

    def _refuse_ineffective(self) -> None:
        if self.protocol is not None:
            why = f"with the protocol {self.protocol}, which has its own"
            if self.map is not None:  # of other commands, MAP is an argument
                raise InputError(f"--map has no effect {why}")
            refuse_ineffective(self, OWN, why)
        else:
            refuse_ineffective(self, ("root",), "without a protocol")
            typed = self.protocol_options or {}
            refuse_ineffective(SimpleNamespace(**typed), typed, "without a protocol")
        if self.whiten is None:
            refuse_ineffective(self, ("whiten_on",), "without --whiten")
        if self.train is None:
            refuse_ineffective(self, ("train_split",), "without --train")
        if not self.acceptance:
            refuse_ineffective(self, ("accept_precision",), "with --no-acceptance")


def run_evaluation(
    asked: EvaluateRequest, progress: Progress | None = None, cases: list[Case] | None = None
) -> tuple[Evaluated, list[Case]]:
    """Open everything, describe and measure. Descriptors are kept in the folder, so a second run is quick.

    cases: those of the protocol, where they were opened before.
    """
    options = evaluation_options(asked)
    net = load_model(asked.model)
    given = None if asked.whiten_with is None else GivenWhitening.load(asked.whiten_with)
    if given is not None:  # a wrong file should show before photos are described
        given.refuse_other_size(net.descriptor_size)
    protocol, opened = (
        protocol_and_cases(asked) if cases is None else (protocol_named(str(asked.protocol)), cases)
    )
    facts = {
        "model": asked.model,
        "digest": net.digest(),
        **{name: value for name, value in net.config().items() if name not in ("samespot", "format", "timm")},
    }
    described, other = describer(net, asked, progress), _training_places(asked)
    done = evaluate(
        protocol,
        opened,
        described,
        margin=net.margin,
        model=facts,
        options=options,
        other=other,
        given=given,
        protocol_options=asked.protocol_options,
        reranking=reranking(
            asked.rerank,
            net,
            opened,
            other,
            described,
            folder=asked.out / "local-features",
            device=asked.device,
            on_bad_image=one_of("on_bad_image", asked.on_bad_image, get_args(OnBadImage), "fail"),
            workers=asked.workers,
            seed=asked.seed,
            progress=progress,
        ),
        progress=progress,
    )
    return done, opened


def evaluation_options(asked: EvaluateRequest) -> EvaluationOptions:
    return EvaluationOptions(
        whiten=parse_sizes(asked.whiten),
        whiten_on_map=asked.whiten_on in (None, "map", "both"),
        whiten_on_other=asked.whiten_on in (None, "train", "both"),
        acceptance=asked.acceptance,
        precision=PRECISION if asked.accept_precision is None else asked.accept_precision,
        device=asked.device,
        seed=asked.seed,
    )


def parse_sizes(words: str | None) -> tuple[int, ...]:
    """Descriptor sizes from "32,64,128"."""
    try:
        sizes = tuple(int(word) for word in words.split(",")) if words else ()
    except ValueError:
        sizes = (0,)
    if any(size < 1 for size in sizes):
        raise InputError(f"--whiten {words!r}: give sizes such as 32,64,128")
    return tuple(dict.fromkeys(sizes))


def load_model(name: str) -> PlaceNet:
    """A model folder, a run folder (its best, else its last model), or a network as it comes.

    The latter is named by backbone, pooling and if not 480x640 the size of images: resnet50-gem, vgg16-gap@224x224.
    """
    folder = Path(name)
    for candidate in (folder, folder / "best", folder / "last"):
        if (candidate / "model.safetensors").is_file():
            return PlaceNet.load(candidate)
    words, _, size = name.partition("@")
    backbone, dash, pool = words.rpartition("-")
    if folder.exists() or not dash or pool not in ("gem", "gap", "max"):
        raise InputError(
            f"{name}: no model here; give a model or run folder, or a network as it comes, such as resnet50-gem"
        )
    try:
        image_size = parse_size(size) if size else (480, 640)
    except ValueError:
        raise InputError(
            f"{name}: {size!r} is no size of images; write for example {words}@224x224"
        ) from None
    return PlaceNet(backbone, pool, image_size=image_size).eval()


def protocol_and_cases(asked: EvaluateRequest) -> tuple[Protocol, list[Case]]:
    if asked.protocol is not None:
        protocol = protocol_named(asked.protocol)
        options = asked.protocol_options or {}
        return protocol, protocol.cases(located(asked.root or Path(), protocol), **options)
    assert asked.map is not None
    places = open_places(asked.map)
    queries = places if asked.queries is None else open_places(asked.queries, onto=places.projection)
    by_default = asked.frames is None and asked.overlap is None
    within = parse_within(asked.within or WITHIN) if asked.within or by_default else None
    theta = THETA if asked.theta is None else asked.theta
    radius = RADIUS if asked.radius is None else asked.radius
    case = table_case(
        queries,
        places,
        within=within,
        frames=asked.frames,
        min_overlap=asked.overlap,
        theta=theta,
        radius=radius,
        time_gap=None if asked.time_gap is None else np.timedelta64(round(1000 * asked.time_gap), "ms"),
    )
    return _own_protocol(asked, within, {"theta": theta, "radius": radius}), [case]


def _own_protocol(asked: EvaluateRequest, within: Within | None, view: dict[str, float]) -> Protocol:
    """In words what was asked of one's own tables. view: the sector of the graded truth."""
    if within is not None:
        turn = "" if within.degrees is None else f" and {within.degrees:g}°"
        positive = f"within {within.metres:g} m{turn}"
    elif asked.frames is not None:
        positive = f"at most {asked.frames} frames away in the aligned sequence"
    else:
        sector = f"θ = {view['theta']:g}°, r = {view['radius']:g} m"
        positive = f"shares at least {asked.overlap:g} of the view ({sector})"
    never = ["the query itself"] if asked.queries is None else []
    never += (
        [f"what was taken within {asked.time_gap:g} s of the query"] if asked.time_gap is not None else []
    )
    return Protocol(
        name="own-tables",
        title="Tables of your own",
        data_set="places",
        queries="those with at least one positive",
        positive=positive,
        exclusions=", ".join(never),
        citation="",
        make=lambda root: [],
        options=view,
    )


def located(root: Path, protocol: Protocol) -> Path:
    """The folder of the protocol's data set: `root` itself, or one directly below it."""
    if not root.is_dir():
        raise InputError(f"--root {root}: no such folder; give the folder of the data set, or one above it")
    below = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    for folder in (root, *below):
        there = bool(data_set(protocol.data_set).parts(folder))
        if there:
            return folder
    raise InputError(
        f"--root {root}: {protocol.name} needs {protocol.data_set}, which is not there nor directly below;"
        f" `samespot datasets` says where to ask for it"
    )


def _training_places(asked: EvaluateRequest) -> Other | None:
    if asked.train is None:
        return None
    places: Places = open_places(asked.train)
    if asked.train_split is not None:
        places = places.of_split(asked.train_split)
    return Other("training places", places)


def describer(net: PlaceNet, asked: EvaluateRequest, progress: Progress | None) -> Describe:
    """Describes each table once, into a folder of its own below the output's `descriptors/`.

    Those of another model or table are replaced: they belong to the evaluation that is about to be overwritten.
    """
    model = net.digest()

    def described(places: Places, name: str) -> Descriptors:
        folder = asked.out / "descriptors" / name.replace("/", "-").replace(" ", "-")
        there = facts_in(folder)
        if there and (there.get("model"), there.get("places")) != (model, places.digest()):
            shutil.rmtree(folder)
        return describe(
            net,
            places,
            folder,
            batch_size=asked.batch_size,
            device=asked.device,
            precision=one_of("precision", asked.precision, get_args(Precision), "auto"),
            on_bad_image=one_of("on_bad_image", asked.on_bad_image, get_args(OnBadImage), "fail"),
            workers=asked.workers,
            progress=progress,
        )

    return described
