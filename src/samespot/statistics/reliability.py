"""Does what was predicted come true? Predicted against true shares, in bins: overlaps, or probabilities of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError

Floats = NDArray[np.float64]
_Z = 1.959963984540054  # half-width of a 95 % interval, in standard errors


@dataclass(frozen=True)
class Reliability:
    """Predicted against true overlap of some pairs, in bins of equal width of the predicted one.

    Empty bins have NaN means. `low` and `high` bound the mean true overlap at 95 %, by Wilson's formula: it is that
    of 0/1 values, which vary the most a value in [0, 1] can, so for graded overlaps it is rather wide. It takes the
    pairs as independent; those of one query are not quite.
    """

    edges: Floats  # (bins + 1,)
    predicted: Floats  # (bins,) mean predicted overlap
    true: Floats  # (bins,) mean true overlap
    low: Floats
    high: Floats
    counts: NDArray[np.int64]  # (bins,) pairs
    ece: float  # expected calibration error: mean |predicted − true| over the bins, each weighing its pairs
    max_error: float  # the largest |predicted − true| of a bin
    bias: float  # mean predicted − mean true; above 0 the network promises too much
    pearson: float  # NaN where either side is constant
    spearman: float

    @property
    def pairs(self) -> int:
        return int(self.counts.sum())

    def to_dict(self) -> dict[str, Any]:
        """For json: lists and numbers, None for NaN."""
        return {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Reliability:
        """What `to_dict` gave, also after a way through json."""
        columns: dict[str, Any] = {
            name: np.array(
                facts[name], dtype=np.int64 if name == "counts" else np.float64
            )  # None becomes NaN
            for name in ("edges", "predicted", "true", "low", "high", "counts")
        }
        numbers: dict[str, Any] = {
            name: np.nan if facts[name] is None else float(facts[name])
            for name in ("ece", "max_error", "bias", "pearson", "spearman")
        }
        return cls(**columns, **numbers)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    return None if isinstance(value, float) and np.isnan(value) else value


def reliability(predicted: ArrayLike, true: ArrayLike, bins: int = 10) -> Reliability:
    """How far the predicted overlap (n,) of pairs is from their true one (n,), both in [0, 1].

    The answer is about the population these pairs come from. Without pairs all means are NaN.
    """
    said, is_so = shares_in(predicted, "predicted"), shares_in(true, "true")
    if said.shape != is_so.shape:
        raise InputError(
            f"{len(said)} predicted overlaps for {len(is_so)} true ones: give one of each per pair"
        )
    edges = np.linspace(0.0, 1.0, bins + 1)
    which = np.clip(np.searchsorted(edges, said, side="right") - 1, 0, bins - 1)
    counts = np.bincount(which, minlength=bins)
    mean_said, mean_true = (_means(which, x, counts) for x in (said, is_so))
    gaps = np.abs(mean_said - mean_true)[counts > 0]
    low, high = _bounds(mean_true, counts)
    empty = not len(said)
    return Reliability(
        edges=edges,
        predicted=mean_said,
        true=mean_true,
        low=low,
        high=high,
        counts=counts,
        ece=np.nan if empty else float(gaps @ counts[counts > 0] / len(said)),
        max_error=np.nan if empty else float(gaps.max()),
        bias=np.nan if empty else float(said.mean() - is_so.mean()),
        pearson=_correlation(said, is_so),
        spearman=_correlation(_ranks(said), _ranks(is_so)),
    )


def shares_in(values: ArrayLike, name: str) -> Floats:
    shares = np.asarray(values, dtype=np.float64).ravel()
    bad = ~((shares >= 0) & (shares <= 1))
    if bad.any():
        pair = int(np.argmax(bad))
        raise InputError(f"{name} overlap of pair {pair} is {shares[pair]:g}; overlaps are in [0, 1]")
    return shares


def _means(which: NDArray[np.int64], values: Floats, counts: NDArray[np.int64]) -> Floats:
    """(bins,) mean of the values in each bin; NaN in empty ones."""
    sums = np.bincount(which, weights=values, minlength=len(counts)).astype(np.float64)
    means: Floats = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


def _bounds(mean: Floats, counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Wilson's 95 % interval of means of values in [0, 1]; NaN for empty bins."""
    n = np.where(counts > 0, counts, np.nan)
    middle = (mean + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * np.sqrt(mean * (1 - mean) / n + _Z**2 / (4 * n**2))
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks: Floats = rankdata(values)  # ties share their mean rank
    return ranks


def _correlation(a: Floats, b: Floats) -> float:
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    x, y = a - a.mean(), b - b.mean()
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))
