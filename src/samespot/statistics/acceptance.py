"""When to say "not in the map": which distance of the best match is still to be believed.

Precision here depends on how many of the queries are absent from the map: measure it with about the share of them
that the service will meet. A threshold chosen on some queries should be checked on others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.statistics.intervals import Interval, wilson

MOST_PRECISE = 0.99  # beyond, as many answers are asked for as here: "always" can never be told
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Threshold:
    """A distance up to which best matches are accepted, and what comes of it.

    Where no threshold reaches the precision asked for, `reached` is False, `distance` is -inf (nothing is accepted),
    precision is NaN, and `best` says how far one could get.
    """

    asked: float  # precision
    reached: bool
    distance: float
    precision: float
    recall: float
    false_accepts: float
    interval: Interval  # of the precision, 95 % by Wilson
    best: float  # highest precision of any threshold

    def __str__(self) -> str:
        if not self.reached:
            best = "nothing can be accepted" if np.isnan(self.best) else f"the best is {self.best:.1%}"
            return f"no threshold reaches a precision of {self.asked:.1%}; {best}"
        absent = "" if np.isnan(self.false_accepts) else f", {self.false_accepts:.1%} of absent ones accepted"
        return (
            f"accept up to {self.distance:.4f}: precision {self.precision:.1%} "
            f"[{self.interval.low:.1%}, {self.interval.high:.1%}], recall {self.recall:.1%}{absent}"
        )

    def to_dict(self) -> dict[str, Any]:
        """For json: None for what does not exist."""
        numbers = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "interval"}
        numbers["low"], numbers["high"] = self.interval.low, self.interval.high
        numbers["accepted"] = self.interval.n
        return {name: value if np.isfinite(value) else None for name, value in numbers.items()}


@dataclass(frozen=True)
class AcceptanceCurve:
    """What accepting up to each distance would bring. One entry for each distance that occurs, ascending."""

    thresholds: Floats  # (t,)
    right: Counts  # (t,) accepted queries whose best match is right
    wrong: Counts  # (t,) accepted queries that are in the map, but elsewhere
    strangers: Counts  # (t,) accepted queries that are not in the map
    present: int  # queries in the map
    absent: int  # queries not in the map
    auroc: (
        float  # chance that a query in the map has a closer best match than an absent one; NaN without either
    )

    @property
    def accepted(self) -> Counts:
        return self.right + self.wrong + self.strangers

    @property
    def precision(self) -> Floats:
        """(t,) share of the accepted that are right; each threshold accepts at least one."""
        return self.right / self.accepted

    @property
    def recall(self) -> Floats:
        """(t,) share of the queries in the map that are accepted and right."""
        return self.right / self.present if self.present else np.full(len(self.right), np.nan)

    @property
    def false_accepts(self) -> Floats:
        """(t,) share of the absent queries that are accepted."""
        return self.strangers / self.absent if self.absent else np.full(len(self.right), np.nan)

    def thinned(self, most: int) -> AcceptanceCurve:
        """The same curve with at most so many thresholds, evenly among the queries; for figures and files."""
        if len(self.thresholds) <= most:
            return self
        some = np.unique(np.linspace(0, len(self.thresholds) - 1, most).round().astype(np.int64))
        kept = {name: getattr(self, name)[some] for name in ("thresholds", "right", "wrong", "strangers")}
        return replace(self, **kept)

    def to_dict(self) -> dict[str, Any]:
        """For json: counts, from which `from_dict` makes the curve again, and the shares for readers of the file."""
        counts = {
            name: getattr(self, name).tolist() for name in ("thresholds", "right", "wrong", "strangers")
        }
        shares = {
            name: _without_nan(getattr(self, name)) for name in ("precision", "recall", "false_accepts")
        }
        numbers = {"present": self.present, "absent": self.absent, "auroc": _without_nan([self.auroc])[0]}
        return {**counts, **shares, **numbers}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> AcceptanceCurve:
        counts = {name: np.array(facts[name], dtype=np.int64) for name in ("right", "wrong", "strangers")}
        auroc = float("nan") if facts["auroc"] is None else float(facts["auroc"])
        thresholds = np.array(facts["thresholds"], dtype=np.float64)
        return cls(
            thresholds, **counts, present=int(facts["present"]), absent=int(facts["absent"]), auroc=auroc
        )

    def threshold_for(self, precision: float = 0.95) -> Threshold:
        """The largest threshold whose precision is at least that; see `Threshold` where there is none."""
        if not 0 < precision <= 1:
            raise InputError(f"precision {precision:g} is not in (0, 1]; 0.95 accepts one wrong answer in 20")
        enough = np.flatnonzero(self.precision >= precision)
        best = float(self.precision.max()) if len(self.thresholds) else float("nan")
        if not len(enough):
            nothing = Interval(float("nan"), float("nan"), float("nan"), 0)
            return Threshold(precision, False, -np.inf, float("nan"), 0.0, 0.0, nothing, best)
        return self._at(int(enough[-1]), precision, best)

    def _at(self, i: int, asked: float, best: float) -> Threshold:
        return Threshold(
            asked=asked,
            reached=True,
            distance=float(self.thresholds[i]),
            precision=float(self.precision[i]),
            recall=float(self.recall[i]),
            false_accepts=float(self.false_accepts[i]),
            interval=wilson(int(self.right[i]), int(self.accepted[i])),
            best=best,
        )


def _without_nan(values: Iterable[float]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def least_answers(precision: float) -> int:
    """How many answers a threshold must rest on before such a precision can be told: with fewer, a single wrong
    one would have broken it."""
    return math.ceil(1 / (1 - min(precision, MOST_PRECISE)) - 1e-9)


def promised(at: Mapping[str, Any]) -> bool:
    """Whether a threshold, as `threshold_for` gives it, rests on enough answers to be named."""
    return at.get("distance") is not None and bool(at["accepted"] >= least_answers(at["asked"]))


def promise_in_words(at: Mapping[str, Any]) -> str:
    """The accepted distance with its interval and the number of answers behind it; none where these are too few."""
    asked = f"to be right {100 * at['asked']:g} % of the time, "
    if at.get("distance") is None:
        best = "" if at.get("best") is None else f"; the best is {_percent(at['best'])} %"
        return f"{asked}no threshold on the distance is enough{best}"
    if not promised(at):
        answers = "1 answer" if at["accepted"] == 1 else f"{at['accepted']} answers"
        least = least_answers(at["asked"])
        return f"{asked}no threshold can be named: the best rests on {answers}, and {least} are needed"
    words = (
        f"{asked}accept d ≤ {at['distance']:.3f}: {_percent(at['precision'])} % of {at['accepted']:,} answers were"
        f" right (95 % interval {_percent(at['low'])}–{_percent(at['high'])} %), {_percent(at['recall'])} % of the"
        " queries in the map are answered correctly"
    )
    if at.get("false_accepts") is not None:
        words += f", {_percent(at['false_accepts'])} % of those not in the map are accepted"
    return words


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def acceptance_curve(
    distance: ArrayLike, right: ArrayLike, absent_distance: ArrayLike = ()
) -> AcceptanceCurve:
    """Accept a query iff the distance of its best match is at most a threshold, for every threshold there is.

    distance, right: (q,) of the queries that are in the map: distance of the best match, and whether it is right.
    absent_distance: (a,) the same distance of queries that are not in the map; accepting one is always wrong.
    Queries at one distance are accepted together. A distance of inf (nothing was retrieved) is never accepted.
    """
    here, ok = _distances(distance, "distance"), np.asarray(right, dtype=bool).ravel()
    gone = _distances(absent_distance, "absent_distance")
    if here.shape != ok.shape:
        raise InputError(f"{len(here)} distances of best matches, {len(ok)} answers whether they are right")
    every = np.unique(np.concatenate([here, gone]))
    thresholds = every[np.isfinite(every)]
    return AcceptanceCurve(
        thresholds=thresholds,
        right=_up_to(thresholds, here[ok]),
        wrong=_up_to(thresholds, here[~ok]),
        strangers=_up_to(thresholds, gone),
        present=len(here),
        absent=len(gone),
        auroc=_auroc(here, gone),
    )


def _distances(values: ArrayLike, name: str) -> Floats:
    distances = np.asarray(values, dtype=np.float64).ravel()
    bad = ~(distances >= 0)
    if bad.any():
        query = int(np.argmax(bad))
        raise InputError(f"{name} of query {query} is {distances[query]:g}; distances are 0 or more")
    return distances


def _up_to(thresholds: Floats, distances: Floats) -> Counts:
    """(t,) how many distances are at most each threshold."""
    return np.searchsorted(np.sort(distances), thresholds, side="right").astype(np.int64)


def _auroc(here: Floats, gone: Floats) -> float:
    """Share of the pairs (present, absent) in which the present one is closer; equals count half."""
    if not len(here) or not len(gone):
        return float("nan")
    ordered = np.sort(gone)
    not_closer = np.searchsorted(ordered, here, side="right")  # absent ones at most as far
    closer = np.searchsorted(ordered, here, side="left")  # absent ones that are closer
    beaten = 2 * len(gone) * len(here) - int(not_closer.sum()) - int(closer.sum())
    return beaten / (2 * len(gone) * len(here))
