"""What speaks for an answer: a few numbers, of which the trust in it is made."""

from __future__ import annotations

from dataclasses import dataclass

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
    distances: ArrayLike, positions: ArrayLike, inliers: ArrayLike | None = None, near: float = NEAR
) -> tuple[NDArray[np.int64], Floats]:
    """The order of k candidates, the best first, and the evidence (5,) for the first (see `EVIDENCE`).

    distances (k,) of descriptors; positions (k, 2) [m]; inliers (k,) of each candidate, NaN where it was
    not verified, or None where none was. Give more candidates than are verified: the first that lies elsewhere
    should be among them; without one, the last stands for it. near: [m] what is no farther apart is one place.

    Verified candidates come first. A place that several photos agree on is better than one that a single photo
    speaks for: a candidate counts its own inliers, and what the others near it have beyond chance.
    """
    listed = _Listed.of(distances, positions, inliers, near)
    if not len(listed.apart):
        return np.zeros(0, dtype=np.int64), np.array(NOTHING)
    order = listed.order()
    return order, listed.evidence(int(order[0]))


def places_among(
    distances: ArrayLike, positions: ArrayLike, inliers: ArrayLike | None = None, near: float = NEAR
) -> tuple[NDArray[np.int64], Floats]:
    """The different places among k candidates: (p,) the first candidate of each, and the evidence (p, 5) for each.

    The first is the answer of `evidence_of`; for the others it is what that would say if they were. Where some of the
    candidates were verified, the others are no places: nothing speaks for them.
    """
    listed, firsts = _Listed.of(distances, positions, inliers, near), list[int]()
    verified = ~np.isnan(listed.counts)
    for one in listed.order():
        known = verified[one] or not verified.any()
        if known and all(np.linalg.norm(listed.at[one] - listed.at[other]) > near for other in firsts):
            firsts.append(int(one))
    evidence = np.array([listed.evidence(one) for one in firsts]).reshape(-1, len(EVIDENCE))
    return np.array(firsts, dtype=np.int64), evidence


@dataclass(frozen=True)
class _Listed:
    """k candidates, in any order."""

    apart: Floats  # (k,) distances of the descriptors
    at: Floats  # (k, 2) [m]
    counts: Floats  # (k,) inliers; NaN: not verified
    votes: Floats  # (k,) with those of the candidates near each
    near: float

    @classmethod
    def of(
        cls, distances: ArrayLike, positions: ArrayLike, inliers: ArrayLike | None, near: float
    ) -> _Listed:
        apart = np.asarray(distances, dtype=np.float64)
        at = np.asarray(positions, dtype=np.float64).reshape(-1, 2)
        counts = np.full(len(apart), np.nan) if inliers is None else np.asarray(inliers, dtype=np.float64)
        return cls(apart, at, counts, _votes(at, counts, near), near)

    def order(self) -> NDArray[np.int64]:
        # photos of one place have about the same votes; of them the one with most inliers of its own comes first
        votes, own = (-np.nan_to_num(one, nan=-1.0) for one in (self.votes, self.counts))
        return np.lexsort((self.apart, own, votes))

    def evidence(self, one: int) -> Floats:
        """(5,) that this candidate is right."""
        beyond = np.linalg.norm(self.at - self.at[one], axis=1) > self.near
        elsewhere = float(self.apart[beyond].min() if beyond.any() else self.apart.max())
        chance = max(BY_CHANCE, float(np.nan_to_num(self.counts[beyond]).max(initial=0.0)))
        contrast = (self.votes[one] + 1.0) / (chance + 1.0)
        ratio = self.apart[one] / max(elsewhere, 1e-6)
        return np.array([self.apart[one], ratio, _spread(self.apart, self.at), self.votes[one], contrast])


def _votes(at: Floats, counts: Floats, near: float) -> Floats:
    """(k,) inliers of the verified candidates near each; NaN of those that were not verified."""
    near_each = np.linalg.norm(at[:, None] - at[None], axis=2) <= near
    np.fill_diagonal(near_each, False)
    votes: Floats = counts + near_each @ np.maximum(np.nan_to_num(counts) - BY_CHANCE, 0.0)
    return votes  # NaN stays so


def _spread(apart: Floats, at: Floats) -> float:
    """[m] how far the first candidates lie from their middle, nearer descriptors weighing more."""
    nearest = np.argsort(apart, kind="stable")[:SPREAD_OF]
    first, where = apart[nearest], at[nearest]
    weights = np.exp(-(first - first[0]) / max(float(first.std()), 1e-9))
    weights /= weights.sum()
    middle = weights @ where
    return float(np.sqrt(weights @ ((where - middle) ** 2).sum(axis=1)))
