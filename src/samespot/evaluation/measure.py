"""From cases and vectors to measurements: whiten, search, measure; every kind of descriptor in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from samespot.errors import InputError
from samespot.evaluation import outcomes as per_query
from samespot.evaluation.calibration import IsotonicCalibration, predicted_overlap
from samespot.evaluation.case_poses import CasePosed, CasePoses
from samespot.evaluation.cases import Case
from samespot.evaluation.pair_curve import PairCurve, descriptor_blocks, pair_curve
from samespot.evaluation.protocol import Protocol
from samespot.evaluation.results import QueryList, Variant
from samespot.evaluation.threshold_curves import CURVE_K, threshold_curves
from samespot.evaluation.trust import acceptance_at, calibration_curves, isotonic_from, surroundings
from samespot.evaluation.variants import Described, Kinds, Other, Vectors
from samespot.matching.reranker import Reranking, rerank
from samespot.overlap.labels import PairLabels
from samespot.progress import Progress
from samespot.retrieval.exclusion import Exclusion
from samespot.retrieval.search import Found, Searching, search
from samespot.whitening.whitening import Whitening

Calibrate = Callable[[Vectors], IsotonicCalibration | None]


@dataclass
class Measured:
    """What came out of each kind of descriptor, and the lists that it rests on, by descriptor and case."""

    labels: list[PairLabels | None]  # the graded truth of each case
    variants: list[Variant] = field(default_factory=list)
    found: dict[str, list[Found]] = field(default_factory=dict)
    whitenings: list[Whitening] = field(default_factory=list)
    calibrations: dict[str, IsotonicCalibration] = field(default_factory=dict)
    pair_curves: dict[str, dict[str, PairCurve]] = field(default_factory=dict)
    poses: dict[str, list[CasePosed]] = field(default_factory=dict)  # by descriptor and case
    notes: list[str] = field(default_factory=list)


def measure(
    protocol: Protocol,
    cases: Sequence[Case],
    kinds: Kinds,
    *,
    margin: float,
    calibrate: bool = True,
    reranking: Reranking | None = None,
    posing: CasePoses | None = None,
    searching: Searching | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Measure every kind of descriptor by a protocol's cases; the lists of one of them also re-ranked, and poses solved
    from those of one.

    margin: of the loss, which turns distances into overlaps. calibrate: learn on the other set which distance means
    which overlap. searching: what takes the place of `search`.
    """
    tell = progress or (lambda what, done, total: None)
    labels = [case.overlap(tell) for case in cases]
    names = kinds.names()
    again = None if reranking is None else reranked_name(reranking, names)
    posed = None if posing is None else descriptor_named(posing.options.pose_of, names, "solve poses from")
    done = Measured(labels)
    look = searching or partial(search, device=kinds.device)
    bench = _Bench(protocol, cases, labels, kinds, margin, done, look)
    if calibrate:
        bench.calibrate = _calibrator(kinds.other, cases, look, done.notes)
    if kinds.options.acceptance:
        bench.without = _all_surroundings(protocol, cases, labels)
    for number, kind in enumerate(kinds):
        tell("evaluating", number, len(names))
        bench.measure(kind)
        if reranking is not None and kind.name == again:
            bench.measure_reranked(kind, reranking, tell)
        if posing is not None and kind.name == posed:
            bench.measure_posed(kind, posing, tell)
    tell("evaluating", len(names), len(names))
    if reranking is not None and all(variant.reranked_by is None for variant in done.variants):
        done.notes.append(f"not re-ranked: there is no descriptor {reranking.of}")
    done.whitenings = kinds.fitted
    done.notes += [*kinds.notes, *(reranking.notes if reranking is not None else ())]
    return done


def reranked_name(reranking: Reranking, names: Sequence[str]) -> str:
    """The descriptor whose lists are re-ranked."""
    return descriptor_named(reranking.of, names, "re-rank")


def descriptor_named(asked: str | None, names: Sequence[str], purpose: str) -> str:
    """A descriptor by its name, or by its title as tables show it; by default the first."""
    short = None if asked is None else asked.replace(" dims,", "").removesuffix(" as described")
    if short not in (None, *names):
        raise InputError(f"no descriptor {asked!r} to {purpose}; this evaluation has {', '.join(names)}")
    return short or names[0]


def query_list(cases: Sequence[Case]) -> QueryList:
    """The queries of all cases, one below the other."""
    columns = list(dict.fromkeys(name for case in cases for name in case.groups))
    groups = {
        name: np.concatenate([case.groups.get(name, np.full(case.query_count, "")) for case in cases])
        for name in columns
    }
    names = np.concatenate([np.full(case.query_count, case.name) for case in cases])
    counted = np.concatenate([case.counted for case in cases])
    return QueryList([name for case in cases for name in case.query_names], names, counted, groups)


