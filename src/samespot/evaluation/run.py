"""The front door: a model and a protocol, or one's own tables, in; measurements with intervals out.

result = evaluate("runs/mine", "msls-val", root="MSLS", out="evaluation")
result = evaluate(model, map="map.csv", queries="queries.csv", within="25m,40deg")
result.metrics["R@1"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import samespot
from samespot.cluster import Cluster, joined_where_asked
from samespot.devices import device_named
from samespot.evaluation.calibration import IsotonicCalibration
from samespot.evaluation.case_poses import CasePosed, CasePoses, with_limits
from samespot.evaluation.cases import Case, sequence_descriptors
from samespot.evaluation.folder import refuse_other, write_evaluation
from samespot.evaluation.matches import Matches, matches_of
from samespot.evaluation.measure import (
    Measured,
    measure,
    query_list,
    reranked_name,
)
from samespot.evaluation.options import EvaluateOptions
from samespot.evaluation.pair_curve import PairCurve
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.question import Question, question_of, refuse_hopeless
from samespot.evaluation.reranking import reranking_of
from samespot.evaluation.results import Evaluation
from samespot.evaluation.seen import learned_photos, seen_notes
from samespot.evaluation.variants import Described, GivenWhitening, Kinds, Other, Vectors
from samespot.matching.options import RerankOptions
from samespot.matching.reranker import Reranking
from samespot.model.loading import load_model
from samespot.model.network import PlaceNet
from samespot.options import split
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places
from samespot.poses.options import SolveOptions
from samespot.progress import Progress
from samespot.retrieval.describe import describe
from samespot.retrieval.descriptors import Descriptors
from samespot.retrieval.options import DescribeOptions
from samespot.retrieval.search import Found, Searching
from samespot.retrieval.sharded import search_sharded
from samespot.statistics.intervals import Interval
from samespot.whitening.whitening import Whitening

Describe = Callable[[Places, str], Descriptors]  # places and a name for their descriptors -> descriptors
_OF_TABLES = ("queries_digest", "places_digest", "same_table", "dropped")  # of labels: not of their rule


@dataclass
class Evaluated:
    """An evaluation, and what figures and files need besides: the lists found, by descriptor and case."""

    evaluation: Evaluation
    cases: list[Case]
    labels: list[PairLabels | None]  # graded truth of each case
    found: dict[str, list[Found]]
    whitenings: list[Whitening] = field(default_factory=list)
    calibrations: dict[str, IsotonicCalibration] = field(default_factory=dict)
    pair_curves: dict[str, dict[str, PairCurve]] = field(default_factory=dict)
    poses: dict[str, list[CasePosed]] = field(
        default_factory=dict
    )  # that were solved, by descriptor and case
    files: list[Path] = field(default_factory=list)  # that were written

    @property
    def metrics(self) -> Mapping[str, Interval]:
        """Of the descriptors as the network gives them."""
        return self.evaluation.variant().metrics

    @property
    def notes(self) -> tuple[str, ...]:
        return self.evaluation.notes

    def matches(self) -> list[Matches]:
        """The lists of each descriptor, in the order of the evaluation's variants."""
        return [matches_of(self.cases, self.found[one.name], self.labels) for one in self.evaluation.variants]


