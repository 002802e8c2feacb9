"""How far to trust an answer: from the evidence for it to the probability that it is right.

A model with few numbers, so that some hundred questions are enough to fit it: the log odds are a sum of one rising
curve for each kind of evidence, piecewise linear and never falling, pulled towards zero. Better evidence therefore
never makes an answer less likely. Answers that were verified and answers that were not have a model each.

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
from samespot.statistics.acceptance import acceptance_curve
from samespot.statistics.intervals import wilson
from samespot.statistics.reliability import reliability

FORMAT = 1
PRIOR_OUTSIDE = 0.5
PRECISION = 0.95  # of the answers that are given
LEAST = 15  # right and wrong answers: with fewer, nothing can be fitted
FOLDS = 5
_RIDGE = 1.0  # how much a curve is pulled towards zero, in questions
_SURE = 40.0  # log odds beyond this are not told apart
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class CannotCalibrateError(InputError):
    """Too few questions, or too few right or wrong answers among them, to learn a probability from."""


@dataclass(frozen=True)
class Curves:
    """Log odds of being right as `start` plus a rising curve of each of some numbers."""

    columns: tuple[int, ...]  # of the evidence
    knots: tuple[Floats, ...]  # of each column, ascending, of the number as it is looked at (`goodness`)
    slopes: tuple[Floats, ...]  # of each column, between its knots, none below 0
    start: float

    def __call__(self, good: Floats) -> Floats:
        total = np.full(len(good), self.start)
        for column, knots, slopes in zip(self.columns, self.knots, self.slopes, strict=True):
            total += _ramps(good[:, column], knots) @ slopes
        return total


@dataclass(frozen=True)
class Trust:
    """The probability that an answer is right, from the evidence for it."""

    curves: Mapping[str, Curves]  # "verified" and "unverified"
    outside: float  # share of the questions whose photo was not in the map
    wrong_outside: float  # share of the wrong answers that were given to such questions
    questions: int
    right: int
    source: str = "map"  # or "model": fitted elsewhere
    facts: Mapping[str, Any] = field(
        default_factory=dict
    )  # reliability by cross-validation, and how it was asked

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

        evidence (n, 4); right (n,) whether the answer was; inside (n,) whether the photo was in the map at all.
        groups (n,): questions that are alike (of one photo, of one place) have the same number, and are held out
        together in the cross-validation.
        """
        values, truth, known = _questions(evidence, right, inside)
        among = np.arange(len(values)) if groups is None else np.asarray(groups)
        made = cls._fitted(values, truth, known, source)
        held_out = _held_out(values, truth, known, among)
        said = {**report(held_out, truth, known), **(facts or {})}
        return Trust(made.curves, made.outside, made.wrong_outside, made.questions, made.right, source, said)

    @classmethod
    def _fitted(cls, values: Floats, truth: Bools, known: Bools, source: str) -> Trust:
        rights, wrongs = int(truth.sum()), int((~truth).sum())
        if min(rights, wrongs) < LEAST:
            raise CannotCalibrateError(
                f"{len(truth)} questions with {rights} right and {wrongs} wrong answers: a calibration needs"
                f" {LEAST} of each"
            )
        good = goodness(values)
        curves = {"unverified": _fit_curves(good, truth, (0, 1, 2))}
        verified = ~np.isnan(values[:, 3])
        if min(truth[verified].sum(), (~truth[verified]).sum()) >= LEAST:
            curves["verified"] = _fit_curves(good[verified], truth[verified], (0, 1, 2, 3))
        strangers = int((~known).sum())
        return cls(curves, strangers / len(truth), strangers / wrongs, len(truth), rights, source)

    def probability(self, evidence: ArrayLike, prior_outside: float = PRIOR_OUTSIDE) -> Floats:
        """(n,) that the answers with this evidence (n, 4) are right, when so many photos are not in the map."""
        values = np.asarray(evidence, dtype=np.float64).reshape(-1, len(EVIDENCE))
        if not 0 <= prior_outside <= 1:
            raise InputError(f"a share of {prior_outside:g} photos outside the map is none; give 0 to 1")
        good, odds = goodness(values), np.empty(len(values))
        verified = ~np.isnan(values[:, 3]) & ("verified" in self.curves)
        for name, rows in (("verified", verified), ("unverified", ~verified)):
            if rows.any():
                odds[rows] = self.curves[name](good[rows])
        odds[~np.isfinite(values[:, 0])] = -_SURE  # nothing was found
        return 1.0 / (1.0 + np.exp(-np.clip(odds + self._moved(prior_outside), -_SURE, _SURE)))

    def _moved(self, prior_outside: float) -> float:
        """By how much another share of photos outside moves the log odds."""
        if prior_outside == 1 or self.outside == 1:
            return -np.inf
        there = (1 - prior_outside) / (1 - self.outside)
        gone = prior_outside / self.outside if self.outside > 0 else 0.0
        wrong = there * (1 - self.wrong_outside) + gone * self.wrong_outside
        return float(np.log(there / wrong)) if wrong > 0 else np.inf

    def to_dict(self) -> dict[str, Any]:
        """Plain json."""
        curves = {
            name: {
                "columns": [EVIDENCE[column] for column in one.columns],
                "knots": [knots.tolist() for knots in one.knots],
                "slopes": [slopes.tolist() for slopes in one.slopes],
                "start": one.start,
            }
            for name, one in self.curves.items()
        }
        return {
            "format": FORMAT,
            "source": self.source,
            "questions": self.questions,
            "right": self.right,
            "outside": self.outside,
            "wrong_outside": self.wrong_outside,
            "curves": curves,
            "facts": dict(self.facts),
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Trust:
        """What `to_dict` gave, also after a way through json."""
        try:
            if said["format"] != FORMAT:
                raise InputError(f"a calibration of format {said['format']}; this version reads {FORMAT}")
            curves = {str(name): _read_curves(one) for name, one in said["curves"].items()}
            return cls(
                curves,
                float(said["outside"]),
                float(said["wrong_outside"]),
                int(said["questions"]),
                int(said["right"]),
                str(said["source"]),
                dict(said["facts"]),
            )
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a calibration ({error}); build the map again") from None


def goodness(values: Floats) -> Floats:
    """(n, 4) evidence -> numbers of which more is better, and whose differences mean about the same everywhere."""
    distance, ratio, spread, inliers = values.T
    return np.stack(
        [
            -np.minimum(distance, 2.0),
            -np.log(np.clip(ratio, 1e-2, 1e2)),
            -np.log1p(np.minimum(spread, 1e7)),
            np.log1p(inliers),
        ],
        axis=1,
    )


def report(
    probabilities: Floats, right: Bools, inside: Bools, precision: float = PRECISION
) -> dict[str, Any]:
    """What comes of these probabilities on questions with known answers; None for what does not exist.

    "coverage": share of the photos in the map that are answered, and rightly, where answers are given from the
    probability "accept" on, the lowest with this precision.
    """
    curve = acceptance_curve(1 - probabilities[inside], right[inside], 1 - probabilities[~inside])
    at = curve.threshold_for(precision)
    found: dict[str, Any] = {
        "precision asked": precision,
        "accept": 1 - at.distance if at.reached else None,
        "precision": at.precision if at.reached else None,
        "precision interval": [at.interval.low, at.interval.high] if at.reached else None,
        "coverage": at.recall if at.reached else 0.0,
        "ece": reliability(probabilities, right).ece,
        "auroc": auroc(probabilities, right),
        "right of those inside": wilson(int(right[inside].sum()), int(inside.sum())).value,
    }
    return found


def auroc(scores: Floats, right: Bools) -> float:
    """Chance that a right answer has a higher score than a wrong one; equal ones count half."""
    from scipy.stats import rankdata

    hits, misses = int(right.sum()), int((~right).sum())
    if not hits or not misses:
        return float("nan")
    return float((rankdata(scores)[right].sum() - hits * (hits + 1) / 2) / (hits * misses))


def _questions(evidence: ArrayLike, right: ArrayLike, inside: ArrayLike) -> tuple[Floats, Bools, Bools]:
    values = np.asarray(evidence, dtype=np.float64)
    truth, known = np.asarray(right, dtype=bool), np.asarray(inside, dtype=bool)
    if values.ndim != 2 or values.shape[1] != len(EVIDENCE) or not len(values) == len(truth) == len(known):
        raise InputError(
            f"evidence {values.shape} for {len(truth)} answers: give {', '.join(EVIDENCE)} of each"
        )
    if (truth & ~known).any():
        raise InputError("an answer to a photo that is not in the map cannot be right")
    answered = np.isfinite(values[:, 0])  # nothing found needs no model
    return values[answered], truth[answered], known[answered]


def _held_out(values: Floats, truth: Bools, known: Bools, groups: NDArray[Any]) -> Floats:
    """(n,) the probability that each question is given by a model of the others' groups."""
    names, number = np.unique(groups, return_inverse=True)
    fold = np.random.default_rng(0).permutation(len(names))[number] % FOLDS
    found = np.full(len(values), truth.mean())
    for one in range(FOLDS):
        rest = fold != one
        try:
            model = Trust._fitted(values[rest], truth[rest], known[rest], "map")
        except CannotCalibrateError:
            continue
        found[~rest] = model.probability(values[~rest], float((~known).mean()))
    return found


def _ramps(values: Floats, knots: Floats) -> Floats:
    """(n, k - 1) how far each value has come between one knot and the next, in [0, 1]."""
    return np.clip((values[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)


def _fit_curves(good: Floats, truth: Bools, columns: tuple[int, ...]) -> Curves:
    from scipy.optimize import minimize

    knots = tuple(_knots(good[:, column]) for column in columns)
    ramps = np.hstack([_ramps(good[:, column], at) for column, at in zip(columns, knots, strict=True)])
    design = np.hstack([np.ones((len(ramps), 1)), ramps])
    sign = np.where(truth, 1.0, -1.0)

    def loss(weights: Floats) -> tuple[float, Floats]:
        odds = sign * (design @ weights)
        rest = weights[1:]
        slope = -(sign / (1.0 + np.exp(np.clip(odds, -_SURE, _SURE)))) @ design
        slope[1:] += _RIDGE * rest
        return float(np.logaddexp(0.0, -odds).sum() + 0.5 * _RIDGE * rest @ rest), slope

    free = [(None, None)] + [(0.0, None)] * ramps.shape[1]
    found = minimize(loss, np.zeros(design.shape[1]), jac=True, bounds=free, method="L-BFGS-B").x
    ends = np.cumsum([len(at) - 1 for at in knots])[:-1]
    return Curves(columns, knots, tuple(np.split(found[1:], ends)), float(found[0]))


def _knots(values: Floats) -> Floats:
    """Where a curve may bend: at some quantiles of the values."""
    at = np.unique(np.quantile(values, [0.02, 0.25, 0.5, 0.75, 0.98]))
    return at if len(at) > 1 else np.array([at[0], at[0] + 1.0])


def _read_curves(said: Mapping[str, Any]) -> Curves:
    columns = tuple(EVIDENCE.index(name) for name in said["columns"])
    knots = tuple(np.array(one, dtype=np.float64) for one in said["knots"])
    slopes = tuple(np.array(one, dtype=np.float64) for one in said["slopes"])
    if not len(columns) == len(knots) == len(slopes) or any(
        len(at) != len(rise) + 1 or (np.diff(at) <= 0).any() or (rise < 0).any()
        for at, rise in zip(knots, slopes, strict=False)
    ):
        raise ValueError("its curves do not rise")
    return Curves(columns, knots, slopes, float(said["start"]))
