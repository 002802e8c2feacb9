"""The data flow to the right only, and so do imports; and what must answer at once loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.light import refused_without_torch

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
# A room imports only rooms before it; imports inside functions and for types count, too.
ORDER = (
    *(
        "errors",
        "progress",
        "cores",
        "files",
        "signals",
        "options",
        "gpus",
        "devices",
        "memory",
        "storage",
        "photo_files",
        "alike",
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


@pytest.mark.parametrize(
    "words", ["models", "models megaloc", "protocols", "protocols msls-val", "datasets", "places photos.csv"]
)
def test_what_needs_no_network_loads_no_torch(tmp_path, words):
    (tmp_path / "photos.csv").write_text("image,easting,northing\na.jpg,1,2\n")
    begin = f"import os; os.chdir({str(tmp_path)!r}); sys.argv[1:] = {words.split()}"
    assert "torch" not in loaded_by(f"{begin}; from samespot.cli import run; run()")


MISTAKES = (
    "describe samespot-lite nowhere.csv",
    "describe nothing-of-that-name nowhere.csv",
    "describe empty photos.csv",
    "describe samespot-lite photos.csv --device tpu",
    "describe samespot-lite photos.csv --weights nowhere.pth",
    "describe samespot-lite photos.csv --ray 127.0.0.1:1",
    "describe samespot-lite@large photos.csv",
    "describe samespot-lite broken.csv",
    "evaluate samespot-lite msls-val --root nowhere",
    "evaluate samespot-lite --map nowhere.csv --queries nowhere.csv --within 25m",
    "evaluate samespot-lite --map broken.csv",
    "evaluate samespot-lite --map photos.csv --queries columns.csv",
    "evaluate samespot-lite --map photos.csv --queries photos.csv --within 25m,40deg",
    "evaluate samespot-lite --map photos.csv --time-gap 5",
    "evaluate samespot-lite --map far.csv --queries photos.csv",
    "evaluate samespot-lite --map photos.csv --train broken.csv",
    "evaluate samespot-lite --map photos.csv --whiten-with nowhere",
    "evaluate samespot-lite --map photos.csv --ray 127.0.0.1:1",
    "evaluate nothing-of-that-name msls-val",
    "evaluate empty --map photos.csv",
    "export nowhere",
    "export empty",
    "export resnet18-gem --weights nowhere",
    "convert nowhere",
    "index nowhere --out map",
    "index photos.csv --out map --engine milvus",
    "index photos.csv --out map --engine milvus --uri nowhere/map.db",
    "index photos.csv --out map --model nothing-of-that-name",
    "index photos.csv --out map --model empty",
    "index photos.csv --out map --weights nowhere.pth",
    "index photos.csv --out map --ray 127.0.0.1:1",
    "index photos.csv --out map --device tpu",
    "index photos.csv --out map --split none",
    "index photos.csv --out map --geometry depth",
    "index photos.csv --out other",
    "index broken.csv --out map",
    "index columns.csv --out map",
    "index empty --out map",
    "index --out map --add photos.csv --add nowhere",
    "index --out map --remove photo.jpg",
    "index --out map --engine hnsw",
    "locate nowhere query.jpg",
    "serve nowhere",
    "label nowhere.csv",
    "label columns.csv",
    "label broken.csv",
    "label photos.csv",
    "label photos.csv --within 25m --ray 127.0.0.1:1",
    "train nowhere.csv --labels nowhere",
    "train nowhere --preset campus",
    "train photos.csv --labels nowhere",
    "train photos.csv --labels empty",
    "train photos.csv --labels empty --model nothing-of-that-name",
    "train photos.csv --labels empty --pool nothing",
    "train photos.csv --labels empty --weights nowhere.pth",
    "train photos.csv --labels empty --device tpu",
    "train photos.csv --labels empty --run other",
    "train broken.csv --labels empty",
    "train photos.csv --labels empty --validate photos.csv --validate-map broken.csv",
    "compare nowhere nowhere",
    "compare empty other",
    "report nowhere",
    "report empty",
)


def test_mistakes_are_told_before_torch_is_loaded(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("Dear reader")
    for name, rows in (
        ("photos", "image,easting,northing\na.jpg,1,2\nb.jpg,3,4\n"),
        ("far", "image,easting,northing\nz.jpg,9000,2\n"),
        ("broken", "image,easting,northing\na.jpg,1,x\n"),
        ("columns", "image,place\na.jpg,here\n"),
    ):
        (tmp_path / f"{name}.csv").write_text(rows)
    said = refused_without_torch(MISTAKES, tmp_path)
    assert all("samespot: " in line for line in said.values()), said


def test_options_load_nothing_heavy():
    modules = [module_of(path) for path in sorted(SRC.rglob("options.py"))]
    assert "samespot.training.options" in modules
    assert loaded_by("; ".join(f"import {name}" for name in [*modules, "reproduction.options"])) == []


def test_the_package_itself_loads_nothing_heavy():
    assert loaded_by("import samespot") == []
    assert loaded_by("import samespot; samespot.PlaceNet") == ["torch", "pandas"]  # so they would be seen
