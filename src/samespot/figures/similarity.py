"""What a set of labels looks like: how similar its pairs are, and how that depends on distance and turn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.figures.style import CLASSES, INK, QUERY, house_style, save, without_pale
from samespot.overlap.classes import HARD_POSITIVE, POSITIVE
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places

SAMPLED_PAIRS = 200_000
DENSE = 2_000  # from so many pairs on, cells of a density show more than single dots
TOGETHER = 512  # queries looked up at once
FEWEST_SQUARES = 9  # pieces from which on a surface can be read
WITHOUT = ", without each image's pair with itself"

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class PairSample:
    """Pairs within a distance of each other: how far apart [m], how much turned [deg], how similar."""

    distance: NDArray[np.float64]
    turn: NDArray[np.float64]  # NaN where a heading is unknown
    similarity: NDArray[np.float32]


def sample_pairs(
    labels: PairLabels,
    queries: Places,
    places: Places,
    *,
    within: float,
    most: int = SAMPLED_PAIRS,
    seed: int = 0,
) -> PairSample:
    """All pairs within a distance of each other [m], of as many random queries as give about `most` pairs.

    Pairs of similarity 0 are part of it: a picture of the non-zero ones alone would flatter.
    """
    from scipy.spatial import cKDTree

    here, there = queries.positions, places.positions  # each call copies a whole table
    tree = cKDTree(there[:, :2])
    order = np.random.default_rng(seed).permutation(len(queries))
    parts, total, start = [], 0, 0
    while start < len(order) and total < most:
        some = order[start : start + TOGETHER]
        start += TOGETHER
        number = tree.query_ball_point(here[some, :2], within, return_length=True)
        some = some[total + np.cumsum(number) - number < most]  # the last one may reach beyond
        rows, columns = _near(tree, here, some, within)
        if labels.meta.get("same_table"):
            rows, columns = rows[rows != columns], columns[rows != columns]
        a, b = here[rows], there[columns]
        distance = np.hypot(b[:, 0] - a[:, 0], b[:, 1] - a[:, 1])
        turn = np.abs((b[:, 2] - a[:, 2] + 180) % 360 - 180)
        parts.append(PairSample(distance, turn, _similarity(labels, rows, columns)))
        total += len(rows)
    if not parts:
        return PairSample(np.zeros(0), np.zeros(0), np.zeros(0, np.float32))
    return PairSample(
        np.concatenate([part.distance for part in parts]),
        np.concatenate([part.turn for part in parts]),
        np.concatenate([part.similarity for part in parts]),
    )


def _near(tree: Any, positions: NDArray[np.float64], some: Rows, within: float) -> tuple[Rows, Rows]:
    """The pairs (query row, map row) within a distance, of some queries."""
    found = tree.query_ball_point(positions[some, :2], within)
    number = np.array([len(near) for near in found], dtype=np.int64)
    columns = np.concatenate([np.asarray(near, dtype=np.int64) for near in found] or [np.zeros(0, np.int64)])
    return np.repeat(some, number), columns


def _similarity(labels: PairLabels, rows: Rows, columns: Rows) -> NDArray[np.float32]:
    """Similarity of many pairs at once: one search among what is stored of their rows."""
    if len(rows) == 0:
        return np.zeros(0, np.float32)
    stored, which = np.unique(rows, return_inverse=True)
    number = labels.indptr[stored + 1] - labels.indptr[stored]
    at = np.arange(number.sum()) + np.repeat(labels.indptr[stored] - np.cumsum(number) + number, number)
    keys = np.repeat(np.arange(len(stored)), number) * labels.shape[1] + labels.columns[at]
    wanted = which * labels.shape[1] + columns
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    found = np.zeros(len(rows), np.float32)
    known = keys[place] == wanted if len(keys) else np.zeros(len(rows), dtype=bool)
    found[known] = labels.similarity[at[place[known]]]
    return found


@dataclass(frozen=True)
class Histogram:
    """How many pairs have which similarity > 0, and how many are of each class."""

    edges: NDArray[np.float64]  # (bins + 1,)
    heights: NDArray[np.int64]  # (bins,)
    counts: dict[str, int]  # as `PairLabels.counts`
    with_itself: int  # pairs of an image with itself, which are not in the above


def similarity_histogram(labels: PairLabels, bins: int = 40) -> Histogram:
    """The similarities > 0. Of a table labelled against itself without each image's pair with itself.

    Those pairs are 1 by definition; in a small set they would tower over all that was measured.
    """
    counts, edges = labels.counts(), np.linspace(0, 1, bins + 1)
    heights = np.zeros(bins, np.int64)
    for start in range(0, len(labels.similarity), 1 << 22):
        heights += np.histogram(labels.similarity[start : start + (1 << 22)], edges)[0]
    if not labels.meta.get("same_table") or labels.shape[0] != labels.shape[1]:
        return Histogram(edges, heights, counts, 0)
    n = len(labels)
    own = np.concatenate(
        [_similarity(labels, i, i) for i in np.array_split(np.arange(n), n // 4096 + 1)]
    )  # 0 where an image sees nothing
    less = {
        "pairs": n,
        "nonzero": int((own > 0).sum()),
        "positive": int((own >= POSITIVE).sum()),
        "hard positive": int((own >= HARD_POSITIVE).sum()),
        "soft negative": int(((own > 0) & (own < POSITIVE)).sum()),
        "hard negative": int((own == 0).sum()),
    }
    heights = heights - np.histogram(own[own > 0], edges)[0]
    return Histogram(edges, heights, {name: counts[name] - less[name] for name in counts}, n)


def draw_histogram(path: str | Path, labels: PairLabels, *, title: str = "") -> Path:
    """Histogram of the similarities > 0, coloured by class, with the share of each class of all pairs."""
    shown = similarity_histogram(labels)
    counts, bins, heights = shown.counts, shown.edges, shown.heights
    middles = 0.5 * (bins[1:] + bins[:-1])
    names = np.where(middles < 0.5, "soft negative", np.where(middles < 0.75, "positive", "hard positive"))
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
        axes.bar(middles, heights, width=0.024, color=[CLASSES[n] for n in names])
        for limit in (0.5, 0.75):
            axes.axvline(limit, color=INK, linewidth=0.8, linestyle=":")
        axes.set_xlim(0, 1)
        axes.set_xlabel("similarity ψ")
        axes.set_ylabel("pairs")
        axes.yaxis.set_major_locator(plt.MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(plt.FuncFormatter(lambda v, _: f"{v:,.0f}"))
        pairs = max(counts["pairs"], 1)
        medium = counts["positive"] - counts["hard positive"]
        legend = [
            ("soft negative", f"soft negative, 0 < ψ < .5: {counts['soft negative'] / pairs:.3%}"),
            ("positive", f"positive, .5 ≤ ψ < .75: {medium / pairs:.3%}"),
            ("hard positive", f"hard positive, ψ ≥ .75: {counts['hard positive'] / pairs:.3%}"),
            ("hard negative", f"hard negative, ψ = 0, not drawn: {counts['hard negative'] / pairs:.3%}"),
        ]
        patches = [plt.Rectangle((0, 0), 1, 1, color=CLASSES[name]) for name, _ in legend]
        axes.legend(
            patches,
            [text for _, text in legend],
            title=f"of {counts['pairs']:,} pairs{WITHOUT if shown.with_itself else ''}",
            title_fontsize=9,
            loc="best",
            fontsize=9,
            frameon=True,
            edgecolor="none",
            framealpha=0.95,
        )
        axes.set_title(title or f"Similarity of {counts['nonzero']:,} pairs")
        return save(figure, path)


def draw_relation(path: str | Path, sample: PairSample, *, title: str = "") -> Path:
    """Similarity against distance, against turn, and the mean over both as a heat map and as a surface.

    The panels of the paper's supplementary figure on the field of view.
    """
    known = np.isfinite(sample.turn)
    bins = int(np.clip(np.sqrt(known.sum() / 8), 4, 24))  # a cell holds some pairs in small sets, too
    with house_style() as plt:
        figure = plt.figure(figsize=(11.0, 8.2), layout="constrained")
        _draw_against(figure.add_subplot(2, 2, 1), sample.distance, sample.similarity, "distance [m]")
        _draw_against(figure.add_subplot(2, 2, 2), sample.turn[known], sample.similarity[known], "turn [deg]")
        means, distances, turns = mean_over_distance_and_turn(sample, bins)
        _draw_heat_map(figure, figure.add_subplot(2, 2, 3), means, distances, turns)
        _draw_surface(figure.add_subplot(2, 2, 4, projection="3d"), means, distances, turns)
        figure.suptitle(
            title or f"How similarity depends on distance and turn ({len(sample.distance):,} pairs)"
        )
        return save(figure, path)


def mean_over_distance_and_turn(
    sample: PairSample, bins: int = 24
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(turn bins, distance bins) mean similarity (NaN where no pair fell), and the edges of both axes."""
    known = np.isfinite(sample.turn)
    most = float(sample.distance.max()) if len(sample.distance) else 1.0
    distances, turns = np.linspace(0, max(most, 1e-9), bins + 1), np.linspace(0, 180, bins + 1)
    where = (sample.turn[known], sample.distance[known])
    number, _, _ = np.histogram2d(*where, bins=(turns, distances))
    total, _, _ = np.histogram2d(*where, bins=(turns, distances), weights=sample.similarity[known])
    with np.errstate(invalid="ignore"):
        return total / np.where(number > 0, number, np.nan), distances, turns


