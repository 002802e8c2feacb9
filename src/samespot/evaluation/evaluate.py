"""From cases to an `Evaluation`: describe, whiten, search, measure; every size of descriptor in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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
from samespot.evaluation.trust import (
    acceptance_at,
    calibration_curves,
    isotonic_from,
    sectors_of,
    surroundings,
)
from samespot.matching.reranker import Reranking, rerank
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places
from samespot.progress import Progress
from samespot.retrieval.descriptors import Descriptors
from samespot.retrieval.exclusion import Exclusion
from samespot.retrieval.search import Found, resolve_device, search
from samespot.retrieval.whitening import MOST_IMAGES, Whitening

MAP = "the map"
LONG = 8192  # dims
Describe = Callable[[Places, str], Descriptors]  # places and a name for their descriptors -> descriptors
Vectors = NDArray[Any]
Calibrate = Callable[[Vectors], IsotonicCalibration | None]


@dataclass(frozen=True)
class EvaluationOptions:
    """What is asked beyond the protocol."""

    whiten: tuple[int, ...] = ()  # sizes; empty: descriptors as the network gives them only
    whiten_on_map: bool = True
    whiten_on_other: bool = True  # where there is another set
    # sizes beyond what the images span: become that; else are left out, and refused where none is left
    whiten_to_span: bool = False
    calibrate: bool = True  # learn on the other set which distance means which overlap
    acceptance: bool = True  # also ask for each query without its place in the map
    precision: float = 0.95  # for which a threshold of acceptance is named
    device: str = "auto"
    seed: int = 0


@dataclass(frozen=True)
class Other:
    """A set apart from the evaluated one, training places as a rule: whitening and calibration are fitted on it."""

    name: str
    places: Places


@dataclass(frozen=True)
class GivenWhitening:
    """A whitening that was fitted before, on whatever its file says: used as it is, not fitted here."""

    file: Path
    whitening: Whitening

    @classmethod
    def load(cls, file: Path) -> GivenWhitening:
        return cls(file, Whitening.load(file))

    @property
    def fitted_on(self) -> str:
        return self.whitening.fitted_on or "not known"

    def sizes(self, asked: Sequence[int]) -> list[int]:
        """Those asked for that it has more of, then all that it has."""
        return [*(dims for dims in asked if dims < self.whitening.rank), self.whitening.rank]

    def refuse_other_size(self, dims: int) -> None:
        """dims: of the descriptors as the network gives them."""
        if dims != self.whitening.dims:
            raise InputError(
                f"{self.file}: whitens descriptors of {self.whitening.dims} dims, but this network gives {dims};"
                " give the whitening that was fitted with this network"
            )


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
    whitened_with: str | None = None


def evaluate(
    protocol: Protocol,
    cases: Sequence[Case],
    describe: Describe,
    *,
    margin: float,
    model: Mapping[str, Any],
    options: EvaluationOptions | None = None,
    other: Other | None = None,
    given: GivenWhitening | None = None,
    protocol_options: Mapping[str, Any] | None = None,
    reranking: Reranking | None = None,
    progress: Progress | None = None,
) -> Evaluated:
    """Evaluate a model, given as `describe`, by a protocol's cases; one descriptor's lists also re-ranked.

    other: a set on which whitening and calibration are fitted, too. given: a whitening that needs no fitting.
    """
    options = options or EvaluationOptions()
    if not cases:
        raise InputError(f"protocol {protocol.name}: no case has both queries and a map")
    tell = progress or (lambda what, done, total: None)
    labels = [case.overlap(tell) if case.overlap is not None else None for case in cases]
    _refuse_nothing_to_find(protocol, cases)
    if reranking is not None:
        _refuse_sequences(cases)
    base, facts = _describe_all(cases, describe, other)
    if given is not None:
        given.refuse_other_size(base.dims)
        facts["whitened with"] = {
            "file": str(given.file),
            "fitted on": given.fitted_on,
            "images": given.whitening.images or None,  # nobody publishes how many they were
            "dims": given.whitening.rank,
        }
    if reranking is not None:
        names = _descriptor_names(base, options, other, given)
        facts["re-ranking"] = {**reranking.to_dict(), "of": _reranked_name(reranking, names)}
    done = Evaluated(_blank(protocol, cases, model, options, protocol_options, other, facts), {}, labels)
    notes: list[str] = []
    calibrate = _calibrator(other if options.calibrate else None, cases, labels, options.device, notes)
    without = _all_surroundings(protocol, cases, labels) if options.acceptance else None
    sets = options.whiten_on_map + (options.whiten_on_other and other is not None)
    expected = 1 + len(options.whiten) * sets + (0 if given is None else len(given.sizes(options.whiten)))
    for number, kind in enumerate(_kinds(base, options, other, given, done.whitenings, notes)):
        tell("evaluating", number, expected)
        _measure(kind, protocol, cases, labels, margin, options, calibrate, without, done)
        if reranking is not None and _name(kind) == facts["re-ranking"]["of"]:
            _measure_reranked(kind, protocol, cases, labels, options, reranking, done, tell)
    tell("evaluating", expected, expected)
    if reranking is not None and all(variant.reranked_by is None for variant in done.evaluation.variants):
        notes.append(f"not re-ranked: there is no descriptor {reranking.of}")
    rule = next((truth.meta for truth in labels if truth is not None), {})
    by = {key: rule[key] for key in ("kind", "measure", "theta", "radius") if key in rule}
    done.evaluation = replace(
        done.evaluation,
        settings={**done.evaluation.settings, "overlap": by or None},
        notes=(*done.evaluation.notes, *notes, *(reranking.notes if reranking is not None else ())),
    )
    return done


def _refuse_nothing_to_find(protocol: Protocol, cases: Sequence[Case]) -> None:
    if protocol.truth == "positives" and not any(case.counted.any() for case in cases):
        queries = sum(case.query_count for case in cases)
        raise InputError(
            f"protocol {protocol.name}: none of the {queries} queries has anything to find in the map"
            f" ({protocol.positive}); are both of the same place?"
        )


def _refuse_sequences(cases: Sequence[Case]) -> None:
    if any(case.query_frames is not None or case.place_frames is not None for case in cases):
        raise InputError("re-ranking compares single photos, and these cases have sequences; leave it out")


def _descriptor_names(
    base: _Described, options: EvaluationOptions, other: Other | None, given: GivenWhitening | None
) -> list[str]:
    """Of all descriptors that there may be; known before the work is done."""
    sets = [MAP] if options.whiten_on_map else []
    if options.whiten_on_other and other is not None:
        sets.append(other.name)
    kinds = [base] + [replace(base, dims=d, whitened_on=on) for on in sets for d in options.whiten]
    if given is not None:
        kinds += [
            replace(base, dims=d, whitened_on=given.fitted_on, whitened_with=given.file.name)
            for d in given.sizes(options.whiten)
        ]
    return [_name(kind) for kind in kinds]


def _reranked_name(reranking: Reranking, names: Sequence[str]) -> str:
    """The descriptor whose lists are re-ranked."""
    if reranking.of not in (None, *names):
        raise InputError(f"no descriptor {reranking.of!r} to re-rank; this evaluation has {', '.join(names)}")
    return reranking.of or names[0]


def _describe_all(
    cases: Sequence[Case], describe: Describe, other: Other | None
) -> tuple[_Described, dict[str, Any]]:
    """Vectors of every table, and what is to be told about them."""
    queries: list[Vectors] = []
    places: list[Vectors] = []
    bad: dict[str, str] = {}
    precisions: set[str] = set()
    for case in cases:
        there = describe(case.places, f"{case.name}-map")
        # a map against itself is described once
        asked = there if case.queries is case.places else describe(case.queries, f"{case.name}-queries")
        queries.append(sequence_descriptors(asked.vectors, case.query_frames))
        places.append(sequence_descriptors(there.vectors, case.place_frames))
        for side, one in (("queries", asked), ("map", there)):
            bad |= {f"{case.name} {side} row {row}": why for row, why in one.meta["bad"].items()}
            precisions.add(str(one.meta.get("precision", "unknown")))
    apart = None if other is None else describe(other.places, other.name).vectors
    facts = {"precision": ", ".join(sorted(precisions)), "images that could not be read": bad}
    return _Described(queries[0].shape[1], None, queries, places, apart), facts


def _blank(
    protocol: Protocol,
    cases: Sequence[Case],
    model: Mapping[str, Any],
    options: EvaluationOptions,
    protocol_options: Mapping[str, Any] | None,
    other: Other | None,
    described: Mapping[str, Any],
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
        **described,
    }
    notes = [note for case in cases for note in case.notes]
    if bad := described["images that could not be read"]:
        notes.append(
            f"images that could not be read: {len(bad)}; such a query finds nothing, such a map image is not found"
        )
    return Evaluation(
        protocol={**protocol.to_dict(), "options": {**protocol.options, **(protocol_options or {})}},
        model=model,
        settings=settings,
        cases=[_case_facts(case) for case in cases],
        queries=QueryList([name for case in cases for name in case.query_names], names, counted, groups),
        variants=[],
        notes=tuple(dict.fromkeys(notes)),
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
    given: GivenWhitening | None,
    kept: list[Whitening],
    notes: list[str],
) -> Iterator[_Described]:
    """The descriptors as they are, then whitened on the map, on the other set, and as given, in each size.

    kept: takes those that were fitted here.
    """
    yield base
    sources: list[tuple[str, Vectors]] = []
    if options.whiten and options.whiten_on_map:
        maps = base.places
        sources.append((MAP, maps[0] if len(maps) == 1 else np.concatenate(maps)))
    if options.whiten and options.whiten_on_other and other is not None and base.other is not None:
        sources.append((other.name, base.other))
    for name, vectors in sources:
        # all axes of long descriptors, as NetVLAD's, would take gigabytes
        most = max(options.whiten) if vectors.shape[1] > LONG else None
        whitening = Whitening.fit(vectors, name, most=most, device=resolve_device(options.device))
        kept.append(whitening)
        if whitening.images + whitening.left_out < len(vectors):
            notes.append(f"whitening on {name}: fitted on {MOST_IMAGES:,} of its {len(vectors):,} images")
        # one size at a time: all of them at once would take several times the memory of the map
        for dims in _sizes_within(whitening, options, notes):
            yield _whitened(base, whitening, dims, name)
    if given is not None:
        notes.append(f"whitening {given.file} was not fitted here: by its own record on {given.fitted_on}")
        rank = given.whitening.rank
        notes += [
            f"not whitened with {given.file.name} to {dims} dims: it has {rank}"
            for dims in sorted(options.whiten)
            if dims > rank
        ]
        there = replace(given.whitening, device=resolve_device(options.device))
        for dims in given.sizes(options.whiten):
            yield _whitened(base, there, dims, given.fitted_on, given.file.name)


def _whitened(
    base: _Described, whitening: Whitening, dims: int, on: str, with_file: str | None = None
) -> _Described:
    return _Described(
        dims,
        on,
        [whitening(x, dims) for x in base.queries],
        [whitening(x, dims) for x in base.places],
        None if base.other is None else whitening(base.other, dims),
        with_file,
    )


def _sizes_within(whitening: Whitening, options: EvaluationOptions, notes: list[str]) -> list[int]:
    """The sizes that the whitening can give; a note on the others."""
    asked = options.whiten
    sizes = [dims for dims in asked if dims <= whitening.rank]
    if len(sizes) < len(asked) and options.whiten_to_span:
        notes.append(
            f"whitened on {whitening.fitted_on} to at most {whitening.rank} dims: its images span no more"
        )
        return list(dict.fromkeys([*sizes, whitening.rank]))
    if not sizes:
        raise InputError(
            f"whitening on {whitening.fitted_on}: {whitening.images} images span {whitening.rank} dims, "
            f"too few for {min(asked)}; ask for less"
        )
    notes += [
        f"not whitened on {whitening.fitted_on} to {dims} dims: its images span only {whitening.rank}"
        for dims in sorted(set(asked) - set(sizes))
    ]
    return sizes


def _measure(
    kind: _Described,
    protocol: Protocol,
    cases: Sequence[Case],
    labels: Sequence[PairLabels | None],
    margin: float,
    options: EvaluationOptions,
    calibrate: Calibrate | None,
    without: list[Exclusion] | None,
    done: Evaluated,
) -> None:
    found = _search_all(kind, cases, _listed(protocol), options.device)
    columns = _columns(protocol, cases, found, labels)
    queries, name = done.evaluation.queries, _name(kind)
    curves = threshold_curves(cases, found, labels)
    isotonic = None if calibrate is None or kind.other is None else calibrate(kind.other)
    if isotonic is not None:
        done.calibrations[name] = isotonic
    overlap_of = None if kind.whitened_on is not None else lambda d: predicted_overlap(d, margin)
    curves |= calibration_curves(found, labels, overlap_of, isotonic)
    best_guess = isotonic or overlap_of
    if best_guess is not None:
        columns["predicted"] = best_guess(columns["distance"])
    if without is not None:
        asked = (columns, queries.counted, options.precision, options.device)
        curves |= acceptance_at(kind.queries, kind.places, without, *asked)
    if protocol.all_pairs:
        curves["pairs"] = _pair_curves(kind, cases, name, done)
    _add(_variant(kind, columns, curves), found, protocol, options, done)


def _measure_reranked(
    kind: _Described,
    protocol: Protocol,
    cases: Sequence[Case],
    labels: Sequence[PairLabels | None],
    options: EvaluationOptions,
    reranking: Reranking,
    done: Evaluated,
    tell: Progress,
) -> None:
    """The same lists in another order. What rests on distances, calibration and acceptance, is left out."""
    found = [
        rerank(
            one,
            case.queries,
            case.places,
            reranking.reranker,
            reranking.top,
            store=reranking.store,
            name=case.name,
            progress=tell,
        ).first(_listed(protocol))
        for case, one in zip(
            cases,
            _search_all(kind, cases, max(_listed(protocol), reranking.top), options.device),
            strict=True,
        )
    ]
    columns = _columns(protocol, cases, found, labels)
    columns["score"] = np.concatenate([one.scores[:, 0] for one in found])
    curves = threshold_curves(cases, found, labels)
    variant = replace(_variant(kind, columns, curves), reranked_by=reranking.reranker.name)
    _add(variant, found, protocol, options, done)


def _add(
    variant: Variant,
    found: Sequence[Found],
    protocol: Protocol,
    options: EvaluationOptions,
    done: Evaluated,
) -> None:
    """A variant whose columns are there, with the metrics that follow from them."""
    queries = done.evaluation.queries
    by_query = per_query.scores(variant.outcomes, queries.counted, protocol.ks, protocol.limits)
    groups = {"case": queries.cases, **queries.groups}
    done.found[variant.name] = list(found)
    done.evaluation.variants.append(
        replace(
            variant,
            metrics=per_query.summary(by_query, options.seed),
            by=per_query.broken_down(by_query, groups, options.seed),
        )
    )


def _columns(
    protocol: Protocol,
    cases: Sequence[Case],
    found: Sequence[Found],
    labels: Sequence[PairLabels | None],
) -> per_query.Columns:
    return per_query.joined(
        [
            per_query.outcomes(case, one, protocol.ks, truth, protocol.truth == "pose")
            for case, one, truth in zip(cases, found, labels, strict=True)
        ]
    )


def _listed(protocol: Protocol) -> int:
    """Length of the lists."""
    return max(*protocol.ks, CURVE_K, per_query.NDCG_AT)


def _variant(kind: _Described, columns: per_query.Columns, curves: Mapping[str, Any]) -> Variant:
    """Its metrics follow."""
    return Variant(kind.dims, kind.whitened_on, {}, {}, columns, curves, whitened_with=kind.whitened_with)


def _name(kind: _Described) -> str:
    return _variant(kind, {}, {}).name


def _all_surroundings(
    protocol: Protocol, cases: Sequence[Case], labels: Sequence[PairLabels | None]
) -> list[Exclusion] | None:
    """Of each case what shows its queries' places; the same for every descriptor. None where one is not known."""
    if protocol.truth != "positives":
        return None
    found = [surroundings(case, truth) for case, truth in zip(cases, labels, strict=True)]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _search_all(kind: _Described, cases: Sequence[Case], k: int, device: str) -> list[Found]:
    return [
        _padded(search(q, p, min(k, len(p)), excluded=case.excluded, device=device), k)
        for case, q, p in zip(cases, kind.queries, kind.places, strict=True)
    ]


def _padded(found: Found, k: int) -> Found:
    """(q, k) whatever the size of the map: -1 where it has no more images."""
    lacking = k - found.rows.shape[1]
    if lacking <= 0:
        return found
    width = ((0, 0), (0, lacking))
    return Found(
        np.pad(found.rows, width, constant_values=-1), np.pad(found.distances, width, constant_values=np.inf)
    )


def _calibrator(
    other: Other | None,
    cases: Sequence[Case],
    labels: Sequence[PairLabels | None],
    device: str,
    notes: list[str],
) -> Calibrate | None:
    """Learns from the other set's descriptors which distance means which overlap, by the truth of these labels."""
    rule = next((truth.meta for truth in labels if truth is not None), {})
    told = next((case.pair_overlap for case in cases if case.pair_overlap is not None), None)
    by = told if told is not None or "theta" not in rule else sectors_of(rule)
    if other is None or by is None:
        return None
    if not np.isfinite(other.places.positions).all():
        notes.append(f"no calibration on {other.name}: some of its positions or headings are not known")
        return None
    return lambda vectors: isotonic_from(vectors, other.places, other.name, by, device)


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
