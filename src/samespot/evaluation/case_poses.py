"""Poses of a case's queries, solved from the photos that were retrieved for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.poses import POSE_LIMITS, ROOM
from samespot.evaluation.protocol import Protocol
from samespot.poses.options import SolveOptions
from samespot.progress import Progress

if TYPE_CHECKING:  # results are read without torch
    from samespot.poses.estimating import Posing

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CasePosed:
    """The poses of one case; NaN where there is none, and why."""

    centres: Floats  # (q, 3)
    quaternions: Floats  # (q, 4) camera to world
    reasons: list[str | None]


@dataclass(frozen=True, eq=False)
class CasePoses:
    """How poses are solved for, case by case."""

    options: SolveOptions
    net: Any
    device: Any

    @property
    def name(self) -> str:
        way = self.options.pose_matcher if self.options.poses == "local" else str(self.options.poses)
        return f"{way} of {self.options.pose_from}"

    def __call__(self, case: Case, lists: NDArray[np.int64], progress: Progress) -> CasePosed:
        """lists: (q, k) rows of the case's map."""
        from samespot.poses.estimating import pose_all

        return CasePosed(*pose_all(self._posing(case), lists, self.options.pose_from, progress))

    def _posing(self, case: Case) -> Posing:
        from samespot.poses.estimating import DensePoses, LocalPoses

        asked = self.options
        if asked.poses != "local":
            views = asked.poses == "dense-views"
            return DensePoses(case.queries, case.places, self.net, views=views, device=self.device)
        from samespot.matching.verification import verifier_named

        verifier = verifier_named(asked.pose_matcher, asked.pose_keypoints, self.device)
        return LocalPoses(case.queries, case.places, verifier)


def with_limits(protocol: Protocol, cases: Sequence[Case]) -> Protocol:
    """The same, by which poses are measured, too; an error where neither queries nor a server could tell."""
    if protocol.limits:
        return protocol
    if not all(case.queries.has_pose and case.places.has_pose for case in cases):
        raise InputError(
            f"protocol {protocol.name}: `poses` needs 6DOF poses of the map and the queries"
            " (columns tx ty tz qw qx qy qz)"
        )
    return replace(protocol, limits=(ROOM, *POSE_LIMITS))
