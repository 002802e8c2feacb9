"""From cases to an `Evaluation`: describe, whiten, search, measure; every size of descriptor in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import samespot
from samespot.errors import InputError
from samespot.evaluation import outcomes as per_query
from samespot.evaluation.calibration import IsotonicCalibration, predicted_overlap
from samespot.evaluation.cases import Case, sequence_descriptors
from samespot.evaluation.pair_curve import PairCurve, descriptor_blocks, pair_curve
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.results import Evaluation, QueryList, Variant
from samespot.evaluation.threshold_curves import CURVE_K, threshold_curves
from samespot.evaluation.trust import acceptance_at, calibration_curves, isotonic_from
from samespot.overlap.labels import PairLabels
from samespot.overlap.task import Progress
from samespot.places.table import Places
from samespot.retrieval.descriptors import Descriptors
from samespot.retrieval.search import Found, search
from samespot.retrieval.whitening import Whitening

MAP = "the map"
Describe = Callable[[Places, str], Descriptors]  # places and a name for their descriptors -> descriptors
Vectors = NDArray[Any]


@dataclass(frozen=True)
class EvaluationOptions:
    """What is asked beyond the protocol."""

    whiten: tuple[int, ...] = ()  # sizes; empty: descriptors as the network gives them only
    whiten_on_map: bool = True
    acceptance: bool = True  # also ask for each query without its place in the map
    precision: float = 0.95  # for which a threshold of acceptance is named
    device: str = "auto"
    seed: int = 0


@dataclass(frozen=True)
class Other:
    """A set apart from the evaluated one, training places as a rule: whitening and calibration are fitted on it."""

    name: str
    places: Places


@dataclass
class Evaluated:
    """The evaluation and what figures and files need besides: the lists found, by variant and case."""

    evaluation: Evaluation
    found: dict[str, list[Found]]
    labels: list[PairLabels | None]
    whitenings: list[Whitening] = field(default_factory=list)
    calibrations: dict[str, IsotonicCalibration] = field(default_factory=dict)
    pair_curves: dict[str, dict[str, PairCurve]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Described:
    """Vectors of one descriptor kind: queries and map of each case, and of the other set."""

    dims: int
    whitened_on: str | None
    queries: list[Vectors]
    places: list[Vectors]
    other: Vectors | None


def evaluate(
    protocol: Protocol,
    cases: Sequence[Case],
    describe: Describe,
    *,
    margin: float,
    model: Mapping[str, Any],
    options: EvaluationOptions | None = None,
    other: Other | None = None,
    protocol_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Evaluated:
    """Evaluate a model, given as `describe`, by a protocol's cases."""
    options = options or EvaluationOptions()
    if not cases:
        raise InputError(f"protocol {protocol.name}: no case has both queries and a map")
    tell = progress or (lambda what, done, total: None)
    base, skipped = _describe_all(cases, describe, other)
    labels = [case.overlap(tell) if case.overlap is not None else None for case in cases]
    done = Evaluated(_blank(protocol, cases, model, options, protocol_options, other, skipped), {}, labels)
    notes: list[str] = []
    expected = 1 + len(options.whiten) * (options.whiten_on_map + (other is not None))
    for number, kind in enumerate(_kinds(base, options, other, done.whitenings, notes)):
        tell("evaluating", number, expected)
        _measure(kind, protocol, cases, labels, margin, options, other, done)
    tell("evaluating", expected, expected)
    done.evaluation = replace(done.evaluation, notes=(*done.evaluation.notes, *notes))
    return done


def _describe_all(
    cases: Sequence[Case], describe: Describe, other: Other | None
) -> tuple[_Described, dict[str, str]]:
    queries: list[Vectors] = []
    places: list[Vectors] = []
    bad: dict[str, str] = {}
    for case in cases:
        for side, table, frames, kept in (
            ("queries", case.queries, case.query_frames, queries),
            ("map", case.places, case.place_frames, places),
        ):
            one = describe(table, f"{case.name}-{side}")
            kept.append(sequence_descriptors(one.vectors, frames))
            bad |= {f"{case.name} {side} row {row}": why for row, why in one.meta["bad"].items()}
    apart = None if other is None else describe(other.places, other.name).vectors
    return _Described(queries[0].shape[1], None, queries, places, apart), bad


def _blank(
    protocol: Protocol,
    cases: Sequence[Case],
    model: Mapping[str, Any],
    options: EvaluationOptions,
    protocol_options: Mapping[str, Any] | None,
    other: Other | None,
    skipped: Mapping[str, str],
) -> Evaluation:
    columns = list(dict.fromkeys(name for case in cases for name in case.groups))
    groups = {
        name: np.concatenate([case.groups.get(name, np.full(case.query_count, "")) for case in cases])
        for name in columns
    }
    names = np.concatenate([np.full(case.query_count, case.name) for case in cases])
    counted = np.concatenate([case.counted for case in cases])
    settings = {
        "samespot": samespot.__version__,
        "whiten": list(options.whiten),
        "other set": None if other is None else {"name": other.name, "images": len(other.places)},
        "precision for acceptance": options.precision,
        "seed": options.seed,
        "images that could not be read": dict(skipped),
    }
    return Evaluation(
        protocol={**protocol.to_dict(), "options": {**protocol.options, **(protocol_options or {})}},
        model=model,
        settings=settings,
        cases=[_case_facts(case) for case in cases],
        queries=QueryList([name for case in cases for name in case.query_names], names, counted, groups),
        variants=[],
        notes=tuple(dict.fromkeys(note for case in cases for note in case.notes)),
    )


