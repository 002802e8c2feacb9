"""After each step the next command is named: one that parses, with the paths that were just typed."""

import ast
import inspect
import shlex
from pathlib import Path

import pytest
import typer

from samespot.cli import app, console
from samespot.cli import evaluate as evaluate_commands
from samespot.cli import label as label_commands
from samespot.cli import train as train_commands
from samespot.cli.bridge import words_of
from samespot.overlap.options import LabelOptions
from samespot.training.options import TrainingData

CLI = Path(inspect.getfile(console)).parent


def parsed(line):
    """(command, its parameters) as typer reads the line, without running it."""
    program, name, *words = shlex.split(line)
    assert program == "samespot"
    command = typer.main.get_command(app).commands[name]
    context = command.make_context(name, words)
    return name, {key: value for key, value in context.params.items() if value not in (None, [], ())}


@pytest.fixture
def hints(monkeypatch):
    """The lines of `next_step`, as they were printed."""
    lines = []

    def keep(line, **_):
        lines.append(line.removeprefix("[dim]next:[/] "))

    monkeypatch.setattr(console.err, "print", keep)
    return lines


def test_every_hint_in_the_source_names_a_command_and_flags_that_exist(hints):
    """Whatever is not a plain word in a call stands for a path."""
    found = []
    for file in sorted(CLI.glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            named = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            if named and call.func.attr == "next_step":
                words = [
                    one.value if isinstance(one, ast.Constant) else "a/path"
                    for one in call.args
                    if not isinstance(one, ast.Starred)
                ]
                found.append((file.stem, words[0]))
                if not any(isinstance(one, ast.Starred) for one in call.args):
                    console.next_step(*words)
    assert set(found) == {
        ("evaluate", "evaluate"),
        ("evaluate", "report"),
        ("label", "train"),
        ("maps", "locate"),
        ("places", "split"),
        ("places", "label"),
        ("town", "label"),
        ("train", "evaluate"),
    }
    assert len(hints) == len(found) - 6  # the others are made of what was typed, see below
    for line in hints:
        parsed(line)


def test_after_labelling_one_trains_on_the_same_rows(hints, tmp_path):
    places = tmp_path / "my photos" / "train.csv"
    label_commands._hint(LabelOptions(places, out=tmp_path / "labels"))
    label_commands._hint(LabelOptions(places, tmp_path / "map.csv", out=tmp_path / "labels"))
    for line, places_of_map in zip(hints, (None, tmp_path / "map.csv"), strict=True):
        name, params = parsed(line)
        assert name == "train"
        assert (params["places"], params["labels"]) == (places, tmp_path / "labels")
        assert params.get("map") == places_of_map
        TrainingData.of({key: params[key] for key in ("places", "labels", "map", "run") if key in params})
    # whatever was typed to read the tables, `train` reads alike
    typed = {
        "split": "query",
        "map_split": "map",
        "from_pose": True,
        "north": "x",
        "projection": "EPSG:32632",
    }
    label_commands._hint(LabelOptions(places), words_of(typed))
    _, params = parsed(hints[2])
    assert {name: params[name] for name in typed} == typed
    label_commands._hint(LabelOptions(Path("MSLS"), preset="msls", out=tmp_path / "labels"))
    _, params = parsed(hints[3])
    assert (params["preset"], params["labels"], "map" in params) == ("msls", tmp_path / "labels", False)


def test_after_training_one_evaluates_on_photos_that_were_not_learned(hints, tmp_path):
    data = TrainingData(
        tmp_path / "split/train.csv", labels=tmp_path / "labels", run=tmp_path / "runs/one two"
    )
    train_commands._hint(data)
    assert hints == []  # nothing to evaluate on
    (tmp_path / "split").mkdir()
    for table in ("map.csv", "query.csv"):
        (tmp_path / "split" / table).touch()
    train_commands._hint(data)
    name, params = parsed(hints[0])
    assert (name, params["model"]) == ("evaluate", str(tmp_path / "runs/one two"))
    assert (params["map"], params["queries"]) == (tmp_path / "split/map.csv", tmp_path / "split/query.csv")
    assert params["out"] == tmp_path / "runs/one two/evaluation"
    more = {"validate": tmp_path / "q.csv", "validate_map": tmp_path / "m.csv"}
    train_commands._hint(TrainingData(tmp_path / "t.csv", labels=tmp_path / "labels", **more))
    _, params = parsed(hints[1])
    assert (params["map"], params["queries"]) == (tmp_path / "m.csv", tmp_path / "q.csv")
    train_commands._hint(TrainingData(tmp_path / "msls", preset="msls"))  # it has a protocol of its own
    _, params = parsed(hints[2])
    assert (params["protocol"], params["root"]) == ("msls-val", tmp_path / "msls")


def test_after_evaluating_a_run_one_reports_on_the_whole_run(tmp_path):
    run = tmp_path / "runs/mine"
    assert evaluate_commands._run_around(run / "evaluation") == run / "evaluation"  # of no run
    run.mkdir(parents=True)
    (run / "metrics.jsonl").touch()
    assert evaluate_commands._run_around(run / "evaluation") == run
    assert evaluate_commands._run_around(run / "another") == run / "another"
