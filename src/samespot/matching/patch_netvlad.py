"""Patch-NetVLAD (Hausler et al., CVPR 2021): NetVLAD of every square of the feature map, at several sizes.

A square's descriptor is that of a photo which shows nothing else. Squares of two photos that are each other's nearest
are matches; how many of them one homography explains, or how well their shifts agree, is the score at that size.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from samespot.errors import InputError
from samespot.images.preprocess import Preprocessing
from samespot.matching.map_features import MapFeatures
from samespot.matching.mutual import mutual_nearest, photos_at_once
from samespot.matching.options import PatchOptions
from samespot.matching.reranker import Features
from samespot.matching.spatial_scoring import inlier_counts, rapid_score
from samespot.model.backbone import run_stages
from samespot.model.checkpoint import tensors_digest
from samespot.model.netvlad import NetVLAD
from samespot.model.network import PlaceNet
from samespot.progress import Progress
from samespot.whitening.whitening import Whitening

NAME = "patch-netvlad"
WITHIN = 1.5  # [cells of the feature map] a match may be off the homography
FITTED_ON_AT_MOST = (
    2000  # photos of which the projection is learned: as many axes of 32,768 numbers are half a GB
)
_ON_CPU, _ON_GPU = 1, 8  # photos at once


# ---- descriptors of squares ----


def square_sums(values: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """(n, d, h, w) -> for each size s the sums over all s × s squares: (n, d, h - s + 1, w - s + 1), float64.

    From one integral map. In float64: a square's small sum is a difference of large ones, and later every sum is
    brought to length 1, the smallest, too.
    """
    integral = functional.pad(values.double().cumsum(-1).cumsum(-2), (1, 0, 1, 0))
    return [
        integral[..., s:, s:] - integral[..., :-s, s:] - integral[..., s:, :-s] + integral[..., :-s, :-s]
        for s in sizes
    ]


def cluster_parts(features: Tensor, pool: NetVLAD, sizes: Sequence[int]) -> Iterator[Tensor]:
    """Feature maps (n, d, h, w) -> for each cluster (n, squares of all sizes, d): its part of NetVLAD of each square.

    Cluster by cluster, since all residuals of one photo, let alone the descriptors of its squares, are gigabytes.
    """
    unit, shares = pool.soft_assign(features)
    for centroid, share in zip(pool.centroids, shares.transpose(0, 1), strict=True):
        residuals = (unit - centroid[:, None, None]) * share[:, None]
        sums = torch.cat([one.flatten(2) for one in square_sums(residuals, sizes)], dim=2)
        yield functional.normalize(sums.transpose(1, 2).float(), dim=2)


@torch.no_grad()
def patch_descriptors(features: Tensor, pool: NetVLAD, sizes: Sequence[int]) -> list[Tensor]:
    """Feature maps (n, d, h, w) -> for each size unit descriptors (n, squares, clusters · d), row by row."""
    whole = functional.normalize(torch.cat(list(cluster_parts(features, pool, sizes)), dim=2), dim=2)
    return _by_size(whole, _counts(features.shape[-2:], sizes))


@torch.no_grad()
def projected_patches(
    features: Tensor, pool: NetVLAD, sizes: Sequence[int], axes: Tensor, mean: Tensor
) -> list[Tensor]:
    """The same less `mean` (clusters · d,) along `axes` (dims, clusters · d), again of length 1, for little memory."""
    total, square = torch.zeros((), device=axes.device), torch.zeros((), device=axes.device)
    for cluster, part in enumerate(cluster_parts(features, pool, sizes)):
        depth = part.shape[2]
        total = total + part @ axes[:, cluster * depth : (cluster + 1) * depth].T
        square = square + part.square().sum(dim=2)
    length = square.sqrt().clamp(min=1e-12)[..., None]
    whole = functional.normalize(total / length - axes @ mean, dim=2)
    return _by_size(whole, _counts(features.shape[-2:], sizes))


def _counts(cells: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Squares of each size."""
    return [(cells[0] - s + 1) * (cells[1] - s + 1) for s in sizes]


