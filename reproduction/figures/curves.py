"""The paper's figures that are lines (9 to 13, 16, 17), and what its legends call a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reproduction.figures.drawings import CM, COLUMN, letter, paper_style
from samespot.evaluation.results import Evaluation, Variant
from samespot.figures.report_runs import ReportRun
from samespot.figures.style import save

GCL, CL, UNTRAINED = "GCL", "CL", "off-the-shelf"
COLOURS = {GCL: "red", CL: "blue", UNTRAINED: "black"}
BACKBONES = {
    "vgg16": "VGG16",
    "resnet18": "ResNet18",
    "resnet34": "ResNet34",
    "resnet50": "ResNet50",
    "resnet152": "ResNet152",
    "resnext101": "ResNeXt",
    "densenet161": "DenseNet161",
    "efficientnet_lite0": "EfficientNet-Lite0",
}
POOLS = {"gem": "GeM", "gap": "avg", "max": "max"}
# matplotlib's markers for those in each of the paper's plots; "*" of pgfplots is a filled circle
STREET_MARKERS = {"vgg16": "^", "resnet50": "s", "resnet152": "o*", "resnext101": "D"}
GARDEN_MARKERS = {"resnet18": "s", "resnet34": "o", "densenet161": "D"}
INDOOR_MARKERS = {"resnet18": "o", "resnet34": "s"}
UNTRAINED_MARKER = "^"  # the paper's NetVLAD off the shelf
POOL_MARKERS = {"gap": "s", "gem": "o"}
SPARE_MARKERS = ("o", "s", "D", "v", "p", "<", ">", "h", "8", "d", "^")
# figure 13 tells backbones apart by colour
SIZE_LOOKS = {
    "vgg16": ("teal", "^"),
    "resnet50": ("blue", "o"),
    "resnet152": ("magenta", "D"),
    "resnext101": ("black", "s"),
}
SPARE_SIZE_LOOKS = (("orange", "v"), ("green", "p"), ("purple", "h"), ("brown", "<"), ("gray", ">"))
GARDEN, INDOOR = "tb-places", "7scenes"
ON_MAP = "on the map"
MOST_PANELS = 8


# ---- what a run is called and how its lines look ----


def loss_of(run: ReportRun) -> str:
    """GCL, CL, or that it was not trained."""
    if not run.options:
        return UNTRAINED
    return CL if run.binary else GCL


def backbone_of(run: ReportRun) -> str:
    return str(_model_fact(run, "backbone"))


def _model_fact(run: ReportRun, name: str) -> Any:
    known = {} if run.evaluation is None else run.evaluation.model
    return known.get(name) or run.options.get(name) or "?"


def model_names(runs: Sequence[ReportRun]) -> dict[str, str]:
    """Run name -> the paper's kind of name, as ResNet50-GeM-GCL; two that would be alike name their runs, too."""
    plain = {run.name: _model_name(run) for run in runs}
    twice = {name for name in plain.values() if list(plain.values()).count(name) > 1}
    return {run: f"{name} ({run})" if name in twice else name for run, name in plain.items()}


def _model_name(run: ReportRun) -> str:
    backbone, pool = backbone_of(run), str(_model_fact(run, "pool"))
    loss = f"-{loss_of(run)}" if run.options else f" {UNTRAINED}"
    return f"{BACKBONES.get(backbone, backbone)}-{POOLS.get(pool, pool)}{loss}"


def whitened_name(name: str) -> str:
    """The paper's word for whitening, before the name of a run."""
    model, bracket, run = name.partition(" (")
    return rf"{model}-PCA$_w${bracket}{run}"


def line_looks(
    runs: Sequence[ReportRun], known: Mapping[str, str], by: Callable[[ReportRun], str] = backbone_of
) -> dict[str, dict[str, Any]]:
    """Run name -> colour by loss, and the marker of its backbone in the paper's plot.

    A second run of the same loss and backbone, or a backbone that the paper has not, takes the next free marker.
    """
    taken: dict[str, list[str]] = {}
    looks = {}
    for run in runs:
        used = taken.setdefault(loss_of(run), [])
        wanted = [known[by(run)]] if by(run) in known else []
        wanted = [UNTRAINED_MARKER, *wanted] if loss_of(run) == UNTRAINED else wanted
        spare = [mark for mark in SPARE_MARKERS if mark not in known.values()]
        marker = next((mark for mark in (*wanted, *spare, *SPARE_MARKERS) if mark not in used), "x")
        used.append(marker)
        colour = COLOURS[loss_of(run)]
        filled = marker.endswith("*")
        looks[run.name] = {
            "color": colour,
            "marker": marker.removesuffix("*"),
            "markerfacecolor": colour if filled else "none",
        }
    return looks


