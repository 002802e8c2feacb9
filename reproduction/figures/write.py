"""The paper's figures from our data, as vector files: its axes, colours and markers, one file a figure.

| no. | what it shows                                           | made from                                      |
|-----|---------------------------------------------------------|------------------------------------------------|
| 1   | a query and matches that share 86 %, 52 % and nothing   | photos of a run with descriptors               |
| 2   | sketch of the siamese network                           | nothing                                        |
| 3   | three images A, B, C (the paper has photos)             | nothing; a drawn street                        |
| 4   | field of view, and the two borderline pairs             | nothing                                        |
| 5   | pairs of 75.5 %, 50.3 %, 16.8 % and 0 % with sectors    | photos of a run with descriptors               |
| 6   | the same for TB-Places                                  | a run on TB-Places; left out without its data  |
| 7   | pairs of 7Scenes in their point cloud                   | left out: `samespot label` draws them from the |
|     |                                                         | scene, which no run holds                      |
| 8   | where map and queries were taken                        | a run with descriptors (the paper: TB-Places)  |
| 9   | recall@K, raw and whitened                              | runs on anything but TB-Places and 7Scenes     |
| 10  | recall@K on TB-Places                                   | runs on TB-Places                              |
| 11  | recall@K on each scene of 7Scenes                       | runs on 7Scenes                                |
| 12  | similarities in batches A to D                          | `batches.json` of a run                        |
| 13  | recall@5 over dimensions                                | graded runs with whitening                     |
| 14  | t-SNE of pair differences                               | a binary and a graded run with descriptors     |
| 15  | activations                                             | the same with their model folders              |
| 16  | recall@5 over thresholds of distance and ψ              | runs with these curves                         |
| 17  | precision and recall over all pairs, by scene           | runs on 7Scenes                                |
| 18  | overlap against distance and turn                       | places of a run with descriptors               |

Numbers are those of the figures' order in the paper. Photographs are of the data at hand, never the paper's: we do
not have those of figures 1, 3, 5, 6, 7 and 15. The paper has no figure of the loss or its gradient.

Where the paper's captions and its plots differ, the plots are followed: in figure 9 dashes mean "not whitened"
(the caption says "binary"), and in figure 16 the first backbone is dash-dotted (the legend has it the other way).
Whitened lines of figure 9 are of the largest size whitened on the map; the paper takes the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from reproduction.figures.curves import (
    draw_batches,
    draw_garden_recall,
    draw_indoor_recall,
    draw_precision,
    draw_sizes,
    draw_street_recall,
    draw_thresholds,
)
from reproduction.figures.drawings import TEXT_AS_TEXT, draw_field_of_view, draw_siamese, draw_toy_data_set
from reproduction.figures.photos import (
    draw_activations,
    draw_degrees,
    draw_examples,
    draw_garden_examples,
    draw_overlap_relation,
    draw_pair_differences,
    draw_trajectories,
)
from reproduction.options import Format
from samespot.figures.report_runs import ReportRun
from samespot.figures.style import house_style
from samespot.options import check_choice
from samespot.progress import Progress

# None where the runs do not hold what the figure needs
Draw = Callable[[Sequence[ReportRun], Path], Path | None]

FIGURES: dict[str, Draw] = {
    "fig01-degrees-of-similarity": draw_degrees,
    "fig02-siamese": lambda runs, path: draw_siamese(path),
    "fig03-toy-data-set": lambda runs, path: draw_toy_data_set(path),
    "fig04-field-of-view": lambda runs, path: draw_field_of_view(path),
    "fig05-overlap-examples": draw_examples,
    "fig06-tb-places-examples": draw_garden_examples,
    "fig08-trajectories": draw_trajectories,
    "fig09-recall": draw_street_recall,
    "fig10-recall-tb-places": draw_garden_recall,
    "fig11-recall-7scenes": draw_indoor_recall,
    "fig12-batch-composition": draw_batches,
    "fig13-dimensions": draw_sizes,
    "fig14-pair-differences": draw_pair_differences,
    "fig15-activations": draw_activations,
    "fig16-thresholds": draw_thresholds,
    "fig17-precision-recall": draw_precision,
    "fig18-overlap-distance-turn": draw_overlap_relation,
}


def paper_figures(
    runs: Sequence[ReportRun],
    out: str | Path,
    *,
    format: Format = "pdf",
    progress: Progress | None = None,
) -> list[Path]:
    """Write those of the paper's figures that these runs hold the data of, and those that need none.

    Into the folder `out`, as e.g. `fig09-recall.pdf`; text stays text. Returns what was written, in order.
    """
    check_choice("format", format, get_args(Format))
    tell = progress or (lambda what, done, total: None)
    written = []
    with house_style() as plt, plt.rc_context(TEXT_AS_TEXT):
        for number, (name, draw) in enumerate(FIGURES.items()):
            tell("figures", number, len(FIGURES))
            if (path := draw(runs, Path(out) / f"{name}.{format}")) is not None:
                written.append(path)
    tell("figures", len(FIGURES), len(FIGURES))
    return written
