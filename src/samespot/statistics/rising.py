"""The chance of something, from a few numbers of which more is better: log odds that never fall.

The log odds are a sum of one rising curve for each number, piecewise linear, pulled towards flat. Few numbers are
fitted, so some hundred examples are enough, and better evidence never makes a thing less likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

RIDGE = 1.0  # how much a curve is pulled towards flat, in examples
SURE = 40.0  # log odds beyond this are not told apart
BENDS = (0.02, 0.25, 0.5, 0.75, 0.98)  # quantiles of a number at which its curve may bend
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rising:
    """Log odds: `start` plus a rising curve of each of some numbers."""

    knots: tuple[Floats, ...]  # of each number, ascending
    slopes: tuple[Floats, ...]  # of each, how far it rises between one knot and the next; none below 0
    start: float

    def __post_init__(self) -> None:
        if len(self.knots) != len(self.slopes):
            raise ValueError("not as many slopes as curves")
        for at, rise in zip(self.knots, self.slopes, strict=True):
            if len(at) != len(rise) + 1 or not (np.diff(at) > 0).all() or not (rise >= 0).all():
                raise ValueError("its curves do not rise")

    def __call__(self, numbers: ArrayLike) -> Floats:
        """(n,) of numbers (n, c)."""
        given = np.asarray(numbers, dtype=np.float64)
        total = np.full(len(given), self.start)
        for column, knots, slopes in zip(given.T, self.knots, self.slopes, strict=True):
            total += _ramps(column, knots) @ slopes
        return total

    @classmethod
    def fit(cls, numbers: Floats, truth: Bools) -> Rising:
        """The most likely curves, from examples (n, c) and what came of them."""
        from scipy.optimize import minimize

        knots = tuple(_knots(column) for column in numbers.T)
        ramps = [_ramps(column, at) for column, at in zip(numbers.T, knots, strict=True)]
        design = np.hstack([np.ones((len(numbers), 1)), *ramps])
        sign = np.where(truth, 1.0, -1.0)

        def loss(weights: Floats) -> tuple[float, Floats]:
            odds, rest = sign * (design @ weights), weights[1:]
            slope = -(sign * probability(-odds)) @ design
            slope[1:] += RIDGE * rest
            return float(np.logaddexp(0.0, -odds).sum() + 0.5 * RIDGE * rest @ rest), slope

        free = [(None, None)] + [(0.0, None)] * (design.shape[1] - 1)
        found = minimize(loss, np.zeros(design.shape[1]), jac=True, bounds=free, method="L-BFGS-B").x
        ends = np.cumsum([len(at) - 1 for at in knots])[:-1]
        return cls(knots, tuple(np.split(found[1:], ends)), float(found[0]))

    def to_dict(self) -> dict[str, Any]:
        return {
            "knots": [knots.tolist() for knots in self.knots],
            "slopes": [slopes.tolist() for slopes in self.slopes],
            "start": self.start,
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Rising:
        knots, slopes = (
            tuple(np.array(one, dtype=np.float64) for one in said[name]) for name in ("knots", "slopes")
        )
        return cls(knots, slopes, float(said["start"]))


def probability(odds: Any) -> Any:
    """Of log odds."""
    return 1.0 / (1.0 + np.exp(-np.clip(odds, -SURE, SURE)))


def _ramps(values: Floats, knots: Floats) -> Floats:
    """(n, k - 1) how far each value has come between one knot and the next, in [0, 1]."""
    ramps: Floats = np.clip((values[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
    return ramps


def _knots(values: Floats) -> Floats:
    at: Floats = np.unique(np.quantile(values, BENDS))
    return at if len(at) > 1 else np.array([at[0], at[0] + 1.0])
