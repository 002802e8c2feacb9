"""Every option of re-ranking by local features. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samespot.errors import InputError
from samespot.options import Options, ineffective, option

PANEL = "Re-ranking"
Matcher = Literal["xfeat", "lighterglue", "aliked", "disk"]  # local features, and what matches them
By = Literal["patch-netvlad", "xfeat", "lighterglue", "aliked", "disk"]  # the matchers, and one more
Scoring = Literal["ransac", "rapid"]
TOP = 100  # of each list are compared once more
KEYPOINTS = 512  # kept of a photo, at most: the surest
LEAST = 5  # matches: one more than any homography goes through
CELL = 32  # [pixels] sides are multiples of it: XFeat looks at every pixel, and keypoints are whole ones


@dataclass(frozen=True)
class PatchOptions(Options):
    """Of Patch-NetVLAD."""

    sizes: tuple[int, ...] = option((2, 5, 8), "Sides of the squares in cells of the feature map.")
    weights: tuple[float, ...] = option((0.45, 0.15, 0.4), "How much each size counts.")
    dims: int = option(512, "Numbers kept of each square.", least=1)
    scoring: Scoring = option("ransac", "How matches of squares become a score.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sizes or len(self.sizes) != len(self.weights) or min(self.sizes) < 1:
            raise InputError(
                f"patches of {self.sizes} with weights {self.weights}: give a weight for each size"
            )
        if min(self.weights) < 0 or not sum(self.weights) > 0:
            raise InputError(f"weights {self.weights} of the patches: none may be below 0, and not all be 0")


def parse_patches(words: str) -> tuple[tuple[int, float], ...]:
    """Sizes and weights from "2:0.45,5:0.15,8:0.4", or of equal weight "2,5"."""
    pairs = [word.partition(":") for word in words.split(",")]
    return tuple((int(size), float(weight) if colon else 1 / len(pairs)) for size, colon, weight in pairs)


_PATCHES = tuple(zip(PatchOptions.sizes, PatchOptions.weights, strict=True))
_OF_PATCHES = ("rerank_dims", "rerank_patches", "rerank_scoring")
_OF_MATCHERS = ("rerank_keypoints",)


@dataclass(frozen=True)
class RerankOptions(Options):
    """What to re-rank by, how far down the lists, and the settings of each method."""

    rerank: By | None = option(None, "Also re-rank the matches by local features.", panel=PANEL)
    rerank_top: int = option(TOP, "How many top matches to re-rank.", least=1, panel=PANEL)
    rerank_of: str | None = option(
        None,
        "Which descriptor's matches to re-rank, by its name in the tables.",
        default="as the network gives it",
        panel=PANEL,
    )
    rerank_dims: int = option(
        PatchOptions.dims,
        "Patch-NetVLAD: dims to keep of each patch of the feature map.",
        least=1,
        panel=PANEL,
    )
    rerank_patches: tuple[tuple[int, float], ...] = option(
        _PATCHES,
        "Patch-NetVLAD: sizes of the patches and their weights, such as 2:0.45,5:0.15,8:0.4.",
        parse=parse_patches,
        default=",".join(f"{size}:{weight:g}" for size, weight in _PATCHES),
        panel=PANEL,
    )
    rerank_scoring: Scoring = option(
        PatchOptions.scoring, "Patch-NetVLAD: how matches of patches become a score.", panel=PANEL
    )
    rerank_keypoints: int = option(
        KEYPOINTS, "All but Patch-NetVLAD: keypoints to keep per photo.", least=LEAST, panel=PANEL
    )

    def __post_init__(self) -> None:
        """Whatever can be known to be wrong before a file is read."""
        super().__post_init__()
        self.patch_options()

    def refuse_ineffective(self, typed: set[str]) -> None:
        if self.rerank is None:
            besides = ("rerank_top", "rerank_of", *_OF_PATCHES, *_OF_MATCHERS)
            ineffective(typed, besides, "without `rerank`")
        others = _OF_MATCHERS if self.rerank == "patch-netvlad" else _OF_PATCHES
        ineffective(typed, others, f"with `rerank={self.rerank}`")

    def patch_options(self) -> PatchOptions:
        sizes, weights = zip(*self.rerank_patches, strict=True)
        return PatchOptions(sizes, weights, self.rerank_dims, self.rerank_scoring)
