"""Draws the pictures of the README and the docs: `python docs/figures.py` writes docs/images/."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from samespot import Places, Whitening, label_pairs, sector_overlap
from samespot.figures.batch_histogram import batch_histogram
from samespot.figures.sectors import draw_sectors
from samespot.figures.similarity import draw_relation, sample_pairs
from samespot.figures.style import GREY, INK, MAP, QUERY, SHARED, house_style, save, without_pale
from samespot.town.build import build_town
from samespot.training.losses.contrastive import MARGIN, pair_losses
from samespot.training.sets import LabelledSet

IMAGES = Path(__file__).parent / "images"
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
SIMILARITIES = (0.0, 0.25, 0.5, 0.75, 1.0)
STEPS = {  # of the flow, each with what it does
    "places": "where was each\nphoto taken?",
    "label": "how much do\ntwo views share?",
    "train": "near in view,\nnear as vectors",
    "describe": "one vector\nper photo",
    "whiten": "shorter,\neven vectors",
    "search": "the k nearest\nof the map",
    "evaluate": "how often is\nthe place found?",
    "report": "one page\nto show",
}


def flow() -> Path:
    """From photos with positions to a report, step by step."""
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(13.2, 2.5))
        axes.axis("off")
        for i, (name, words) in enumerate(STEPS.items()):
            colour = SHARED if name in ("label", "train") else MAP
            box = FancyBboxPatch(
                (1.65 * i, 0),
                1.3,
                1.0,
                boxstyle="round,pad=0.02,rounding_size=0.1",
                ec=colour,
                fc=f"{colour}14",
            )
            axes.add_patch(box)
            axes.text(
                1.65 * i + 0.65,
                0.76,
                name,
                ha="center",
                va="center",
                fontsize=13,
                weight="bold",
                color=colour,
            )
            axes.text(1.65 * i + 0.65, 0.34, words, ha="center", va="center", fontsize=8.0, linespacing=1.35)
            if i:
                ends = (1.65 * i - 0.31, 0.5), (1.65 * i - 0.04, 0.5)
                axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=13, color=INK, lw=1.2))
        for first, last, words in (
            (0, 1, "similarity ψ from 0 to 1"),
            (2, 2, "the graded loss"),
            (3, 5, "exact, on a CPU or a GPU"),
            (6, 7, "named protocols, with intervals"),
        ):
            left, right = 1.65 * first, 1.65 * last + 1.3
            axes.plot([left, left, right, right], [-0.12, -0.19, -0.19, -0.12], color=GREY, lw=1)
            axes.text((left + right) / 2, -0.36, words, ha="center", va="center", fontsize=9.5, color=INK)
        axes.set(xlim=(-0.1, 1.65 * len(STEPS) - 0.25), ylim=(-0.5, 1.08))
        return save(figure, IMAGES / "flow.png")


def overlap() -> Path:
    """Four pairs, from nearly the same view to none."""
    pairs = [[6, 4, 352], [0, 0, 40], [25, 0, 0], [10, -8, 180]]
    with house_style() as plt:
        figure, axes = plt.subplots(1, 4, figsize=(13.2, 3.7), layout="constrained")
        for panel, place in zip(axes, pairs, strict=True):
            draw_sectors(panel, [0, 0, 0], place, theta=90, radius=50)
            share = float(sector_overlap([0, 0, 0], place))
            panel.set_title(f"overlap {share:.2f}", color=SHARED, fontsize=13)
            panel.set(xlim=(-64, 64), ylim=(-62, 56), xticks=[], yticks=[], xlabel="", ylabel="")
            panel.grid(False)
            panel.get_legend().remove()
            panel.spines[:].set_visible(False)
        axes[0].legend(loc="lower left", handletextpad=0.1, borderpad=0)
        return save(figure, IMAGES / "overlap.png")


def measures() -> Path:
    """What the paper's text and its figures call the same: IoU and the share of one sector."""
    turn, step = np.linspace(0, 120, 241), np.linspace(0, 80, 241)
    still, ahead = np.zeros_like(turn), np.zeros_like(step)
    with house_style() as plt:
        figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", sharey=True)
        for measure, colour, style in (("overlap", SHARED, "-"), ("iou", MAP, "--")):
            turned = sector_overlap([0, 0, 0], np.column_stack([still, still, turn]), measure=measure)
            moved = sector_overlap([0, 0, 0], np.column_stack([step, ahead, ahead]), measure=measure)
            axes[0].plot(turn, turned, style, color=colour, label=measure, linewidth=2)
            axes[1].plot(step, moved, style, color=colour, label=measure, linewidth=2)
        for panel, at, printed in ((axes[0], 40, 0.5563), (axes[1], 25, 0.4501)):
            panel.plot(
                at, printed, "o", color=QUERY, markersize=8, zorder=5, label=f"the paper: {printed:.2%}"
            )
            panel.axhline(0.5, color=INK, linewidth=0.7, linestyle=":")
            panel.legend()
        axes[0].set(xlabel="turned on the spot [deg]", ylabel="similarity ψ", ylim=(0, 1), xlim=(0, 120))
        axes[1].set(xlabel="moved sideways [m]", xlim=(0, 80))
        return save(figure, IMAGES / "measures.png")


