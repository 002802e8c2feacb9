"""What a set of labels looks like: how similar its pairs are, and how that depends on distance and turn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samespot.figures.style import CLASSES, INK, QUERY, house_style, save
from samespot.overlap.labels import PairLabels
from samespot.places.table import Places

SAMPLED_PAIRS = 200_000


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

    tree = cKDTree(places.positions[:, :2])
    order = np.random.default_rng(seed).permutation(len(queries))
    distance, turn, similarity, total = [], [], [], 0
    for query in order:
        here = queries.positions[query]
        near = np.sort(np.asarray(tree.query_ball_point(here[:2], within), dtype=np.int64))
        if labels.meta.get("same_table"):
            near = near[near != query]
        if len(near) == 0:
            continue
        there = places.positions[near]
        columns, values = labels.row(int(query))
        at = np.searchsorted(columns, near)
        known = (
            (at < len(columns)) & (columns[np.minimum(at, len(columns) - 1)] == near)
            if len(columns)
            else at < 0
        )
        found = np.zeros(len(near), np.float32)
        found[known] = values[at[known]]
        distance.append(np.hypot(there[:, 0] - here[0], there[:, 1] - here[1]))
        turn.append(np.abs((there[:, 2] - here[2] + 180) % 360 - 180))
        similarity.append(found)
        total += len(near)
        if total >= most:
            break
    if not distance:
        return PairSample(np.zeros(0), np.zeros(0), np.zeros(0, np.float32))
    return PairSample(np.concatenate(distance), np.concatenate(turn), np.concatenate(similarity))


def draw_histogram(path: str | Path, labels: PairLabels, *, title: str = "") -> Path:
    """Histogram of the similarities > 0, coloured by class, with the share of each class of all pairs."""
    counts = labels.counts()
    bins = np.linspace(0, 1, 41)
    heights = np.zeros(40, np.int64)
    for start in range(0, len(labels.similarity), 1 << 22):
        heights += np.histogram(labels.similarity[start : start + (1 << 22)], bins)[0]
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
        axes.yaxis.set_major_formatter(plt.FuncFormatter(lambda v, _: f"{v:,.0f}"))
        pairs = counts["pairs"]
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
            title=f"of {pairs:,} pairs",
            loc="upper right",
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
    with house_style() as plt:
        figure = plt.figure(figsize=(11.0, 8.2), layout="constrained")
        _draw_against(figure.add_subplot(2, 2, 1), sample.distance, sample.similarity, "distance [m]")
        _draw_against(figure.add_subplot(2, 2, 2), sample.turn[known], sample.similarity[known], "turn [deg]")
        means, distances, turns = mean_over_distance_and_turn(sample)
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
    shown = similarity > 0
    if shown.any():
        most = float(values.max()) or 1.0
        axes.hexbin(
            values[shown], similarity[shown], gridsize=45, bins="log", cmap="Greys", mincnt=1,
            extent=(0, most, 0, 1), linewidths=0.1,
        )  # fmt: skip
        edges = np.linspace(0, most, 26)
        which = np.clip(np.digitize(values, edges) - 1, 0, 24)
        middles = 0.5 * (edges[1:] + edges[:-1])
        groups = [similarity[which == i] if (which == i).sum() > 9 else np.array([np.nan]) for i in range(25)]
        axes.plot(
            middles, [g.mean() for g in groups], color=QUERY, linewidth=1.8, label="mean, zeros included"
        )
        axes.plot(
            middles,
            [np.quantile(g, 0.9) for g in groups],
            ":",
            color=QUERY,
            linewidth=1.6,
            label="90 % are below",
        )
        axes.legend(loc="upper right", fontsize=9)
    axes.set_ylim(0, 1)
    axes.set_xlim(left=0)
    axes.set_xlabel(name)
    axes.set_ylabel("similarity ψ")
    axes.set_title(f"against {name.split(' [')[0]}")


def _draw_heat_map(figure: Any, axes: Any, means: Any, distances: Any, turns: Any) -> None:
    mesh = axes.pcolormesh(distances, turns, means, vmin=0, vmax=1, cmap="magma")
    contours = axes.contour(
        0.5 * (distances[1:] + distances[:-1]),
        0.5 * (turns[1:] + turns[:-1]),
        np.nan_to_num(means),
        levels=[0.5],
        colors="white",
        linewidths=1.4,
    )
    if contours.get_paths() and len(contours.get_paths()[0].vertices):
        axes.clabel(contours, fmt="ψ = %.1f", fontsize=8)
    axes.grid(False)
    axes.set_facecolor("#f2f3f5")  # no pair fell here
    axes.set_xlabel("distance [m]")
    axes.set_ylabel("turn [deg]")
    axes.set_yticks(range(0, 181, 45))
    axes.set_title("mean similarity")
    figure.colorbar(mesh, ax=axes, pad=0.02)


def _draw_surface(axes: Any, means: Any, distances: Any, turns: Any) -> None:
    x, y = np.meshgrid(0.5 * (distances[1:] + distances[:-1]), 0.5 * (turns[1:] + turns[:-1]))
    axes.plot_surface(x, y, np.nan_to_num(means), cmap="magma", vmin=0, vmax=1, linewidth=0, antialiased=True)
    axes.set_xlabel("distance [m]")
    axes.set_ylabel("turn [deg]")
    axes.set_zlabel("similarity ψ")
    axes.set_zlim(0, 1)
    axes.view_init(28, -130)
    axes.set_title("the same as a surface")
