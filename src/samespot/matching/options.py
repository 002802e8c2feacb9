"""Every option of re-ranking by local features. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from samespot.errors import InputError
from samespot.images.options import IMAGE_SIZE
from samespot.options import Options, ineffective, option, parse_size

PANEL = "Re-ranking"
Matcher = Literal["xfeat", "lighterglue", "aliked", "disk"]  # local features, and what matches them
By = Literal["patch-netvlad", "xfeat"]
Scoring = Literal["ransac", "rapid"]
Geometry = Literal["fundamental", "homography"]
TOP = 100  # of each list are compared once more
# matches: one more than any geometry goes through
LEAST: dict[str, int] = {"fundamental": 8, "homography": 5}
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


@dataclass(frozen=True)
class XFeatOptions(Options):
    """Of XFeat keypoints."""

    keypoints: int = option(1000, "Keypoints kept of a photo, at most: the surest.")
    geometry: Geometry = option("fundamental", "What the matches must agree on.")
    # see `local_features.photo_size` for the size that suits given photos
    size: tuple[int, int] = option(IMAGE_SIZE, "Height and width that photos are resized to [pixels].")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keypoints < LEAST[self.geometry]:
            raise InputError(
                f"{self.keypoints} keypoints per photo: a {self.geometry} needs {LEAST[self.geometry]} or more"
            )
        if min(self.size) < CELL or any(side % CELL for side in self.size):
            height, width = self.size
            raise InputError(f"photos of {height}x{width} for XFeat: both sides must be multiples of {CELL}")


def parse_patches(words: str) -> tuple[tuple[int, float], ...]:
    """Sizes and weights from "2:0.45,5:0.15,8:0.4", or of equal weight "2,5"."""
    pairs = [word.partition(":") for word in words.split(",")]
    return tuple((int(size), float(weight) if colon else 1 / len(pairs)) for size, colon, weight in pairs)


_PATCHES = tuple(zip(PatchOptions.sizes, PatchOptions.weights, strict=True))
_OF_PATCHES = ("rerank_dims", "rerank_patches", "rerank_scoring")
_OF_XFEAT = ("rerank_keypoints", "rerank_geometry", "rerank_size")


@dataclass(frozen=True)
class RerankOptions(Options):
    """What to re-rank by, how far down the lists, and the settings of either method."""

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
    rerank_keypoints: int = option(XFeatOptions.keypoints, "XFeat: keypoints to keep per photo.", panel=PANEL)
    rerank_geometry: Geometry = option(
        XFeatOptions.geometry, "XFeat: the geometry that matches must agree on.", panel=PANEL
    )
    rerank_size: tuple[int, int] | None = option(
        None,
        "XFeat: height and width that photos are resized to, such as 480x640 [pixels].",
        parse=parse_size,
        default="their own, at most 640",
        panel=PANEL,
    )

    def __post_init__(self) -> None:
        """Whatever can be known to be wrong before a file is read."""
        super().__post_init__()
        self.patch_options()
        self.xfeat_options()

    def refuse_ineffective(self, typed: set[str]) -> None:
        if self.rerank is None:
            besides = ("rerank_top", "rerank_of", *_OF_PATCHES, *_OF_XFEAT)
            ineffective(typed, besides, "without `rerank`")
        others = _OF_PATCHES if self.rerank == "xfeat" else _OF_XFEAT
        ineffective(typed, others, f"with `rerank={self.rerank}`")

    def patch_options(self) -> PatchOptions:
        sizes, weights = zip(*self.rerank_patches, strict=True)
        return PatchOptions(sizes, weights, self.rerank_dims, self.rerank_scoring)

    def xfeat_options(self, size: tuple[int, int] | None = None) -> XFeatOptions:
        """size: of photos, where none was asked for."""
        chosen = self.rerank_size or size or XFeatOptions.size
        return XFeatOptions(self.rerank_keypoints, self.rerank_geometry, chosen)
