"""Options of poses in an evaluation. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samespot.matching.options import Matcher
from samespot.options import Options, ineffective, option

PANEL = "Poses"
Way = Literal["local", "dense", "dense-views"]


@dataclass(frozen=True)
class SolveOptions(Options):
    """How the pose of a query is found from the photos that were retrieved for it."""

    poses: Way | None = option(
        None,
        "Also solve for the poses of the queries, from the matches of local features, or of the network's own feature"
        " maps as InLoc does (dense); dense-views: of several poses, the one whose view looks most like the photo.",
        panel=PANEL,
    )
    pose_from: int = option(
        10, "Photos of the map that a pose is solved from.", least=1, most=100, panel=PANEL
    )
    pose_matcher: Matcher = option("xfeat", "Local features.", panel=PANEL)
    pose_keypoints: int = option(
        2048, "Local features of a photo, at most.", least=16, most=8192, panel=PANEL
    )
    pose_of: str | None = option(
        None,
        "Which descriptor's matches to solve from, by its name in the tables.",
        default="as the network gives it",
        panel=PANEL,
    )

    def refuse_ineffective(self, typed: set[str]) -> None:
        super().refuse_ineffective(typed)
        if self.poses is None:
            ineffective(typed, ("pose_from", "pose_matcher", "pose_keypoints", "pose_of"), "without `poses`")
        elif self.poses != "local":
            ineffective(typed, ("pose_matcher", "pose_keypoints"), f"with `poses={self.poses}`")