def _by_size(squares: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """(n, squares of all sizes, dims) -> for each size (n, squares, dims)."""
    ends = np.cumsum(counts).tolist()
    return [squares[:, end - count : end] for end, count in zip(ends, counts, strict=True)]


def learn_projection(
    vectors: NDArray[Any],
    fitted_on: str,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    device: str = "cpu",
) -> Whitening:
    """PCA of NetVLAD's descriptors of whole photos (n, clusters · d), of a sample where there are many."""
    rows = np.arange(len(vectors))
    if len(rows) > FITTED_ON_AT_MOST:
        rows = np.sort(np.random.default_rng(seed).choice(len(rows), FITTED_ON_AT_MOST, replace=False))
    return Whitening.fit(np.asarray(vectors[rows]), fitted_on, progress=progress, device=device)


# ---- the reranker ----


class PatchNetVLAD:
    """A `Reranker` around a network with a NetVLAD pool and a projection learned of its descriptors."""

    name = NAME

    def __init__(
        self,
        net: PlaceNet,
        projection: Whitening,
        options: PatchOptions | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.options = options or PatchOptions()
        self.device = torch.device(device)
        self._stages = copy.deepcopy(nn.Sequential(*net.stages.values())).eval().to(self.device)
        self._pool = copy.deepcopy(netvlad_of(net)).eval().to(self.device)
        self.preprocessing: Preprocessing = net.preprocessing
        self.dims = min(self.options.dims, projection.rank)
        self._learn(projection)
        self.cells = self._map_size()
        self.counts = _counts(self.cells, self.options.sizes)
        self.width = sum(self.counts) * self.dims
        self.batch_size = _ON_GPU if self.device.type == "cuda" else _ON_CPU
        self._model, self._fitted_on = net.digest(), f"{projection.fitted_on}, {projection.images} photos"
        self._map = MapFeatures(self.device)

    def _learn(self, projection: Whitening) -> None:
        clusters, depth = self._pool.centroids.shape
        if projection.dims != clusters * depth:
            raise InputError(
                f"a projection of {projection.dims} numbers for NetVLAD's {clusters} × {depth}; learn it of the "
                "descriptors of this network"
            )
        stretched = projection.axes[: self.dims] / np.sqrt(projection.variances[: self.dims, None])
        self._axes = torch.from_numpy(stretched).float().to(self.device)
        self._mean = torch.from_numpy(projection.mean).float().to(self.device)
        self._projection = tensors_digest({"axes": self._axes, "mean": self._mean})

    def _map_size(self) -> tuple[int, int]:
        """Height and width of the feature map, which every size must fit into."""
        blank = torch.zeros((1, 3, *self.preprocessing.size), dtype=torch.uint8, device=self.device)
        height, width = self._features(blank).shape[-2:]
        largest = max(self.options.sizes)
        if largest > min(height, width):
            raise InputError(
                f"patches of {largest} × {largest} do not fit the feature map of {height} × {width} that this network"
                " makes of its images; give smaller ones, or train it on larger images"
            )
        return height, width

    @property
    def facts(self) -> Mapping[str, Any]:
        return {
            "model": self._model,
            "sizes": list(self.options.sizes),
            "dims of a patch": self.dims,
            "projection": self._projection,
        }

    @property
    def settings(self) -> Mapping[str, Any]:
        return {
            "weights": list(self.options.weights),
            "scoring": self.options.scoring,
            "projection learned of": self._fitted_on,
        }

    def extract(self, images: Tensor) -> Tensor:
        with torch.inference_mode(), torch.autocast(self.device.type, enabled=False):
            features, sizes = self._features(images), self.options.sizes
            parts = projected_patches(features, self._pool, sizes, self._axes, self._mean)
            return torch.cat([part.flatten(1) for part in parts], dim=1).half()

    @torch.inference_mode()
    def _features(self, images: Tensor) -> Tensor:
        return run_stages(self._stages, self.preprocessing.normalise(images)).float()

    def scores(self, query: Features, places: Features, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        if not len(rows):
            return np.zeros(0)
        matches = np.split(self._matches(query, places, rows), np.cumsum(self.counts)[:-1], axis=1)
        by_size = [self._at_size(grid, some) for grid, some in zip(self._grids, matches, strict=True)]
        return fused(np.stack(by_size, axis=1), self.options.weights)

    def _matches(self, query: Features, places: Features, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """(k, squares of all sizes) square of the candidate, among those of its size, or -1.

        The only wait for the device is at the end.
        """
        asked = self._patches(torch.from_numpy(np.array(query[None])).to(self.device))
        found, step = [], photos_at_once(max(self.counts), self.device)
        for start in range(0, len(rows), step):
            candidates = self._patches(self._map.rows(places, rows[start : start + step]))
            pairs = zip(asked, candidates, strict=True)
            found.append(torch.cat([mutual_nearest(mine[0], theirs) for mine, theirs in pairs], dim=1))
        matches: NDArray[np.int64] = torch.cat(found).cpu().numpy()
        return matches

    def _patches(self, features: Tensor) -> list[Tensor]:
        """(n, width) as kept -> for each size (n, squares, dims)."""
        return _by_size(features.view(len(features), -1, self.dims), self.counts)

    def _at_size(self, grid: NDArray[np.float64], matches: NDArray[np.int64]) -> NDArray[np.float64]:
        """(k,) scores of one size, per patch. matches: (k, squares)."""
        if self.options.scoring == "ransac":
            return inlier_counts(grid, matches, WITHIN) / len(grid)
        extent = (grid[-1, 0], grid[-1, 1])
        scores = [rapid_score(grid[one >= 0], grid[one[one >= 0]], extent) for one in matches]
        return np.array(scores) / len(grid)

    @cached_property
    def _grids(self) -> list[NDArray[np.float64]]:
        """(squares, 2) x, y of each square's corner [cells]: shifts and homographies are those of the centres, too."""
        height, width = self.cells
        grids = [np.mgrid[: height - s + 1, : width - s + 1] for s in self.options.sizes]
        return [np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64) for y, x in grids]


def netvlad_of(net: PlaceNet) -> NetVLAD:
    """The pool of a network; raises where it is another."""
    if not isinstance(net.pool, NetVLAD):
        raise InputError(
            f"Patch-NetVLAD needs a network that pools by NetVLAD, and this one pools by {net.pool_name}; train one "
            "with `pool=netvlad64`, or re-rank by xfeat"
        )
    return net.pool


def fused(by_size: NDArray[np.float64], weights: Sequence[float]) -> NDArray[np.float64]:
    """(k, sizes) scores of one query's candidates -> (k,): each size standardised over them, then weighted.

    A size that cannot tell them apart says nothing.
    """
    off = by_size - by_size.mean(axis=0)
    spread = by_size.std(axis=0)
    total: NDArray[np.float64] = (off / np.where(spread > 0, spread, 1)) @ np.asarray(
        weights, dtype=np.float64
    )
    return total
