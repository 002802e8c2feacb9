"""A folder of runs: which runs it holds, and which of them are seeds of one recipe."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samespot.errors import InputError
from samespot.evaluation.results import evaluation_file
from samespot.files import read_json
from samespot.training.options import FREE

DEPTH = 2  # runs/graded/0


def refuse_absent(path: Path) -> None:
    """Raise where nothing is; a command asks before it loads torch."""
    if not path.exists():
        raise InputError(f"{path}: no such folder; name one of `samespot train` or `samespot evaluate`")


def runs_of(source: Any) -> list[Any]:
    """The seeds of one recipe: of a folder of runs those in it, seed by seed; of anything else itself."""
    groups = _groups(source)
    if len(groups) > 1:
        told = ", ".join(f"{name} ({len(runs)} runs)" for name, runs in groups.items())
        raise InputError(f"{source}: holds runs of {len(groups)} settings: {told}; name those of one")
    return next(iter(groups.values()))


def all_runs_of(source: Any) -> list[Any]:
    """The same of all recipes, one after the other."""
    return [run for runs in _groups(source).values() for run in runs]


def _groups(source: Any) -> dict[str, list[Any]]:
    """Name of a recipe -> its runs, by seed."""
    if not isinstance(source, str | Path) or not Path(source).is_dir() or _is_run(Path(source)):
        return {str(source): [source]}
    found: dict[str, list[tuple[int, str, Path]]] = {}
    for run in _runs_below(Path(source), DEPTH):
        options = _options(run)
        told = {key: value for key, value in options.items() if key not in (*FREE, "seed")}
        recipe = json.dumps(told, sort_keys=True) if told else str(run)
        found.setdefault(recipe, []).append((int(options.get("seed") or 0), str(run), run))
    groups = {}
    for runs in found.values():
        first = runs[0][2]
        name = re.sub(r"[-_. ]?(seed)?[-_. ]?\d+$", "", first.name) or first.parent.name
        name = name if name not in groups else str(first)
        groups[name] = [run for _, _, run in sorted(runs)]
    return groups or {str(source): [source]}


def _is_run(folder: Path) -> bool:
    return evaluation_file(folder).is_file() or (folder / "metrics.jsonl").is_file()


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    below = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    for one in below:
        if _is_run(one):
            yield one
        elif depth > 1:
            yield from _runs_below(one, depth - 1)


def _options(run: Path) -> dict[str, Any]:
    """Of its training, as the run says them, or as its evaluation does of the model; none where neither knows."""
    advice = "delete it, or fix it"
    told: Any = None
    if (run / "config.json").is_file():
        told = read_json(run / "config.json", advice).get("options")
    elif (file := evaluation_file(run)).is_file():
        model = read_json(file, advice).get("model")
        training = model.get("training") if isinstance(model, dict) else None
        told = training.get("options") if isinstance(training, dict) else None
    return told if isinstance(told, dict) else {}
