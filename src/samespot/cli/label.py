"""`samespot label`, `import-labels`, `export-labels`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command, words_of
from samespot.cluster import joined_where_asked, refuse_absent
from samespot.errors import InputError
from samespot.options import Options, names, option, split
from samespot.overlap.options import LabelOptions, label_tasks
from samespot.places.options import ReadOptions, RowOptions

if TYPE_CHECKING:
    from samespot.overlap.task import Labelled, LabelTask


@command(app, LabelOptions, ReadOptions)
def label(typed: dict[str, Any]) -> Any:
    """Graded labels: how much of the view each query shares with each map image.

    Ends with a table of pairs by class, and writes figures. For example:
    samespot label places.csv --split query --map-split map --radius 30
    """
    ours, reading = split(typed, LabelOptions, ReadOptions)
    asked = LabelOptions.of(ours)
    if asked.preset is not None:
        from samespot.options import ineffective

        ineffective(set(reading) - {"missing_images"}, reading, f"with `preset={asked.preset}`")
    if asked.device.startswith("cuda"):
        console.refuse_absent_device(asked.device)
    if asked.ray is not None:
        refuse_absent(asked.ray)
    results, shown = [], sys.stdout
    tasks = label_tasks(asked, ReadOptions.of(reading))
    # once for all tasks of a preset: to join takes seconds. Meanwhile standard output goes to standard error
    with joined_where_asked(None if asked.preset is None else asked.ray):
        for task in tasks:
            done, files = _labelled(task, asked)
            with redirect_stdout(shown):
                console.label_table(done.summary())
                console.files_written(files)
            results.append({**done.summary(), "files": [str(f) for f in files]})
    _hint(asked, words_of({**{k: v for k, v in ours.items() if k in names(RowOptions)}, **reading}))
    return {"labels": results}


def _labelled(task: LabelTask, asked: LabelOptions) -> tuple[Labelled, list[Path]]:
    """Do a task; what came of it, and the files that were written."""
    from samespot.figures.label_set import draw_label_set
    from samespot.overlap.reference_h5 import export_h5
    from samespot.overlap.task import run_task

    console.notes_of(task.queries, task.places)
    folder = asked.out / task.name if asked.preset else asked.out
    with console.progress_bar() as progress:
        done = run_task(task, folder / "labels", progress, asked.ray)
        files = [folder / "labels"]
        if asked.figures:
            progress("drawing figures", 0, 1)
            try:
                files += draw_label_set(done, folder / "figures", asked.pair)
            except (
                InputError
            ) as error:  # the labels are there: a photo that cannot be drawn takes nothing away
                console.warn(f"not all figures were drawn: {error}")
        if asked.h5:
            same = bool(done.labels.meta["same_table"])
            files.append(export_h5(done.labels, asked.out / f"{task.name}_gt.h5", condensed=same))
    return done, files


def _hint(asked: LabelOptions, reading: Sequence[str] = ()) -> None:
    """To train on these labels. reading: what was typed to read the same rows, which `train` reads alike."""
    if asked.preset is not None:
        preset = "--preset", asked.preset, "--labels", asked.out
        console.next_step("train", asked.places, *preset, "--run", "run")
        return
    tables = [asked.places] if asked.map is None else [asked.places, asked.map]
    console.next_step("train", *tables, *reading, "--labels", asked.out, "--run", "run")


@dataclass(frozen=True)
class ImportOptions(Options):
    file: Path = option(..., "A label file of the paper's authors, e.g. london_gt.h5.", argument=True)
    out: Path = option(Path("labels"), "Label folder to write.", writes="folder")
    key: Literal["fov", "sim"] = option("fov", "Graded labels, or binary ones.")
    layout: Literal["auto", "matrix", "triangle"] = option(
        "auto", "How the file stores the pairs, if its shape does not show it."
    )


@command(app, ImportOptions)
def import_labels(typed: dict[str, Any]) -> Any:
    """Turn a label file of the paper's authors into a label folder."""
    from samespot.overlap.reference_h5 import import_h5

    asked = ImportOptions.of(typed)
    labels = import_h5(asked.file, asked.key, layout=asked.layout, out=asked.out)
    console.counts_table(str(asked.file), labels.counts())
    console.files_written([asked.out])
    return labels.counts()


@dataclass(frozen=True)
class ExportOptions(Options):
    labels: Path = option(..., "A label folder.", argument=True)
    out: Path = option(..., "HDF5 file to write.", writes="file")
    binary: Path | None = option(None, "Label folder for the data set sim.", default="ψ ≥ 0.5 of LABELS")
    condensed: bool = option(False, "Upper triangle only, as for TB-Places and 7Scenes.", switch=True)


@command(app, ExportOptions)
def export_labels(typed: dict[str, Any]) -> Any:
    """Write a label folder in the layout of the paper's authors (`fov`, `sim`)."""
    from samespot.overlap.labels import PairLabels
    from samespot.overlap.reference_h5 import export_h5

    asked = ExportOptions.of(typed)
    graded = PairLabels.open(asked.labels)
    binary = PairLabels.open(asked.binary) if asked.binary else None
    export_h5(graded, asked.out, binary=binary, condensed=asked.condensed)
    console.counts_table(str(asked.labels), graded.counts())
    console.files_written([asked.out])
    return graded.counts()
