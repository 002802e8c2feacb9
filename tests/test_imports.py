"""The data flow to the right only, and so do imports; and what must answer at once loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
# A room imports only rooms before it; imports inside functions and for types count, too.
ORDER = (
    *(
        "errors",
        "progress",
        "cores",
        "files",
        "options",
        "gpus",
        "devices",
        "memory",
        "storage",
        "photo_files",
        "cluster",
        "arrays",
    ),  # what all rooms stand on
    "statistics",  # how sure a figure is
    *("places", "overlap", "town"),  # where, how similar; and a world to take both from
    "whitening",  # of descriptors; a model may hold one
    *("images", "model", "training"),
    *("retrieval", "matching", "poses", "maps"),
    *("evaluation", "figures"),
    *("demo", "service", "cli", "__main__"),
)
HEAVY = ("torch", "pandas", "numba", "plotly", "matplotlib")


def module_of(path):
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path):
    """(line, module of samespot) of each import; of the package itself only the version may be read."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they lead"
            if node.module == "samespot":
                yield from ((node.lineno, f"samespot.{one.name}") for one in node.names)
            elif node.module and node.module.startswith("samespot."):
                yield node.lineno, node.module
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names if one.name.startswith("samespot."))
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "samespot":
            yield node.lineno, f"samespot.{node.attr}"


def place_of(room):
    return ORDER.index(room) if room in ORDER else len(ORDER)


def test_no_module_imports_one_to_its_right():
    wrong = []
    for path in sorted(SRC.rglob("*.py")):
        mine = module_of(path)
        if mine == "samespot":  # the front door names them all
            continue
        for line, other in imported(path):
            here, there = (name.split(".")[1] for name in (mine, other))
            if there != "__version__" and there != here and there not in ORDER[: place_of(here)]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {other}")
    assert wrong == []


def test_every_room_has_its_place():
    rooms = {path.relative_to(SRC / "samespot").parts[0].removesuffix(".py") for path in SRC.rglob("*.py")}
    assert rooms - {"__init__"} <= set(ORDER)


def loaded_by(code):
    """Which of the heavy libraries a fresh process holds after this line."""
    lines = ["import sys", "try:", f"    {code}", "except SystemExit: pass", f"known = {HEAVY}"]
    lines += ["print('loaded:', *(name for name in known if name in sys.modules))"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("loaded:")[2].split()


@pytest.mark.parametrize("words", ["--help", "train --help", "evaluate --help", "train --no-such-option"])
def test_help_and_usage_errors_load_nothing_heavy(words):
    assert loaded_by(f"sys.argv[1:] = {words.split()}; from samespot.cli import run; run()") == []


# what is told without a network must not wait for the seconds that torch takes to load
MISTAKES = (
    "describe samespot-lite nowhere.csv",
    "describe nothing-of-that-name nowhere.csv",
    "evaluate samespot-lite msls-val --root nowhere",
    "evaluate samespot-lite --map nowhere.csv --queries nowhere.csv --within 25m",
    "evaluate nothing-of-that-name msls-val",
    "export nowhere",
    "export resnet18-gem --weights nowhere",
    "convert nowhere",
    "index nowhere --out map",
    "locate nowhere query.jpg",
    "serve nowhere",
    "label nowhere.csv",
    "train nowhere.csv --labels nowhere",
    "train nowhere --preset campus",
    "compare nowhere nowhere",
    "report nowhere",
)


def test_mistakes_are_told_before_torch_is_loaded(tmp_path):
    lines = ["import os, sys", f"os.chdir({str(tmp_path)!r})", "from samespot.cli import run"]
    lines += [f"for words in {MISTAKES}:", "    sys.argv[1:] = words.split()"]
    lines += ["    try: run()", "    except SystemExit as stop: assert stop.code == 2, words"]
    lines += ["    assert 'torch' not in sys.modules, words", "    print('told:', words)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.stdout.count("told:") == len(MISTAKES), done.stderr


def test_options_load_nothing_heavy():
    modules = [module_of(path) for path in sorted(SRC.rglob("options.py"))]
    assert "samespot.training.options" in modules
    assert loaded_by("; ".join(f"import {name}" for name in [*modules, "reproduction.options"])) == []


def test_the_package_itself_loads_nothing_heavy():
    assert loaded_by("import samespot") == []
    assert loaded_by("import samespot; samespot.PlaceNet") == ["torch", "pandas"]  # so they would be seen
