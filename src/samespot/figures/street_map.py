"""A town from above: where the photos of two drives were taken, and how many matches each query has."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from samespot.figures.style import MAP, house_style, save, without_pale
from samespot.overlap.labels import POSITIVE, PairLabels
from samespot.places.table import Places


def draw_street_map(path: str | Path, queries: Places, places: Places, labels: PairLabels) -> Path:
    """Map images as small blue ticks along their heading; queries coloured by their number of positives."""
    positives = np.array([int((labels.row(i)[1] >= POSITIVE).sum()) for i in range(len(labels))])
    with house_style() as plt:
        figure, axes = plt.subplots(figsize=(8.2, 6.6), layout="constrained")
        x, y, heading = places.positions.T
        east, north = np.sin(np.deg2rad(heading)), np.cos(np.deg2rad(heading))
        axes.quiver(
            x, y, east, north, color=MAP, alpha=0.35, scale=60, width=0.0016, headwidth=4, label="map image"
        )
        at = queries.positions
        shown = axes.scatter(
            at[:, 0],
            at[:, 1],
            c=positives,
            cmap=without_pale("magma_r", 0.2),
            s=12,
            edgecolors="none",
            label="query",
        )
        figure.colorbar(shown, ax=axes, pad=0.01, label="map images with ψ ≥ .5")
        axes.set_aspect("equal")
        axes.set_xlabel("easting [m]")
        axes.set_ylabel("northing [m]")
        without = int((positives == 0).sum())
        axes.set_title(
            f"{len(queries):,} queries, {len(places):,} map images; {without:,} queries without a positive"
        )
        return save(figure, path)