def _case_facts(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "queries": case.query_count,
        "counted": int(case.counted.sum()),
        "map images": case.place_count,
        "digests": [case.queries.digest(), case.places.digest()],
    }


def _kinds(
    base: _Described,
    options: EvaluationOptions,
    other: Other | None,
    kept: list[Whitening],
    notes: list[str],
) -> Iterator[_Described]:
    """The descriptors as they are, then whitened on the map, then on the other set, in each size."""
    yield base
    sources = [(MAP, np.concatenate(base.places))] if options.whiten_on_map else []
    if other is not None and base.other is not None:
        sources.append((other.name, base.other))
    for name, vectors in sources if options.whiten else []:
        whitening = Whitening.fit(vectors, name)
        kept.append(whitening)
        sizes = [dims for dims in options.whiten if dims <= whitening.rank]
        for dims in sorted(set(options.whiten) - set(sizes)):
            notes.append(f"not whitened on {name} to {dims} dims: its images span only {whitening.rank}")
        if not sizes:
            raise InputError(
                f"whitening on {name}: {whitening.images} images span {whitening.rank} dims, "
                f"too few for {min(options.whiten)}; ask for less"
            )
        queries, places = ([whitening.sweep(x, sizes) for x in side] for side in (base.queries, base.places))
        apart = None if base.other is None else whitening.sweep(base.other, sizes)
        for dims in sizes:
            yield _Described(
                dims,
                name,
                [swept[dims] for swept in queries],
                [swept[dims] for swept in places],
                None if apart is None else apart[dims],
            )


def _measure(
    kind: _Described,
    protocol: Protocol,
    cases: Sequence[Case],
    labels: Sequence[PairLabels | None],
    margin: float,
    options: EvaluationOptions,
    other: Other | None,
    done: Evaluated,
) -> None:
    k = max(*protocol.ks, CURVE_K, per_query.NDCG_AT)
    found = [
        search(q, p, min(k, len(p)), excluded=case.excluded, device=options.device)
        for case, q, p in zip(cases, kind.queries, kind.places, strict=True)
    ]
    found = [_padded(one, k) for one in found]
    pose = protocol.truth == "pose"
    columns = per_query.joined(
        [
            per_query.outcomes(case, one, protocol.ks, truth, pose)
            for case, one, truth in zip(cases, found, labels, strict=True)
        ]
    )
    queries = done.evaluation.queries
    by_query = per_query.scores(columns, queries.counted, protocol.ks, protocol.limits)
    curves = threshold_curves(cases, found, labels)
    name = Variant(kind.dims, kind.whitened_on, {}, {}, {}).name
    isotonic = _isotonic(kind, labels, other, options.device)
    if isotonic is not None:
        done.calibrations[name] = isotonic
    overlap_of = None if kind.whitened_on is not None else lambda d: predicted_overlap(d, margin)
    curves |= calibration_curves(found, labels, overlap_of, isotonic)
    best_guess = isotonic or overlap_of
    if best_guess is not None:
        columns["predicted"] = best_guess(columns["distance"])
    if options.acceptance and protocol.truth == "positives":
        curves |= acceptance_at(
            cases,
            kind.queries,
            kind.places,
            labels,
            columns,
            queries.counted,
            options.precision,
            options.device,
        )
    if protocol.all_pairs:
        curves["pairs"] = _pair_curves(kind, cases, name, done)
    done.found[name] = found
    done.evaluation.variants.append(
        Variant(
            kind.dims,
            kind.whitened_on,
            per_query.summary(by_query, options.seed),
            per_query.broken_down(by_query, {"case": queries.cases, **queries.groups}, options.seed),
            columns,
            curves,
        )
    )


def _padded(found: Found, k: int) -> Found:
    """(q, k) whatever the size of the map: -1 where it has no more images."""
    lacking = k - found.rows.shape[1]
    if lacking <= 0:
        return found
    width = ((0, 0), (0, lacking))
    return Found(
        np.pad(found.rows, width, constant_values=-1), np.pad(found.distances, width, constant_values=np.inf)
    )


def _isotonic(
    kind: _Described, labels: Sequence[PairLabels | None], other: Other | None, device: str
) -> IsotonicCalibration | None:
    rule = next((truth.meta for truth in labels if truth is not None), None)
    if other is None or kind.other is None or rule is None:
        return None
    return isotonic_from(kind.other, other.places, other.name, rule, device)


def _pair_curves(kind: _Described, cases: Sequence[Case], name: str, done: Evaluated) -> dict[str, Any]:
    """Precision and recall over all pairs, case by case."""
    curves: dict[str, Any] = {}
    for case, q, p in zip(cases, kind.queries, kind.places, strict=True):
        if case.positives is None or not case.counted.any():
            continue
        curve = pair_curve(descriptor_blocks(q, p, case.positives, case.excluded))
        done.pair_curves.setdefault(name, {})[case.name] = curve
        thin = curve.thinned(200)
        curves[case.name] = {
            "average precision": curve.average_precision,
            "positives": curve.positives,
            "pairs": curve.pairs,
            "precision": thin.precision,
            "recall": thin.recall,
        }
    return curves
