"""The application that commands register with. Its start must be instant: commands import heavy modules themselves."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="samespot",
    help="Visual place recognition with graded similarity: label, train, evaluate and report.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        from samespot import __version__

        print(f"samespot {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