# ---- recall@K: figures 9, 10, 11 ----


@dataclass(frozen=True)
class _Curve:
    label: str
    x: Any
    y: Any  # [%]
    look: Mapping[str, Any]


def recall_curve(
    evaluation: Evaluation, variant: Variant, case: str | None = None
) -> NDArray[np.float64] | None:
    """Recall [%] at each K from 1 to the longest that the protocol asks for; of one case, or of all."""
    ranks, counted = variant.outcomes.get("first_hit"), evaluation.queries.counted
    if case is not None:
        counted = counted & (evaluation.queries.cases == case)
    if ranks is None or not counted.any():
        return None
    ranks = np.asarray(ranks)[counted]
    ks = np.arange(1, max(evaluation.protocol["ks"]) + 1)
    return np.asarray(100 * ((ranks[:, None] > 0) & (ranks[:, None] <= ks)).mean(axis=0), dtype=np.float64)


def draw_street_recall(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 9: dashed as the network gives it, solid whitened."""
    groups = by_protocol(run for run in runs if not protocol_of(run).startswith((GARDEN, INDOOR)))
    panels = {}
    for title, some in groups.items():
        names, looks = model_names(some), line_looks(some, STREET_MARKERS)
        curves = []
        for run in some:
            curves += _raw_and_whitened(run, names[run.name], looks[run.name])
        panels[title] = curves
    return _recall_figure(path, panels, (7.5 * CM, 6 * CM), columns=2, legend="right")


def _raw_and_whitened(run: ReportRun, name: str, look: Mapping[str, Any]) -> list[_Curve]:
    assert run.evaluation is not None
    whitened = whitened_sizes(run.evaluation)
    variants = [(run.evaluation.variant(), name, "--")]
    if whitened:
        variants.append((whitened[max(whitened)], whitened_name(name), "-"))
    curves = [(recall_curve(run.evaluation, one), label, dashes) for one, label, dashes in variants]
    return [
        _Curve(label, np.arange(1, len(recall) + 1), recall, {**look, "linestyle": dashes})
        for recall, label, dashes in curves
        if recall is not None
    ]


def whitened_sizes(evaluation: Evaluation) -> dict[int, Variant]:
    """Dims -> variant whitened on the map as in the paper; on whatever else where there is no such."""
    sources = dict.fromkeys(one.whitening for one in evaluation.variants if one.whitening is not None)
    source = ON_MAP if ON_MAP in sources else next(iter(sources), None)
    return {
        one.dims: one
        for one in evaluation.variants
        if source is not None and one.whitening == source and one.reranked_by is None
    }


def draw_garden_recall(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 10: TB-Places, one panel a protocol."""
    groups = by_protocol(run for run in runs if protocol_of(run).startswith(GARDEN))
    panels = {title: _plain_curves(some, GARDEN_MARKERS) for title, some in groups.items()}
    return _recall_figure(path, panels, (COLUMN, 6 * CM), columns=1, legend="top")


def draw_indoor_recall(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 11: 7Scenes, one panel a scene."""
    groups = by_protocol(run for run in runs if protocol_of(run).startswith(INDOOR))
    some = next(iter(groups.values()), [])  # of its two protocols one
    panels = {case: _plain_curves(some, INDOOR_MARKERS, case) for case in _cases(some)}
    return _recall_figure(path, panels, (5.4 * CM, 4.75 * CM), columns=4, legend="top")


def _plain_curves(
    runs: Sequence[ReportRun], markers: Mapping[str, str], case: str | None = None
) -> list[_Curve]:
    names, looks = model_names(runs), line_looks(runs, markers)
    found = [
        (run, recall_curve(run.evaluation, run.evaluation.variant(), case)) for run in runs if run.evaluation
    ]
    return [
        _Curve(names[run.name], np.arange(1, len(recall) + 1), recall, looks[run.name])
        for run, recall in found
        if recall is not None
    ]


def _recall_figure(
    path: Path,
    panels: Mapping[str, Sequence[_Curve]],
    size: tuple[float, float],
    columns: int,
    legend: Literal["right", "top"],
) -> Path | None:
    return _curves_figure(path, panels, size, columns, legend, "K", "Recall@K (%)")


def _curves_figure(
    path: Path,
    panels: Mapping[str, Sequence[_Curve]],
    size: tuple[float, float],
    columns: int,
    legend: Literal["right", "top"],
    xlabel: str | Sequence[str],
    ylabel: str,
    dress: Callable[[Any], None] | None = None,
) -> Path | None:
    """Panels of lines with one legend for all of them; `size` [inch] of a panel."""
    shown = {title: curves for title, curves in list(panels.items())[:MOST_PANELS] if curves}
    if not shown:
        return None
    columns = min(columns, len(shown))
    lines = -(-len(shown) // columns)
    labels = dict.fromkeys(curve.label for curves in shown.values() for curve in curves)
    beside, above, place = _legend_place(list(labels), legend, columns)
    with paper_style() as plt:
        figure, axes = plt.subplots(
            lines,
            columns,
            figsize=(columns * size[0] + beside, lines * size[1] + above),
            squeeze=False,
            layout="constrained",
        )
        for panel in axes.flat[len(shown) :]:
            panel.set_visible(False)
        for i, (panel, (title, curves)) in enumerate(zip(axes.flat, shown.items(), strict=False)):
            for curve in curves:
                panel.plot(curve.x, curve.y, label=curve.label, **curve.look)
            below = xlabel if isinstance(xlabel, str) else xlabel[i]
            panel.set_xlabel(f"{below}\n{letter(i)} {title}".rstrip())
            panel.set_ylabel(ylabel if i % columns == 0 else "")
            if dress is not None:
                dress(panel)
        handles: dict[str, Any] = {}
        for panel in axes.flat:
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(list(handles.values()), list(handles), **place)
        return save(figure, path)


def _legend_place(
    labels: Sequence[str], side: Literal["right", "top"], columns: int
) -> tuple[float, float, dict[str, Any]]:
    """Room [inch] that a legend needs beside and above the panels, and how to ask for it there."""
    if side == "right":
        return (
            0.65 + 0.05 * max(len(label.replace("$_", "")) for label in labels),
            0.0,
            {"loc": "outside right upper"},
        )
    across = min(2 if columns < 3 else 4, len(labels))
    return 0.0, 0.2 + 0.15 * -(-len(labels) // across), {"loc": "outside upper center", "ncols": across}


def protocol_of(run: ReportRun) -> str:
    return "" if run.evaluation is None else str(run.evaluation.protocol.get("name", ""))


def by_protocol(runs: Iterable[ReportRun]) -> dict[str, list[ReportRun]]:
    """Title of a protocol -> its runs that were evaluated."""
    groups: dict[str, list[ReportRun]] = {}
    for run in runs:
        if run.evaluation is not None:
            groups.setdefault(str(run.evaluation.protocol.get("title") or protocol_of(run)), []).append(run)
    return groups


def _cases(runs: Sequence[ReportRun]) -> list[str]:
    names = [str(case["name"]) for run in runs if run.evaluation is not None for case in run.evaluation.cases]
    return list(dict.fromkeys(names))


# ---- other curves: figures 13, 16, 17 ----


def draw_sizes(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 13: filled as the network gives it, open whitened; graded runs only, as in the paper."""
    graded = [
        run for run in runs if loss_of(run) == GCL and not protocol_of(run).startswith((GARDEN, INDOOR))
    ]
    panels = {}
    for title, some in by_protocol(graded).items():
        spare = iter(SPARE_SIZE_LOOKS * len(some))
        names, used = model_names(some), set()
        curves: list[_Curve] = []
        for run in some:
            look = SIZE_LOOKS.get(backbone_of(run))
            look = next(spare) if look is None or look in used else look
            used.add(look)
            curves += _size_curves(run, names[run.name], *look)
        panels[title] = curves
    size = (0.75 * COLUMN, 0.62 * COLUMN)
    return _curves_figure(path, panels, size, 2, "top", "Dimensions", "Recall@5 (%)", _octaves)


def _size_curves(run: ReportRun, name: str, colour: str, marker: str) -> list[_Curve]:
    assert run.evaluation is not None
    plain, sizes = run.evaluation.variant(), whitened_sizes(run.evaluation)
    if "R@5" not in plain.metrics or not sizes:
        return []
    look = {"color": colour, "marker": marker}
    dims = sorted(sizes)
    recall = [100 * sizes[d].metrics["R@5"].value for d in dims]
    return [
        _Curve(name, [plain.dims], [100 * plain.metrics["R@5"].value], {**look, "linestyle": "none"}),
        _Curve(whitened_name(name), dims, recall, {**look, "markerfacecolor": "none"}),
    ]


def _octaves(axes: Any) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log", base=2)
    ticks = [32, 64, 128, 256, 512, 1024, 2048]
    low, high = axes.get_xlim()
    axes.xaxis.set_minor_locator(NullLocator())
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(shown, [str(tick) for tick in shown])
    axes.set_xlim(low, high)


def draw_thresholds(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 16: what counts as found, by distance and by ψ; the runs of the first protocol that has both."""
    with_curves = [
        run for run in runs if run.evaluation and {"distance", "overlap"} <= set(_plain(run).curves)
    ]
    some = next(iter(by_protocol(with_curves).values()), [])
    names = model_names(some)
    looks = line_looks(some, POOL_MARKERS, lambda run: str(_model_fact(run, "pool")))
    backbones = list(dict.fromkeys(backbone_of(run) for run in some))
    dashes = {
        name: ("-." if i % 2 == 0 else "-") if len(backbones) > 1 else "-" for i, name in enumerate(backbones)
    }
    panels: dict[str, list[_Curve]] = {}
    k = 5
    for axis in ("distance", "overlap"):
        curves = []
        for run in some:
            curve, k = _plain(run).curves[axis], _plain(run).curves[axis]["k"]
            look = {**looks[run.name], "linestyle": dashes[backbone_of(run)]}
            recall = 100 * np.array(curve["recall"], dtype=np.float64)
            curves.append(_Curve(names[run.name], curve["thresholds"], recall, look))
        panels[" " * len(panels)] = curves  # letters only
    labels = ("Distance (m)", r"$\psi$")
    return _curves_figure(path, panels, (7.5 * CM, 6 * CM), 2, "right", labels, f"Recall@{k} (%)")


def _plain(run: ReportRun) -> Variant:
    assert run.evaluation is not None
    return run.evaluation.variant()


def draw_precision(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 17: a panel a scene; the second backbone is dashed."""
    some = [run for run in runs if run.evaluation and _plain(run).curves.get("pairs")]
    names, backbones = model_names(some), list(dict.fromkeys(backbone_of(run) for run in some))
    panels = {}
    for case in _cases(some):
        curves = []
        for run in some:
            curve = _plain(run).curves["pairs"].get(case)
            if curve:
                dashes = ("-", "--", ":", "-.")[backbones.index(backbone_of(run)) % 4]
                look = {"color": COLOURS[loss_of(run)], "linestyle": dashes, "drawstyle": "steps-post"}
                curves.append(_Curve(names[run.name], curve["recall"], curve["precision"], look))
        panels[case] = curves
    return _curves_figure(path, panels, (4.6 * CM, 4.6 * CM), 4, "top", "Recall", "Precision", _unit_square)


def _unit_square(axes: Any) -> None:
    axes.set(xlim=(0, 1.01), ylim=(0, 1.02))


def draw_batches(runs: Sequence[ReportRun], path: Path) -> Path | None:
    """Figure 12, from the counts that training kept."""
    from samespot.figures.batch_histogram import plot_histograms

    kept = next((run.batches for run in runs if run.batches.get("strategies")), None)
    if kept is None:
        return None
    return plot_histograms(
        {name: _counted(kept["bins"], counts) for name, counts in kept["strategies"].items()}, path
    )


def _counted(bins: Sequence[float], counts: Sequence[int]) -> tuple[int, NDArray[np.int64]]:
    """Pairs with ψ = 0, and in each bin. Older runs kept the latter alone: no more counts than bins."""
    numbers = np.array(counts, dtype=np.int64)
    return (int(numbers[0]), numbers[1:]) if len(numbers) == len(bins) else (0, numbers)
