"""Where do NetVLAD's clusters start? At the centres that k-means finds among local features of training photos."""

from __future__ import annotations

import warnings
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
    """Centres of points (n, d) by scikit-learn: a k-means++ start, then rounds until no point changes its cluster.

    On one thread, whose sums have one order: a seed gives the same centres again.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    x = points.cpu().numpy()
    if len(x) < clusters:
        raise _too_few(len(np.unique(x, axis=0)), clusters)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(clusters, n_init=1, max_iter=rounds, tol=0.0, random_state=seed).fit(x)
    if len(np.unique(found.labels_)) < clusters:
        raise _too_few(len(np.unique(x, axis=0)), clusters)
    return Clusters(torch.from_numpy(found.cluster_centers_).to(points), float(found.inertia_))


def _some_of(count: int, most: int, dice: np.random.Generator) -> NDArray[np.int64]:
    """So many of the numbers below `count`, ascending; all of them where there are no more."""
    return np.sort(dice.permutation(count)[:most])


def _too_few(features: int, clusters: int) -> InputError:
    return InputError(
        f"the photos hold {features} different local features, and NetVLAD needs at least its {clusters} clusters of "
        "them; choose fewer clusters, such as `pool=netvlad16`, or larger images"
    )