def _draw_against(axes: Any, values: NDArray[np.float64], similarity: NDArray[np.float32], name: str) -> None:
    most = 180.0 if name.startswith("turn") else float(values.max(initial=0.0)) or 1.0
    few = len(values) < DENSE
    shown = (similarity > 0) | few
    if shown.any():
        _draw_pairs(axes, values[shown], similarity[shown], most, "pair" if few else "pair, ψ > 0")
        _draw_trend(axes, values, similarity, most)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper right", fontsize=9)
    axes.set_ylim(0, 1)
    axes.set_xlim(0, most)
    axes.set_xlabel(name)
    axes.set_ylabel("similarity ψ")
    axes.set_title(f"against {name.split(' [')[0]}")


def _draw_pairs(
    axes: Any, values: NDArray[np.float64], similarity: NDArray[np.float32], most: float, name: str
) -> None:
    """Few pairs as dots, many as a density."""
    if len(values) < DENSE:
        size = 14 if len(values) < 300 else 5
        look = {"s": size, "color": "#4b515a", "alpha": 0.6, "linewidths": 0}
        axes.scatter(values, similarity, label=name, clip_on=False, zorder=3, **look)  # whole also at the rim
        return
    cells = {"gridsize": 45, "mincnt": 1, "extent": (0, most, 0, 1), "linewidths": 0.1}
    axes.hexbin(values, similarity, bins="log", cmap=without_pale("Greys"), **cells)


