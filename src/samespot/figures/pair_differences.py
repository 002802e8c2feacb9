"""Does the descriptor space know how similar two photos are? Differences of descriptor pairs, laid out by t-SNE.

After the paper's figure of the learned space: for each pair the map photo's descriptor less the query's, all of
them projected onto a plane. Where similar pairs lie together in the middle, distance means overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.errors import InputError
from samespot.figures.style import MAP, QUERY, house_style, save
from samespot.overlap.labels import PairLabels

PAIRS = 1_000
FEWEST = 8  # pairs that can be laid out at all
ROUNDS = 500  # of t-SNE; the layout hardly moves after them
KEPT_DIMS = 50  # t-SNE's distances are dominated by the first axes, and 2048 would take long
# from ψ, up to ψ, and share of the sample; the first is ψ = 0. Half positives and half negatives as in the paper,
# each half spread over ψ, which plain chance would not do: almost all pairs of a map share nothing
STRATA = ((0.0, 0.0, 0.25), (0.0, 0.25, 0.125), (0.25, 0.5, 0.125), (0.5, 0.75, 0.25), (0.75, 1.0, 0.25))
LOOKED_AT = 2_000_000  # stored pairs that are drawn from; labels of a city have many more
COLUMNS = 3  # panels beside each other

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class PairDifferences:
    """Pairs on a plane: near each other where the two descriptors differ in the same way."""

    points: NDArray[np.float64]  # (n, 2), without a unit
    overlap: NDArray[np.float64]  # (n,) ψ of each pair


def pair_differences(
    descriptors_q: NDArray[Any],
    descriptors_m: NDArray[Any],
    labels: PairLabels,
    n: int = PAIRS,
    seed: int = 0,
) -> PairDifferences:
    """Lay out the differences, map less query, of at most `n` pairs of (q, d) and (m, d) descriptors.

    The same labels, `n` and `seed` give the same pairs whatever the model, so two models can be compared.
    Photos that could not be read (all-zero rows) are left out.
    """
    if (len(descriptors_q), len(descriptors_m)) != labels.shape or descriptors_q.ndim != 2:
        raise InputError(
            f"descriptors {descriptors_q.shape} and {descriptors_m.shape} are not those of labels of "
            f"{labels.shape[0]} queries × {labels.shape[1]} map images"
        )
    queries, places, overlap = sample_over_overlap(labels, n, seed)
    a = np.asarray(descriptors_q[queries], dtype=np.float32)
    b = np.asarray(descriptors_m[places], dtype=np.float32)
    readable = a.any(axis=1) & b.any(axis=1)
    if readable.sum() < FEWEST:
        raise InputError(f"{readable.sum()} pairs of readable photos; a picture of them needs {FEWEST}")
    return PairDifferences(_on_a_plane((b - a)[readable], seed), overlap[readable])


def sample_over_overlap(
    labels: PairLabels, n: int = PAIRS, seed: int = 0
) -> tuple[Rows, Rows, NDArray[np.float64]]:
    """Query rows, map rows and ψ, (n,) each, of random pairs spread over ψ by `STRATA`, in random order.

    What one stratum lacks the others give. Never a photo with itself, and no pair twice.
    """
    rng = np.random.default_rng(seed)
    at = np.arange(labels.nonzero)
    if len(at) > LOOKED_AT:
        at = np.sort(rng.choice(labels.nonzero, LOOKED_AT, replace=False))
    rows = (np.searchsorted(labels.indptr, at, side="right") - 1).astype(np.int64)
    columns = np.asarray(labels.columns[at], dtype=np.int64)
    similarity = np.asarray(labels.similarity[at], dtype=np.float64)
    if labels.meta.get("same_table"):
        other = rows != columns
        rows, columns, similarity = rows[other], columns[other], similarity[other]
    stored = [_in_stratum(similarity, low, high) for low, high, _ in STRATA[1:]]
    apart = _pairs_apart(labels, n, rng)
    room = [len(apart), *(len(one) for one in stored)]
    counts = _allotted(n, [share for *_, share in STRATA], room)
    chosen = np.concatenate(
        [rng.choice(one, count, replace=False) for one, count in zip(stored, counts[1:], strict=True)]
    ).astype(np.int64)
    queries = np.concatenate([apart[: counts[0], 0], rows[chosen]])
    places = np.concatenate([apart[: counts[0], 1], columns[chosen]])
    overlap = np.concatenate([np.zeros(counts[0]), similarity[chosen]])
    order = rng.permutation(len(overlap))
    return queries[order], places[order], overlap[order]


def _in_stratum(similarity: NDArray[np.float64], low: float, high: float) -> Rows:
    """As everywhere, a pair of exactly .5 is a positive: the lower edge belongs to a stratum, 0 to none."""
    below = similarity <= high if high >= 1.0 else similarity < high
    return np.flatnonzero((similarity > 0) & (similarity >= low) & below)


def _pairs_apart(labels: PairLabels, wanted: int, rng: np.random.Generator) -> Rows:
    """At most `wanted` different random pairs (query, map image) of ψ = 0, (n, 2)."""
    queries, places = labels.shape
    if queries * places <= 16 * wanted:  # few enough to look at all of them
        drawn = rng.permutation(queries * places)
    else:
        drawn = rng.permutation(np.unique(rng.integers(0, queries * places, 8 * wanted)))
    rows, columns = np.divmod(drawn, places)
    apart = labels.lookup(rows, columns) == 0
    if labels.meta.get("same_table"):
        apart &= rows != columns
    return np.stack([rows[apart], columns[apart]], axis=1)[:wanted].astype(np.int64)


def _allotted(n: int, shares: Sequence[float], room: Sequence[int]) -> list[int]:
    """How many of `n` each stratum gives: its share, or all it has, and then the others give more."""
    counts = np.zeros(len(shares), dtype=np.int64)
    left, free = n, np.array(room, dtype=np.int64)
    weights = np.array(shares, dtype=np.float64)
    while left > 0 and (open_ := np.flatnonzero(free > 0)).size:
        part = np.floor(left * weights[open_] / weights[open_].sum()).astype(np.int64)
        if not part.any():  # fewer pairs than strata are left: the largest shares first
            part[np.argsort(-weights[open_], kind="stable")[:left]] = 1
        given = np.minimum(part, free[open_])
        counts[open_] += given
        free[open_] -= given
        left -= int(given.sum())
    return counts.tolist()


def _on_a_plane(differences: NDArray[np.float32], seed: int) -> NDArray[np.float64]:
    """(n, 2): principal axes, then t-SNE; the same seed gives the same picture."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    n, dims = differences.shape
    # One thread: its workers wait for each other hundreds of times a second, which on shared cores is slower than
    # one alone, and the order of sums, and so the picture, would depend on their number.
    with threadpool_limits(1):
        if min(n, dims) > KEPT_DIMS:
            differences = PCA(KEPT_DIMS, svd_solver="randomized", random_state=seed).fit_transform(
                differences
            )
        start = "pca" if min(differences.shape) >= 2 else "random"
        tsne = TSNE(perplexity=perplexity_for(n), init=start, max_iter=ROUNDS, random_state=seed)
        return np.asarray(tsne.fit_transform(differences), dtype=np.float64)


