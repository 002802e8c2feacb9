"""Draws the pictures of the README and the docs: `python docs/figures.py` writes docs/images/."""

from pathlib import Path

import numpy as np
from PIL import Image

from samespot import sector_overlap
from samespot.demo import drive
from samespot.figures.sectors import draw_sectors
from samespot.figures.similarity import draw_relation, sample_pairs
from samespot.figures.street_map import draw_street_map
from samespot.figures.style import INK, MAP, QUERY, SHARED, house_style, save
from samespot.overlap.annotate import label_pairs

IMAGES = Path(__file__).parent / "images"


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


def town() -> list[Path]:
    """The demo's town and how its labels depend on distance and turn."""
    queries, places = drive(7, 1), drive(7, 0)
    labels = label_pairs(queries, places)
    sample = sample_pairs(labels, queries, places, within=100.0)
    return [
        draw_street_map(IMAGES / "town.png", queries, places, labels),
        draw_relation(IMAGES / "distance_and_turn.png", sample),
    ]


if __name__ == "__main__":
    for path in (overlap(), measures(), *town()):
        picture = Image.open(path).convert("RGB")
        picture.thumbnail((1400, 1400), Image.Resampling.LANCZOS)
        picture.quantize(256, Image.Quantize.FASTOCTREE).save(path, optimize=True)  # a third of the size
        print(f"{path} {path.stat().st_size // 1024} KB")
