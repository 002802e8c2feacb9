"""One look for all figures. As in the paper, the query is red, the map image blue, what they share magenta."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

QUERY = "#c8352b"
MAP = "#2a6fb0"
SHARED = "#a3248f"
GREY = "#8a8f98"
INK = "#22262b"
CLASSES = {
    "hard negative": "#c9ced6",
    "soft negative": "#e0a64a",
    "positive": "#4a9d6f",
    "hard positive": "#1f6b45",
}

_SETTINGS: Any = {
    "figure.dpi": 120,
    "savefig.dpi": 160,
    "savefig.bbox": "tight",
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#b8bdc6",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ee",
    "grid.linewidth": 0.8,
    "xtick.color": "#5b626c",
    "ytick.color": "#5b626c",
    "text.color": INK,
    "legend.frameon": False,
    "image.cmap": "magma",
}


@contextmanager
def house_style() -> Iterator[Any]:
    """Yields matplotlib's pyplot with the house settings and a backend that needs no screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(_SETTINGS):
        yield plt


def without_pale(name: str, start: float = 0.25) -> Any:
    """A matplotlib colour map without its palest part, which looks white on paper."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    steps = [start + (1 - start) * i / 255 for i in range(256)]
    return ListedColormap(matplotlib.colormaps[name](steps), name=f"{name} from {start:g}")


def save(figure: Any, path: str | Path) -> Path:
    """Write a figure as PNG, PDF or SVG by its suffix, and close it."""
    import matplotlib.pyplot as plt

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
    return path
