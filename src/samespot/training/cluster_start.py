"""Where do NetVLAD's clusters start? At the centres that k-means finds among local features of training photos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from samespot.errors import InputError
from samespot.images.sources import in_blocks
from samespot.model.netvlad import NetVLAD

# 50,000 features, as NetVLAD's implementations take
PHOTOS, PER_PHOTO = 500, 100
ROUNDS = 100  # of k-means at most, likewise

MapsOf = Callable[
    [NDArray[np.int64]], Tensor
]  # image numbers -> (n, d, h, w), without those that cannot be read


@dataclass(frozen=True)
class Clusters:
    """What k-means found."""

    centroids: Tensor  # (k, d)
    inertia: float  # sum over points of the squared distance to the nearest centroid
    rounds: int


@dataclass(frozen=True)
class ClusterStart:
    """How the clusters were found, for the reader of a run."""

    features: int
    photos: int
    clusters: int
    distance: float  # root mean square, of a feature to its centroid
    sharpness: float  # α

    def __str__(self) -> str:
        return (
            f"NetVLAD starts at the {self.clusters} centres of {self.features:,} local features of {self.photos} "
            f"photos (distance {self.distance:.3f}, sharpness {self.sharpness:.1f})"
        )


def start_clusters(
    pool: NetVLAD,
    maps_of: MapsOf,
    images: int,
    seed: int,
    *,
    photos: int = PHOTOS,
    per_photo: int = PER_PHOTO,
    at_once: int = 16,
    tick: Callable[[int], None] | None = None,
) -> ClusterStart:
    """Set the clusters of `pool` from `per_photo` local features each of up to `photos` of the `images` images.

    The same images and seed give the same clusters.
    """
    chosen = _some_of(images, photos, np.random.default_rng([seed, 1]))
    features = sample_features(maps_of, chosen, per_photo, seed, at_once=at_once, tick=tick)
    found = k_means(features, pool.clusters, seed)
    alpha = pool.start(found.centroids, features)
    distance = (found.inertia / len(features)) ** 0.5
    return ClusterStart(len(features), len(chosen), pool.clusters, distance, alpha)


@torch.no_grad()
def sample_features(
    maps_of: MapsOf,
    chosen: NDArray[np.int64],
    per_photo: int,
    seed: int,
    *,
    at_once: int = 16,
    tick: Callable[[int], None] | None = None,
) -> Tensor:
    """(m, d) float32 local features of length 1, at random positions of the chosen images."""
    dice = np.random.default_rng([seed, 2])
    parts: list[Tensor] = []
    for block in in_blocks(len(chosen), at_once):
        maps = maps_of(chosen[block]).float().flatten(2).transpose(1, 2)  # (n, positions, d)
        for local in maps:
            rows = torch.from_numpy(_some_of(len(local), per_photo, dice)).to(local.device)
            parts.append(local[rows])
        if tick is not None:
            tick(len(block))
    if not parts:
        raise InputError("none of the photos that NetVLAD's clusters are to be found in can be read")
    features = torch.cat(parts)
    # a feature of zeros has no direction
    return functional.normalize(features[features.any(dim=1)], dim=1)


def k_means(points: Tensor, clusters: int, seed: int, rounds: int = ROUNDS) -> Clusters:
    """Centres of points (n, d): a k-means++ start, then Lloyd's rounds until no point changes its cluster.

    No sum depends on the order of threads, so that a seed gives the same centres again on the same device.
    """
    dice = np.random.default_rng([seed, 3])
    return lloyd(points, k_means_plus_plus(points, clusters, dice), rounds)


def k_means_plus_plus(points: Tensor, clusters: int, dice: np.random.Generator) -> Tensor:
    """(clusters, d) of the points: each is drawn in proportion to the squared distance from those before it."""
    if len(points) < clusters:
        raise _too_few(len(points), clusters)
    chosen = [int(dice.integers(len(points)))]
    nearest = _squared_distances_to(points, chosen[0])
    while len(chosen) < clusters:
        cumulated = np.cumsum(nearest.double().cpu().numpy())
        if not cumulated[-1] > 0:
            raise _too_few(len(chosen), clusters)
        at = int(np.searchsorted(cumulated, dice.random() * cumulated[-1], side="right"))
        chosen.append(min(at, len(points) - 1))
        nearest = torch.minimum(nearest, _squared_distances_to(points, chosen[-1]))
    return points[torch.tensor(chosen, device=points.device)].clone()


def lloyd(points: Tensor, centroids: Tensor, rounds: int = ROUNDS) -> Clusters:
    """Each point to its nearest centroid, each centroid to the mean of its points, and again."""
    before: Tensor | None = None
    nearest, squared = _nearest(points, centroids)
    done = 0
    while done < rounds and (before is None or not torch.equal(nearest, before)):
        centroids = _means(points, nearest, centroids)
        before, done = nearest, done + 1
        nearest, squared = _nearest(points, centroids)
    return Clusters(centroids, float(squared.double().sum()), done)


def _means(points: Tensor, nearest: Tensor, centroids: Tensor) -> Tensor:
    """Of each cluster's points; a cluster without one moves to the point that is farthest from its own centroid."""
    # a product with 0 and 1 and not a scattered sum, whose order a GPU does not keep
    belongs = functional.one_hot(nearest, len(centroids)).to(points.dtype)
    counts = belongs.sum(dim=0)
    means = (belongs.T @ points) / counts.clamp(min=1)[:, None]
    empty = (counts == 0).nonzero()[:, 0]
    if len(empty):
        away = (points - centroids[nearest]).square().sum(dim=1)
        means[empty] = points[away.topk(len(empty)).indices]
    return means


def _nearest(points: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Number of the nearest centroid of each point, and the squared distance to it."""
    nearest = (points @ centroids.T - centroids.square().sum(dim=1) / 2).argmax(dim=1)
    return nearest, (points - centroids[nearest]).square().sum(dim=1)


def _squared_distances_to(points: Tensor, row: int) -> Tensor:
    return (points - points[row]).square().sum(dim=1)


def _some_of(count: int, most: int, dice: np.random.Generator) -> NDArray[np.int64]:
    """So many of the numbers below `count`, ascending; all of them where there are no more."""
    return np.sort(dice.permutation(count)[:most])


def _too_few(features: int, clusters: int) -> InputError:
    return InputError(
        f"the photos hold {features} different local features, and NetVLAD needs at least its {clusters} clusters of "
        "them; choose fewer clusters, such as `pool=netvlad16`, or larger images"
    )