def loss() -> Path:
    """Loss and slope against the distance, for five similarities, by the loss itself and its autograd."""
    distance = torch.linspace(0.001, 0.9, 900, dtype=torch.float64)
    with house_style() as plt:
        figure, axes = plt.subplots(1, 2, figsize=(10.6, 4.0), layout="constrained")
        for similarity, colour in zip(SIMILARITIES, _colours(), strict=True):
            value, slope = _loss_at(distance, similarity)
            for panel, line in zip(axes, (value, slope), strict=True):
                panel.plot(distance, line, color=colour, linewidth=2, label=f"ψ = {similarity:g}")
            rest = MARGIN * (1 - similarity)
            height = 0.5 * MARGIN**2 * similarity * (1 - similarity)
            axes[0].plot(rest, height, "o", color=colour, markersize=8, zorder=5, clip_on=False)
            axes[1].plot(rest, 0, "o", color=colour, markersize=8, zorder=5, clip_on=False)
        for panel in axes:
            panel.axvline(MARGIN, color=INK, linewidth=0.8, linestyle=":")
            panel.set(xlabel="distance d of the two descriptors", xlim=(0, 0.9))
        axes[0].text(MARGIN + 0.01, 0.225, "margin τ", color=INK)
        axes[0].set(ylabel="loss", ylim=(0, 0.24), title="Each pair has its own lowest point")
        axes[1].axhline(0, color=INK, linewidth=0.8)
        axes[1].set(ylabel="slope of the loss", title="Below 0 it pushes apart, above it pulls together")
        axes[0].legend(loc="upper left", bbox_to_anchor=(0.12, 1.0))
        return save(figure, IMAGES / "loss.png")