@dataclass
class _Bench:
    """What is the same for every kind of descriptor."""

    protocol: Protocol
    cases: Sequence[Case]
    labels: Sequence[PairLabels | None]
    kinds: Kinds
    margin: float
    done: Measured
    searching: Searching
    calibrate: Calibrate | None = None
    without: list[Exclusion] | None = None  # what shows the place of each query

    def __post_init__(self) -> None:
        self.queries = query_list(self.cases)
        # length of the lists
        self.k = max(*self.protocol.ks, CURVE_K, per_query.NDCG_AT)

    def measure(self, kind: Described) -> None:
        found = self._search(kind, self.k)
        columns = self._columns(found)
        curves = threshold_curves(self.cases, found, self.labels)
        isotonic = None if self.calibrate is None or kind.other is None else self.calibrate(kind.other)
        if isotonic is not None:
            self.done.calibrations[kind.name] = isotonic
        by_margin = None if kind.whitened_on is not None else lambda d: predicted_overlap(d, self.margin)
        curves |= calibration_curves(found, self.labels, by_margin, isotonic)
        best_guess = isotonic or by_margin
        if best_guess is not None:
            columns["predicted"] = best_guess(columns["distance"])
        if self.without is not None:
            asked = columns, self.queries.counted, self.kinds.options.accept_precision, self.searching
            curves |= acceptance_at(kind.queries, kind.places, self.without, *asked)
        if self.protocol.all_pairs:
            curves["pairs"] = self._pair_curves(kind)
        self._add(kind.variant(columns, curves), found)

    def measure_reranked(self, kind: Described, reranking: Reranking, tell: Progress) -> None:
        """The same lists in another order. What rests on distances, calibration and acceptance, is left out."""
        longer = self._search(kind, max(self.k, reranking.top))
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
            ).first(self.k)
            for case, one in zip(self.cases, longer, strict=True)
        ]
        columns = self._columns(found)
        columns["score"] = np.concatenate([one.scores[:, 0] for one in found])
        curves = threshold_curves(self.cases, found, self.labels)
        variant = replace(kind.variant(columns, curves), reranked_by=reranking.reranker.name)
        self._add(variant, found)

    def measure_posed(self, kind: Described, posing: CasePoses, tell: Progress) -> None:
        """The poses that are solved from the same lists; nothing else."""
        longer = self._search(kind, max(self.k, posing.options.pose_from))
        found = [Found(one.rows[:, : self.k], one.distances[:, : self.k]) for one in longer]
        solved = [posing(case, one.rows, tell) for case, one in zip(self.cases, longer, strict=True)]
        off = [
            per_query.pose_columns(case, one.centres, one.quaternions)
            | per_query.pose_places(case, one.centres, one.quaternions)
            for case, one in zip(self.cases, solved, strict=True)
        ]
        columns = self._columns(found) | per_query.joined(off)
        curves = threshold_curves(self.cases, found, self.labels)
        variant = replace(kind.variant(columns, curves), posed_by=posing.name)
        self._add(variant, found)
        self.done.poses[variant.name] = solved
        lost = Counter(why for one in solved for why in one.reasons if why is not None)
        self.done.notes += [
            f"{variant.name}: {count} queries without a pose: {why}" for why, count in lost.items()
        ][:3]

    def _search(self, kind: Described, k: int) -> list[Found]:
        return [
            _padded(self.searching(q, p, min(k, len(p)), excluded=case.excluded), k)
            for case, q, p in zip(self.cases, kind.queries, kind.places, strict=True)
        ]

    def _columns(self, found: Sequence[Found]) -> per_query.Columns:
        pose = bool(self.protocol.limits)
        return per_query.joined(
            [
                per_query.outcomes(case, one, self.protocol.ks, truth, pose)
                for case, one, truth in zip(self.cases, found, self.labels, strict=True)
            ]
        )

    def _pair_curves(self, kind: Described) -> dict[str, Any]:
        """Precision and recall over all pairs, case by case."""
        curves: dict[str, Any] = {}
        for case, q, p in zip(self.cases, kind.queries, kind.places, strict=True):
            if case.positives is None or not case.counted.any():
                continue
            curve = pair_curve(descriptor_blocks(q, p, case.positives, case.excluded))
            self.done.pair_curves.setdefault(kind.name, {})[case.name] = curve
            thin = curve.thinned(200)
            curves[case.name] = {
                "average precision": curve.average_precision,
                "positives": curve.positives,
                "pairs": curve.pairs,
                "precision": thin.precision,
                "recall": thin.recall,
            }
        return curves

    def _add(self, variant: Variant, found: Sequence[Found]) -> None:
        """A variant whose columns are there, with the metrics that follow from them."""
        protocol, queries, seed = self.protocol, self.queries, self.kinds.options.seed
        by_query = per_query.scores(variant.outcomes, queries.counted, protocol.ks, protocol.limits)
        groups = {"case": queries.cases, **queries.groups}
        self.done.found[variant.name] = list(found)
        self.done.variants.append(
            replace(
                variant,
                metrics=per_query.summary(by_query, seed),
                by=per_query.broken_down(by_query, groups, seed),
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


def _all_surroundings(
    protocol: Protocol, cases: Sequence[Case], labels: Sequence[PairLabels | None]
) -> list[Exclusion] | None:
    """Of each case what shows its queries' places; the same for every descriptor. None where one is not known."""
    if protocol.truth != "positives":
        return None
    found = [surroundings(case, truth) for case, truth in zip(cases, labels, strict=True)]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _calibrator(
    other: Other | None, cases: Sequence[Case], searching: Searching, notes: list[str]
) -> Calibrate | None:
    """Learns from the other set's descriptors which distance means which overlap, by the rule of the graded truth."""
    rule = next((case.rule for case in cases if case.rule is not None), None)
    if other is None or rule is None:
        return None
    for what, unknown in rule.unknown(other.places).items():
        notes.append(f"no calibration on {other.name}: {unknown.sum()} of its images have no {what}")
        return None
    return lambda vectors: isotonic_from(vectors, other.places, other.name, rule, searching)
