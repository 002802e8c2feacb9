"""What speaks for an answer: a few numbers, of which the trust in it is made."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
# distance: of the descriptors. ratio: to the distance of the first candidate elsewhere. spread: of the candidates [m].
# inliers: matches that the photos of the answer's place explain. contrast: how many times as many as photos elsewhere.
# Smaller distance, ratio and spread speak for an answer, and so do more inliers and contrast. NaN: it was not verified.
EVIDENCE = ("distance", "ratio", "spread", "inliers", "contrast")
NOTHING = (np.inf, np.inf, np.inf, np.nan, np.nan)  # the evidence where nothing was found
SPREAD_OF = 10  # candidates whose positions are compared
NEAR = 25.0  # [m] candidates so near each other are of one place, and their inliers count together
BY_CHANCE = 12.0  # inliers that photos of different places have; only what is above speaks for a place


def evidence_of(
    distances: ArrayLike,
    positions: ArrayLike,
    inliers: ArrayLike | None = None,
    elsewhere: float | None = None,
    near: float = NEAR,
) -> tuple[NDArray[np.int64], Floats]:
    """The order of k candidates, the best first, and the evidence (5,) for the first (see `EVIDENCE`).

    distances (k,) of descriptors, ascending; positions (k, 2) [m]; inliers (k,) of each candidate, NaN where it was
    not verified, or None where none was. Give more candidates than are verified: the first that lies elsewhere
    should be among them. elsewhere: its distance, where that is known better; without either, that of the last.
    near: [m] what is no farther apart is one place.

    Verified candidates come first. A place that several photos agree on is better than one that a single photo
    speaks for: a candidate counts its own inliers, and what the others near it have beyond chance.
    """
    apart, at = np.asarray(distances, dtype=np.float64), np.asarray(positions, dtype=np.float64)
    if not len(apart):
        return np.zeros(0, dtype=np.int64), np.array(NOTHING)
    counts = np.full(len(apart), np.nan) if inliers is None else np.asarray(inliers, dtype=np.float64)
    votes = _votes(at, counts, near)
    order = np.lexsort((apart, -np.nan_to_num(votes, nan=-1.0)))
    first = order[0]
    beyond = np.linalg.norm(at - at[first], axis=1) > near
    if elsewhere is None:
        elsewhere = float(apart[beyond][0] if beyond.any() else apart[-1])
    ratio = apart[first] / max(elsewhere, 1e-6)
    chance = max(BY_CHANCE, float(np.nan_to_num(counts[beyond]).max(initial=0.0)))
    contrast = (votes[first] + 1.0) / (chance + 1.0)
    return order, np.array([apart[first], ratio, _spread(apart, at), votes[first], contrast])


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
