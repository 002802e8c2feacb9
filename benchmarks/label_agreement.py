"""Do labels say what photos share? Each kind of label against true overlap, other sectors, and what errors cost.

`study` is what `benchmarks/town_labels.py` writes: plain lists and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samespot.errors import InputError
from samespot.figures.recall_curves import COLOURS, looks
from samespot.figures.style import GREY, INK, QUERY, SHARED, house_style, save, without_pale

Study = Mapping[str, Any]
KINDS = {
    "weak 2D": "Weak 2D: GPS and compass",
    "strong 2D": "Strong 2D: exact poses",
    "3D": "3D: IoU of the points seen",
}
USUAL = (90, 50)  # angle [deg] and radius [m] of the paper


def draw_label_agreement(path: str | Path, study: Study) -> Path:
    """Pairs by label and true overlap, one panel a kind of label; then both against distance, looking one way."""
    _need(study, "kinds", "ahead")
    with house_style() as plt:
        figure, axes = plt.subplots(2, 2, figsize=(9.4, 8.2), layout="constrained")
        most = max(np.max(study["kinds"][name]["density"]) for name in KINDS)
        for panel, name in zip(axes.flat, KINDS, strict=False):
            image = _density(panel, name, study["kinds"][name], most)
        figure.colorbar(image, ax=axes, shrink=0.5, pad=0.01, label="pairs")
        _ahead(axes[1, 1], study["ahead"])
        return save(figure, path)


def _density(axes: Any, name: str, found: Mapping[str, Any], most: int) -> Any:
    """Pairs as a density, with the mean and the middle half of the truth in tenths of the label."""
    from matplotlib.colors import LogNorm

    counts = np.asarray(found["density"], dtype=np.float64)
    image = axes.imshow(
        np.where(counts > 0, counts, np.nan).T,
        origin="lower",
        extent=(0, 1, 0, 1),
        norm=LogNorm(1, most),
        cmap=without_pale("Purples", 0.12),
        interpolation="nearest",
    )
    curve = found["reliability"]
    x, y = np.array(curve["label"]), np.array(curve["true"])
    low, high = np.array(curve["quartiles"]).T
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.2, linestyle=(0, (4, 3)), label="label = true")
    bars = np.stack([y - low, high - y]).clip(0)  # a mean may lie outside the middle half
    axes.errorbar(x, y, bars, fmt="none", ecolor=INK, elinewidth=1.2, alpha=0.75)
    axes.plot(x, y, "o-", color=INK, markersize=5, markeredgecolor="white", label="mean and middle half")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), xlabel="label ψ", ylabel="true overlap", aspect="equal")
    axes.grid(False)
    axes.set_title(KINDS[name])
    axes.text(0.03, 0.96, f"r = {found['pearson'][0]:.2f}", transform=axes.transAxes, va="top", weight="bold")
    axes.legend(loc="lower right", fontsize=8.5, frameon=True, framealpha=0.85, edgecolor="none")
    return image


def _ahead(axes: Any, found: Mapping[str, Any]) -> None:
    edges = np.asarray(found["metres"], dtype=np.float64)
    middle = 0.5 * (edges[1:] + edges[:-1])
    drawn = {
        "true": ("true overlap", INK, "-", "o"),
        "strong 2D": ("strong 2D", SHARED, "--", "s"),
        "3D": ("3D, IoU", COLOURS[2], ":", "^"),
        "3D, as a share": ("3D, 2 IoU / (1 + IoU)", COLOURS[5], "-.", "v"),
    }
    for name, (label, colour, dashes, marker) in drawn.items():
        look = {"color": colour, "linestyle": dashes, "marker": marker, "markersize": 4.5}
        axes.plot(middle, found[name], label=label, linewidth=2, **look)
    axes.set(xlim=(0, edges[-1]), ylim=(-0.01, 1.01), xlabel="apart [m]", ylabel="mean over pairs")
    axes.set_box_aspect(1)
    axes.set_title("Two photos that look the same way")
    axes.legend()


def draw_sector_sweep(path: str | Path, study: Study) -> Path:
    """Correlation with true overlap for each opening angle and radius: exact positions, and rough ones."""
    _need(study, "sweep")
    found = study["sweep"]
    gps, compass = found["rough"]
    titles = {"exact": "Exact poses", "rough": f"GPS error σ {gps:g} m, compass {compass:g}°"}
    with house_style() as plt:
        figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
        least, most = (f([np.asarray(v) for v in found["pearson"].values()]) for f in (np.min, np.max))
        for panel, (name, title) in zip(axes, titles.items(), strict=True):
            values = np.asarray(found["pearson"][name])
            image = panel.imshow(values, origin="lower", aspect="auto", cmap="viridis", vmin=least, vmax=most)
            panel.grid(False)
            panel.set_title(title)
            panel.set_xticks(range(len(found["radius"])), [f"{r:g}" for r in found["radius"]])
            panel.set_yticks(range(len(found["theta"])), [f"{t:g}" for t in found["theta"]])
            panel.set_xlabel("radius r [m]")
            _marks(panel, found, name, values)
        axes[0].set_ylabel("opening angle θ [deg]")
        figure.colorbar(image, ax=axes, pad=0.01, label="Pearson r with true overlap")
        return save(figure, path)


def _marks(axes: Any, found: Mapping[str, Any], name: str, values: Any) -> None:
    """The best cell and the paper's, each with its number; one mark if they are the same."""
    theta, radius = (list(found[axis]) for axis in ("theta", "radius"))
    best = tuple(found["best"][name][:2])
    for (t, r), word in {USUAL: "paper", best: "best"}.items():
        if t not in theta or r not in radius:
            continue
        x, y = radius.index(r), theta.index(t)
        axes.plot(x, y, "s", markersize=26, markerfacecolor="none", markeredgecolor=QUERY, markeredgewidth=2)
        ink = "white" if values[y, x] < np.mean([values.min(), values.max()]) else INK
        axes.text(
            x,
            y,
            f"{word}\n{values[y, x]:.2f}",
            ha="center",
            va="center",
            fontsize=7.5,
            color=ink,
            weight="bold",
        )


