"""Re-ranking as a map verifies its answers: the score is how many matches of keypoints one geometry explains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samespot.cores import cores
from samespot.devices import one_torch_thread
from samespot.matching.keypoints import Keypoints
from samespot.matching.reranker import Features
from samespot.matching.verification import WITHIN, Verifier

_HEAD = 3  # 16-bit numbers: how many keypoints, height, width


class ByKeypoints:
    """A `Reranker` that looks at each photo in its own size, as the verifier of a map does."""

    preprocessing = None
    batch_size = 16

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        on_cpu = verifier.device.type == "cpu"
        self._threads = ThreadPoolExecutor(cores() if on_cpu else 1, thread_name_prefix="keypoints")
        self._alone: Callable[[], AbstractContextManager[Any]] = one_torch_thread if on_cpu else nullcontext
        self._at = 2 * verifier.keypoints  # of a row: the positions, and then the descriptors
        self.width = _HEAD + self._at + verifier.keypoints * verifier.dims // 2

    @property
    def name(self) -> str:
        return self._verifier.name

    @property
    def device(self) -> torch.device:
        return self._verifier.device

    @property
    def facts(self) -> Mapping[str, Any]:
        told = self._verifier.facts()
        return {"model": told.pop("weights"), **told}

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"geometry": "homography", "within pixels": WITHIN}

    def extract(self, images: Sequence[Tensor]) -> Tensor:
        # a thread for each photo uses the cores better than several threads for one
        with self._alone():
            found = list(self._threads.map(self._verifier.extract, images))
        return torch.from_numpy(np.stack([self._row(one) for one in found]))

    def scores(self, query: Features, places: Features, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        agreed = self._verifier.verify(self._keypoints(query), [self._keypoints(places[row]) for row in rows])
        return np.array([one.inliers for one in agreed], dtype=np.float64)

    def _row(self, found: Keypoints) -> Features:
        """Bytes in the guise of 16-bit numbers, as features are kept; all zero: no keypoint."""
        row = np.zeros(self.width, dtype=np.uint16)
        if len(found):
            row[:_HEAD] = len(found), *found.size
            at, steps, local = _HEAD + self._at, found.steps().ravel(), found.descriptors.ravel()
            row[_HEAD : _HEAD + len(steps)] = steps
            row[at : at + len(local) // 2] = local.view(np.uint16)
        return row.view(np.float16)

    def _keypoints(self, row: Features) -> Keypoints:
        kept = np.ascontiguousarray(row).view(np.uint16)
        count, height, width = (int(number) for number in kept[:_HEAD])
        steps = kept[_HEAD : _HEAD + 2 * count].reshape(count, 2)
        local = kept[_HEAD + self._at :].view(np.int8)[: count * self._verifier.dims]
        return Keypoints.of_steps(steps, local.reshape(count, self._verifier.dims), (height, width))
