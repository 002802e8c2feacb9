"""How far to trust an answer: from the evidence for it to the probability that it is right.

The log odds are a sum of rising curves of the evidence (`samespot.statistics.rising`): better evidence never makes an
answer less likely. Answers that were verified and answers that were not have a model each.

The questions that it is fitted on contain some share of photos that are not in the map. Asked with another share,
the odds are moved as Bayes says: the answers to photos outside are all wrong, and there are more or fewer of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.maps.evidence import EVIDENCE
from samespot.statistics.intervals import wilson
from samespot.statistics.reliability import reliability
from samespot.statistics.rising import Rising
from samespot.statistics.rising import probability as probability_of

FORMAT = 1
PRIOR_OUTSIDE = 0.5
PRECISION = 0.95  # of the answers that are given
LEAST = 20  # right answers and wrong ones: with fewer, nothing can be fitted
FOLDS = 5
KEPT = 100  # log odds of each kind of questions
COUNTS = ("right", "wrong", "strangers")
# What the curves look at. How far descriptors are apart, and how many inliers photos have by chance, changes with the
# light; what changes less is how an answer compares with what lies elsewhere.
LOOKED_AT = {"verified": ("ratio", "spread", "contrast"), "unverified": ("ratio", "spread")}
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class CannotCalibrateError(InputError):
    """Too few questions, or too few right or wrong answers among them, to learn a probability from."""


@dataclass(frozen=True)
class Curves:
    """Log odds of being right, by rising curves of some of the evidence (`goodness`)."""

    columns: tuple[str, ...]  # of the evidence
    rising: Rising

    def __call__(self, evidence: Floats) -> Floats:
        return self.rising(_looked_at(evidence, self.columns))


@dataclass(frozen=True)
class Kind:
    """The model of one kind of answers, verified or not, and the questions that it comes from."""

    curves: Curves
    right: int  # right answers among the questions
    wrong: int  # wrong ones to photos that are in the map
    strangers: int  # those to photos that are not
    odds: tuple[
        Floats, Floats, Floats
    ]  # log odds of each, by models that did not see them; of many a hundred, evenly
    reliability: Mapping[str, Any]  # of the same (`report`)

    @property
    def inside(self) -> int:
        return self.right + self.wrong

    @property
    def questions(self) -> int:
        return self.inside + self.strangers

    @property
    def outside(self) -> float:
        """Share of the questions whose photo is not in the map."""
        return self.strangers / self.questions

    def moved(self, prior_outside: float) -> float:
        """By how much another share of photos outside moves the log odds.

        Of right answers and of wrong ones to photos inside there are `there` times as many then, of the others
        `gone` times.
        """
        there = (1 - prior_outside) / (1 - self.outside)
        gone = prior_outside / self.outside if self.strangers else 0.0
        wrong = there * self.wrong + gone * self.strangers
        if there == 0:
            return -np.inf
        return float(np.log(there * (self.wrong + self.strangers) / wrong)) if wrong else np.inf

    def threshold(self, precision: float, prior_outside: float) -> float | None:
        """The lowest probability from which on answers are right so often; None where none are so sure.

        Where precision falls short above it by more than chance, and only comes back by luck, it is not taken.
        """
        there = 1 - prior_outside
        at = np.unique(np.concatenate(self.odds))
        shares = (  # of each that are accepted from there on
            1 - np.searchsorted(part, at) / max(len(part), 1) for part in self.odds
        )
        hits, misses, strange = shares
        good = there * hits * self.right / self.inside
        given = good + there * misses * self.wrong / self.inside + prior_outside * strange
        count = hits * self.right + misses * self.wrong + strange * self.strangers
        slack = np.sqrt(precision * (1 - precision) / np.maximum(count, 1))  # what chance alone takes away
        holds = (count < LEAST) | (good >= (precision - slack) * given)
        above = np.logical_and.accumulate(holds[::-1])[::-1]
        enough = np.flatnonzero(above & (count >= LEAST) & (good >= precision * given))
        if not len(enough):
            return None
        return float(probability_of(at[enough[0]] + self.moved(prior_outside)))


@dataclass(frozen=True)
class Trust:
    """The probability that an answer is right, from the evidence for it."""

    kinds: Mapping[str, Kind]  # "verified" where answers were, and "unverified"
    source: str = "map"  # or "model": learned elsewhere
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was asked

    @classmethod
    def fit(
        cls,
        evidence: ArrayLike,
        right: ArrayLike,
        inside: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        source: str = "map",
        facts: Mapping[str, Any] | None = None,
    ) -> Trust:
        """From questions whose answer is known.

        evidence (n, 5) of answers that were verified and of others; right (n,) whether they were; inside (n,) whether
        the photo was in the map at all. groups (n,): questions that are alike (of one photo, of one place) have the
        same number, and are held out together in the cross-validation.
        """
        values, truth, known = _questions(evidence, right, inside)
        among = np.arange(len(values)) if groups is None else np.unique(groups, return_inverse=True)[1]
        verified = _verified(values)
        kinds, faults = {}, []
        for name, rows in (("verified", verified), ("unverified", ~verified)):
            rows = rows & np.isfinite(values[:, 0])  # where nothing was found, there is nothing to learn
            try:
                kinds[name] = _fit_kind(name, values[rows], truth[rows], known[rows], among[rows])
            except CannotCalibrateError as error:
                faults += [error] if rows.any() else []
        if not kinds:
            raise faults[0] if faults else CannotCalibrateError("no question was answered")
        return cls(kinds, source, facts or {})

    def probability(self, evidence: ArrayLike, prior_outside: float = PRIOR_OUTSIDE) -> Floats:
        """(n,) that the answers with this evidence (n, 5) are right, when so many photos are not in the map."""
        values = np.asarray(evidence, dtype=np.float64).reshape(-1, len(EVIDENCE))
        _refuse_no_share(prior_outside)
        odds, verified = np.empty(len(values)), _verified(values)
        for rows, is_verified in ((verified, True), (~verified, False)):
            if rows.any():
                kind = self._kind(is_verified)
                odds[rows] = kind.curves(values[rows]) + kind.moved(prior_outside)
        odds[~np.isfinite(values[:, 0])] = -np.inf  # nothing was found
        found: Floats = probability_of(odds)
        return found

    def threshold(
        self, precision: float = PRECISION, prior_outside: float = PRIOR_OUTSIDE, *, verified: bool = True
    ) -> float | None:
        """Answers of this probability and more are right so often, by the cross-validation; None: none is so sure."""
        _refuse_no_share(prior_outside)
        return self._kind(verified).threshold(precision, prior_outside)

    def _kind(self, verified: bool) -> Kind:
        """Of answers that were verified or not; verified ones have what the other kind looks at, too."""
        name = "verified" if verified and "verified" in self.kinds else "unverified"
        if name not in self.kinds:
            raise InputError(
                "this calibration is of verified answers alone; keep the local features in the map"
            )
        return self.kinds[name]

    def reliability(self) -> dict[str, dict[str, Any]]:
        """Of each kind of answers, by cross-validation, with as many photos outside as were asked (`report`)."""
        return {name: dict(kind.reliability) for name, kind in self.kinds.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain json."""
        return {
            "format": FORMAT,
            "source": self.source,
            "facts": dict(self.facts),
            "kinds": {name: _kind_facts(kind) for name, kind in self.kinds.items()},
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Trust:
        """What `to_dict` gave, also after a way through json."""
        try:
            if said["format"] != FORMAT:
                raise InputError(f"a calibration of format {said['format']}; this version reads {FORMAT}")
            kinds = {str(name): _read_kind(one) for name, one in said["kinds"].items()}
            return cls(kinds, str(said["source"]), dict(said["facts"]))
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a calibration ({error}); build the map again") from None


def goodness(evidence: Floats, column: str) -> Floats:
    """(n,) a column of the evidence as a number of which more is better, and equal steps mean about the same."""
    values = evidence[:, EVIDENCE.index(column)]
    if column == "distance":
        return -np.minimum(values, 2.0)
    if column == "ratio":
        return -np.log(np.clip(values, 1e-2, 1e2))
    if column == "spread":
        return -np.log1p(np.minimum(values, 1e7))
    return np.log1p(values) if column == "inliers" else np.log(np.maximum(values, 1e-3))


def report(
    probabilities: ArrayLike, right: ArrayLike, inside: ArrayLike, precision: float = PRECISION
) -> dict[str, Any]:
    """What comes of probabilities (n,) of answers of which is known whether they are right; None: does not exist.

    "accept" is the lowest probability from which on answers have this precision, "coverage" the share of the photos
    in the map that are answered from there on, and rightly.
    """
    p, truth, known = np.asarray(probabilities), np.asarray(right, bool), np.asarray(inside, bool)
    order = np.argsort(-p, kind="stable")
    last = np.append(np.diff(p[order]) != 0, True)  # of equal ones all are accepted, or none
    hits = np.cumsum(truth[order])
    reached = np.flatnonzero(last & (hits >= precision * np.arange(1, len(p) + 1)))
    count = int(reached[-1]) + 1 if len(reached) else 0
    good = int(hits[count - 1]) if count else 0
    met = wilson(good, count)
    return {
        "questions": len(p),
        "inside": int(known.sum()),
        "right": int(truth.sum()),
        "precision asked": precision,
        "accept": float(p[order[count - 1]]) if count else None,
        "accepted": count,
        "precision": met.value if count else None,
        "precision interval": [met.low, met.high] if count else None,
        "coverage": good / max(int(known.sum()), 1),
        "ece": reliability(p, truth.astype(float)).ece,
        "auroc": auroc(p, truth),
    }


def auroc(scores: ArrayLike, right: ArrayLike) -> float | None:
    """Chance that a right answer has a higher score than a wrong one; equal ones count half."""
    from scipy.stats import rankdata

    truth = np.asarray(right, dtype=bool)
    hits, misses = int(truth.sum()), int((~truth).sum())
    if not hits or not misses:
        return None
    return float((rankdata(scores)[truth].sum() - hits * (hits + 1) / 2) / (hits * misses))


def _refuse_no_share(prior_outside: float) -> None:
    if not 0 <= prior_outside <= 1:
        raise InputError(f"a share of {prior_outside:g} photos outside the map is none; give 0 to 1")


def _verified(values: Floats) -> Bools:
    verified: Bools = ~np.isnan(values[:, EVIDENCE.index("contrast")])
    return verified


def _questions(evidence: ArrayLike, right: ArrayLike, inside: ArrayLike) -> tuple[Floats, Bools, Bools]:
    values = np.asarray(evidence, dtype=np.float64)
    truth, known = np.asarray(right, dtype=bool), np.asarray(inside, dtype=bool)
    if values.ndim != 2 or values.shape[1] != len(EVIDENCE) or not len(values) == len(truth) == len(known):
        raise InputError(
            f"evidence {values.shape} for {len(truth)} answers: give {', '.join(EVIDENCE)} of each"
        )
    if (truth & ~known).any():
        raise InputError("an answer to a photo that is not in the map cannot be right")
    return values, truth, known


def _fit_kind(name: str, values: Floats, truth: Bools, known: Bools, groups: NDArray[np.int64]) -> Kind:
    columns = LOOKED_AT[name]
    curves, held_out = _fit_curves(values, truth, columns), _held_out(values, truth, columns, groups)
    parts = [held_out[part] for part in (truth, known & ~truth, ~known)]
    said = report(probability_of(held_out), truth, known)
    right, wrong, strangers = (len(part) for part in parts)
    return Kind(curves, right, wrong, strangers, (_drawn(parts[0]), _drawn(parts[1]), _drawn(parts[2])), said)


def _drawn(odds: Floats) -> Floats:
    """In order, and of many a hundred that stand for all."""
    if len(odds) <= KEPT:
        return np.sort(odds)
    return np.quantile(odds, (np.arange(KEPT) + 0.5) / KEPT)


def _held_out(values: Floats, truth: Bools, columns: tuple[str, ...], groups: NDArray[np.int64]) -> Floats:
    """(n,) log odds that each question is given by a model of other groups."""
    fold = np.random.default_rng(0).permutation(int(groups.max()) + 1)[groups] % FOLDS
    found = np.empty(len(values))
    for one in np.unique(fold):
        rest = fold != one
        found[~rest] = _fit_curves(values[rest], truth[rest], columns, least=1)(values[~rest])
    return found


def _fit_curves(values: Floats, truth: Bools, columns: tuple[str, ...], least: int = LEAST) -> Curves:
    """The most likely curves that never fall, with a pull towards flat ones."""
    rights, wrongs = int(truth.sum()), int((~truth).sum())
    if min(rights, wrongs) < least:
        raise CannotCalibrateError(
            f"{len(truth)} questions had {rights} right and {wrongs} wrong answers, and a calibration needs {least}"
            " of each"
        )
    return Curves(columns, Rising.fit(_looked_at(values, columns), truth))


def _looked_at(evidence: Floats, columns: tuple[str, ...]) -> Floats:
    """(n, c)"""
    return np.stack([goodness(evidence, column) for column in columns], axis=1)


def _kind_facts(kind: Kind) -> dict[str, Any]:
    curves = kind.curves
    return {
        "columns": list(curves.columns),
        **curves.rising.to_dict(),
        **{name: getattr(kind, name) for name in COUNTS},
        "odds": [np.round(part, 3).tolist() for part in kind.odds],
        "reliability": dict(kind.reliability),
    }


def _read_kind(said: Mapping[str, Any]) -> Kind:
    columns, rising = tuple(str(name) for name in said["columns"]), Rising.from_dict(said)
    if len(columns) != len(rising.knots) or not set(columns) <= set(EVIDENCE):
        raise ValueError("its curves are not of the evidence")
    right, wrong, strangers = (int(said[name]) for name in COUNTS)
    first, second, third = (np.sort(np.array(part, dtype=np.float64)) for part in said["odds"])
    curves = Curves(columns, rising)
    return Kind(curves, right, wrong, strangers, (first, second, third), dict(said["reliability"]))