def draw_label_noise(path: str | Path, study: Study) -> Path:
    """Against errors of GPS and of the compass: correlation, and positives that truly share next to nothing."""
    _need(study, "noise")
    found = study["noise"]
    inputs = {"gps": "GPS error σ, east and north each [m]", "compass": "compass error σ [deg]"}
    with house_style() as plt:
        figure, axes = plt.subplots(
            2, 2, figsize=(9.8, 6.6), layout="constrained", sharex="col", sharey="row"
        )
        for column, (what, label) in enumerate(inputs.items()):
            series = {name: values for name, values in found[what].items() if name != "sigma"}
            for name, look in looks(series).items():
                _band(axes[0, column], name, found[what]["sigma"], series[name]["pearson"], 1, look)
                _band(axes[1, column], name, found[what]["sigma"], series[name]["misled"], 100, look)
            axes[1, column].set_xlabel(label)
            _points(axes[0, column], study)
        axes[0, 0].set(ylim=(0, 1), ylabel="Pearson r with true overlap")
        axes[1, 0].set(ylabel="positives with true overlap < 0.1 [%]")
        axes[1, 0].set_ylim(bottom=0)
        axes[0, 0].set_title("GPS off, compass exact")
        axes[0, 1].set_title("Compass off, GPS exact")
        handles, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        return save(figure, path)


def _band(axes: Any, name: str, x: Any, values: Any, factor: float, look: Mapping[str, Any]) -> None:
    """The mean over draws, and a band from the least to the most."""
    mean, low, high = factor * np.asarray(values).T
    axes.fill_between(x, low, high, color=look["color"], alpha=0.18, linewidth=0)
    axes.plot(x, mean, label=name, linewidth=2, markersize=5, markeredgecolor="white", **look)


def _points(axes: Any, study: Study) -> None:
    """3D labels as a level to compare with: they are measured on exact poses."""
    if "kinds" in study:
        look = {"color": GREY, "linewidth": 1.4, "linestyle": (0, (4, 3))}
        axes.axhline(study["kinds"]["3D"]["pearson"][0], label="3D, exact poses", **look)


def _need(study: Study, *parts: str) -> None:
    missing = [part for part in parts if part not in study]
    if missing:
        raise InputError(f"the study holds no {missing[0]}; run benchmarks/town_labels.py again")
