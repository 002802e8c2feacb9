"""Every code block of the README and the docs runs, page by page, in a folder with small data of each kind."""

import pkgutil
import re
import shlex
import shutil
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import reproduction.cli
import samespot
import samespot.cli
from samespot import Places, TrainingOptions
from samespot.evaluation.options import EvaluateOptions
from samespot.maps import build
from samespot.matching.options import RerankOptions
from samespot.retrieval.options import DescribeOptions

REPO = Path(__file__).parents[1]
PAGES = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Documented trainings, towns and demos are run as they stand, but short, and trainings with a tiny network.
TINY = {"backbone": "test_resnet.r160_in1k", "pretrained": False, "image_size": (64, 64), "device": "cpu",
        "steps": 2, "batch_pairs": 4}  # fmt: skip
# The same for commands: an option given twice counts the last time it is given.
SHORT = {
    "train": shlex.split(
        "--backbone test_resnet.r160_in1k --pretrained no --image-size 64 --device cpu --steps 2 --batch-pairs 4"
    ),
    "town": ["--visits", "2", "--photos-per-visit", "12"],
    "demo": ["--visits", "2", "--photos-per-visit", "40", "--steps", "2"],  # fewer hold no pair of each class
}


def blocks(page):
    return BLOCK.findall(page.read_text())


@pytest.fixture
def folder(tmp_path_factory):
    """What the pages speak of: places.csv, split.csv, photos/, MSLS/ and 7scenes/, all tiny."""
    here = tmp_path_factory.mktemp("docs")
    (here / "keys").write_text("robot:a-key-of-some-length\n")
    write_table(here, "places", 60)
    write_table(here, "split", 60, split=["query"] * 20 + ["map"] * 40)
    write_table(here, "queries", 12)
    write_table(here, "map", 20)
    (here / "campus").mkdir()
    parts = ["train"] * 40 + ["map"] * 20 + ["query"] * 8
    spots = np.random.default_rng(0).uniform(0, 90, (60, 2))
    spots = np.concatenate([spots, spots[40:48] + 1.0])  # each query stands beside a photo of the map
    write_table(
        here / "campus",
        "places",
        len(parts),
        split=parts,
        easting=spots[:, 0],
        northing=spots[:, 1],
        heading=np.arange(len(parts)) % 20 * 18.0,
        time=[f"15:{i % 60:02d}" for i in range(len(parts))],
    )
    write_photos(here / "photos")
    shutil.copy(here / "photos" / "07.jpg", here / "query.jpg")
    write_msls(here / "MSLS")
    write_seven_scenes(here / "7scenes")
    return here


def write_table(folder, name, n, **columns):
    """A table of places with small noisy photos of its own."""
    rng = np.random.default_rng(n)
    table = {"image": [f"{name}-{i}.jpg" for i in range(n)], "easting": rng.uniform(0, 90, n),
             "northing": rng.uniform(0, 90, n), "heading": rng.uniform(0, 360, n), **columns}  # fmt: skip
    for image in table["image"]:
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / image)
    Places.build(folder, table).save(folder / f"{name}.csv")


