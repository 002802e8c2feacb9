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
from PIL import Image

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


def sources():
    return (
        p for p in (REPO / "src" / "samespot").rglob("*") if p.is_file() and p.parent.name != "__pycache__"
    )


def test_the_wheel_works_in_a_clean_environment(tmp_path):
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv is missing; `make test` installs it"
    run(uv, "build", "--wheel", "--quiet", "--out-dir", tmp_path / "dist", REPO)
    (wheel,) = (tmp_path / "dist").glob("samespot-*.whl")
    held = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == {str(path.relative_to(REPO / "src")) for path in sources()}  # no reproduction, no tests
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
    (tmp_path / "photos").mkdir()
    for i in range(4):
        Image.effect_noise((64, 48), 60).save(tmp_path / "photos" / f"{i}.jpg")
    places = [f"{i}.jpg,{3 * i},0,90" for i in range(4)]
    (tmp_path / "photos" / "places.csv").write_text("\n".join(["image,easting,northing,heading", *places]))
    words = ["describe", "samespot-lite", "photos/places.csv", "--out", "out", "--whiten"]
    offline = {**clean, "HF_HUB_OFFLINE": "1"}
    run(home / "bin" / "samespot", *words, "--json", "told.json", env=offline, cwd=tmp_path)
    assert json.loads((tmp_path / "told.json").read_text())["dims"] == 256
