"""What a user asks `samespot evaluate` for, turned into a protocol, its cases and a model; and the files it leaves."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from samespot.devices import device_named
from samespot.evaluation.cases import Case
from samespot.evaluation.evaluate import (
    Describe,
    Evaluated,
    EvaluationOptions,
    GivenWhitening,
    Other,
    evaluate,
)
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.protocols import located, protocol_named
from samespot.evaluation.protocols.tables import table_case
from samespot.evaluation.reranking import reranking
from samespot.matching.options import RerankOptions
from samespot.model.loading import load_model
from samespot.model.network import PlaceNet
from samespot.overlap.rules import Within
from samespot.places.catalogue import open_places
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.describe import describe
from samespot.retrieval.descriptors import Descriptors, facts_in
from samespot.retrieval.options import DescribeOptions

WITHIN = Within(25.0, None)


def run_evaluation(
    model: str,
    asked: EvaluateOptions,
    describing: DescribeOptions | None = None,
    reranked: RerankOptions | None = None,
    progress: Progress | None = None,
    cases: list[Case] | None = None,
) -> tuple[Evaluated, list[Case]]:
    """Open everything, describe and measure. Descriptors are kept in the folder, so a second run is quick.

    cases: those of the protocol, where they were opened before.
    """
    describing, reranked = describing or DescribeOptions(), reranked or RerankOptions()
    device_named(describing.device)  # an absent GPU should show before any work is done
    options = evaluation_options(asked, describing.device)
    net = load_model(model)
    given = None if asked.whiten_with is None else GivenWhitening.load(asked.whiten_with)
    if given is not None:  # a wrong file should show before photos are described
        given.refuse_other_size(net.descriptor_size)
    protocol, opened = (
        protocol_and_cases(asked) if cases is None else (protocol_named(str(asked.protocol)), cases)
    )
    facts = {
        "model": model,
        "digest": net.digest(),
        **{name: value for name, value in net.config().items() if name not in ("samespot", "format", "timm")},
    }
    out = asked.out or Path("evaluation")
    described, other = describer(net, out, describing, progress), _training_places(asked)
    done = evaluate(
        protocol,
        opened,
        described,
        margin=net.margin,
        model=facts,
        options=options,
        other=other,
        given=given,
        protocol_options=asked.of_protocol,
        reranking=reranking(
            reranked,
            net,
            opened,
            other,
            described,
            folder=out / "local-features",
            describing=describing,
            seed=asked.seed,
            progress=progress,
        ),
        progress=progress,
    )
    return done, opened


def evaluation_options(asked: EvaluateOptions, device: str) -> EvaluationOptions:
    return EvaluationOptions(
        whiten=asked.whiten,
        whiten_on_map=asked.whiten_on in (None, "map", "both"),
        whiten_on_other=asked.whiten_on in (None, "train", "both"),
        acceptance=asked.acceptance,
        precision=asked.accept_precision,
        device=device,
        seed=asked.seed,
    )


def protocol_and_cases(asked: EvaluateOptions) -> tuple[Protocol, list[Case]]:
    if asked.protocol is not None:
        protocol = protocol_named(asked.protocol)
        return protocol, protocol.cases(located(asked.root, protocol), **asked.of_protocol)
    assert asked.map is not None
    places = open_places(asked.map)
    queries = places if asked.queries is None else open_places(asked.queries, onto=places.projection)
    by_default = asked.frames is None and asked.overlap is None
    within = asked.within or (WITHIN if by_default else None)
    case = table_case(
        queries,
        places,
        within=within,
        frames=asked.frames,
        min_overlap=asked.overlap,
        theta=asked.theta,
        radius=asked.radius,
        time_gap=None if asked.time_gap is None else np.timedelta64(round(1000 * asked.time_gap), "ms"),
    )
    return _own_protocol(asked, within, {"theta": asked.theta, "radius": asked.radius}), [case]


def _own_protocol(asked: EvaluateOptions, within: Within | None, view: dict[str, float]) -> Protocol:
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


def _training_places(asked: EvaluateOptions) -> Other | None:
    if asked.train is None:
        return None
    places: Places = open_places(asked.train)
    if asked.train_split is not None:
        places = places.of_split(asked.train_split)
    return Other("training places", places)


def describer(net: PlaceNet, out: Path, describing: DescribeOptions, progress: Progress | None) -> Describe:
    """Describes each table once, into a folder of its own below the output's `descriptors/`.

    Those of another model or table are replaced: they belong to the evaluation that is about to be overwritten.
    """
    model = net.digest()

    def described(places: Places, name: str) -> Descriptors:
        folder = out / "descriptors" / name.replace("/", "-").replace(" ", "-")
        there = facts_in(folder)
        if there and (there.get("model"), there.get("places")) != (model, places.digest()):
            shutil.rmtree(folder)
        return describe(net, places, folder, progress=progress, **describing.to_dict())

    return described
