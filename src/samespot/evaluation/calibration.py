"""Does the predicted overlap come true? Reliability of 1 − d/τ, and an isotonic curve from distance to overlap.

Every figure here is about a population of pairs, and says little about another one. `calibration_pairs` are the
pairs that users see: what a search returned. `sample_pairs` are pairs at random, of which nearly all share nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samespot.errors import InputError
from samespot.statistics.reliability import shares_in

if TYPE_CHECKING:
    from samespot.overlap.labels import PairLabels
    from samespot.retrieval.search import Found

Floats = NDArray[np.float64]

FORMAT = 1
BLOCK_PAIRS = 65_536  # pairs whose descriptors are held at once


def predicted_overlap(distances: ArrayLike, margin: float) -> Floats:
    """ψ̂ = 1 − d/τ in [0, 1], where training with margin τ lets a pair of overlap ψ rest; 0 at d = inf.

    Means something only for descriptors as the network gives them. Whitening changes their distances: use an
    `IsotonicCalibration` fitted on whitened ones.
    """
    if not margin > 0:
        raise InputError(f"margin {margin:g} is not positive; give the margin the network was trained with")
    return np.clip(1.0 - np.asarray(distances, dtype=np.float64) / margin, 0.0, 1.0)


def calibration_pairs(found: Found, labels: PairLabels, k: int | None = None) -> tuple[Floats, Floats]:
    """Distances and true overlaps of the retrieved pairs, query after query: the pairs that users see.

    With `k` only the best k of each query, as a service that shows k matches has them. Places where nothing was
    left to retrieve are dropped. A figure made of these pairs is about answers, not about pairs in general.
    """
    if len(found.rows) != labels.shape[0]:
        raise InputError(
            f"{len(found.rows)} searched queries, labels for {labels.shape[0]}; label the same table of queries"
        )
    rows, distances = found.rows[:, :k], np.asarray(found.distances[:, :k], dtype=np.float64)
    if rows.size and rows.max() >= labels.shape[1]:
        raise InputError(
            f"map row {rows.max()} was retrieved, the labels are for {labels.shape[1]} map images; label this map"
        )
    queries, ranks = np.nonzero(rows >= 0)
    overlaps = labels.lookup(queries, rows[queries, ranks])
    return distances[queries, ranks], overlaps.astype(np.float64)


def sample_pairs(
    queries: NDArray[Any], places: NDArray[Any], labels: PairLabels, n: int, seed: int = 0
) -> tuple[Floats, Floats]:
    """Distances and true overlaps of n pairs at random of all queries (q, d) × map images (m, d).

    Nearly all of them share nothing, as nearly all pairs do: a figure made of them says whether the network keeps
    strangers apart, and hardly anything about its answers. Drawn with repetition; of fewer than n pairs, all are
    taken once. Left out: all-zero descriptors (unreadable images), and an image with itself.
    """
    if (len(queries), len(places)) != labels.shape:
        raise InputError(
            f"{len(queries)} × {len(places)} descriptors, labels for {labels.shape[0]} × {labels.shape[1]} images; "
            "label the tables that were described"
        )
    rows, columns = _drawn(len(queries), len(places), n, np.random.default_rng(seed))
    if labels.meta.get("same_table"):
        rows, columns = rows[rows != columns], columns[rows != columns]
    distances = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK_PAIRS):
        part = slice(start, start + BLOCK_PAIRS)
        distances[part] = _distances(queries[rows[part]], places[columns[part]])
    good = ~np.isnan(distances)
    overlaps = labels.lookup(rows[good], columns[good]).astype(np.float64)
    return distances[good], overlaps


def _drawn(
    queries: int, places: int, n: int, dice: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of n pairs, in order, so that descriptor files are read from front to back."""
    total = queries * places
    drawn = np.arange(total) if n >= total else np.sort(dice.integers(0, total, n))
    return drawn // max(places, 1), drawn % max(places, 1)


def _distances(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """(n,) Euclidean; NaN where either descriptor is all zero."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    apart: Floats = np.linalg.norm(x - y, axis=1)
    apart[~(x.any(axis=1) & y.any(axis=1))] = np.nan
    return apart


@dataclass(frozen=True)
class IsotonicCalibration:
    """Overlap as a falling function of distance, linear between knots and flat beyond them.

    It holds for the descriptors it was fitted on (this model, this whitening, these dims) and for pairs drawn
    alike: fitted on retrieved pairs of training places, it predicts for retrieved pairs.
    """

    distances: Floats  # (knots,) ascending
    overlaps: Floats  # (knots,) falling, in [0, 1]
    fitted_on: str
    pairs: int

    @classmethod
    def fit(cls, distances: ArrayLike, overlaps: ArrayLike, fitted_on: str) -> IsotonicCalibration:
        """The falling curve closest to pairs' true overlaps (n,) in squared error; `fitted_on` says which pairs."""
        from sklearn.isotonic import IsotonicRegression

        d, psi = np.asarray(distances, dtype=np.float64).ravel(), shares_in(overlaps, "true")
        if d.shape != psi.shape:
            raise InputError(f"{len(d)} distances for {len(psi)} true overlaps: give one of each per pair")
        if not len(d) or not np.isfinite(d).all():
            fault = "there are no pairs" if not len(d) else "a distance is not a finite number"
            raise InputError(f"calibration on {fitted_on}: {fault}; give retrieved pairs with known overlap")
        curve = IsotonicRegression(increasing=False, y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(d, psi)
        return cls(
            np.asarray(curve.X_thresholds_, dtype=np.float64),
            np.asarray(curve.y_thresholds_, dtype=np.float64),
            fitted_on,
            len(d),
        )

    def __call__(self, distances: ArrayLike) -> Floats:
        """Overlap that a pair at each distance has on average; 0 at d = inf, where nothing was retrieved."""
        d = np.asarray(distances, dtype=np.float64)
        return np.where(np.isposinf(d), 0.0, np.interp(d, self.distances, self.overlaps))

    def save(self, path: str | Path) -> Path:
        """Write the knots as json, whole or not at all."""
        from samespot.files import write_whole

        path = Path(path)
        facts = {
            "format": FORMAT,
            "kind": "isotonic",
            "fitted_on": self.fitted_on,
            "pairs": self.pairs,
            "distances": self.distances.tolist(),
            "overlaps": self.overlaps.tolist(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(facts) + "\n").encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> IsotonicCalibration:
        """Read what `save` wrote; scikit-learn is not needed to apply it."""
        path = Path(path)
        try:
            facts = json.loads(path.read_text())
            knots = [np.array(facts[name], dtype=np.float64) for name in ("distances", "overlaps")]
            curve = cls(knots[0], knots[1], str(facts["fitted_on"]), int(facts["pairs"]))
            fault = curve._fault()
        except FileNotFoundError:
            raise InputError(f"{path}: no such calibration file; check the path") from None
        except (OSError, ValueError, LookupError, TypeError) as error:
            fault = str(error).splitlines()[0]
        if fault is not None:
            raise InputError(f"{path}: not a calibration ({fault}); fit and save it again")
        return curve

    def _fault(self) -> str | None:
        """What is wrong with these knots, if anything."""
        d, psi = self.distances, self.overlaps
        if d.ndim != 1 or d.shape != psi.shape or not len(d):
            return "distances and overlaps are not lists of one length"
        if not np.isfinite(d).all() or not (np.diff(d) > 0).all():
            return "distances do not ascend"
        if not ((psi >= 0) & (psi <= 1)).all() or not (np.diff(psi) <= 0).all():
            return "overlaps do not fall from 1 at most to 0 at least"
        return None
