"""The command line of the reproduction. Thin: each function reads its options, calls the library and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samespot import cli
from samespot.cli.outputs import check_file, check_folder

app = typer.Typer(
    name="python -m reproduction",
    help="The paper's claims, measured again, and its figures, drawn again.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> None:
    cli.run(app)


def _out_file(param: typer.CallbackParam, path: Path | None) -> Path | None:
    if path is not None:
        check_file(param.opts[0], path)
    return path


def _out_folder(param: typer.CallbackParam, path: Path) -> Path:
    check_folder(param.opts[0], path)
    return path


Json = Annotated[
    Path | None, typer.Option("--json", callback=_out_file, help="Also write the result to this json file.")
]


@app.command()
def claims(
    out: Annotated[
        Path, typer.Option(callback=_out_folder, help="Folder for results, one json file per run.")
    ] = Path("reproduce"),
    data: Annotated[
        Path | None, typer.Option(help="Folder with campus/ and redkitchen/; VGG16's weights beside it.")
    ] = None,
    root: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FOLDER", help="A data set elsewhere, e.g. msls=MSLS.")
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(metavar="BACKBONE=FILE", help="Weights that a backbone starts from, e.g. vgg16=FILE."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A claim, a data set, or experiments with this in their name.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each experiment.")] = 3,
    steps: Annotated[
        int | None, typer.Option(help="Fewer training steps, for a try; another budget is another result.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Start no run after this many seconds.")] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder for intermediate files.", show_default="OUT/work")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(callback=_out_file, help="Also write the claims as a Markdown page.")
    ] = None,
    explained: Annotated[
        Path | None, typer.Option(help="For the page: toml file, id of a claim = why it did not reproduce.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="Print claims and experiments, and run nothing.")
    ] = False,
    collect: Annotated[
        bool, typer.Option("--collect", help="Run nothing; judge by the results that are there.")
    ] = False,
    beside: Annotated[
        bool, typer.Option("--beside", help="Others use this device meanwhile: do not report seconds.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json: Json = None,
) -> None:
    """Measure the paper's claims again: small experiments of equal budget on the data at hand, and a table of claims.

    An interrupted call resumes where it left off. Exit code 1 where an experiment failed.
    """
    from reproduction import command
    from reproduction.page import explanations, write_page
    from samespot.cli import console
    from samespot.cli.console import refuse_absent_gpu
    from samespot.errors import InputError

    refuse_absent_gpu(device)
    asked = command.ClaimsRequest(
        out=out,
        data=data,
        root=tuple(root or ()),
        weights=tuple(weights or ()),
        only=tuple(only or ()),
        seeds=seeds,
        steps=steps,
        seconds=seconds,
        work=work,
        device=device,
        collect=collect,
        beside=beside,
    )
    if show:
        return console.write_json(command.list_table(asked), json)
    if explained is not None and page is None:
        raise InputError("--explained is for the page; give --page as well")
    why = {} if explained is None else explanations(explained, command.claims_asked(asked))
    judged, outcome = command.measure_claims(asked)
    command.claims_table(judged)
    command.closing_lines(outcome)
    if page is not None:
        words = command.command_in_words(asked, judged.results)
        lacks, broken = command.missing(outcome), command.failed(outcome)
        console.files_written(write_page(page, judged, words, lacks, broken, why))
    console.write_json(command.facts(judged, outcome), json)
    if outcome.failures:
        raise typer.Exit(1)
    return None


@app.command()
def figures(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of `samespot train` or `samespot evaluate`."),
    ],
    out: Annotated[Path, typer.Option(callback=_out_folder, help="Folder for the figures.")] = Path(
        "figures"
    ),
    format: Annotated[str, typer.Option(help="pdf, svg or png.")] = "pdf",
    json: Json = None,
) -> None:
    """Draw those of the paper's figures that these runs hold the data of, and those that need none."""
    from reproduction.figures.write import paper_figures
    from samespot.cli import console
    from samespot.figures.report_runs import load_runs

    with console.progress_bar() as progress:
        files = paper_figures(load_runs(runs), out, format=format, progress=progress)
    console.files_written(files)
    console.write_json([str(file) for file in files], json)
