"""Every code block of the README and the docs runs, page by page, in a folder with small data of each kind."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import reproduction.cli
import samespot.cli
from samespot import Places

REPO = Path(__file__).parents[1]
PAGES = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Documented trainings, towns and demos are run as they stand, but short, and trainings with a tiny network: an option
# given twice counts the last time it is given.
TINY_NET = [
    "--backbone",
    "test_resnet.r160_in1k",
    "--pretrained",
    "no",
    "--image-size",
    "64",
    "--device",
    "cpu",
]
SHORT = {
    "train": [*TINY_NET, "--steps", "2", "--batch-pairs", "4"],
    "town": ["--visits", "2", "--photos-per-visit", "12"],
    "demo": ["--visits", "2", "--photos-per-visit", "40", "--steps", "2"],  # fewer hold no pair of each class
}


def blocks(page):
    return BLOCK.findall(page.read_text())


@pytest.fixture
def folder(tmp_path_factory):
    """What the pages speak of: places.csv, split.csv, photos/, MSLS/ and 7scenes/, all tiny."""
    here = tmp_path_factory.mktemp("docs")
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
    folder.mkdir()
    for i in range(4):
        exif = Image.Exif()
        exif[0x8825] = {1: "N", 2: (53.0, 13.0, 12.0 + i / 10), 3: "E", 4: (6.0, 34.0, 1.0 * i / 10)}
        Image.new("RGB", (32, 24)).save(folder / f"{i}.jpg", exif=exif)


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
    names = {}
    for language, code in blocks(page):
        if language == "python":
            exec(compile(code, f"{page.name}", "exec"), names)
        elif language in ("sh", "bash", "console"):
            for line in code.replace("\\\n", " ").splitlines():
                run_line(shlex.split(line, comments=True), command)


def run_line(words, command):
    if not words:
        return
    if words[0] == "make":  # the test itself runs under make: only the target must exist
        assert re.search(rf"^{words[1]}:", (REPO / "Makefile").read_text(), re.MULTILINE), words
        return
    if words[:3] == ["python", "-m", "reproduction"]:
        code, _, complaint = command(reproduction.cli.run, *words[3:])
    else:
        assert words[0] == "samespot", f"the docs run an unknown command: {words}"
        code, _, complaint = command(samespot.cli.run, *words[1:], *SHORT.get(words[1], []))
    assert code == 0, (words, complaint)


def test_the_catalogue_of_protocols_is_what_the_protocols_say():
    sys.path.insert(0, str(REPO / "docs"))
    try:
        from catalogue import page
    finally:
        sys.path.pop(0)
    assert (REPO / "docs" / "protocols.md").read_text() == page(), "run python docs/catalogue.py"


def test_links_between_pages_and_to_images_exist():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_images_are_small():
    for image in (REPO / "docs" / "images").glob("*.png"):
        assert image.stat().st_size < 300_000, image.name
