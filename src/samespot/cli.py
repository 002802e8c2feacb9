"""The command line. Thin: each function reads its options, calls the library and prints what came back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

# Heavy modules are imported inside the commands: `samespot --help` must answer at once.
app = typer.Typer(
    name="samespot",
    help="Visual place recognition with graded similarity: label, train, index and locate photos.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[Path | None, typer.Option("--json", help="Also write the result to this json file.")]
Dataset = Annotated[str | None, typer.Option(help="Data set or format, if it is not to be recognised.")]
Missing = Annotated[str, typer.Option(help="Image files that are not there: error, warn, drop or ignore.")]
Wrap = Annotated[bool, typer.Option("--wrap-headings", help="Accept headings outside [0, 360).")]
Projection = Annotated[
    str | None, typer.Option(help="Project latitude and longitude to this, e.g. EPSG:32633.")
]


def run() -> None:
    """Entry point: a user's mistake is one line and exit code 2, never a traceback."""
    from samespot.errors import InputError

    try:
        app()
    except InputError as error:
        from samespot import console

        console.err.print(
            f"[bold red]samespot:[/] {console.plain(str(error))}", highlight=False, soft_wrap=True
        )
        sys.exit(2)


def _version(show: bool) -> None:
    if show:
        from samespot import __version__

        print(f"samespot {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything that the demo writes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the generated places.")] = 7,
    json: Json = None,
) -> None:
    """Generate a small town's places, label them, and draw the figures."""
    from samespot import console
    from samespot.demo import run_demo

    with console.progress_bar() as progress:
        result = run_demo(out, seed, progress)
    console.label_table(result.summary)
    console.files_written(result.files)
    console.write_json({**result.summary, "files": [str(f) for f in result.files]}, json)


