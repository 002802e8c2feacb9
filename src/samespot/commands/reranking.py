"""What a user asks to re-rank by, turned into a reranker and the place where its features are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from samespot.commands.words import one_of, parse_size, refuse_ineffective
from samespot.errors import InputError
from samespot.evaluation.cases import Case
from samespot.evaluation.evaluate import MAP, Describe, Other
from samespot.matching.local_features import Geometry, XFeat, XFeatOptions, photo_size
from samespot.matching.patch_netvlad import PatchNetVLAD, PatchOptions, Scoring, learn_projection, netvlad_of
from samespot.matching.reranker import TOP, FeatureStore, Reranking
from samespot.model.network import PlaceNet
from samespot.progress import Progress
from samespot.retrieval.describe import OnBadImage, device_named

By = Literal["patch-netvlad", "xfeat"]
OF_PATCHES = ("rerank_dims", "rerank_patches", "rerank_scoring")
OF_XFEAT = ("rerank_keypoints", "rerank_geometry", "rerank_size")
BESIDES = ("rerank_top", "rerank_of", *OF_PATCHES, *OF_XFEAT)


@dataclass(frozen=True)
class RerankRequest:
    """What was typed; None where nothing was."""

    rerank: str | None = None
    rerank_top: int | None = None
    rerank_of: str | None = None
    rerank_dims: int | None = None
    rerank_patches: str | None = None
    rerank_scoring: str | None = None
    rerank_keypoints: int | None = None
    rerank_geometry: str | None = None
    rerank_size: str | None = None

    def __post_init__(self) -> None:
        """Whatever can be known to be wrong before a file is read."""
        if self.rerank is None:
            return refuse_ineffective(self, BESIDES, "without --rerank")
        by = one_of("rerank", self.rerank, get_args(By), "xfeat")
        refuse_ineffective(self, OF_PATCHES if by == "xfeat" else OF_XFEAT, f"with --rerank {by}")
        if self.rerank_top is not None and self.rerank_top < 1:
            raise InputError(f"--rerank-top {self.rerank_top} must be at least 1")
        self.patch_options()
        self.xfeat_options()
        return None

    def patch_options(self) -> PatchOptions:
        default = PatchOptions()
        sizes, weights = parse_patches(self.rerank_patches) or (default.sizes, default.weights)
        dims = default.dims if self.rerank_dims is None else self.rerank_dims
        scoring = one_of("rerank_scoring", self.rerank_scoring, get_args(Scoring), default.scoring)
        return PatchOptions(sizes, weights, dims, scoring)

    def xfeat_options(self, size: tuple[int, int] | None = None) -> XFeatOptions:
        """size: of photos, where none was typed."""
        default = XFeatOptions()
        keypoints = default.keypoints if self.rerank_keypoints is None else self.rerank_keypoints
        geometry = one_of("rerank_geometry", self.rerank_geometry, get_args(Geometry), default.geometry)
        if self.rerank_size is not None:
            try:
                size = parse_size(self.rerank_size)
            except ValueError:
                raise InputError(
                    f"--rerank-size {self.rerank_size!r} is no size of images; write for example 480x640"
                ) from None
        return XFeatOptions(keypoints, geometry, size or default.size)


def parse_patches(words: str | None) -> tuple[tuple[int, ...], tuple[float, ...]] | None:
    """Sizes and weights from "2:0.45,5:0.15,8:0.4", or of equal weight "2,5"."""
    if words is None:
        return None
    try:
        pairs = [word.partition(":") for word in words.split(",")]
        sizes = tuple(int(size) for size, _, _ in pairs)
        weights = tuple(float(weight) if colon else 1 / len(pairs) for _, colon, weight in pairs)
    except ValueError:
        raise InputError(
            f"--rerank-patches {words!r}: give sizes and weights such as 2:0.45,5:0.15,8:0.4"
        ) from None
    return sizes, weights


def reranking(
    asked: RerankRequest,
    net: PlaceNet,
    cases: Sequence[Case],
    other: Other | None,
    describe: Describe,
    *,
    folder: Path,
    device: str,
    on_bad_image: OnBadImage,
    workers: int | None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Reranking | None:
    """None where nothing is to be re-ranked. folder: below it the features of each table are kept."""
    if asked.rerank is None:
        return None
    where = device_named(device)
    notes: list[str] = []
    by: Any
    if asked.rerank == "xfeat":
        by = XFeat(asked.xfeat_options(photo_size(cases[0].places)), where)
    else:
        netvlad_of(net)  # a wrong network should show before its photos are described
        places, name = (cases[0].places, MAP) if other is None else (other.places, other.name)
        described = describe(places, f"{cases[0].name}-map" if other is None else name)
        vectors = described.vectors
        projection = learn_projection(vectors, name, seed=seed, progress=progress, device=where.type)
        by = PatchNetVLAD(net, projection, asked.patch_options(), where)
        notes = _notes(by, projection.images, other is None)
    top = TOP if asked.rerank_top is None else asked.rerank_top
    store = FeatureStore(folder, on_bad_image, workers)
    return Reranking(by, top, asked.rerank_of, store, tuple(notes))


def _notes(by: PatchNetVLAD, images: int, on_map: bool) -> list[str]:
    notes = []
    if on_map:
        notes.append("patches are projected as the map's descriptors vary; --train learns it of other photos")
    if by.dims < by.options.dims:
        notes.append(
            f"patches have {by.dims} dims, not {by.options.dims}: {images} photos to learn from span no more"
        )
    return notes