def evaluate(
    model: Any,
    protocol: str | None = None,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Evaluated:
    """Measure a model by a named protocol, or on your own tables, with confidence intervals.

    model: a network, a model or run folder, or the name of a model (see `load_model`). protocol: see
    `samespot protocols`; or give `map=`, `queries=` and what is right, such as `within="25m,40deg"`; tables are paths
    or `Places`. out: a folder for results, matches and descriptors; a second call with the same folder does not
    describe again. options: fields of `EvaluateOptions`, `DescribeOptions`, `RerankOptions` and `SolveOptions`.
    """
    given = {"protocol": protocol, "out": out}
    typed = {**options, **{name: value for name, value in given.items() if value is not None}}
    parts = split(typed, EvaluateOptions, DescribeOptions, RerankOptions, SolveOptions)
    asked = EvaluateOptions.of(parts[0])
    further = DescribeOptions.of(parts[1]), RerankOptions.of(parts[2]), SolveOptions.of(parts[3])
    return run_evaluation(model, asked, *further, progress=progress)


def run_evaluation(
    model: Any,
    asked: EvaluateOptions,
    describing: DescribeOptions | None = None,
    reranked: RerankOptions | None = None,
    posed: SolveOptions | None = None,
    *,
    question: Question | None = None,
    weights: Path | None = None,
    progress: Progress | None = None,
) -> Evaluated:
    """The same with options that are read. question: what they ask, where that was read before. weights: of a model by
    name."""
    describing, reranked = describing or DescribeOptions(), reranked or RerankOptions()
    with joined_where_asked(describing.ray, progress) as cluster:
        return _run(model, asked, describing, reranked, posed, question, weights, cluster, progress)


def _run(
    model: Any,
    asked: EvaluateOptions,
    describing: DescribeOptions,
    reranked: RerankOptions,
    posed: SolveOptions | None,
    question: Question | None,
    weights: Path | None,
    cluster: Cluster | None,
    progress: Progress | None,
) -> Evaluated:
    # what this process itself computes on; an absent GPU should show before any work is done
    device = describing.device if cluster is None or describing.device == "cpu" else "auto"
    device_named(device)
    question = question or question_of(asked, progress=progress)
    protocol, cases = question.protocol, question.cases
    net = load_model(model, weights=weights, progress=progress)
    given = _given(asked, net, question.whitening)  # a wrong file should show before photos are described
    posing = None
    if posed is not None and posed.poses is not None:
        protocol = with_limits(protocol, cases)
        posing = CasePoses(posed, net, device_named(device))
    facts = _model_facts(model, net)
    if asked.out is not None:
        refuse_other(asked.out, facts, _protocol_facts(protocol, asked), cases)
    described, other = describer(net, asked.out, describing, progress), question.other
    done = evaluate_cases(
        protocol,
        cases,
        described,
        margin=net.margin,
        model=facts,
        learned=learned_photos(model, net),
        options=asked,
        other=other,
        given=given,
        reranking=reranking_of(
            reranked,
            net,
            cases,
            other,
            described,
            folder=None if asked.out is None else asked.out / "local-features",
            describing=describing.with_changes(device=device),
            seed=asked.seed,
            progress=progress,
        ),
        posing=posing,
        device=device,
        searching=None if cluster is None else partial(search_sharded, cluster),
        progress=progress,
    )
    if asked.out is not None:
        done.evaluation, done.files = write_evaluation(done, asked.out)
    return done


def evaluate_cases(
    protocol: Protocol,
    cases: Sequence[Case],
    describe: Describe,
    *,
    margin: float,
    model: Mapping[str, Any],
    learned: Mapping[str, Any] | None = None,
    options: EvaluateOptions | None = None,
    other: Other | None = None,
    given: Sequence[GivenWhitening] = (),
    reranking: Reranking | None = None,
    posing: CasePoses | None = None,
    device: str = "auto",
    searching: Searching | None = None,
    whiten_to_span: bool = False,
    calibrate: bool = True,
    progress: Progress | None = None,
) -> Evaluated:
    """Evaluate a model, given as `describe`, by a protocol's cases; one descriptor's lists also re-ranked.

    model: what a result says about it. learned: the photos it was trained on (`learned_photos`). other: a set on
    which whitening and calibration are fitted, too. given: whitenings that need no fitting. searching: what takes the
    place of `search`. whiten_to_span: take as many dims as there are where fewer images are given.
    """
    options = options or EvaluateOptions()
    for case in cases:
        case.overlap(progress)  # may take a while, and positives may rest on it
    refuse_hopeless(protocol, cases, reranking)
    base, facts, places = _describe_all(cases, describe, other)
    rule = next((case.rule for case in cases if case.rule is not None), None)
    kinds = Kinds(base, options, other, given, whiten_to_span, device, rule, _maps_apart(cases))
    if given:
        facts["whitened with"] = [one.to_dict() for one in given]
    if reranking is not None:
        facts["re-ranking"] = {**reranking.to_dict(), "of": reranked_name(reranking, kinds.names())}
    how: dict[str, Any] = {"margin": margin, "calibrate": calibrate, "progress": progress}
    if posing is not None:
        facts["poses"] = posing.options.to_dict()
    done = measure(protocol, cases, kinds, reranking=reranking, posing=posing, searching=searching, **how)
    evaluation = Evaluation(
        protocol=_protocol_facts(protocol, options),
        model=model,
        settings={
            **_settings(options, other),
            **facts,
            "whitenings": [one.to_dict() for one in done.whitenings],
            "overlap": _rule_facts(done.labels),
        },
        cases=[_case_facts(case, *where) for case, where in zip(cases, places, strict=True)],
        queries=query_list(cases),
        variants=done.variants,
        notes=_notes(cases, learned or {}, facts, done),
    )
    return Evaluated(
        evaluation,
        list(cases),
        done.labels,
        done.found,
        done.whitenings,
        done.calibrations,
        done.pair_curves,
        done.poses,
    )


def _protocol_facts(protocol: Protocol, options: EvaluateOptions) -> dict[str, Any]:
    return {**protocol.to_dict(), "options": {**protocol.options, **options.of_protocol}}


def _model_facts(model: Any, net: PlaceNet) -> dict[str, Any]:
    name = net.backbone if isinstance(model, PlaceNet) else str(getattr(model, "run", model))
    own = {key: value for key, value in net.config().items() if key not in ("samespot", "format", "timm")}
    return {"model": name, "digest": net.digest(), **own}


def _given(asked: EvaluateOptions, net: PlaceNet, of_file: GivenWhitening | None) -> list[GivenWhitening]:
    """The model's own whitening, where it is asked for or nothing is, and that of a file."""
    own = any(one.how == "model" for one in asked.whiten) or (net.whitening is not None and not asked.whiten)
    given = [GivenWhitening.of_model(net)] if own else []
    given += [of_file] if of_file is not None else []
    for one in given:
        one.refuse_other_size(net.descriptor_size)
    return given


def describer(
    net: PlaceNet, out: Path | None, describing: DescribeOptions, progress: Progress | None
) -> Describe:
    """Describes each table once, into a folder of its own below the output's `descriptors/`; without one in memory."""
    options, held = describing.to_dict(), dict[str, Descriptors]()

    def described(places: Places, name: str) -> Descriptors:
        if name not in held:
            folder = None if out is None else out / "descriptors" / name.replace("/", "-").replace(" ", "-")
            held[name] = describe(net, places, folder, progress=progress, **options)
        return held[name]

    return described


Folders = tuple[Path | None, Path | None]  # of the descriptors of queries and map, where they are kept


def _describe_all(
    cases: Sequence[Case], describe: Describe, other: Other | None
) -> tuple[Described, dict[str, Any], list[Folders]]:
    """Vectors of every table, what is to be told about them, and where they are kept."""
    queries: list[Vectors] = []
    places: list[Vectors] = []
    folders: list[Folders] = []
    bad: dict[str, str] = {}
    precisions: set[str] = set()
    for case in cases:
        there = describe(case.places, f"{case.name}-map")
        # a map against itself is described once
        asked = there if case.queries is case.places else describe(case.queries, f"{case.name}-queries")
        queries.append(sequence_descriptors(asked.vectors, case.query_frames))
        places.append(sequence_descriptors(there.vectors, case.place_frames))
        folders.append((asked.folder, there.folder))
        for side, one in (("queries", asked), ("map", there)):
            bad |= {f"{case.name} {side} row {row}": why for row, why in one.meta["bad"].items()}
            precisions.add(str(one.meta.get("precision", "unknown")))
    apart = None if other is None else describe(other.places, other.name).vectors
    facts = {"precision": ", ".join(sorted(precisions)), "images that could not be read": bad}
    return Described(queries, places, apart), facts, folders


def _settings(options: EvaluateOptions, other: Other | None) -> dict[str, Any]:
    return {
        "samespot": samespot.__version__,
        "whiten": [str(recipe) for recipe in options.whiten],
        "other set": None if other is None else {"name": other.name, "images": len(other.places)},
        "precision for acceptance": options.accept_precision,
        "seed": options.seed,
    }


def _maps_apart(cases: Sequence[Case]) -> list[Places]:
    """The maps as tables of photos, if no query is in one: then something may be chosen on them."""
    apart = all(
        case.place_frames is None
        and set(case.queries.table["image"]).isdisjoint(case.places.table["image"])
        and case.queries is not case.places
        for case in cases
    )
    return [case.places for case in cases] if apart else []


def _rule_facts(labels: Sequence[PairLabels | None]) -> dict[str, Any] | None:
    """The rule of the graded truth, as its labels tell it."""
    meta = next((truth.meta for truth in labels if truth is not None), None)
    return None if meta is None else {key: value for key, value in meta.items() if key not in _OF_TABLES}


def _case_facts(case: Case, queries: Path | None, places: Path | None) -> dict[str, Any]:
    kept = None if queries is None or places is None else {"queries": str(queries), "map": str(places)}
    return {
        "name": case.name,
        "queries": case.query_count,
        "counted": int(case.counted.sum()),
        "map images": case.place_count,
        "digests": [case.queries.digest(), case.places.digest()],
        "descriptors": kept,
    }


def _notes(
    cases: Sequence[Case], learned: Mapping[str, Any], facts: Mapping[str, Any], done: Measured
) -> tuple[str, ...]:
    notes = seen_notes(cases, learned)
    notes += [note for case in cases for note in case.notes]
    if bad := facts["images that could not be read"]:
        notes.append(
            f"images that could not be read: {len(bad)}; such a query finds nothing, such a map image is not found"
        )
    return tuple(dict.fromkeys([*notes, *done.notes]))
