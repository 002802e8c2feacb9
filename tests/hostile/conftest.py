"""A small world that hostile cases share, and the two ways in which a command may end: refused in one line, or done.

The world is made once and never written to; a case works in a folder of its own.
"""

import json
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from samespot import Places

PHOTOS = 12
MODEL = "test_resnet.r160_in1k"


@dataclass(frozen=True)
class World:
    """Folders and files by name."""

    street: Path  # 12 photos of 48 x 64, 12 m apart
    places: Path  # their table
    model: Path
    other_model: Path  # other weights
    labels: Path
    descriptors: Path
    evaluation: Path

    def words(self, *words: object, here: Path) -> list[str]:
        """STREET, MODEL, … in the words of a command stand for parts of the world, HERE for the case's folder."""
        known = {name.upper(): str(path) for name, path in vars(self).items()} | {"HERE": str(here)}
        spoken = []
        for word in map(str, words):
            start, slash, rest = word.partition("/")
            spoken.append(known.get(start, start) + slash + rest)
        return spoken


def street(folder: Path, count: int = PHOTOS) -> Path:
    """Small coloured photos along a street that runs north, and their table."""
    dice = np.random.default_rng(7)
    folder.mkdir(parents=True)
    for i in range(count):
        colours = dice.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(colours).resize((64, 48)).save(folder / f"{i:02d}.jpg")
    table = {
        "image": [f"{i:02d}.jpg" for i in range(count)],
        "easting": 0.0,
        "northing": np.arange(count) * 12.0,
        "heading": 90.0,
        "split": ["train"] * (count // 3) + ["map"] * (count // 3) + ["query"] * (count - 2 * (count // 3)),
        "time": np.arange(count) * 10,
    }
    return Places.build(folder, table).save(folder / "places.csv")


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> World:
    import torch

    from samespot import PlaceNet, describe, evaluate, label_pairs

    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("world")
    table = street(home / "street")
    places = Places.read(table)
    nets = []
    for seed, name in enumerate(("model", "other")):
        torch.manual_seed(seed)
        nets.append(PlaceNet(MODEL, pretrained=False, image_size=(32, 32)))
        nets[-1].save(home / name)
    label_pairs(places, places, out=home / "labels")
    describe(nets[0], places, home / "descriptors")
    evaluate(home / "model", map=table, out=home / "evaluation")
    return World(
        home / "street",
        table,
        home / "model",
        home / "other",
        home / "labels",
        home / "descriptors",
        home / "evaluation",
    )


@pytest.fixture(autouse=True)
def no_hang():
    """A command that waits for ever fails."""

    def give_up(*_):
        raise TimeoutError("this takes too long")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(120)
    yield
    signal.alarm(0)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The folder that a command is started in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


BESIDES = ("note ", "dropped ", "next: ", "… ")  # notes, the hint of a next command, and what a demo does


def problems(err: str) -> list[str]:
    """What was said besides notes."""
    return [line for line in err.splitlines() if not line.startswith(BESIDES)]


@pytest.fixture
def refused(samespot, world, here):
    """Runs a command that must be refused: exit code 2, and one line that says each of these phrases.

    chatty: it may have told other things before, as training does about its settings.
    """

    def check(words, *phrases, chatty=False):
        code, out, err = samespot(*world.words(*words, here=here))
        said = [line for line in problems(err) if not chatty or line.startswith("samespot: ")]
        assert code == 2, (code, out, err)
        assert len(said) == 1, err
        assert said[0].startswith("samespot: "), err
        assert "Traceback" not in err
        for phrase in phrases:
            assert phrase in said[0]
        return said[0]

    return check


@pytest.fixture
def done(samespot, world, here):
    """Runs a command that must succeed, with each of these phrases on one of its screens; returns its json."""

    def check(words, *phrases):
        code, out, err = samespot(*world.words(*words, "--json", here / "done.json", here=here))
        assert code == 0, (code, out, err)
        assert "Traceback" not in err
        assert not problems(err), err
        for phrase in phrases:
            assert phrase in " ".join((out + err).split()), (out, err)
        return json.loads((here / "done.json").read_text())

    return check