def write_photos(folder):
    """Photos of a walk back and forth along 250 m of street, with GPS, compass and time."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(40):
        east, north = 250 * rng.uniform(), 20 * rng.uniform()
        exif = Image.Exif()
        exif[0x8825] = {1: "N", 2: (53.0, 13.0, 12.0 + north / 30.9), 3: "E", 4: (6.0, 34.0, east / 18.5),
                        16: "T", 17: float(rng.choice([80, 90, 100, 270]))}  # fmt: skip
        exif.get_ifd(0x8769)[0x9003] = f"2026:05:01 12:{i // 60:02d}:{i % 60:02d}"
        pixels = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:02d}.jpg", exif=exif)


def write_msls(root):
    for role in ("query", "database"):
        folder = root / "train_val" / "london" / role
        (folder / "images").mkdir(parents=True)
        rows = [(f"{role[0]}{i}", 20.0 * i) for i in range(5)]
        for key, _ in rows:
            Image.new("RGB", (8, 8)).save(folder / "images" / f"{key}.jpg")
        content = {
            "raw": (",key,lon,lat,ca,captured_at,pano", "{i},{k},-0.1,51.5,{c},2019-01-01,False"),
            "postprocessed": (
                ",key,easting,northing,unique_cluster,control_panel,night,view_direction",
                "{i},{k},{x},0,0,False,False,Forward",
            ),
            "seq_info": (",key,sequence_key,frame_number", "{i},{k},s,{i}"),
            "subtask_index": (",all,s2w,w2s,o2n,n2o,d2n,n2d", "{i}" + ",True" * 7),
        }
        for name, (head, line) in content.items():
            lines = [line.format(i=i, k=k, x=x, c=90 + i) for i, (k, x) in enumerate(rows)]
            (folder / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n")


def write_seven_scenes(root):
    for sequence in ("seq-01", "seq-02"):
        folder = root / "heads" / sequence
        folder.mkdir(parents=True)
        for i in range(3):
            pose = np.eye(4)
            pose[0, 3] = 0.3 * i
            np.savetxt(folder / f"frame-{i:06d}.pose.txt", pose)
            Image.new("RGB", (640, 480)).save(folder / f"frame-{i:06d}.color.png")
            Image.fromarray(np.full((480, 640), 2000, np.uint16)).save(folder / f"frame-{i:06d}.depth.png")
    (root / "heads" / "TrainSplit.txt").write_text("sequence1\n")
    (root / "heads" / "TestSplit.txt").write_text("sequence2\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_blocks_run(page, folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(samespot, "train", short_train, raising=False)
    # a map asks itself about a few photos, not about all: of these, none can tell it how far to trust it
    monkeypatch.setattr(build, "calibrate", partial(build.calibrate, questions=8))
    # figures are made, but not painted: a quarter of the time, and tests/figures paints each of them
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: Image.new("RGB", (8, 8)).save(path, "PNG"))
    names = {}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, f"{page.name}", "exec"), names)
        elif language in ("sh", "bash", "console"):
            for line in code.replace("\\\n", " ").splitlines():
                run_line(shlex.split(line, comments=True), command)


def short_train(places, labels=None, run="run", *, resume=False, **options):
    from samespot.training.run import train

    begin_again(run, resume)
    return train(places, labels, run, resume=resume, **{**options, **TINY})


def begin_again(run, resume):
    """A page shows the same training as a command and in Python, and each begins with an empty folder."""
    if not resume:
        shutil.rmtree(run, ignore_errors=True)


def run_line(words, command):
    if not words:
        return
    if words[0] == "make":  # the test itself runs under make: only the target must exist
        assert re.search(rf"^{words[1]}:", (REPO / "Makefile").read_text(), re.MULTILINE), words
        return
    if words[:3] == ["python", "-m", "reproduction"]:
        code, _, complaint = command(reproduction.cli.run, *words[3:])
    elif words[:2] == ["samespot", "serve"]:
        # would run until it is stopped; tests/service asks it as the page says. Here its words are understood
        code, _, complaint = command(samespot.cli.run, *words[1:], "--port", "0", "--device", "none")
        assert "`none`" in complaint or "device" in complaint, (words, complaint)
        return
    else:
        assert words[0] == "samespot", f"the docs run an unknown command: {words}"
        if words[1] == "train":
            begin_again(words[words.index("--run") + 1], "--resume" in words)
        code, _, complaint = command(samespot.cli.run, *words[1:], *SHORT.get(words[1], []))
    assert code == 0, (words, complaint)


@pytest.fixture
def docs_scripts(monkeypatch):
    monkeypatch.syspath_prepend(REPO / "docs")


def test_the_catalogue_of_protocols_is_what_the_protocols_say(docs_scripts):
    from catalogue import page

    assert (REPO / "docs" / "protocols.md").read_text() == page(), "run python docs/catalogue.py"


def test_the_table_of_models_is_what_the_models_say(docs_scripts):
    from catalogue import with_models

    page = (REPO / "docs" / "models.md").read_text()
    assert page == with_models(page), "run python docs/catalogue.py"


def test_the_api_reference_names_what_there_is():
    named = re.findall(r"(?:::: |\]\[)(samespot[\w.]+)", (REPO / "docs" / "api.md").read_text())
    lost = [name for name in named if not resolves(name)]
    assert named
    assert lost == []


def resolves(name):
    """Whether this is a module, or something in one."""
    try:
        return bool(pkgutil.resolve_name(name))
    except (ImportError, AttributeError):
        return False


def test_the_api_page_lists_every_option_with_its_default(docs_scripts):
    from option_tables import MARK, on_page_markdown

    page = on_page_markdown((REPO / "docs" / "api.md").read_text())
    assert not MARK.search(page)
    assert "| `batch_pairs` | `64` | Pairs in one step" in page
    assert "| `micro_pairs` | as many as memory allows |" in page
    options = (TrainingOptions, DescribeOptions, EvaluateOptions, RerankOptions)
    for name in {one.name for cls in options for one in fields(cls)}:
        assert f"| `{name}` |" in page


def test_parameters_in_a_docstring_become_a_list(docs_scripts):
    from parameter_lists import listed

    text = """Labels of pairs: graded.

theta: opening angle [deg]; radius: how far a camera sees [m], in
    metres: not feet. Nothing else."""
    shown = """Labels of pairs: graded.

- **theta**: opening angle [deg]
- **radius**: how far a camera sees [m], in metres: not feet. Nothing else"""
    assert listed(text, {"theta", "radius"}) == shown
    assert listed(text, {"k"}) == text


def test_the_api_page_lists_every_public_name():
    page = (REPO / "docs" / "api.md").read_text()
    for name, module in samespot._PUBLIC.items():
        assert f"[`{name}`][{module}.{name}]" in page, f"docs/api.md lacks samespot.{name} of {module}"
        sections = (f"::: {module}.{name}\n", f"::: {module}\n")
        assert any(one in page for one in sections), f"docs/api.md has no section of samespot.{name}"


def test_links_between_pages_and_to_images_exist():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_images_are_small():
    for image in (REPO / "docs" / "images").glob("*.png"):
        assert image.stat().st_size < 300_000, image.name