def _loss_at(distance: torch.Tensor, similarity: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(n,) loss of pairs that lie so far apart, and its derivative."""
    apart = distance.clone().requires_grad_()
    losses = pair_losses(
        apart[:, None], torch.zeros_like(apart)[:, None], torch.full_like(distance, similarity)
    )
    (slope,) = torch.autograd.grad(losses.sum(), apart)
    return losses.detach(), slope


def _colours() -> Any:
    return without_pale("plasma", 0.0)(np.linspace(0.85, 0.05, len(SIMILARITIES)))


def resting() -> Path:
    """Descriptors of pairs left to the loss alone: whatever they start with, they come to rest at τ(1 − ψ)."""
    torch.manual_seed(3)
    with house_style() as plt:
        figure, axes = plt.subplots(1, 2, figsize=(10.6, 4.0), layout="constrained")
        for similarity, colour in zip(SIMILARITIES, _colours(), strict=True):
            tracks = _left_to_the_loss(similarity, pairs=8)
            for i, track in enumerate(tracks.T):
                label = f"ψ = {similarity:g}" if i == 0 else None
                axes[0].plot(track, color=colour, linewidth=1, alpha=0.75, label=label)
            axes[1].plot(
                tracks[-1], np.full(tracks.shape[1], similarity), "o", color=colour, markersize=7, alpha=0.6
            )
        axes[0].set(
            xlabel="steps", ylabel="distance d", xlim=(0, 79), ylim=(0, 0.95), title="Eight pairs of each ψ"
        )
        axes[0].legend(loc="upper right", ncols=2)
        line = np.array([0.0, MARGIN, 0.95])
        axes[1].plot(
            line, (1 - line / MARGIN).clip(min=0), color=INK, linewidth=1.2, label="ψ̂ = 1 − d/τ, at least 0"
        )
        axes[1].set(xlabel="distance d at the end", ylabel="similarity ψ", xlim=(0, 0.95), ylim=(-0.03, 1.03))
        axes[1].set_title("Read backwards: distance tells ψ")
        axes[1].legend(loc="upper right")
        return save(figure, IMAGES / "resting.png")


def _left_to_the_loss(similarity: float, pairs: int) -> np.ndarray:
    """(steps, pairs) distances of unit vectors that gradient descent moves."""
    x = torch.nn.functional.normalize(torch.randn(pairs, 8, dtype=torch.float64), dim=1)
    away = torch.randn(pairs, 8, dtype=torch.float64) * torch.linspace(0.03, 0.28, pairs)[:, None]
    y = torch.nn.functional.normalize(x + away, dim=1).requires_grad_()
    track = []
    for _ in range(80):
        track.append((x - y).norm(dim=1).detach().numpy())
        (slope,) = torch.autograd.grad(pair_losses(x, y, torch.full((pairs,), similarity)).sum(), y)
        y = torch.nn.functional.normalize(y.detach() - 0.1 * slope, dim=1).requires_grad_()
    return np.stack(track)


def whitening() -> Path:
    """Four places, many photos each: one direction (the light of the day) drowns the one that tells places apart."""
    rng = np.random.default_rng(4)
    place = np.repeat(np.arange(4), 40)
    light = rng.normal(0.0, 0.30, len(place))
    kind = 0.035 * (place - 1.5) + rng.normal(0, 0.01, len(place))
    raw = np.column_stack([1 + light + 0.8 * kind, 0.9 + 0.8 * light - kind])
    fitted = Whitening.fit(raw, "the map")
    spread = (raw - fitted.mean) @ (fitted.axes / np.sqrt(fitted.variances)[:, None]).T
    panels = {"as described": raw - fitted.mean, "turned and stretched": spread}
    with house_style() as plt:
        figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
        for panel, (title, points) in zip(axes, panels.items(), strict=True):
            for one, colour in enumerate((QUERY, MAP, "#e0a64a", "#1f6b45")):
                mine = points[place == one]
                panel.scatter(*mine.T, s=18, color=colour, alpha=0.8, linewidths=0, label=f"place {one + 1}")
            reach = 1.08 * np.abs(points).max()
            panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
            panel.set_title(
                f"{title}: the nearest is right {_nearest_is_right(points, place):.0%}", fontsize=10.5
            )
        axes[0].legend(loc="upper left", handletextpad=0.1, fontsize=9)
        return save(figure, IMAGES / "whitening.png")


def _nearest_is_right(points: np.ndarray, place: np.ndarray) -> float:
    """Share of the photos whose nearest other photo is of the same place."""
    apart = np.linalg.norm(points[:, None] - points, axis=-1)
    np.fill_diagonal(apart, np.inf)
    return float((place[apart.argmin(axis=1)] == place).mean())


def searching() -> Path:
    """A query among the map's descriptors: the k nearest, and the overlap that each distance promises."""
    from matplotlib.patches import Circle

    rng = np.random.default_rng(12)
    at = rng.uniform(-0.72, 0.72, (26, 2))
    distance = np.hypot(*at.T)
    nearest = np.argsort(distance)[:5]
    with house_style() as plt:
        figure, (plane, table) = plt.subplots(
            1, 2, figsize=(9.6, 4.4), width_ratios=[1, 1.05], layout="constrained"
        )
        for promised in (0.75, 0.5, 0.25, 0.0):
            radius = MARGIN * (1 - promised)
            plane.add_patch(Circle((0, 0), radius, fill=False, ec=SHARED, lw=1, ls=":" if promised else "--"))
            at_rim = radius * 0.7071
            plane.text(
                -at_rim,
                at_rim + 0.015,
                f"ψ̂ = {promised:g}",
                color=SHARED,
                ha="center",
                fontsize=8.5,
                bbox=WHITE,
            )
        plane.scatter(*at.T, s=30, color=MAP, alpha=0.35, linewidths=0)
        plane.scatter(*at[nearest].T, s=42, color=MAP, linewidths=0, label="map photos")
        plane.plot(0, 0, "*", color=QUERY, markersize=16, label="query")
        for rank, row in enumerate(nearest, start=1):
            plane.annotate(
                str(rank), at[row], xytext=(6, 4), textcoords="offset points", color=MAP, weight="bold"
            )
        plane.set(xlim=(-0.75, 0.75), ylim=(-0.75, 0.75), aspect="equal", xticks=[], yticks=[])
        plane.grid(False)
        plane.legend(loc="lower left", handletextpad=0.1, frameon=True, framealpha=0.9, edgecolor="none")
        plane.set_title("k = 5 nearest of the map")
        ranks, promise = np.arange(1, 6), (1 - distance[nearest] / MARGIN).clip(min=0)
        table.barh(ranks, promise, color=SHARED, alpha=0.75, height=0.6)
        for rank, share, far in zip(ranks, promise, distance[nearest], strict=True):
            table.text(share + 0.02, rank, f"d = {far:.2f}, so ψ̂ = {share:.2f}", va="center", fontsize=9)
        table.set(
            xlim=(0, 1.35),
            xticks=np.linspace(0, 1, 6),
            ylim=(5.6, 0.4),
            yticks=ranks,
            xlabel="predicted overlap ψ̂",
            ylabel="rank",
        )
        table.grid(visible=False, axis="y")
        table.set_title("What each match promises")
        return save(figure, IMAGES / "search.png")


def town() -> list[Path]:
    """From the built-in town, labelled by its noisy GPS and compass: labels over distance and turn, and batches."""
    with tempfile.TemporaryDirectory() as scratch:
        photos = build_town(Path(scratch) / "town", depth=False)
        train = photos.select((photos.table["split"] == "train").to_numpy())
        labels = label_pairs(train, train)
        return [
            draw_relation(IMAGES / "distance_and_turn.png", sample_pairs(labels, train, train, within=100.0)),
            _batches(train),
        ]


def _batches(train: Places) -> Path:
    """As the demo labels: streets are narrow, so a view reaches 30 m."""
    sets = [LabelledSet(train, train, label_pairs(train, train, 90.0, 30.0))]
    return batch_histogram(sets, IMAGES / "batches.png")


def planet() -> Path:
    """What benchmarks/planet.py wrote: the simulation against measured maps, and of maps that cannot be measured."""
    found = json.loads((IMAGES.parent / "results" / "planet.json").read_text())
    with house_style() as plt:
        figure, (check, grown) = plt.subplots(
            1, 2, figsize=(11.6, 4.2), width_ratios=[1, 1.35], layout="constrained"
        )
        for name, colour in (("campus", QUERY), ("town", MAP)):
            rows = list(found["check"][name]["rows"].values())[:5]  # the others are those that it misses
            photos = [row["photos"] for row in rows]
            for k, style in ((1, "-"), (5, "--")):
                check.plot(
                    photos, [row[f"simulated R@{k}"] for row in rows], style, color=colour, linewidth=1.5
                )
                label = f"{name}, R@{k}" if k == 1 else f"R@{k}"
                check.plot(
                    photos,
                    [row[f"measured R@{k}"] for row in rows],
                    "o",
                    color=colour,
                    label=label,
                    fillstyle="full" if k == 1 else "none",
                )
            sizes = [float(size) for size in found["grown"][name]]
            for word, style in (("anywhere", "-"), ("within 1 km", "--")):
                rows = [row[f"R@1 {word}, simulated"] for row in found["grown"][name].values()]
                value, low, high = np.array(rows).T
                grown.plot(sizes, value, style, color=colour, linewidth=2, label=f"{name}, {word}")
                grown.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
        check.set(xscale="log", xlabel="photos of the map", ylabel="recall [%]", ylim=(0, 100))
        check.set_title("Measured (dots), simulated (lines)")
        check.legend(fontsize=8.5, ncols=2)
        grown.set(xscale="log", xlabel="photos of the map", ylabel="R@1 [%]", ylim=(0, None))
        grown.set_title("Simulated: how often the nearest is right")
        grown.legend(fontsize=8.5)
        return save(figure, IMAGES / "planet.png")


if __name__ == "__main__":
    pictures = (flow(), overlap(), measures(), loss(), resting(), whitening(), searching(), *town(), planet())
    for path in pictures:
        picture = Image.open(path).convert("RGB")
        picture.thumbnail((1400, 1400), Image.Resampling.LANCZOS)
        picture.quantize(256, Image.Quantize.FASTOCTREE).save(path, optimize=True)  # a third of the size
        print(f"{path} {path.stat().st_size // 1024} KB")
