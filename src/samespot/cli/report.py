"""`samespot report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samespot.cli import console
from samespot.cli.app import app
from samespot.cli.bridge import command
from samespot.options import Options, option


@dataclass(frozen=True)
class ReportOptions(Options):
    runs: list[str] = option(
        ...,
        "Run folders, evaluations, or a folder of runs; the first is compared with the others.",
        argument=True,
        metavar="RUN...",
        many=True,
    )
    out: Path = option(Path("report.html"), "The html file to write.", writes="file")
    title: str | None = option(None, "Title of the page.")


@command(app, ReportOptions)
def report(typed: dict[str, Any]) -> Any:
    """One self-contained html page about some runs: it works offline, on a phone and in the dark."""
    asked = ReportOptions.of(typed)
    from samespot.evaluation.run_groups import refuse_absent

    for run in asked.runs:
        refuse_absent(Path(run))
    from samespot.figures.report import report as write_report

    with console.progress_bar() as progress:
        file = write_report(asked.runs, asked.out, title=asked.title, progress=progress)
    console.files_written([file])
    return [str(file)]