def _draw_trend(axes: Any, values: NDArray[np.float64], similarity: NDArray[np.float32], most: float) -> None:
    """Mean and 90 % quantile over strips of the axis that hold 10 pairs or more."""
    strips = min(len(values) // 25, 25)
    if strips < 4:
        return
    edges = np.linspace(0, most, strips + 1)
    which = np.clip(np.digitize(values, edges) - 1, 0, strips - 1)
    groups = {i: group for i in range(strips) if len(group := similarity[which == i]) > 9}
    middles = (0.5 * (edges[1:] + edges[:-1])).tolist()
    mean = [groups[i].mean() if i in groups else np.nan for i in range(strips)]
    high = [np.quantile(groups[i], 0.9) if i in groups else np.nan for i in range(strips)]
    mark = "o" if strips < 25 else ""  # a strip without neighbours has no line
    axes.plot(
        middles, mean, f"{mark}-", color=QUERY, linewidth=1.8, markersize=4, label="mean, zeros included"
    )
    axes.plot(middles, high, f"{mark}:", color=QUERY, linewidth=1.6, markersize=4, label="90 % are below")


def _draw_heat_map(figure: Any, axes: Any, means: Any, distances: Any, turns: Any) -> None:
    known = np.ma.masked_invalid(means)
    mesh = axes.pcolormesh(distances, turns, known, vmin=0, vmax=1, cmap="magma")
    if _squares(means) >= FEWEST_SQUARES and known.min() < 0.5 < known.max():
        x, y = 0.5 * (distances[1:] + distances[:-1]), 0.5 * (turns[1:] + turns[:-1])
        contours = axes.contour(x, y, known, levels=[0.5], colors="white", linewidths=1.4)
        axes.clabel(contours, fmt="ψ = %.1f", fontsize=8)
    axes.grid(False)
    axes.set_facecolor("#f2f3f5")  # no pair fell here
    axes.set_xlabel("distance [m]")
    axes.set_ylabel("turn [deg]")
    axes.set_yticks(range(0, 181, 45))
    axes.set_title("mean similarity" if known.count() == known.size else "mean similarity (blank: no pair)")
    figure.colorbar(mesh, ax=axes, pad=0.02)


def _squares(means: Any) -> int:
    """How often four neighbouring cells all hold pairs, as one piece of a surface or a contour needs."""
    known = np.isfinite(means)
    return int((known[1:, 1:] & known[1:, :-1] & known[:-1, 1:] & known[:-1, :-1]).sum())


def _draw_surface(axes: Any, means: Any, distances: Any, turns: Any) -> None:
    if _squares(means) >= FEWEST_SQUARES:
        x, y = np.meshgrid(0.5 * (distances[1:] + distances[:-1]), 0.5 * (turns[1:] + turns[:-1]))
        known = np.ma.masked_invalid(means)
        axes.plot_surface(x, y, known, cmap="magma", vmin=0, vmax=1, linewidth=0, rstride=1, cstride=1)
    else:
        axes.text2D(0.5, 0.5, "too few pairs for a surface", transform=axes.transAxes, ha="center")
    axes.set_xlim(distances[0], distances[-1])
    axes.set_ylim(turns[0], turns[-1])
    axes.set_xlabel("distance [m]")
    axes.set_ylabel("turn [deg]")
    axes.set_zlabel("similarity ψ")
    axes.set_zlim(0, 1)
    axes.view_init(28, -130)
    axes.set_title("the same as a surface")
