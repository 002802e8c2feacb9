"""The command line of the reproduction. Thin: each command reads its options, calls the library and prints."""

from __future__ import annotations

from typing import Any

import typer

from reproduction.options import ClaimsOptions, FiguresOptions, ShippedOptions
from samespot import cli
from samespot.cli import console
from samespot.cli.bridge import Failed, command

app = typer.Typer(
    name="python -m reproduction",
    help="The paper's claims, measured again, and its figures, drawn again.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> None:
    cli.run(app, "python -m reproduction")


@command(app, ClaimsOptions)
def claims(typed: dict[str, Any]) -> Any:
    """Measure the paper's claims again: small experiments of equal budget on the data at hand, and a table of claims.

    An interrupted call resumes where it left off. Exit code 1 where an experiment failed.
    """
    from reproduction import screen
    from reproduction.measure_claims import claims_asked, command_in_words, listed, measure_claims
    from reproduction.page import explanations, write_page
    from samespot.devices import device_named

    asked = ClaimsOptions.of(typed)
    device_named(asked.device)  # refused before any work is done
    if asked.show:
        return screen.list_table(*listed(asked), asked.seeds)
    why = {} if asked.explained is None else explanations(asked.explained, claims_asked(asked))
    judged, outcome = measure_claims(asked)
    screen.claims_table(judged)
    screen.closing_lines(outcome)
    if asked.page is not None:
        words = command_in_words(asked, judged.results)
        lacks, broken = screen.missing(outcome), screen.failed(outcome)
        console.files_written(write_page(asked.page, judged, words, lacks, broken, why))
    facts = screen.facts(judged, outcome)
    if outcome.failures:
        raise Failed(facts)
    return facts


@command(app, FiguresOptions)
def figures(typed: dict[str, Any]) -> Any:
    """Draw those of the paper's figures that these runs hold the data of, and those that need none."""
    from reproduction.figures.write import paper_figures
    from samespot.figures.report_runs import load_runs

    asked = FiguresOptions.of(typed)
    with console.progress_bar() as progress:
        files = paper_figures(load_runs(asked.runs), asked.out, format=asked.format, progress=progress)
    console.files_written(files)
    return [str(file) for file in files]


@command(app, ShippedOptions)
def model(typed: dict[str, Any]) -> Any:
    """Train the model that comes with samespot again: rendered towns, their true overlap, and ImageNet's start.

    Meant for a GPU. An interrupted call resumes where it left off.
    """
    from reproduction.shipped import train_shipped

    asked = ShippedOptions.of(typed)
    with console.progress_bar() as progress:
        folder = train_shipped(
            asked.out,
            asked.work,
            weights=asked.weights,
            seed=asked.seed,
            processes=asked.processes,
            progress=progress,
            images_in_memory="host",
        )
    console.files_written([folder])
    return {"model": str(folder)}
