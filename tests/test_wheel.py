"""The built wheel, installed with its declared dependencies into a clean environment outside the repo."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

REPO = Path(__file__).parents[1]


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_works_in_a_clean_environment(tmp_path):
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv is missing; `make test` installs it"
    run(uv, "build", "--wheel", "--quiet", "--out-dir", tmp_path / "dist", REPO)
    (wheel,) = (tmp_path / "dist").glob("samespot-*.whl")
    packages = {name.split("/")[0] for name in ZipFile(wheel).namelist()}
    assert packages == {"samespot", wheel.name.split("-py3")[0] + ".dist-info"}  # no reproduction, no tests
    home = tmp_path / "clean"
    run(uv, "venv", "--quiet", "--python", sys.executable, home)
    run(uv, "pip", "install", "--quiet", "--python", home / "bin" / "python", wheel)

    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    where = run(
        home / "bin" / "python", "-c", "import samespot; print(samespot.__file__)", env=clean, cwd=tmp_path
    )
    assert str(home) in where
    town = ["town", "--visits", "2", "--photos-per-visit", "12", "--size", "48x64"]
    run(home / "bin" / "samespot", *town, "--out", "town", "--json", "town.json", env=clean, cwd=tmp_path)
    assert json.loads((tmp_path / "town.json").read_text())["images"] == 24
    look = "from importlib.resources import files; print((files('samespot.figures') / 'page/report.html').is_file())"
    assert run(home / "bin" / "python", "-c", look, env=clean, cwd=tmp_path).strip() == "True"
    described = [
        "describe",
        "samespot-lite",
        "town",
        "--out",
        "described",
        "--whiten",
        "--json",
        "described.json",
    ]
    run(home / "bin" / "samespot", *described, env={**clean, "HF_HUB_OFFLINE": "1"}, cwd=tmp_path)
    assert json.loads((tmp_path / "described.json").read_text())["dims"] == 256