def perplexity_for(n: int) -> float:
    """Neighbours that t-SNE keeps together: its usual 30, fewer where there are few pairs."""
    return float(min(30.0, max(2.0, (n - 1) / 3)))


def pair_differences_figure(models: Mapping[str, PairDifferences], path: str | Path) -> Path:
    """A panel a model; as in the paper similar pairs are blue, and pairs that share nothing red."""
    if not models:
        raise InputError(f"{path}: nothing to draw; give the pair differences of at least one model")
    columns = min(COLUMNS, len(models))
    lines = -(-len(models) // columns)
    with house_style() as plt:
        figure, axes = plt.subplots(
            lines, columns, figsize=(3.9 * columns + 0.9, 3.9 * lines), layout="constrained", squeeze=False
        )
        for panel in axes.flat[len(models) :]:
            panel.set_visible(False)
        for panel, (name, one) in zip(axes.flat, models.items(), strict=False):
            shown = _panel(panel, name, one)
        figure.colorbar(shown, ax=axes, pad=0.02, shrink=0.75, label="overlap ψ of the pair")
        return save(figure, path)


def _panel(axes: Any, name: str, one: PairDifferences) -> Any:
    look = {"cmap": overlap_colours(), "vmin": 0.0, "vmax": 1.0, "s": 9, "linewidths": 0, "alpha": 0.85}
    shown = axes.scatter(one.points[:, 0], one.points[:, 1], c=one.overlap, **look)
    axes.set_title(name)
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.set_adjustable("datalim")
    for spine in axes.spines.values():
        spine.set_visible(True)
    return shown


def overlap_colours() -> Any:
    """Red for ψ = 0 to blue for ψ = 1, amber below and teal above one half; all dark enough for white paper."""
    from matplotlib.colors import LinearSegmentedColormap

    stops = [(0.0, QUERY), (0.4, "#e0a64a"), (0.55, "#5fb0a5"), (0.75, MAP), (1.0, "#173f7a")]
    return LinearSegmentedColormap.from_list("overlap", stops)
