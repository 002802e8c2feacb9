"""Photos of a map that may show the same place as another: found by descriptors, verified by local features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samespot.maps.estimate import position_of
from samespot.maps.evidence import EVIDENCE, evidence_of
from samespot.matching.keypoints import Keypoints
from samespot.places.table import Places

if TYPE_CHECKING:  # a map is opened without torch
    from samespot.matching.verification import Agreement, Verifier

LISTED = 100  # candidates that are looked at, so that the first of another place is among them
VERIFIED = 20  # of them that are compared by local features
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class Held(Protocol):
    """What is asked: a generation of a map, or whatever has these of it."""

    @property
    def places(self) -> Places: ...

    @property
    def vectors(self) -> NDArray[Any]:
        """(n, dims) unit rows; all zero where there is none."""

    def keypoints(self, row: int) -> Keypoints | None: ...


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best first, and the evidence that it is right."""

    rows: Rows  # (k,) in the map's table
    at: Floats  # (k, 2) [m]
    distances: Floats  # (k,) of the descriptors
    agreements: tuple[Agreement | None, ...]  # (k) by local features; None: not compared
    evidence: Floats  # (5,) for the first

    @property
    def inliers(self) -> Floats:
        """(k,) matches of local features that one geometry explains; NaN: not compared."""
        return np.array([np.nan if one is None else one.inliers for one in self.agreements], dtype=np.float64)

    def in_order(self, order: Rows) -> Candidates:
        agreements = tuple(self.agreements[at] for at in order)
        return Candidates(self.rows[order], self.at[order], self.distances[order], agreements, self.evidence)

    def position(self, near: float) -> Floats:
        """(2,) [m] where the photo was taken, if the first is right."""
        return position_of(self.at, self.inliers, near)


NOTHING = Candidates(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros(0), (), np.zeros(len(EVIDENCE)))


def candidates_of(
    held: Held,
    positions: Floats,
    rows: Rows,
    distances: Floats,
    keypoints: Keypoints | None,
    verifier: Verifier | None,
    near: float,
    verified: int = VERIFIED,
) -> Candidates:
    """Photos of the map (k,), nearest descriptors first, in the order of all that speaks for them.

    positions: (n, 2) [m] of all photos of the map. keypoints: of the photo that is asked about. near: [m] photos no
    farther apart are of one place.
    """
    agreements: list[Agreement | None] = [None] * len(rows)
    if keypoints is not None and verifier is not None:
        kept = {place: held.keypoints(int(row)) for place, row in enumerate(rows[:verified])}
        there = {place: one for place, one in kept.items() if one is not None}
        for place, agreement in zip(there, verifier.verify(keypoints, list(there.values())), strict=True):
            agreements[place] = agreement
    at = positions[rows]
    found = Candidates(rows, at, distances, tuple(agreements), np.zeros(0))
    order, evidence = evidence_of(distances, at, found.inliers, near=near)
    return replace(found.in_order(order), evidence=evidence)
