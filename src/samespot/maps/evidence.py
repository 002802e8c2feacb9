"""What speaks for an answer: four numbers, of which the trust in it is made."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
# smaller distance, ratio and spread speak for an answer, and so do more inliers; NaN inliers: it was not verified
EVIDENCE = ("distance", "ratio", "spread", "inliers")
SPREAD_OF = 10  # candidates whose positions are compared
NEAR = 25.0  # [m] candidates so near each other are of one place, and their inliers count together
BY_CHANCE = 12.0  # inliers that photos of different places have; only what is above speaks for a place


def evidence_of(
    distances: ArrayLike,
    positions: ArrayLike,
    inliers: ArrayLike | None = None,
    near: float = NEAR,
) -> tuple[NDArray[np.int64], Floats]:
    """The order of k candidates, the best first, and the evidence (4,) for the first.

    distances (k,) of descriptors, ascending; positions (k, 2) [m]; inliers (k,) of each candidate, NaN where it was
    not verified, or None where none was. Give more candidates than are verified: the first that lies elsewhere
    should be among them; without one, the last stands for it. near: [m] what is no farther apart is one place.

    Verified candidates come first. A place that several photos agree on is better than one that a single photo
    speaks for: a candidate counts its own inliers, and what the others near it have beyond chance.
    """
    apart, at = np.asarray(distances, dtype=np.float64), np.asarray(positions, dtype=np.float64)
    if not len(apart):
        return np.zeros(0, dtype=np.int64), np.array([np.inf, 1.0, np.inf, np.nan])
    counts = np.full(len(apart), np.nan) if inliers is None else np.asarray(inliers, dtype=np.float64)
    votes = _votes(at, counts, near)
    order = np.lexsort((apart, -np.nan_to_num(votes, nan=-1.0)))
    first = order[0]
    ratio = _ratio(apart, at, first, near)
    return order, np.array([apart[first], ratio, _spread(apart, at), votes[first]])


def _ratio(apart: Floats, at: Floats, first: int, near: float) -> float:
    """How much nearer a candidate is than the nearest one of another place."""
    beyond = apart[np.linalg.norm(at - at[first], axis=1) > near]
    return float(apart[first] / max(beyond[0] if len(beyond) else apart[-1], 1e-6))


def _votes(at: Floats, counts: Floats, near: float) -> Floats:
    """(k,) inliers of the verified candidates near each; NaN of those that were not verified."""
    near_each = np.linalg.norm(at[:, None] - at[None], axis=2) <= near
    np.fill_diagonal(near_each, False)
    votes: Floats = counts + near_each @ np.maximum(np.nan_to_num(counts) - BY_CHANCE, 0.0)
    return votes  # NaN stays so


def _spread(apart: Floats, at: Floats) -> float:
    """[m] how far the first candidates lie from their middle, nearer descriptors weighing more."""
    first, where = apart[:SPREAD_OF], at[:SPREAD_OF]
    weights = np.exp(-(first - first[0]) / max(float(first.std()), 1e-9))
    weights /= weights.sum()
    middle = weights @ where
    return float(np.sqrt(weights @ ((where - middle) ** 2).sum(axis=1)))


def places_among(
    distances: ArrayLike, positions: ArrayLike, inliers: ArrayLike | None, near: float = NEAR
) -> tuple[NDArray[np.int64], Floats]:
    """The different places among k candidates, (p,) the first candidate of each, and the evidence (p, 4) for each.

    What `evidence_of` would say if that place were the answer; its own answer is the first.
    """
    apart, at = np.asarray(distances, dtype=np.float64), np.asarray(positions, dtype=np.float64)
    order, _ = evidence_of(apart, at, inliers, near=near)
    counts = np.full(len(apart), np.nan) if inliers is None else np.asarray(inliers, dtype=np.float64)
    firsts: list[int] = []
    for one in order:
        if all(np.linalg.norm(at[one] - at[other]) > near for other in firsts):
            firsts.append(int(one))
    votes, spread = _votes(at, counts, near), _spread(apart, at) if len(apart) else 0.0
    evidence = [[apart[one], _ratio(apart, at, one, near), spread, votes[one]] for one in firsts]
    return np.array(firsts, dtype=np.int64), np.array(evidence, dtype=np.float64).reshape(-1, len(EVIDENCE))
