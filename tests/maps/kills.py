"""Kill -9 at random moments of building a map, and look what is left: `python -m tests.maps.kills 200`.

One process imports everything and loads a tiny network, then forks a writer for each kill, so that a kill costs tenths
of a second. Between two kills photos come, go and change. After each, the map must open as it was after the last
writer that reached its end, or, where the switch was already done, as the killed one wanted it; whole in any case.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from samespot import InputError, Places, Whitening
from samespot.images.reading import read_image
from samespot.maps import build
from samespot.maps.folder import open_generation
from samespot.matching import verification
from samespot.model.network import PlaceNet
from tests.maps.conftest import FirstPixels

SEGMENT = 4  # photos: many files to be killed between
PHOTOS = 24


class World:
    """A folder of photos that changes, and a map of it."""

    def __init__(self, root, seed):
        self.photos, self.map = root / "photos", root / "map"
        self.photos.mkdir()
        self.dice, self.scene = random.Random(seed), 0
        torch.manual_seed(1)
        self.net = PlaceNet("test_resnet.r160_in1k", pretrained=False, image_size=(48, 64)).eval()
        vectors = np.random.default_rng(0).normal(size=(80, self.net.descriptor_size))
        self.net.whitening = Whitening.fit(vectors.astype(np.float32), "elsewhere", most=24)
        for i in range(PHOTOS):
            self.shoot(f"{i:03d}.jpg")

    def shoot(self, name):
        self.scene += 1
        colours = np.random.default_rng(self.scene).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(colours).resize((64, 48), Image.Resampling.BICUBIC).save(self.photos / name)
        os.utime(self.photos / name, ns=(self.scene * 10**9, self.scene * 10**9))

    def change(self):
        """Some photos come, some go, some are other ones by now."""
        there = sorted(path.name for path in self.photos.iterdir())
        for name in self.dice.sample(there, self.dice.randint(0, 4)):
            if len(there) > PHOTOS // 2:
                (self.photos / name).unlink()
        for name in self.dice.sample(there, 2):
            self.shoot(name)
        for _ in range(self.dice.randint(1, 5)):
            self.shoot(f"{self.scene:05d}.jpg")

    def table(self):
        names = sorted(path.name for path in self.photos.iterdir())
        north = np.arange(len(names)) * 10.0
        return Places.build(self.photos, {"image": names, "easting": 0.0, "northing": north, "heading": 0.0})

    def write(self):
        build.update_map(self.table(), self.map, model=self.net, keypoints=16, device="cpu")

    def state(self):
        """What a map of the photos as they are now must hold: name, and the first pixels of each."""
        return {path.name: _pixels(path) for path in sorted(self.photos.iterdir())}


_known: dict[tuple[str, int], bytes] = {}


def _pixels(path):
    key = (path.name, path.stat().st_mtime_ns)
    if key not in _known:
        _known[key] = FirstPixels(16).extract(read_image(path)).descriptors.tobytes()
    return _known[key]


def held(generation):
    """The same of a generation, everything of it read."""
    found = {}
    for row, name in enumerate(generation.places.table["image"]):
        assert generation.thumbnail(row)[:2] == b"\xff\xd8"
        found[name] = generation.keypoints(row).descriptors.tobytes()
    plain = generation.plain(np.arange(len(generation)))
    np.testing.assert_allclose(generation.whitening(plain), generation.vectors, atol=2e-3)
    return found


def fork(work):
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        print("writer:", repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def main(kills, seed=0):
    """Until so many writers were killed at work; returns what happened."""
    torch.set_num_threads(1)
    build.SEGMENT, build.SPARSE = SEGMENT, SEGMENT // 2
    build._Work._calibration = lambda self, generation: None
    verification.verifier_named = lambda name, count, device: FirstPixels(count)
    seen = Counter()
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), seed)
        finished, number, longest = None, 0, 0.5
        while seen["killed"] < kills:
            if seen["writers"] and world.dice.random() < 0.7:  # else the same again: it resumes
                world.change()
            wanted, before = world.state(), time.monotonic()
            seen["writers"] += 1
            child = fork(world.write)
            if world.dice.random() < 0.85:
                time.sleep(world.dice.uniform(0, longest))
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            killed = os.WIFSIGNALED(status)
            assert killed or os.WEXITSTATUS(status) == 0, "a writer failed"
            if not killed:
                longest = max(0.05, 0.7 * longest + 0.3 * (time.monotonic() - before))
            seen["killed"] += killed
            generation = None
            with suppress(
                InputError if finished is None else ()
            ):  # once there was a map, there always is one
                generation = open_generation(world.map)
            if generation is None:
                seen["nothing finished yet"] += 1
                continue
            there = held(generation)
            if generation.number == number:
                assert there == finished, "not the photos of the last finished generation"
                seen["as it was"] += killed
                seen["segments that wait for the next writer"] += killed * (
                    len(list((world.map / "segments").glob("0*"))) > len(generation.segments)
                )
                assert killed or finished == wanted
            else:
                assert there == wanted, "neither the old state nor the new one"
                seen["killed after the switch"] += killed
                finished, number = there, generation.number
        seen["generations"] = number
    return dict(seen)


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
