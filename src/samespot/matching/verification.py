"""Do two photos show the same things? Keypoints that are each other's nearest, and one geometry that explains them.

What is kept of a photo is small (`Keypoints`), so a map can keep it of every photo, and a query is compared with its
candidates without opening any of their files. How many matches the geometry explains is the strongest evidence that
an answer is right; what part of the photo they cover is a second estimate of how much of it the other shows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController
from torch import Tensor

from samespot.cores import cores
from samespot.errors import InputError
from samespot.images.preprocess import resized
from samespot.matching.keypoints import Keypoints
from samespot.matching.local_features import load_xfeat, needed
from samespot.matching.options import CELL, KEYPOINTS, LEAST, Matcher
from samespot.options import check_choice

LONGEST = 640  # [pixels] of the longer side that are looked at
ENLARGED = 4.0  # times, at most: small photos show more keypoints when they are larger
CELLS = 8  # along each side of a photo: which of them matches cover is counted
WITHIN = 8.0  # [pixels] of the photo as it was looked at that a match may be off the geometry
TRIES = 500  # geometries that are tried at most
# How much a query and its answer share in the town of seed 3002, by the area that the explained keypoints cover: of
# a tenth, a half and nine tenths of the answers it is less (`python benchmarks/trust.py --overlap`). In another town
# the overlap lies between the tenths for 80 % of the answers.
AREAS = (0.094, 0.109, 0.156, 0.203, 0.25, 0.297, 0.375, 0.438)
LESS = (0.0, 0.0, 0.0, 0.47, 0.54, 0.56, 0.65, 0.73)
HALF = (0.4, 0.4, 0.49, 0.61, 0.67, 0.72, 0.77, 0.8)
MORE = (0.57, 0.6, 0.68, 0.73, 0.79, 0.82, 0.86, 0.91)
Pairs = NDArray[np.int64]  # (k, 2) rows of the query's and of the candidate's keypoints


@dataclass(frozen=True, eq=False)
class Agreement:
    """What a query and a candidate have in common."""

    pairs: Pairs  # that one geometry explains
    area: float  # of the query photo that the explained keypoints cover
    matched: Pairs  # all that look the same, of which those are some

    @property
    def inliers(self) -> int:
        return len(self.pairs)

    @property
    def overlap(self) -> tuple[float, float, float]:
        """How much the two photos share, by the area, and the ends of an interval that holds 80 % of the answers.

        It is about answers: of photos that share nothing, some matches agree by chance, too.
        """
        middle, low, high = (float(np.interp(self.area, AREAS, one)) for one in (HALF, LESS, MORE))
        return middle, low, high


class Verifier(Protocol):
    """Finds keypoints, and what two photos have in common by them."""

    name: str
    keypoints: int  # of a photo, at most
    dims: int  # of a keypoint's descriptor
    device: torch.device

    def facts(self) -> dict[str, Any]:
        """What kept keypoints depend on. Those of other facts cannot be compared."""

    def extract(self, image: Tensor) -> Keypoints:
        """Of a photo of any size: uint8 RGB (3, h, w), upright."""

    def matched(self, query: Keypoints, candidate: Keypoints) -> Pairs:
        """Keypoints that look the same."""

    def verify(self, query: Keypoints, candidates: Sequence[Keypoints]) -> list[Agreement]:
        """One answer for each candidate; the same every time."""


def verifier_named(
    name: str = "xfeat", keypoints: int = KEYPOINTS, device: torch.device | str = "cpu"
) -> Verifier:
    """The verifier of that name, which keeps at most so many keypoints of a photo."""
    check_choice("matcher", name, get_args(Matcher))
    if keypoints < LEAST:
        raise InputError(f"{keypoints} keypoints per photo: one geometry needs {LEAST} or more")
    if name == "xfeat":
        return XFeatVerifier(keypoints, device)
    from samespot.matching.lightglue import LighterGlueVerifier, LightGlueVerifier

    if name == "lighterglue":
        return LighterGlueVerifier(keypoints, device)
    return LightGlueVerifier(name, keypoints, device)


def looked_at_size(height: int, width: int) -> tuple[int, int]:
    """To which size a photo is brought: the longer side 640, but no more than 4 times as large, and full cells."""
    scale = min(LONGEST / max(height, width), ENLARGED)
    tall, wide = (CELL * max(1, round(side * scale / CELL)) for side in (height, width))
    return min(tall, LONGEST), min(wide, LONGEST)


def looked_at(image: Tensor) -> Tensor:
    """uint8 (3, h, w) -> float32 (1, 3, h', w') of the size that keypoints are looked for in, values as they were."""
    if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] != 3:
        raise InputError(f"a photo must be uint8 RGB (3, h, w), not {image.dtype} {tuple(image.shape)}")
    size = looked_at_size(int(image.shape[1]), int(image.shape[2]))
    if size[1] > image.shape[2]:  # what lies between pixels is kept
        return torch.nn.functional.interpolate(image[None].float(), size=size, mode="bilinear")
    return shrunk(image)[None].float()


def shrunk(image: Tensor) -> Tensor:
    """uint8 (3, h, w), a large photo as it is looked at; a small one as it is. Its keypoints are those of the photo."""
    size = looked_at_size(int(image.shape[1]), int(image.shape[2]))
    return image if size[1] > image.shape[2] else resized(image[None], size)[0]


class XFeatVerifier:
    """XFeat (Potje et al., CVPR 2024): fast on a CPU, 64 numbers a keypoint."""

    name, dims = "xfeat", 64

    def __init__(self, keypoints: int = KEYPOINTS, device: torch.device | str = "cpu") -> None:
        self.keypoints, self.device = keypoints, torch.device(device)
        self._net, self._digest = load_xfeat(keypoints, self.device, "verifying by xfeat")
        self._geometry = Geometry()

    def facts(self) -> dict[str, Any]:
        return {
            "weights": self._digest,
            "keypoints": self.keypoints,
            "longest side": LONGEST,
            "enlarged at most": ENLARGED,
        }

    def extract(self, image: Tensor) -> Keypoints:
        pixels = looked_at(image.to(self.device))
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            found = self._net.detectAndCompute(pixels, top_k=self.keypoints)[0]
        height, width = pixels.shape[-2:]
        xy, descriptors = found["keypoints"].cpu().numpy(), found["descriptors"].cpu().numpy()
        return Keypoints.pack(xy, descriptors, (int(height), int(width)))

    def matched(self, query: Keypoints, candidate: Keypoints) -> Pairs:
        return mutual_pairs(query.unit(), candidate.unit())

    def verify(self, query: Keypoints, candidates: Sequence[Keypoints]) -> list[Agreement]:
        asked = query.unit()
        return self._geometry.agreements(query, candidates, lambda one: mutual_pairs(asked, one.unit()))


def mutual_pairs(a: NDArray[np.float32], b: NDArray[np.float32]) -> Pairs:
    """Pairs of rows of (n, d) and (m, d) that are each other's nearest.

    In numpy, photo by photo: on a CPU several times as fast as torch for many photos at once, and a thread can do it.
    """
    if 0 in (len(a), len(b)):
        return np.zeros((0, 2), dtype=np.int64)
    cosine = a @ b.T
    nearest, back = cosine.argmax(axis=1), cosine.argmax(axis=0)
    mutual = np.flatnonzero(back[nearest] == np.arange(len(a)))
    return np.stack([mutual, nearest[mutual]], axis=1)


class Geometry:
    """The homography that explains most pairs, of those that were tried.

    Streets are made of planes, and far things lie on one. It asks for more than the geometry of two views, by which a
    match may be anywhere on a line: of photos of different places fewer pairs agree on it by chance, so what agrees
    is worth more (benchmarks/trust.py).
    """

    def __init__(self, within: float = WITHIN, tries: int = TRIES) -> None:
        self.within, self.tries = within, tries
        self._poselib = needed("poselib", "verifying matches")
        self._threads = ThreadPoolExecutor(cores(), thread_name_prefix="geometries")
        self._blas, self._alone = ThreadpoolController(), threading.Lock()

    def agreements(
        self, query: Keypoints, candidates: Sequence[Keypoints], matched: Callable[[Keypoints], Pairs]
    ) -> list[Agreement]:
        """What the geometry leaves of the pairs that `matched` finds with each candidate; in threads."""

        def agreement(candidate: Keypoints) -> Agreement:
            pairs = matched(candidate)
            kept = self.explained(query, candidate, pairs)
            return Agreement(kept, covered(query, kept[:, 0]), pairs)

        # each thread has one of the cores; one at a time, since the limit is the whole process's
        with self._alone, self._blas.limit(limits=1, user_api="blas"):
            return list(self._threads.map(agreement, candidates))

    def explained(self, query: Keypoints, candidate: Keypoints, pairs: Pairs) -> Pairs:
        """Those of the pairs that it explains; the same every time."""
        if len(pairs) < LEAST:
            return pairs[:0]
        a, b = query.xy[pairs[:, 0]].astype(np.float64), candidate.xy[pairs[:, 1]].astype(np.float64)
        tries = {"max_iterations": self.tries, "min_iterations": min(100, self.tries), "seed": 0}
        found = self._poselib.estimate_homography(a, b, {"max_reproj_error": self.within, **tries}, {})[1]
        kept: Pairs = pairs[np.asarray(found["inliers"], dtype=bool)]
        return kept


def covered(photo: Keypoints, rows: NDArray[np.int64], cells: int = CELLS) -> float:
    """Share of a photo's area that these keypoints cover: of a grid of cells, those that hold one."""
    height, width = photo.size
    at = np.floor(photo.xy[rows] / (width, height) * cells).astype(np.int64).clip(0, cells - 1)
    return len(np.unique(at[:, 0] * cells + at[:, 1])) / cells**2
