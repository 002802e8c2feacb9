"""What the network makes of photos: differences of pairs laid out in the plane, and where in a photo it looks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from samespot.figures.report_runs import ActivationRow, ReportRun, RunDifferences
from samespot.figures.report_sections.looks import colours
from samespot.figures.report_sections.markup import Plot, Section, esc, figure, unbroken
from samespot.figures.report_sections.photos import PhotoStore, upright

MOST_PAIRS = 2500
HEAT = "inferno"
SIDE = 240  # [px] of a photo with its heat


def inside_the_network(
    runs: Sequence[ReportRun],
    differences: Sequence[RunDifferences],
    activations: Sequence[ActivationRow],
    photos: PhotoStore,
) -> Section | None:
    body = _differences(differences) + _activations(runs, activations, photos)
    return Section("network", "Inside the network", body) if body else None


def _differences(found: Sequence[RunDifferences]) -> str:
    there = [one for one in found if len(one.points)]
    if not there:
        return ""
    pairs = len(there[0].points)
    caption = (
        f"Each dot is the difference between the descriptors of two photos: {pairs:,} pairs laid out by t-SNE and"
        " coloured by their overlap ψ. Where colours change smoothly, the network has learned how much two photos"
        " share, not only whether they do."
    )
    scale = '<div class="scale" aria-hidden="true"><span>ψ = 0</span><i></i><span>1</span></div>'
    return figure([_scatter(one) for one in there], caption, note=scale)


def _scatter(one: RunDifferences) -> Plot:
    some = np.arange(len(one.points))
    if len(some) > MOST_PAIRS:
        some = np.sort(np.random.default_rng(0).permutation(len(some))[:MOST_PAIRS])
    dots = {
        "x": one.points[some, 0],
        "y": one.points[some, 1],
        "mode": "markers",
        "marker": {
            "size": 4,
            "opacity": 0.85,
            "color": one.overlap[some],
            "colorscale": [[0, "@low"], [0.5, "@middle"], [1, "@high"]],
            "cmin": 0,
            "cmax": 1,
        },
        "hovertemplate": "ψ = %{marker.color:.2f}<extra></extra>",
    }
    bare = {"showgrid": False, "zeroline": False, "showticklabels": False, "showline": False, "ticks": ""}
    axes = {
        "xaxis": bare,
        "yaxis": {**bare, "scaleanchor": "x"},
        "margin": {"l": 6, "r": 6, "t": 6, "b": 6},
        "hovermode": "closest",
    }
    words = (
        f"t-SNE of the descriptor differences of {len(one.points):,} pairs by {one.run}, coloured by overlap"
    )
    return Plot([dots], axes, words, height=340, title=one.run)


def _activations(runs: Sequence[ReportRun], rows: Sequence[ActivationRow], photos: PhotoStore) -> str:
    shown = colours(runs)
    names = list(dict.fromkeys(name for row in rows for name in row.maps))
    drawn = []
    for row in rows:
        picture = upright(row.photo, SIDE)
        if picture is None:
            continue
        tiles = [_tile(photos.add_picture(picture), row.photo.name, "the photo", "ink")]
        tiles += [
            _tile(
                photos.add_picture(heated(picture, row.maps[name])),
                f"{row.photo.name} with the activation of {name}",
                name,
                shown.get(name, "ink"),
            )
            for name in names
            if name in row.maps
        ]
        drawn.append(f'<div class="activation">{"".join(tiles)}</div>')
    if not drawn:
        return ""
    caption = (
        "Where each run’s descriptor comes from: the brighter a part of the photo, the more it contributes. Each map"
        " is scaled to its own maximum."
    )
    body = f"<div class='activations'>{''.join(drawn)}</div>"
    return f"<figure>{body}<figcaption>{unbroken(caption)}</figcaption></figure>"


def _tile(photo: int, alt: str, words: str, colour: str) -> str:
    return (
        f'<div class="tile" style="--swatch:var(--{colour})"><img data-photo="{photo}" alt="{esc(alt)}">'
        f'<span class="run">{esc(words)}</span></div>'
    )


def heated(picture: NDArray[np.uint8], activation: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(h, w, 3) photo, greyed, with the activation over it: the stronger, the more of the colour."""
    import matplotlib
    from PIL import Image

    heat = np.asarray(activation, dtype=np.float32)
    heat = np.nan_to_num(heat - np.nanmin(heat)) if heat.size else np.zeros((1, 1), np.float32)
    heat = heat / max(float(heat.max()), 1e-12)
    size = (picture.shape[1], picture.shape[0])
    wide = np.asarray(Image.fromarray(heat).resize(size, Image.Resampling.BICUBIC)).clip(0, 1)[..., None]
    grey = picture.mean(axis=2, keepdims=True).repeat(3, axis=2)
    colour = 255 * matplotlib.colormaps[HEAT](wide[..., 0])[..., :3]
    share = 0.15 + 0.65 * wide
    mixed: NDArray[np.uint8] = np.rint((1 - share) * grey + share * colour).clip(0, 255).astype(np.uint8)
    return mixed