@app.command()
def label(
    places: Annotated[
        Path, typer.Argument(help="Queries: a csv or parquet table, a data set, photos, a COLMAP model.")
    ],
    map_: Annotated[
        Path | None, typer.Argument(metavar="MAP", help="Map images. [default: PLACES itself]")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for labels and figures.")] = Path("labels"),
    preset: Annotated[
        str | None, typer.Option(help="Label PLACES as the paper did: msls, tb-places, 7scenes; or campus.")
    ] = None,
    theta: Annotated[float, typer.Option(help="Opening angle of the field of view [deg].")] = 90.0,
    radius: Annotated[float, typer.Option(help="How far a camera sees [m].")] = 50.0,
    measure: Annotated[str, typer.Option(help="overlap (shared area over one sector's) or iou.")] = "overlap",
    within: Annotated[str | None, typer.Option(help="Binary labels instead, e.g. 25m,40deg.")] = None,
    kind: Annotated[str, typer.Option(help="2d, or 3d by the points of a reconstruction.")] = "2d",
    cloud: Annotated[
        Path | None, typer.Option(help="3d: a PLY cloud (else COLMAP points or fused depth).")
    ] = None,
    camera: Annotated[
        str | None, typer.Option(help="3d: width,height,fx,fy,cx,cy [px] of all images.")
    ] = None,
    occlusion: Annotated[
        str, typer.Option(help="3d: none, depth (images) or cloud (hides itself).")
    ] = "none",
    device: Annotated[str, typer.Option(help="3d: cpu or cuda.")] = "cpu",
    dataset: Dataset = None,
    part: Annotated[str | None, typer.Option(help="Part of a data set, e.g. train_val/london/query.")] = None,
    map_part: Annotated[str | None, typer.Option(help="The part that is the map.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Queries are the rows whose column split is this.")
    ] = None,
    map_split: Annotated[
        str | None, typer.Option(help="Map images are the rows whose column split is this.")
    ] = None,
    unknown_heading: Annotated[
        str, typer.Option(help="Cameras of unknown heading: error, or disk to see all around.")
    ] = "error",
    panoramas: Annotated[
        str, typer.Option(help="Panoramas see all around (disk) or along their heading (sector).")
    ] = "disk",
    from_pose: Annotated[
        bool, typer.Option("--from-pose", help="Strong labels: position and heading from the 6DOF pose.")
    ] = False,
    forward: Annotated[str, typer.Option(help="--from-pose: camera axis that looks ahead.")] = "z",
    up: Annotated[str, typer.Option(help="--from-pose: world axis that points up.")] = "z",
    north: Annotated[str, typer.Option(help="--from-pose: world axis that points north.")] = "y",
    pair: Annotated[
        str | None, typer.Option(help="Draw this pair, e.g. 12,340 (rows of queries and map).")
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw figures.")] = True,
    h5: Annotated[
        bool, typer.Option("--h5", help="Also write <name>_gt.h5 in the reference's layout (fov, sim).")
    ] = False,
    wrap_headings: Wrap = False,
    projection: Projection = None,
    missing_images: Missing = "warn",
    json: Json = None,
) -> None:
    """Graded labels: how much of the view each query shares with each map image.

    Ends with a table of pairs by class, and writes figures. For example:
    samespot label places.csv --split query --map-split map --radius 30
    """
    from samespot import console
    from samespot.figures.label_set import draw_label_set
    from samespot.overlap.reference_h5 import export_h5
    from samespot.overlap.request import LabelRequest, label_tasks, parse_pair
    from samespot.overlap.task import run_task

    asked = LabelRequest(
        places, map_, preset, theta, radius, measure, within, kind, cloud, camera, occlusion, device, dataset, part,
        map_part, split, map_split, unknown_heading, panoramas, (forward, up, north) if from_pose else None,
        wrap_headings, projection, missing_images,
    )  # fmt: skip
    chosen = parse_pair(pair)
    results = []
    for task in label_tasks(asked):
        console.notes_of(task.queries, task.places)
        folder = out / task.name if preset else out
        with console.progress_bar() as progress:
            done = run_task(task, folder / "labels", progress)
            files = [folder / "labels"]
            if figures:
                progress("drawing figures", 0, 1)
                files += draw_label_set(done, folder / "figures", chosen)
            if h5:
                same = bool(done.labels.meta["same_table"])
                files.append(export_h5(done.labels, out / f"{task.name}_gt.h5", condensed=same))
        console.label_table(done.summary())
        console.files_written(files)
        results.append({**done.summary(), "files": [str(f) for f in files]})
    console.write_json({"labels": results}, json)


@app.command()
def places(
    source: Annotated[Path, typer.Argument(help="A table, a data set, photos, a COLMAP model.")],
    out: Annotated[Path | None, typer.Option(help="Write the table to this .csv or .parquet.")] = None,
    dataset: Dataset = None,
    part: Annotated[str | None, typer.Option(help="Part of a data set, e.g. train_val/london/query.")] = None,
    wrap_headings: Wrap = False,
    projection: Projection = None,
    missing_images: Missing = "warn",
    json: Json = None,
) -> None:
    """Read where images were taken, check it, and write it as one table."""
    from samespot import console
    from samespot.places.catalogue import open_places

    table = open_places(
        source, dataset=dataset, part=part, wrap_headings=wrap_headings, projection=projection,
        missing_images=missing_images,  # type: ignore[arg-type]
    )  # fmt: skip
    console.notes_of(table)
    console.places_table(table)
    if out is not None:
        console.files_written([table.save(out)])
    console.write_json(console.places_facts(table), json)


@app.command()
def datasets(
    root: Annotated[Path, typer.Argument(help="Folder that holds your data sets.")] = Path("."),
    layout: Annotated[str | None, typer.Option(help="Show the files that this data set consists of.")] = None,
    json: Json = None,
) -> None:
    """What is supported, what is found under ROOT, what is missing, and where to ask for it."""
    from samespot import console
    from samespot.places.catalogue import DATA_SETS, data_set, find_data_sets

    if layout is not None:
        console.out.print(data_set(layout).layout.rstrip(), markup=False, highlight=False)
        return
    found = find_data_sets(root)
    console.datasets_table(DATA_SETS, found, root)
    console.write_json(console.datasets_facts(DATA_SETS, found), json)


@app.command()
def import_labels(
    file: Annotated[Path, typer.Argument(help="A label file of the reference, e.g. london_gt.h5.")],
    out: Annotated[Path, typer.Option(help="Label folder to write.")] = Path("labels"),
    key: Annotated[str, typer.Option(help="fov (graded) or sim (binary).")] = "fov",
    json: Json = None,
) -> None:
    """Turn a label file of the paper's authors into a label folder."""
    from samespot import console
    from samespot.overlap.reference_h5 import import_h5

    labels = import_h5(file, key, out=out)
    console.counts_table(str(file), labels.counts())
    console.files_written([out])
    console.write_json(labels.counts(), json)


@app.command()
def export_labels(
    labels: Annotated[Path, typer.Argument(help="A label folder.")],
    out: Annotated[Path, typer.Option(help="HDF5 file to write.")],
    binary: Annotated[Path | None, typer.Option(help="Label folder for `sim`. [default: ψ ≥ 0.5]")] = None,
    condensed: Annotated[
        bool, typer.Option("--condensed", help="Upper triangle only, as for TB-Places and 7Scenes.")
    ] = False,
    json: Json = None,
) -> None:
    """Write a label folder in the layout of the paper's authors (`fov`, `sim`)."""
    from samespot import console
    from samespot.overlap.labels import PairLabels
    from samespot.overlap.reference_h5 import export_h5

    graded = PairLabels.open(labels)
    export_h5(graded, out, binary=PairLabels.open(binary) if binary else None, condensed=condensed)
    console.counts_table(str(labels), graded.counts())
    console.files_written([out])
    console.write_json(graded.counts(), json)
