"""The command line. Thin: each command reads its options, calls the library and prints what came back."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import typer

from samespot.cli.app import app

__all__ = ["app", "run"]
for _group in (
    "town",
    "maps",
    "locate",
    "serve",
    "label",
    "places",
    "train",
    "evaluate",
    "report",
    "models",
):  # in the order of the help
    import_module(f"samespot.cli.{_group}")
INTERRUPTED = 130  # exit code after Ctrl-C, as of shells


def run(app: typer.Typer = app, name: str = "samespot") -> None:
    """Entry point: a user's mistake is one line and exit code 2, never a traceback. name: as users start it."""
    for stream in (sys.stdout, sys.stderr):  # θ on a terminal of ASCII or Latin-1 is a ?, not a crash
        if isinstance(stream, TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="replace")
    try:
        code = _commands(app)(args=sys.argv[1:] or ["--help"], prog_name=name, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        line = _mistake(error, app, name)
        if line is None:
            raise
        _complain(line)
        sys.exit(2)
    if code == INTERRUPTED:  # newer typer turns Ctrl-C into this code by itself
        _complain("interrupted")
    sys.exit(code if isinstance(code, int) else 0)


@cache
def _commands(app: typer.Typer) -> Any:
    """The command tree; a process that runs many commands, as tests do, makes it once."""
    return typer.main.get_command(app)


def _mistake(error: Any, app: typer.Typer, name: str) -> str | None:
    """What the user did wrong, in one line; None for a mistake of ours."""
    from samespot.errors import InputError

    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else (error.strerror or str(error))
    if hasattr(error, "format_message"):  # typer's errors of usage: their classes have moved between versions
        known = getattr(_commands(app), "commands", {})
        begun = [name, *(word for word in sys.argv[1:2] if word in known)]
        command = error.ctx.command_path if getattr(error, "ctx", None) else " ".join(begun)
        return f"{error.format_message()} (see {command} --help)"
    return None


def _complain(line: str) -> None:
    from samespot.cli.console import complain

    complain(line)
