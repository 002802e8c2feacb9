"""The built wheel in a clean environment outside the repo, which sees its declared dependencies and no others."""

import json
import os
import shutil
import subprocess
import sys
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

REPO = Path(__file__).parents[1]


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def link_declared(wheel, folder):
    """Fill a folder with what the wheel needs, and what that needs: links to the packages of this environment, so that
    gigabytes are neither copied nor compiled again. No installer may write there: it would write through the links."""
    with ZipFile(wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        declared = message_from_bytes(archive.read(about)).get_all("Requires-Dist")
    waiting, known = needed(declared), set()
    while waiting:
        need = waiting.pop()
        if str(need) in known:
            continue
        known.add(str(need))
        found = distribution(need.name)
        assert need.specifier.contains(found.version, prereleases=True), (
            f"{need}, and {found.version} is here"
        )
        for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
            if not (folder / top).exists() and not top.endswith(".pth"):
                (folder / top).symlink_to(found.locate_file(top))
        waiting += needed(found.requires, need.extras)


def needed(lines, extras=()):
    """Those of these requirements that count here."""
    every = [Requirement(line) for line in lines or ()]
    asked = [{"extra": extra} for extra in ("", *extras)]
    return [one for one in every if one.marker is None or any(map(one.marker.evaluate, asked))]


def test_the_wheel_works_in_a_clean_environment(tmp_path):
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv is missing; `make test` installs it"
    run(uv, "build", "--wheel", "--quiet", "--out-dir", tmp_path / "dist", REPO)
    (wheel,) = (tmp_path / "dist").glob("samespot-*.whl")
    packages = {name.split("/")[0] for name in ZipFile(wheel).namelist()}
    assert packages == {"samespot", wheel.name.split("-py3")[0] + ".dist-info"}  # no reproduction, no tests
    home = tmp_path / "clean"
    run(uv, "venv", "--quiet", "--python", sys.executable, home)
    into = (uv, "pip", "install", "--quiet", "--python", home / "bin" / "python")
    run(*into, "--dry-run", wheel)  # what it declares can be found, and goes together
    run(*into, "--no-deps", wheel)
    (tmp_path / "declared").mkdir()
    link_declared(wheel, tmp_path / "declared")
    (packages,) = home.glob("lib/python3*/site-packages")
    (packages / "declared.pth").write_text(f"{tmp_path / 'declared'}\n")

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
