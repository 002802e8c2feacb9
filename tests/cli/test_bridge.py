"""From an options class to a command: flags, defaults, help, and only what was typed."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import typer
from typer.testing import CliRunner

from samespot import InputError
from samespot.cli.bridge import command, with_flags
from samespot.options import Options, option, parse_size


@dataclass(frozen=True)
class Camera(Options):
    photo: Path = option(..., "The photo.", argument=True, metavar="PHOTO")
    image_size: tuple[int, int] = option(
        "480x640", "Height and width [pixels].", parse=parse_size, metavar="HxW"
    )
    mode: Literal["day", "night"] = option("day", "Light.")
    lens: str = option("wide", "Lens.", choices=lambda: ("wide", "telephoto", "fisheye", "macro"))
    flash: bool = option(True, "Use the flash, unlike `mode=night`.")
    quick: bool = option(False, "Hurry.", switch=True)
    frames: int | None = option(None, "How many.", default="all")
    tags: list[str] = option((), "Words.", many=True)


@pytest.fixture
def shot():
    app, typed = typer.Typer(), []

    @app.callback()
    def _main():
        pass

    @command(app, Camera)
    def take(given):
        """Take a photo."""
        typed.append(given)
        if given.get("frames") == 0:
            raise InputError(
                "`frames` 0 must be at least 1; or pass `flash=False` or `mode=night`, see `docs`"
            )
        return {"frames": given.get("frames")}

    def run(*words):
        result = CliRunner().invoke(app, ["take", *map(str, words)])
        return result, typed

    return run


def test_only_what_was_typed_is_given(shot):
    assert shot("a.jpg")[1][-1] == {"photo": Path("a.jpg")}
    _, typed = shot(
        "a.jpg", "--mode", "day", "--no-flash", "--quick", "--image-size", "9x7", "--tags", "a", "--tags", "b"
    )
    assert typed[-1] == {
        "photo": Path("a.jpg"), "mode": "day", "flash": False, "quick": True, "image_size": "9x7", "tags": ["a", "b"],
    }  # fmt: skip


def test_help_has_every_default_and_choice(shot, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    text = " ".join(shot("--help")[0].output.split())
    for words in (
        "Take a photo.",
        "Height and width [pixels]. [default: 480x640]",
        "day|night",
        "One of wide, telephoto, fisheye, macro.",
        "--flash --no-flash",
        "unlike --mode night",
        "[default: (all)]",
        "--json",
    ):
        assert words in text, words
    assert "--no-quick" not in text


def test_json_is_written_and_errors_name_flags(shot, tmp_path):
    assert shot("a.jpg", "--frames", 3, "--json", tmp_path / "r.json")[0].exit_code == 0
    assert json.loads((tmp_path / "r.json").read_text()) == {"frames": 3}
    error = shot("a.jpg", "--frames", 0)[0].exception
    assert str(error) == "--frames 0 must be at least 1; or pass --no-flash or --mode night, see `docs`"


def test_words_in_backquotes_that_are_no_parameters_stay():
    assert with_flags("`samespot label` wrote `x=1`", {"y": "--y"}) == "`samespot label` wrote `x=1`"
